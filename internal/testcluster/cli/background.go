package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skiff/internal/cli"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/testcluster/apiserver"
)

const (
	// startPatience is how long a cluster may take to be ready: a fraction of a second, more with many objects.
	startPatience = 2 * time.Minute
	// stopPatience is longer than a process takes that was sent SIGTERM: it ends after a minute in any case.
	stopPatience = 70 * time.Second
	// lookInterval is how often a process is looked at.
	lookInterval = 20 * time.Millisecond
)

// background is a cluster of 'skiff-dev start': a directory of --data below the user's state directory.
type background struct{ name, dir string }

func (b background) file(name string) string { return filepath.Join(b.dir, name) }

// started is how a cluster was started.
type started struct {
	Args []string `json:"args"` // the flags
	// Kubeconfig has the context of --merge-context, "" without; Created says that start made the file.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	Created    bool   `json:"created,omitempty"`
}

// backgroundRoot returns the directory of all clusters.
func backgroundRoot() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) { // its specification has others ignored
		return filepath.Join(dir, "skiff-dev"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the state directory: %w: set XDG_STATE_HOME", err)
	}
	return filepath.Join(home, ".local", "state", "skiff-dev"), nil
}

// clusterName matches the names of clusters: as those of Kubernetes, and never a path.
var clusterName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?$`)

// backgroundNamed returns the cluster of the one argument, which may not exist.
func backgroundNamed(cmd *cobra.Command, args []string) (background, error) {
	if len(args) != 1 || cmd.ArgsLenAtDash() >= 0 {
		return background{}, cli.Usagef("%s takes one name", cmd.CommandPath())
	}
	if !clusterName.MatchString(args[0]) {
		return background{}, cli.Usagef("%s %.100q: want a name of at most 50 lower case letters, digits and dashes",
			cmd.CommandPath(), args[0])
	}
	root, err := backgroundRoot()
	return background{args[0], filepath.Join(root, args[0])}, err
}

// backgrounds returns all clusters, by name.
func backgrounds() (out []background, err error) {
	root, err := backgroundRoot()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("list the clusters: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && clusterName.MatchString(e.Name()) {
			out = append(out, background{e.Name(), filepath.Join(root, e.Name())})
		}
	}
	return out, nil
}

func newStart(cel *apiserver.CEL) *cobra.Command {
	f := devFlags{controllers: cli.ControllerFlags{AllowNone: true}, cel: cel}
	f.controllers.ServeAllSources()
	f.controllers.ServePage()
	f.controllers.ServeProbes()
	var merge bool
	cmd := &cobra.Command{
		Use:   "start NAME [flags]",
		Short: "Start a cluster in the background, which is kept until it is deleted",
		Long: `Starts skiff-dev in the background and returns when the cluster is ready. It is kept, as with --data, in
$XDG_STATE_HOME/skiff-dev/NAME or ~/.local/state/skiff-dev/NAME, where its kubeconfig and its log are, too. A cluster
that was stopped goes on where it was, with the flags of its last start if none are given.

The output sets KUBECONFIG in a shell: eval "$(skiff-dev start NAME)". No other kubeconfig is changed, unless
--merge-context is set.`,
		Example: `  eval "$(skiff-dev start lab)"
  skiff-dev start bare --bare --crds config/crd --merge-context
  skiff-dev list
  skiff-dev stop lab --delete`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := backgroundNamed(cmd, args)
			if err != nil {
				return err
			}
			flags := passedFlags(cmd)
			if err := f.check(cmd); err != nil {
				return err
			}
			return b.start(cmd, flags, merge)
		},
	}
	f.add(cmd)
	for _, name := range []string{"data", "kubeconfig-out", "ready-file"} {
		cli.NoFlag(cmd, name, "the cluster has a directory of its own, with its kubeconfig")
	}
	cmd.Flags().BoolVar(&merge, "merge-context", false, "add the context "+contextName+"-NAME to ~/.kube/config, "+
		"until 'skiff-dev stop'; the current context stays")
	return cmd
}

// pathFlags are the flags whose values are paths.
var pathFlags = []string{"audit-log", "crds", "debug-token-file", "faults", "load"}

// passedFlags returns the flags that were given as arguments for skiff-dev in another directory.
func passedFlags(cmd *cobra.Command) []string {
	var out []string
	for _, name := range flagNames(cmd) {
		f := cmd.Flags().Lookup(name)
		if !f.Changed || name == "merge-context" || name == "help" {
			continue
		}
		values := []string{f.Value.String()}
		if slice, ok := f.Value.(interface{ GetSlice() []string }); ok {
			values = slice.GetSlice()
		} else if f.Value.Type() == "stringSlice" {
			values[0] = strings.Trim(values[0], "[]")
		}
		for _, v := range values {
			if slices.Contains(pathFlags, name) && v != "-" {
				if abs, err := filepath.Abs(v); err == nil {
					v = abs
				}
			}
			out = append(out, "--"+name+"="+v)
		}
	}
	return out
}

// flagNames returns the names of the flags of a command.
func flagNames(cmd *cobra.Command) (out []string) {
	for _, m := range flagInUsage.FindAllStringSubmatch(cmd.Flags().FlagUsages(), -1) {
		out = append(out, m[1])
	}
	return out
}

var flagInUsage = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`)

