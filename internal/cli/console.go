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
)

// newConsole returns the log for a person at a terminal. A run with writes is one line, with the cause. A failure is
// written once and then counted, until the error differs or the object is well. Lines of hooks are not changed.
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

// console is the sink of the log on a terminal.
type console struct {
	*screen
	values []any // of WithValues
}

// screen is what the loggers of a console share.
type screen struct {
	verbosity int
	brief     bool // leave out lines about neither an object nor a hook
	coloured  bool
	width     int // of the terminal; 0: unknown, and no line is written twice

	mu      sync.Mutex // guards the rest
	out     io.Writer
	done    map[run]*doing // runs under way, and objects with notes
	failing map[run]string // the error of each object whose last run failed
	failure failure        // written last
	held    []string       // lines of hooks since that failure, dropped if the same failure comes again
}

// run is the object of a line, and the controller.
type run struct{ controller, key, namespace string }

// doing are the writes and notes of a run under way.
type doing struct {
	steps  []step   // the first maxSteps writes
	more   int      // other writes
	notes  []string // faults that the run has found
	before []string // faults of the previous run, not written again
}

// step is a write to one child: "created", "Service web".
type step struct{ did, what string }

// failure is an error that comes again and again.
type failure struct {
	text  string // "": no failure, or another line worth a look was written since
	line  string // as written
	times int
	shown int  // the count on the screen
	last  bool // no other line was written since
}

const (
	// maxDone bounds the runs that are remembered: a controller has four workers. maxSteps bounds the writes of a run
	// in one line, which a person reads.
	maxDone, maxSteps = 1000, 8
	// maxHeld bounds the lines of hooks that are kept until the run succeeds or fails with another error.
	maxHeld = 50
)

// Init implements logr.LogSink.
func (c console) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink. Level 1 is always needed: a run without a write ends with a line of level 1, and
// so does a failure.
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
	c.add(c.entry(entry{level: max(level, 0), message: message, warns: level == levelWarn}, values))
}

// Error implements logr.LogSink.
func (c console) Error(err error, message string, values ...any) {
	if err != nil {
		values = append(values[:len(values):len(values)], "error", err)
	}
	c.add(c.entry(entry{message: message, failed: true}, values))
}

// entry adds the values of a line to e.
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
		for _, line := range e.hookSaid {
			s.hookSays(e.of.controller + "/" + e.hook + " | " + line)
		}
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

// note writes a fault of an object, unless the previous run had the same fault.
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

// keeps adds a write to the line at the end of the run; false: maxDone runs are remembered already.
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

// doing returns the notes of a run; nil: maxDone runs are remembered already.
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

// forget makes room: an object without a run, perhaps deleted, loses all notes.
func (s *screen) forget() {
	for of, d := range s.done {
		if len(d.steps) == 0 && len(d.notes) == 0 {
			delete(s.done, of)
			return
		}
	}
}

// ended returns the writes of a run in words, and forgets the run.
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

// short leaves out the object's namespace from the names in a text.
func (of run) short(text string) string {
	if of.namespace == "" {
		return text
	}
	return strings.ReplaceAll(text, " "+of.namespace+"/", " ")
}

// ends writes the line of a run that has ended: writes, or error.
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

// fails writes an error once, and counts further runs with the same error.
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

// settle ends the count of an error: the final count is written if the screen has a lower one.
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

// hookSays writes a line of a hook, or holds it while a failure is counted.
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

// write writes a line with time, controller and key.
func (s *screen) write(of run, text, colour string) { s.print("", s.line(of, text), colour) }

// print writes a line; a later count of a failure then starts a new line.
func (s *screen) print(before, line, colour string) {
	if s.coloured && colour != "" {
		line = colour + line + "\x1b[0m"
	}
	s.failure.last = false
	_, _ = io.WriteString(s.out, before+line+"\n") // there is nowhere to report it
}
