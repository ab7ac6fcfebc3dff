package call

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	// killDelay is how long a program may take to end when told to.
	killDelay = 2 * time.Second
	// exitLater is EX_TEMPFAIL of sysexits.h: the program asks to be called again later.
	exitLater = 75
	// maxLogged is how many lines of a hook go into the log at once, and no record is cut; another line may follow
	// each logEvery.
	maxLogged = 50
	logEvery  = 200 * time.Millisecond
)

// program is the command of a hook.
type program struct {
	spec    *spec.Exec
	hook    wire.Hook
	env     []string
	secrets []string // of env: not shown in logs and errors
	max     int
	workers int
	alone   bool        // Options.Alone
	as      *process.ID // Options.RunAs
	log     logr.Logger

	mu      sync.Mutex // guards the rest
	files   string     // the last result of version
	stats   string     // sizes and times of the files then
	looked  time.Time  // the time of the last look
	logged  int        // lines in the log since full; the last record may exceed maxLogged
	full    time.Time  // when maxLogged lines were free
	dropped int        // lines not logged since the last record
}

func newProgram(controller string, hook wire.Hook, e *spec.Exec, o Options) *program {
	p := &program{spec: e, hook: hook, max: o.MaxAnswer, workers: o.Workers, alone: o.Alone, as: o.RunAs,
		log: o.Log.WithValues("controller", controller, "hook", string(hook))}
	for _, name := range []string{"PATH", "HOME", "LANG"} {
		if value, ok := os.LookupEnv(name); ok && (name != "HOME" || p.as == nil) { // another user has another home
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

// prepare sets the options common to all processes.
func (p *program) prepare(cmd *exec.Cmd, more ...string) *stderr {
	process.OwnGroup(cmd)
	if p.as != nil {
		process.RunAs(cmd, *p.as)
	}
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.spec.Dir, append(slices.Clone(p.env), more...), killDelay
	cmd.Cancel = func() error { return process.Terminate(cmd) }
	e := &stderr{program: p}
	e.lines = process.Lines{MaxLine: maxSaid, Indented: true, Say: e.say}
	cmd.Stderr = &e.lines
	return e
}

// exitError is the end of a process that did not answer.
type exitError struct {
	err  error
	said string // the program's message, with the place
	// place is FILE:LINE of a file of the hook, "" if not known.
	place string
}

// Error says how the process ended, and the message.
func (e *exitError) Error() string {
	if e.said == "" {
		return e.err.Error()
	}
	return e.err.Error() + ": " + e.said
}

func (e *exitError) Unwrap() error { return e.err }

// exited returns the error of a process that has ended with err.
func exited(err error, e *stderr) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitLater {
		seconds, _ := strconv.ParseFloat(e.lastLine(), 64) // 0, the default, if no number
		return later(seconds)
	}
	return unavailable{e.ended(err)}
}

// notStarted returns the error of a program that cannot be run. err names the path.
func (p *program) notStarted(err error) error {
	if p.as != nil && errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("%w; user %d of --exec-uid must be able to run it, and skiff to become that user", err,
			p.as.UID)
	}
	return unavailable{fmt.Errorf("start it: %w", err)}
}

// explain names a script with the line ends of Windows, which the errors of a shell and of the kernel do not mention.
func (p *program) explain(err error) error {
	if !IsUnavailable(err) {
		return err
	}
	for _, name := range filesOf(p.spec) {
		if hasCRLF(name) {
			return unavailable{fmt.Errorf("%w; the lines of %s end with CR LF: save it with LF alone", err, name)}
		}
	}
	return err
}

// maxFirstLine is how much of a file is read for the first line: the kernel reads 256 bytes.
const maxFirstLine = 4096

// hasCRLF says whether the first line of a file ends with CR LF.
func hasCRLF(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false // the call says so
	}
	defer f.Close() // nothing was written
	begin, _ := io.ReadAll(io.LimitReader(f, maxFirstLine))
	line, _, found := bytes.Cut(begin, []byte("\n"))
	return found && bytes.HasSuffix(line, []byte("\r")) && !bytes.ContainsRune(line, 0)
}

// Files returns the files that the author of a hook wrote: those of filesOf in the directory of the hook.
func Files(h *spec.Hook) (files []string) {
	if h.Exec == nil {
		return nil
	}
	for _, name := range filesOf(h.Exec) {
		if within(h.Exec.Dir, name) != "" {
			files = append(files, name)
		}
	}
	return files
}

// script matches an argument with the name of a script file.
var script = regexp.MustCompile(`^[^\s-]\S*\.(py|sh|bash|js|cjs|mjs|ts|cts|mts|rb|pl|php|lua|jar)$`)

// MissingScript returns the path of a script that a command names but that does not exist, "" if there is none.
// Arguments after -c, -e or -m are no files.
func MissingScript(e *spec.Exec) string {
	for _, arg := range e.Command[1:] {
		if slices.Contains([]string{"-c", "-e", "-m"}, arg) {
			return ""
		}
		if !script.MatchString(arg) {
			continue
		}
		if !filepath.IsAbs(arg) {
			arg = filepath.Join(e.Dir, arg)
		}
		if _, err := os.Stat(arg); errors.Is(err, fs.ErrNotExist) {
			return arg
		}
		return "" // the script's own arguments follow
	}
	return ""
}

// filesOf returns the files of a hook as far as named in the command: the program, and arguments that are files.
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

// version is a hash of the names and the content of the program's files. Directories and times do not count, so that
// each replica, and each image with the same hook, has the same version.
func (p *program) version() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.looked) < lookEvery {
		return p.files
	}
	var stats strings.Builder
	files := filesOf(p.spec)
	for _, name := range files {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintf(&stats, "%s %d %d;", name, info.Size(), info.ModTime().UnixNano())
		}
	}
	if p.stats != stats.String() {
		p.stats, p.files = stats.String(), hashOf(files)
	}
	p.looked = time.Now()
	return p.files
}

// maxHashed is how much of a file goes into its hash: a large program is some hundred MiB.
const maxHashed = 1 << 30

// hashOf returns a hash of files. An unreadable file counts as empty: the call says why.
func hashOf(files []string) string {
	all := sha256.New()
	for _, name := range files {
		one := sha256.New()
		if f, err := os.Open(name); err == nil {
			_, _ = io.Copy(one, io.LimitReader(f, maxHashed)) // what was read counts
			_ = f.Close()                                     // nothing was written
		}
		fmt.Fprintf(all, "%s %x;", filepath.Base(name), one.Sum(nil))
	}
	return hex.EncodeToString(all.Sum(nil)[:16])
}
