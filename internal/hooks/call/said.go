package call

import (
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/process"
)

// breath is how long lines between two calls wait for more: the lines of a traceback come within milliseconds.
const breath = 100 * time.Millisecond

// onItsWay is how long a line may take through the pipe of a busy machine.
const onItsWay = 20 * time.Millisecond

// stderr takes the lines of a process on stderr. The lines of a call are a record of the log, or several where there
// are more than maxTrace lines. Lines between two calls are a record where they come within a breath.
type stderr struct {
	program *program
	lines   process.Lines

	mu     sync.Mutex // guards the rest
	recent []string   // the last lines of the call, at most maxTrace
	unsaid int        // how many lines at the end of recent are not in the log
	asked  bool       // a call is under way, and its end logs the lines
	timer  *time.Timer
	closed bool
}

func (e *stderr) say(line string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.unsaid == maxTrace {
		e.logLocked()
	}
	if len(e.recent) == maxTrace {
		e.recent = slices.Delete(e.recent, 0, 1)
	}
	e.recent = append(e.recent, line)
	e.unsaid++
	if !e.asked {
		e.waitLocked()
	}
}

// waitLocked has the lines logged after a breath.
func (e *stderr) waitLocked() {
	if e.timer == nil && e.unsaid > 0 && !e.closed {
		e.timer = time.AfterFunc(breath, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.timer = nil; !e.asked { // else a call has begun
				e.logLocked()
			}
		})
	}
}

// logLocked logs the lines that are not in the log.
func (e *stderr) logLocked() {
	if e.timer != nil {
		e.timer.Stop() // the function may wait for mu, and finds nothing to do
		e.timer = nil
	}
	if e.unsaid > 0 {
		e.program.say(e.recent[len(e.recent)-e.unsaid:])
	}
	e.unsaid = 0
}

// begin is called before each call. The lines of the call before are forgotten; those of the start are not.
func (e *stderr) begin(first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asked = true; !first {
		e.logLocked()
		e.recent = nil
	}
}

// answered is called after a call of a process that goes on. A line of the call may still be on its way: an error
// waits for such lines, which say why, and an answer does not.
func (e *stderr) answered(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil && e.unsaid > 0 {
		e.mu.Unlock()
		<-time.After(onItsWay)
		e.mu.Lock()
		e.logLocked()
	}
	e.asked = false
	e.waitLocked()
}

// close logs the rest, after the end of the process.
func (e *stderr) close() {
	e.lines.Flush()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.logLocked()
}

// lastLine is the program's last line.
func (e *stderr) lastLine() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.recent) == 0 {
		return ""
	}
	return excerpt(e.recent[len(e.recent)-1], e.program.secrets)
}

// ended returns the error of a process that ended with err or was given up, with the cause and the place from the last
// lines.
func (e *stderr) ended(err error) *exitError {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := traceOf(e.recent, e.program.spec.Dir)
	said := excerpt(t.said, e.program.secrets)
	if t.place != "" {
		said += " (" + excerpt(t.place, e.program.secrets) + ")"
	}
	return &exitError{err, said, t.place}
}

// say logs lines of a hook as a record, or after too many lines only counts them.
func (p *program) say(lines []string) {
	p.mu.Lock()
	now := time.Now()
	if since := int(now.Sub(p.full) / logEvery); since >= p.logged {
		p.logged, p.full = 0, now
	} else {
		p.full, p.logged = p.full.Add(time.Duration(since)*logEvery), p.logged-since
	}
	if p.logged >= maxLogged {
		p.dropped += len(lines)
		p.mu.Unlock()
		return
	}
	p.logged += len(lines)
	dropped := p.dropped
	p.dropped = 0
	p.mu.Unlock()
	said := make([]string, len(lines))
	for i, line := range lines {
		said[i] = kube.Printable(process.Redact(strings.TrimRight(line, "\r\n\t "), p.secrets), maxSaid)
	}
	values := []any{"said", strings.Join(said, "\n")}
	if dropped > 0 {
		values = append(values, "dropped", dropped)
	}
	p.log.Info("the hook says", values...)
}
