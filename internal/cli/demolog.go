package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// action is something that a controller did, as its log says it.
type action struct {
	cause string // why the object was reconciled
	what  string // "created Service default/web-service"
}

// actionLog is a log sink that keeps what the tour retells: each write of a controller with its cause, and the last
// error.
type actionLog struct {
	mu        sync.Mutex // guards the rest
	actions   []action
	lastError string
}

// take returns the actions since the last call.
func (l *actionLog) take() []action {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.actions
	l.actions = nil
	return out
}

// has says whether text is a part of an action since the last take.
func (l *actionLog) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.actions, func(a action) bool { return strings.Contains(a.what, text) })
}

// failure returns the last error, "" if there was none.
func (l *actionLog) failure() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastError
}

// describe makes lines of actions, each cause once below what it led to.
func describe(actions []action) []string {
	if len(actions) == 0 {
		return []string{"no write was needed"}
	}
	var lines []string
	for i, a := range actions {
		lines = append(lines, a.what)
		if i+1 == len(actions) || actions[i+1].cause != a.cause {
			lines = append(lines, "  because "+a.cause)
		}
	}
	return lines
}

// logger returns a log that writes to l. It reads lines as JSON: with all that belongs to them, whoever has added it.
func (l *actionLog) logger() logr.Logger {
	return funcr.NewJSON(func(text string) {
		var line struct {
			Msg, Key, Cause, Child, Pod, Target, Differences, Note, Error string
		}
		if err := json.Unmarshal([]byte(text), &line, json.MatchCaseInsensitiveNames(true)); err != nil {
			line.Error = fmt.Sprintf("read the log line %s: %v", text, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if line.Error != "" {
			l.lastError = fmt.Sprintf("%s %s: %s", line.Msg, line.Key, line.Error)
			return
		}
		object := cmp.Or(line.Child, line.Target)
		if line.Pod != "" {
			object = "pod " + line.Pod
		}
		if line.Cause == "" || object == "" {
			return
		}
		a := action{cause: line.Cause, what: line.Msg + " " + object}
		if why := cmp.Or(line.Differences, line.Note); why != "" {
			a.what += ": " + why
		}
		l.actions = append(l.actions, a)
	}, funcr.Options{Verbosity: 9})
}
