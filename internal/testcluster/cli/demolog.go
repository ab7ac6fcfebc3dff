package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// actionLog is a log sink that keeps what the tour retells: each write of a controller with its cause, and the last
// error.
type actionLog struct {
	mu      sync.Mutex // guards the rest
	lines   []string   // each cause once, below what it led to
	failure string
	started int // controllers, which follow the server from then on
}

// read returns the writes since the last forget, and the last error.
func (l *actionLog) read() (lines []string, failure string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return []string{"no write was needed"}, l.failure
	}
	return slices.Clone(l.lines), l.failure
}

func (l *actionLog) starts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started
}

func (l *actionLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = nil
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
		what, cause := line.Msg+" "+written, "  because "+line.Cause
		if why := cmp.Or(line.Differences, line.Note); why != "" {
			what += ": " + why
		}
		if last := len(l.lines) - 1; last >= 0 && l.lines[last] == cause {
			l.lines = l.lines[:last]
		}
		l.lines = append(l.lines, what, cause)
	}, funcr.Options{Verbosity: 9})
}