// start starts a cluster, unless it runs, and says how to use it.
func (b background) start(cmd *cobra.Command, flags []string, merge bool) error {
	before, err := b.started()
	if err != nil {
		return err
	}
	how := before
	running := locked(b.dir)
	if running {
		err = b.await(cmd.Context(), nil)
		running = !errors.Is(err, errStopped)
	}
	if !running {
		if len(flags) > 0 {
			how.Args = flags
		}
		err = b.launch(cmd.Context(), how.Args)
	}
	if err == nil && merge {
		var created bool
		how.Kubeconfig, created, err = b.mergeContext()
		how.Created = how.Created || created
	}
	if err := errors.Join(err, b.remember(how, before)); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	switch {
	case running && len(flags) > 0:
		fmt.Fprintf(out, "# %s is running already, with other flags: %s\n", b.name, strings.Join(how.Args, " "))
	case running:
		fmt.Fprintf(out, "# %s is running already\n", b.name)
	default:
		fmt.Fprintf(out, "# %s is ready, until 'skiff-dev stop %s'; its log is %s\n", b.name, b.name, b.file(logFile))
	}
	if how.Kubeconfig != "" {
		fmt.Fprintf(out, "# kubectl --context %s uses it, or in this shell:\n", b.context())
	}
	_, err = fmt.Fprintf(out, "export KUBECONFIG='%s'\n", b.file(kubeconfigFile))
	return err
}

func (b background) context() string { return contextName + "-" + b.name }

// started reads how the cluster was started last.
func (b background) started() (how started, err error) {
	text, err := kubeconfig.ReadFile(b.file(startFile))
	if os.IsNotExist(err) {
		return how, nil
	}
	if err != nil {
		return how, fmt.Errorf("start %s: %w: set XDG_STATE_HOME to a directory that this user may read and write",
			b.name, err)
	}
	if err = json.Unmarshal(text, &how); err != nil {
		err = fmt.Errorf("read %s: %w: remove it and start %s with its flags", b.file(startFile), err, b.name)
	}
	return how, err
}

// remember writes how the cluster was started, if that has changed.
func (b background) remember(how, before started) error {
	text, err := json.Marshal(how)
	old, err2 := json.Marshal(before)
	if err := errors.Join(err, err2); err != nil || string(text) == string(old) {
		return err
	}
	if _, err := os.Stat(b.dir); err != nil {
		return nil // it did not start
	}
	return replaceFile("start: write", b.file(startFile), append(text, '\n'))
}

// launch runs skiff-dev in the background until it is ready. A first run that fails leaves nothing behind.
func (b background) launch(ctx context.Context, flags []string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find skiff-dev's own binary: %w", err)
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return fmt.Errorf("start %s: %w: set XDG_STATE_HOME to a directory that can be written", b.name, err)
	}
	_ = os.Rename(b.file(logFile), b.file(oldLogFile)) // there may be none
	_ = os.Remove(b.file(readyFile))                   // of a process that was killed
	log, err := os.OpenFile(b.file(logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", b.name, err)
	}
	defer log.Close() // written by the child alone
	child := exec.Command(program, append([]string{"--data", b.dir, "--ready-file", b.file(readyFile)}, flags...)...)
	child.Dir, child.Stdout, child.Stderr = b.dir, log, log
	detach(child)
	if err := child.Start(); err != nil {
		return fmt.Errorf("start %s: %w", b.name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }() // until the end of this process: the child goes on
	err = b.await(ctx, ended)
	if _, never := os.Stat(b.file(stateFile)); err != nil && never != nil && !locked(b.dir) {
		return errors.Join(err, os.RemoveAll(b.dir))
	}
	return err
}

// errStopped says that a cluster ended while somebody waited for it to be ready.
var errStopped = errors.New("it was stopped")

// await waits until the cluster is ready, or its process has ended.
func (b background) await(ctx context.Context, ended <-chan error) error {
	for deadline := time.After(startPatience); ; {
		if _, err := os.Stat(b.file(readyFile)); err == nil {
			return nil
		}
		if ended == nil && !locked(b.dir) {
			return errStopped
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("start %s: interrupted; it goes on in the background: see skiff-dev list", b.name)
		case err := <-ended:
			return fmt.Errorf("start %s: skiff-dev ended (%v): %s", b.name, err, b.lastWords())
		case <-deadline:
			return fmt.Errorf("start %s: it is not ready after %s: see %s, or skiff-dev stop %s", b.name,
				startPatience, b.file(logFile), b.name)
		case <-time.After(lookInterval):
		}
	}
}

// maxWords is how much of the end of a log an error has.
const maxWords = 1000

// lastWords returns the last line of the log, which says why a process ended.
func (b background) lastWords() string {
	f, err := os.Open(b.file(logFile))
	if err != nil {
		return err.Error()
	}
	defer f.Close() // was only read
	if info, err := f.Stat(); err == nil {
		_, _ = f.Seek(max(0, info.Size()-maxWords), io.SeekStart) // else all of a file that is not read on
	}
	text, _ := io.ReadAll(io.LimitReader(f, maxWords))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range slices.Backward(lines) {
		if why, ok := strings.CutPrefix(line, "skiff-dev: "); ok {
			return kube.Printable(why, maxWords)
		}
	}
	return kube.Printable(lines[len(lines)-1], maxWords)
}
