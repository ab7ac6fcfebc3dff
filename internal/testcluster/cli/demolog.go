package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// actionLog is a log sink that keeps what the tour retells: each write of a controller with its cause, and the last
// error.
type actionLog struct {
	mu      sync.Mutex // guards the rest
	writes  []loggedWrite
	failure string
	started int // controllers, which follow the server from then on
}

// loggedWrite is one write of a controller.
type loggedWrite struct{ verb, object, note, cause string }

// read returns the writes since the last forget in one line, the cause of the first one, and the last error.
func (l *actionLog) read() (text, cause, failure string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.writes) == 0 {
		return "no write was needed", "", l.failure
	}
	verb := ""
	for i, w := range l.writes {
		if i > 0 {
			text += ", "
		}
		if w.verb != verb {
			text += w.verb + " "
		}
		text, verb = text+w.object, w.verb
	}
	if note := l.writes[len(l.writes)-1].note; note != "" {
		text += ": " + note
	}
	return text, l.writes[0].cause, l.failure
}

func (l *actionLog) starts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started
}

func (l *actionLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = nil
}

// logger returns a log that writes to l. It reads lines as JSON: with the fields that any of the loggers has added.
func (l *actionLog) logger() logr.Logger {
	return funcr.NewJSON(func(text string) {
		var line struct {
			Msg, Key, Cause, Child, Pod, Target, Differences, Note, Error string
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			line.Error = fmt.Sprintf("read the log line %s: %v", text, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if line.Msg == "started" {
			l.started++
		}
		if line.Error != "" {
			l.failure = fmt.Sprintf("%s %s: %s", line.Msg, line.Key, line.Error)
			return
		}
		if line.Pod != "" {
			line.Pod = "pod " + line.Pod
		}
		written := cmp.Or(line.Pod, line.Child, line.Target)
		if line.Cause == "" || written == "" {
			return
		}
		l.writes = append(l.writes, loggedWrite{line.Msg, written, cmp.Or(line.Differences, line.Note), line.Cause})
	}, funcr.Options{Verbosity: 9})
}
