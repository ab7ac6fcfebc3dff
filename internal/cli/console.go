package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
)

// newConsole returns the log for a person at a terminal. A run that changed something is one line, with writes and
// cause. A failure is written once and counted, until another failure comes or the object is well. Lines of hooks are
// not changed.
func newConsole(out io.Writer, verbosity int, brief bool) logr.Logger {
	s := &screen{out: out, verbosity: verbosity, brief: brief, done: map[run]*doing{}, failing: map[run]string{}}
	if direct := Direct(out); isTerminal(direct) && os.Getenv("TERM") != "dumb" {
		s.coloured = Coloured(out)
		if file, ok := direct.(*os.File); ok {
			s.width = terminalWidth(file)
		}
	}
	return logr.New(console{screen: s})
}

// console is the sink of that log.
type console struct {
	*screen
	values []any // of WithValues
}

// screen is what the loggers of a console share.
type screen struct {
	verbosity int
	brief     bool // lines that are not about an object or a hook are left out
	coloured  bool
	width     int // of the terminal; 0: it has none, and no line is written twice

	mu      sync.Mutex // guards the rest
	out     io.Writer
	done    map[run]*doing // runs under way, and objects with notes
	failing map[run]string // the error of each object whose last run failed
	failure failure        // the last one that was written
	held    []string       // lines of hooks since then, dropped if the same failure comes again
}

// run is whose run a line is about.
type run struct{ controller, key string }

// doing are the writes and notes of a run under way.
type doing struct {
	steps  []step   // the first maxSteps writes
	more   int      // other writes
	notes  []string // faults that the run has found
	before []string // faults that the run before had found: they are not written again
}

// step is a write to one child: "created", "Service web".
type step struct{ did, what string }

// failure is an error that comes again and again.
type failure struct {
	text  string // "": there is none, or something else was written that is worth a look
	line  string // that says so
	times int
	shown int  // of these, as many as the screen says
	last  bool // the line is the last one
}

const (
	// maxDone bounds how many runs may be under way of which something is known, and maxSteps what is said of one:
	// there are four workers a controller, and what a person reads in one line is less.
	maxDone, maxSteps = 1000, 8
	// maxHeld bounds the lines of hooks that are kept until it is known whether they failed as before.
	maxHeld = 50
)

// Init implements logr.LogSink.
func (c console) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink. Level 1 is always needed: a run without a write ends with a line of that level,
// which also ends a failure.
func (c console) Enabled(level int) bool { return level <= max(c.verbosity, 1) }

// WithName implements logr.LogSink; no logger of skiff's has a name.
func (c console) WithName(string) logr.LogSink { return c }

// WithValues implements logr.LogSink.
func (c console) WithValues(values ...any) logr.LogSink {
	c.values = append(c.values[:len(c.values):len(c.values)], values...)
	return c
}

// Info implements logr.LogSink.
func (c console) Info(level int, message string, values ...any) {
	values, warns := kube.Warns(values)
	c.add(c.entry(entry{level: level, message: message, warns: warns}, values))
}

// Error implements logr.LogSink.
func (c console) Error(err error, message string, values ...any) {
	if err != nil {
		values = append(values[:len(values):len(values)], "error", err)
	}
	c.add(c.entry(entry{message: message, failed: true}, values))
}

// entry fills e with the values of a line.
func (c console) entry(e entry, values []any) entry {
	for _, pairs := range [][]any{c.values, values} {
		for i := 0; i+1 < len(pairs); i += 2 {
			e.set(fmt.Sprint(pairs[i]), pairs[i+1])
		}
	}
	return e
}

// add writes an entry, or keeps it for the end of the run.
func (s *screen) add(e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.fromAHook:
		s.hookSays(e.of.controller + "/" + e.hook + " | " + e.hookLine)
	case e.outcome != "":
		s.ends(e)
	case e.level > s.verbosity:
	case e.what != "" && e.of.key != "" && e.err == "" && s.keeps(e):
	case e.of.key == "" && e.err == "" && e.hook == "" && s.brief && s.verbosity == 0:
	case e.failed:
		s.note(e, red)
	case e.warns, e.err != "":
		s.note(e, yellow)
	default:
		s.write(e.of, e.said()+e.rest(), "")
	}
}

// note says what is wrong with an object, unless the run before has said so.
func (s *screen) note(e entry, colour string) {
	text := strings.TrimSuffix(e.said()+": "+e.err, ": ") + e.rest()
	if d := s.doing(e.of); e.of.key != "" && d != nil && len(d.notes) < maxSteps {
		d.notes = append(d.notes, text)
		if slices.Contains(d.before, text) {
			return
		}
	}
	s.write(e.of, text, colour)
}

