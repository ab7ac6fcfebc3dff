package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
)

// deed is something that a controller has done, as its log tells it.
type deed struct {
	cause string // why the object was reconciled
	what  string // "created Service default/web-service"
}

// deeds is a log sink that keeps what the tour retells: each write of a controller with its cause, and what went wrong.
type deeds struct {
	mu     sync.Mutex // guards the rest
	done   []deed
	errors []string
}

// take returns what was done since the last call.
func (d *deeds) take() []deed {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.done
	d.done = nil
	return out
}

// tellOf says whether something was done since the last take of which text is a part.
func (d *deeds) tellOf(text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.done, func(one deed) bool { return strings.Contains(one.what, text) })
}

// tell makes lines of what was done, each cause once below what it led to.
func tell(done []deed) []string {
	if len(done) == 0 {
		return []string{"had nothing to write"}
	}
	var lines []string
	for i, d := range done {
		lines = append(lines, d.what)
		if i+1 == len(done) || done[i+1].cause != d.cause {
			lines = append(lines, "  because "+d.cause)
		}
	}
	return lines
}

// failures returns the errors so far: what to show when a step does not come true.
func (d *deeds) failures() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.errors)
}

func (d *deeds) logger() logr.Logger { return logr.New(deedSink{d, nil}) }

// deedSink implements logr.LogSink. values are those of WithValues.
type deedSink struct {
	to     *deeds
	values []any
}

func (s deedSink) Init(logr.RuntimeInfo)        {}
func (s deedSink) Enabled(int) bool             { return true }
func (s deedSink) WithName(string) logr.LogSink { return s }
func (s deedSink) WithValues(kv ...any) logr.LogSink {
	return deedSink{s.to, append(slices.Clip(s.values), kv...)}
}

func (s deedSink) Info(_ int, msg string, kv ...any) {
	get := func(key string) string { return value(append(slices.Clip(s.values), kv...), key) }
	object := cmp.Or(get("child"), get("pod"), get("target"))
	if get("cause") == "" || object == "" {
		return
	}
	if get("pod") != "" {
		object = "pod " + object
	}
	d := deed{cause: get("cause"), what: msg + " " + object}
	if why := cmp.Or(get("differences"), get("note")); why != "" {
		d.what += ": " + why
	}
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	s.to.done = append(s.to.done, d)
}

func (s deedSink) Error(err error, msg string, kv ...any) {
	all := append(slices.Clip(s.values), kv...)
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	s.to.errors = append(s.to.errors, fmt.Sprintf("%s %s: %v", msg, value(all, "key"), err))
}

// value returns the last value of a key as text, "" if there is none.
func value(kv []any, key string) string {
	text := ""
	for i := 0; i+1 < len(kv); i += 2 {
		if kv[i] == key {
			text = fmt.Sprint(kv[i+1])
		}
	}
	return text
}
