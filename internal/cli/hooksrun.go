package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/reconcile"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/supervise"
	"skiff/internal/operators/operator"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/runtime/manager"
)

// hooksRunFlags say which hook controllers run, and how.
type hooksRunFlags struct {
	files      hookFiles
	exec       execFlags
	urls       hookURLs
	namespaces []string
	manager    string
	resync     time.Duration
	workers    int
	answerMiB  int
	log        logFlags
	election   electionFlags
	memory     memoryFlags
	servingFlags
}

// unlimitedForAnswers stands for the memory limit where none is known: large answers take turns in an eighth of it.
const unlimitedForAnswers = 2 << 30

// hookObjectBytes is how large an object may be for hooks, by default: about the limit of etcd. A hook gets whole
// objects, whose contents are up to the owners.
const hookObjectBytes = 3 << 19

// defaultAnswerMiB is how large an answer of a hook may be by default.
const defaultAnswerMiB = 16

// defaultHookWorkers are as many as metacontroller has.
const defaultHookWorkers = 5

func (f *hooksRunFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.files.verbosity = &f.log.verbosity
	f.files.add(cmd)
	f.files.addCluster(cmd)
	f.exec.add(cmd)
	f.urls.add(cmd)
	ListVar(cmd, &f.namespaces, "watch-namespaces", nil,
		"`namespaces` to work in, separated by commas; no permissions in others are needed (default all)")
	fs.DurationVar(&f.resync, "resync-period", 0,
		"reconcile all parents of controllers without a resyncPeriodSeconds this often (default never)")
	fs.StringVar(&f.manager, "field-manager", reconcile.Manager,
		"`name` of the field manager of children; it must never change")
	fs.IntVar(&f.workers, "workers", defaultHookWorkers, "how many parents each controller reconciles in parallel")
	fs.IntVar(&f.answerMiB, "max-answer", defaultAnswerMiB, "how many `MiB` the answer of a hook may have")
	f.memory.add(cmd, hookObjectBytes)
	f.found = true
	f.servingFlags.add(cmd)
	f.election.add(cmd, hooksLease)
	f.log.add(cmd)
	InGroup(cmd, groupControllers, "file", "from-cluster", "target-label-selector", "allow-exec", "exec-uid",
		"hook-url", "watch-namespaces", "resync-period", "workers")
	InGroup(cmd, GroupAdvanced, "field-manager", "max-answer")
}

func (f *hooksRunFlags) check() error {
	for _, n := range []struct {
		flag         string
		value, least int
	}{{"--workers", f.workers, 1}, {"--max-answer", f.answerMiB, 1}} {
		if n.value < n.least {
			return Usagef("%s %d: must be at least %d", n.flag, n.value, n.least)
		}
	}
	switch {
	case f.resync < 0:
		return Usagef("--resync-period %s: must not be negative", f.resync)
	case f.manager == "" || len(f.manager) > 128: // the server's limit
		return Usagef("--field-manager %q: must have 1 to 128 characters", f.manager)
	}
	return errors.Join(f.files.check(), f.exec.check(&f.files), f.urls.check(), f.servingFlags.check(),
		f.memory.check(), checkNamespaces("--watch-namespaces", f.namespaces))
}

func newHooksRun() *cobra.Command {
	var server kubeconfig.Flags
	var f hooksRunFlags
	cmd := &cobra.Command{
		Use:   "run {-f FILE|DIR | --from-cluster}",
		Short: "Run hook controllers against a cluster",
		Long: `Runs CompositeControllers and DecoratorControllers until SIGTERM or SIGINT, then finishes the reconciles in
progress and exits with 0. A second signal exits immediately with 1.

With -f, the files are read again when they change, and on SIGHUP; when the program of a hook changes, all parents are
reconciled within two seconds.

A controller whose resources are missing waits and starts when they are there; one whose hook does not answer asks it
less often until it does. The others run meanwhile. 'skiff status' on the same machine shows how each is doing.`,
		Example: `  skiff hooks run -f my-controller
  skiff-dev --crds my-controller -- skiff hooks run -f my-controller      # on a test cluster
  skiff crds install --hooks && skiff hooks run --from-cluster            # as metacontroller`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.found = !cmd.Flags().Changed("health-probe-bind-address")
			if err := f.check(); err != nil {
				return err
			}
			log, err := f.log.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			var controllers []*spec.Controller
			if !f.files.cluster {
				if controllers, err = f.files.read(cmd); err == nil {
					err = f.urls.fit(controllers)
				}
				if err != nil {
					return err
				}
			}
			return f.run(cmd.Context(), server, controllers, log)
		},
	}
	addConnectionFlags(cmd, &server)
	f.add(cmd)
	return cmd
}