// keeps notes a write for the line at the end of the run; false: maxDone runs have notes already.
func (s *screen) keeps(e entry) bool {
	d := s.doing(e.of)
	if d == nil {
		return false
	}
	if len(d.steps) < maxSteps {
		d.steps = append(d.steps, step{e.message, e.what})
	} else {
		d.more++
	}
	return true
}

// doing returns what is known of a run; nil: there are too many.
func (s *screen) doing(of run) *doing {
	d := s.done[of]
	if d == nil && len(s.done) >= maxDone {
		s.forget()
	}
	if d == nil && len(s.done) < maxDone {
		d = &doing{}
		s.done[of] = d
	}
	return d
}

// forget makes room by dropping the notes of an object that no run works on, which may have been deleted.
func (s *screen) forget() {
	for of, d := range s.done {
		if len(d.steps) == 0 && len(d.notes) == 0 {
			delete(s.done, of)
			return
		}
	}
}

// ended returns what a run has done, in words.
func (s *screen) ended(of run) string {
	d := s.done[of]
	if d == nil {
		return ""
	}
	var words []string
	for i, st := range d.steps {
		if i > 0 && st.did == d.steps[i-1].did {
			words = append(words, st.what)
		} else {
			words = append(words, st.did+" "+st.what)
		}
	}
	if d.more > 0 {
		words = append(words, fmt.Sprintf("%d more", d.more))
	}
	d.steps, d.more, d.notes, d.before = nil, 0, nil, d.notes
	if d.before == nil {
		delete(s.done, of)
	}
	return of.short(strings.Join(words, ", "))
}

// short leaves out the namespace of the object itself.
func (of run) short(text string) string {
	namespace, _, _ := strings.Cut(of.key, "/")
	return strings.ReplaceAll(text, " "+namespace+"/", " ")
}

// ends says what a run has done, or how it failed.
func (s *screen) ends(e entry) {
	did, because := s.ended(e.of), ""
	if e.cause != "" {
		because = "  because of " + e.of.short(e.cause)
	}
	if e.err != "" {
		if did != "" {
			s.write(e.of, did+because+"  "+e.took, "")
		}
		if e.level <= s.verbosity || s.failing[e.of] != "" {
			s.fails(e)
		}
		return
	}
	if s.failing[e.of] != "" {
		delete(s.failing, e.of)
		s.settle()
		s.write(e.of, "works again", green)
	}
	switch {
	case did != "":
		s.write(e.of, did+because+"  "+e.took, "")
	case e.wrote && s.verbosity > 0:
		s.write(e.of, "wrote the status"+because+"  "+e.took, "")
	case s.verbosity > 0:
		s.write(e.of, e.message+": "+e.outcome+because+"  "+e.took, "")
	}
}

// fails says once that runs fail with an error, and counts those that follow.
func (s *screen) fails(e entry) {
	if _, known := s.failing[e.of]; known || len(s.failing) < maxDone {
		s.failing[e.of] = e.err
	}
	f := &s.failure
	if f.text != e.err {
		s.settle()
		s.write(e.of, e.err+"  "+e.outcome, red)
		s.failure = failure{text: e.err, line: s.line(e.of, e.err), times: 1, shown: 1, last: true}
		return
	}
	f.times++
	s.held = nil // it was printed before
	text := fmt.Sprintf("%s  %s  x%d", f.line, e.outcome, f.times)
	if f.last && utf8.RuneCountInString(text) < s.width {
		s.print("\x1b[1A\x1b[2K", text, red)
		f.shown, f.last = f.times, true
	}
}

// settle ends the telling of an error: with how often it came, if its line does not say so.
func (s *screen) settle() {
	f, held := s.failure, s.held
	s.failure, s.held = failure{}, nil
	if f.times > f.shown {
		s.print("", fmt.Sprintf("%s  x%d", f.line, f.times), red)
	}
	for _, line := range held {
		s.print("", line, "")
	}
}

// hookSays writes a line of a hook, at once unless one fails again and again with the same error.
func (s *screen) hookSays(line string) {
	if s.failure.text == "" {
		s.print("", line, "")
	} else if len(s.held) < maxHeld {
		s.held = append(s.held, line)
	}
}

// Colours of a terminal.
const red, yellow, green = "\x1b[31m", "\x1b[33m", "\x1b[32m"

func (s *screen) line(of run, text string) string {
	line := time.Now().Format(time.TimeOnly)
	for _, part := range []string{of.controller, of.key, text} {
		if part != "" {
			line += "  " + part
		}
	}
	return line
}

// write writes a line with the time, and whom it is about.
func (s *screen) write(of run, text, colour string) { s.print("", s.line(of, text), colour) }

// print writes a line. Of a line that failed in the same way the next one is the first again to be written.
func (s *screen) print(before, line, colour string) {
	if s.coloured && colour != "" {
		line = colour + line + "\x1b[0m"
	}
	s.failure.last = false
	_, _ = io.WriteString(s.out, before+line+"\n") // there is nowhere to report it
}
