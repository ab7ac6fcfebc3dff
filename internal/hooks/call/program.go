package call

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/process"
)

const (
	// killDelay is how long a program may take to end after it was told to.
	killDelay = 2 * time.Second
	// exitLater is EX_TEMPFAIL of sysexits.h: the program asks to be called again later.
	exitLater = 75
	// maxLogged is how many lines of a hook go into the log at once; one more may follow each logEvery.
	maxLogged = 50
	logEvery  = 200 * time.Millisecond
)

// program is what a hook runs.
type program struct {
	spec    *spec.Exec
	hook    wire.Hook
	env     []string
	secrets []string // of env: they do not go into the log
	max     int
	workers int
	log     logr.Logger

	mu      sync.Mutex // guards the rest
	files   string     // what version returned
	looked  time.Time  // when it did
	logged  int        // lines in the log since full
	full    time.Time  // when maxLogged lines were free
	dropped int        // lines that did not go into the log
}

func newProgram(controller string, hook wire.Hook, e *spec.Exec, o Options) *program {
	p := &program{spec: e, hook: hook, max: o.MaxAnswer, workers: o.Workers,
		log: o.Log.WithValues("controller", controller, "hook", string(hook))}
	for _, name := range []string{"PATH", "HOME", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			p.env = append(p.env, name+"="+value)
		}
	}
	p.env = append(p.env, "SKIFF_HOOK="+string(hook), "SKIFF_CONTROLLER="+controller)
	if o.DryRun {
		p.env = append(p.env, "SKIFF_DRY_RUN=1")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		p.env = append(p.env, name+"="+e.Env[name])
		if process.IsSecret(name, e.Env[name]) {
			p.secrets = append(p.secrets, e.Env[name])
		}
	}
	slices.SortStableFunc(p.secrets, func(a, b string) int { return len(b) - len(a) })
	return p
}

// prepare sets what all processes of the program have.
func (p *program) prepare(cmd *exec.Cmd, more ...string) *stderr {
	process.OwnGroup(cmd)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.spec.Dir, append(slices.Clone(p.env), more...), killDelay
	cmd.Cancel = func() error { return process.Terminate(cmd) }
	e := &stderr{program: p}
	e.lines = process.Lines{MaxLine: maxSaid, Say: e.say}
	cmd.Stderr = &e.lines
	return e
}

// stderr is what a process says besides its answers.
type stderr struct {
	program *program
	lines   process.Lines
	mu      sync.Mutex // guards last
	last    string
}

func (e *stderr) say(line string) {
	e.mu.Lock()
	e.last = line
	e.mu.Unlock()
	e.program.say(line)
}

func (e *stderr) lastLine() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return excerpt(e.last, e.program.secrets)
}

// say logs a line of a hook, unless there are too many of them: those are only counted.
func (p *program) say(line string) {
	p.mu.Lock()
	now := time.Now()
	if since := int(now.Sub(p.full) / logEvery); since >= p.logged {
		p.logged, p.full = 0, now
	} else {
		p.full, p.logged = p.full.Add(time.Duration(since)*logEvery), p.logged-since
	}
	if p.logged >= maxLogged {
		p.dropped++
		p.mu.Unlock()
		return
	}
	p.logged++
	dropped := p.dropped
	p.dropped = 0
	p.mu.Unlock()
	values := []any{"line", excerpt(line, p.secrets)}
	if dropped > 0 {
		values = append(values, "dropped", dropped)
	}
	p.log.Info("the hook says", values...)
}

// exitError is the end of a process that did not answer.
type exitError struct {
	err  error
	said string // its last line
}

// Error says how it ended and what it said last.
func (e *exitError) Error() string {
	if e.said == "" {
		return e.err.Error()
	}
	return e.err.Error() + ": " + e.said
}

func (e *exitError) Unwrap() error { return e.err }

// exited returns the error of a process that has ended with err.
func exited(err error, last string) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitLater {
		seconds, _ := strconv.ParseFloat(last, 64) // 0, the default, where it is no number
		return later(seconds)
	}
	return unavailable{&exitError{err, last}}
}

// notStarted returns the error of a program that cannot be run. err names its path.
func notStarted(err error) error { return unavailable{fmt.Errorf("start it: %w", err)} }

// filesOf returns the files that a hook is made of, as far as its command names them: the program, and arguments that
// are files.
func filesOf(e *spec.Exec) (files []string) {
	for i, arg := range e.Command {
		if i == 0 && !strings.ContainsRune(arg, filepath.Separator) {
			found, err := exec.LookPath(arg)
			if err != nil {
				continue // the call says so
			}
			arg = found
		}
		if !filepath.IsAbs(arg) {
			arg = filepath.Join(e.Dir, arg)
		}
		if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
			files = append(files, arg)
		}
	}
	return files
}

// lookEvery is how old a look at the program's files may be: a change is to be seen within two seconds.
const lookEvery = 250 * time.Millisecond

// version tells one state of the program's files from another. When one of them has changed, the hook has.
func (p *program) version() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.looked) < lookEvery {
		return p.files
	}
	var out strings.Builder
	for _, name := range filesOf(p.spec) {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintf(&out, "%s %d %d;", name, info.Size(), info.ModTime().UnixNano())
		}
	}
	p.files, p.looked = out.String(), time.Now()
	return p.files
}