// run connects with the server, and runs the controllers until ctx ends.
func (f *hooksRunFlags) run(ctx context.Context, server kubeconfig.Flags, controllers []*spec.Controller,
	log logr.Logger) error {
	on, done, err := reach(server, &f.election, f.checkOf, log)
	if err != nil {
		return err
	}
	defer done()
	return f.runOn(ctx, on, controllers, log)
}

// runOn runs the controllers until ctx ends.
func (f *hooksRunFlags) runOn(ctx context.Context, on Cluster, controllers []*spec.Controller, log logr.Logger) error {
	names := make([]string, len(controllers))
	for i, c := range controllers {
		names[i] = c.Name
	}
	on.start(log, "controllers", strings.Join(names, ","))
	on.namespaces, on.lease = sorted(f.namespaces), hooksLease
	setup := on.setup(&f.servingFlags, log)
	setup.Workers, setup.Mirrors, setup.Advice = f.workers, cache.NewMirrors(), f.advice()
	f.memory.bound(&setup)
	memory := call.NewMemory(unlimitedForAnswers)
	if limit, limited := cache.MemoryLimit(); limited {
		setup.InFlight = controller.NewInFlight(limit)
		memory = call.NewMemory(limit)
	}
	recorder := events.New(events.Options{Client: on.Client, Controller: "skiff.dev/hooks", Log: log})
	set := controller.NewSet(log)
	hooks := supervise.New(supervise.Options{Setup: setup, Set: set, Recorder: recorder, Manager: f.manager,
		Resync: f.resync, Memory: memory, Log: log, Pods: operator.PodsWith(on.Client),
		Call: call.Options{Log: log, Workers: f.workers + 1, MaxAnswer: f.answerMiB << 20, RunAs: f.exec.id,
			At:         f.urls.at,
			Credential: credentials(on.Client)}})
	var fixed []*controller.Controller
	if f.files.cluster {
		fixed = hooks.FromCluster(f.files.selector, f.exec.allowed)
	}
	supervising, stop := context.WithCancel(context.WithoutCancel(ctx)) // they drain before
	var running sync.WaitGroup
	for _, c := range controllers {
		hooks.Put(c)
	}
	running.Go(func() { hooks.Run(supervising) })
	if !f.files.cluster {
		again := make(chan os.Signal, 1)
		signal.Notify(again, syscall.SIGHUP)
		defer signal.Stop(again)
		running.Go(func() { hooks.FollowFiles(supervising, f.files.paths, again) })
	}
	var places absent
	running.Go(func() { places.watch(supervising, on.Client, on.namespaces, log) })
	err := on.run(ctx, &f.servingFlags, manager.Options{Controllers: fixed, Set: set, History: setup.History,
		Recorders: []*events.Recorder{recorder}, About: hooks.About, Hooks: hooks.Shown, Scrape: hooks.Scrape,
		Log:       log,
		Attention: func() []health.Problem { return slices.Concat(places.attention(), hooks.Attention()) }})
	stop()
	if !manager.EndsWithin(hooksTimeout, running.Wait) {
		err = errors.Join(err, fmt.Errorf("hooks: not stopped within %s: a call does not end", hooksTimeout))
	}
	return err
}

// hooksTimeout is how long hooks may take to end once their controllers have: programs are killed after two seconds.
const hooksTimeout = 10 * time.Second

// checkOf is the command that prints the missing rights of a user for these controllers.
func (f *hooksRunFlags) checkOf(user string) string {
	command := "skiff hooks check" + f.files.flags()
	if user != "" {
		command += " --as " + user
	}
	if len(f.namespaces) > 0 {
		command += " --watch-namespaces " + strings.Join(f.namespaces, ",")
	}
	return command
}

// advice is what messages end with here. A check finds out what all controllers need, whichever lacks something.
func (f *hooksRunFlags) advice() controller.Advice {
	a := advice
	a.Grant = func(_, user string, _, _ []string) string { return grantedTo(user, f.checkOf(user)) }
	return a
}

// credentials reads the credentials for the endpoints of hooks. The result is secret.
func credentials(client *kube.Client) func(context.Context, spec.Reference) ([]byte, error) {
	return func(ctx context.Context, ref spec.Reference) ([]byte, error) {
		r, key := ref.Object()
		var secret struct {
			Data map[string][]byte `json:"data"`
		}
		var plain struct {
			Data map[string]string `json:"data"`
		}
		into := any(&secret)
		if ref.ConfigMap {
			into = &plain
		}
		if err := client.Get(ctx, r, key, into); err != nil {
			return nil, err
		}
		value, ok := secret.Data[ref.Key]
		if ref.ConfigMap {
			var text string
			text, ok = plain.Data[ref.Key]
			value = []byte(text)
		}
		if !ok {
			return nil, fmt.Errorf("%s %s has no key %q", r.Kind, key, ref.Key)
		}
		return value, nil
	}
}
