package cli

import (
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/runtime/labels"
	"skiff/internal/runtime/manager"
	"skiff/internal/runtime/podpolicy"
)

// ControllerFlags choose the controllers and how they run; `skiff run` and skiff-dev share them.
type ControllerFlags struct {
	Names          []string // of the controllers
	AllowNone      bool     // --controllers none is allowed, and becomes an empty list
	workers        int
	templatePolicy string
	log            logFlags
	tuning
	memory memoryFlags
	servingFlags
}

// Add adds the flags to a command.
func (f *ControllerFlags) Add(cmd *cobra.Command) {
	fs := cmd.Flags()
	ListVar(cmd, &f.Names, "controllers", ControllerNames(),
		"`names` of the controllers to run, separated by commas; reload, which reads Secrets, only where it is named")
	fs.IntVar(&f.workers, "max-concurrent-reconciles", controller.DefaultWorkers,
		"how many objects of one namespace each controller reconciles in parallel; one more may be of another")
	f.servingFlags.add(cmd)
	f.memory.add(cmd, cache.DefaultObjectBytes)
	fs.StringVar(&f.templatePolicy, "template-policy", podpolicy.Policy("").String(),
		"`which` pods a WebServer or a Redis may have: baseline or restricted of the Pod Security Standards, or any")
	f.tuning.add(cmd)
	f.log.add(cmd)
	InGroup(cmd, groupControllers, "controllers", "template-policy")
	InGroup(cmd, GroupAdvanced, "max-concurrent-reconciles")
}

// ServeAllSources lets all resources be sources of RestartTriggers by default. It is for before Add.
func (f *ControllerFlags) ServeAllSources() { f.sources.all = true }

// HeedProbesFlag takes back ServeProbes where the flag is given. It is for after the flags are parsed.
func (f *ControllerFlags) HeedProbesFlag(cmd *cobra.Command) {
	f.found = f.found && !cmd.Flags().Changed("health-probe-bind-address")
}

// NoProbes takes back ServeProbes, if no flag asks for the probes.
func (f *ControllerFlags) NoProbes() {
	if f.found {
		f.found, f.health = false, "0"
	}
}

// Check checks the values.
func (f *ControllerFlags) Check() error {
	if f.AllowNone && slices.Equal(f.Names, []string{"none"}) {
		f.Names = nil
		f.NoProbes()
	} else if err := checkControllers(f.Names); err != nil {
		return err
	}
	if f.workers < 1 {
		return Usagef("--max-concurrent-reconciles %d: must be at least 1", f.workers)
	}
	if err := errors.Join(f.servingFlags.check(), f.tuning.check(), f.memory.check()); err != nil {
		return err
	}
	if err := checkTemplatePolicy(f.templatePolicy); err != nil {
		return err
	}
	if len(f.Names) == 0 && f.health != "" && f.health != "0" {
		return Usagef("--health-probe-bind-address %s: without controllers there are no probes", f.health)
	}
	return nil
}

// Logger makes a logger from the flags.
func (f *ControllerFlags) Logger(stderr io.Writer) (logr.Logger, error) { return f.log.logger(stderr) }

// namespaceName matches valid namespace names (RFC 1123 labels).
var namespaceName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
})

func checkNamespaces(flag string, names []string) error {
	for _, ns := range names {
		if !namespaceName().MatchString(ns) {
			return Usagef("%s: %q is not a valid namespace name", flag, ns)
		}
	}
	return nil
}

// checkTemplatePolicy checks the value of --template-policy.
func checkTemplatePolicy(name string) error {
	if !slices.Contains(podpolicy.Names, name) {
		return wrongChoice("--template-policy", name, podpolicy.Names)
	}
	return nil
}

func checkSelector(selector string, namespaces []string) error {
	switch {
	case selector == "":
		return nil
	case len(namespaces) > 0:
		return Usagef("--watch-namespace-selector and --watch-namespaces: give one of them")
	}
	if _, err := labels.Parse(selector); err != nil {
		return Usagef("--watch-namespace-selector %q: %w", selector, err)
	}
	return nil
}

func newRun() *cobra.Command {
	var server kubeconfig.Flags
	var flags ControllerFlags
	var election electionFlags
	var namespaces []string
	var selector string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the controllers against a cluster",
		Long: `Runs the controllers until SIGTERM or SIGINT, then finishes the reconciles in progress and exits with
0. A second signal exits immediately with 1.

If a custom resource definition or a permission is missing, the controller that needs it logs what is missing, waits,
and starts when it becomes available. The other controllers run meanwhile.

'skiff status' on the same machine shows how it is doing: the probes are served on 127.0.0.1:8081, or on the next port
that is free, unless --health-probe-bind-address is given.`,
		Example: `  skiff run
  skiff run --controllers webserver --watch-namespaces shop,blog
  skiff run --watch-namespace-selector team=shop
  skiff run --health-probe-bind-address :8081 --log-format json      # in a pod, for its kubelet
  skiff run --leader-elect      # with more than one replica`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags.HeedProbesFlag(cmd)
			if err := flags.Check(); err != nil {
				return err
			}
			if err := checkNamespaces("--watch-namespaces", namespaces); err != nil {
				return err
			}
			if err := checkSelector(selector, namespaces); err != nil {
				return err
			}
			log, err := flags.Logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			on, done, err := reach(server, &election, checkOf(&flags, namespaces, selector), log)
			if err != nil {
				return err
			}
			defer done()
			on.namespaces, on.selector = namespaces, selector
			return RunControllers(cmd.Context(), on, flags, log)
		},
	}
	addConnectionFlags(cmd, &server)
	flags.found = true
	flags.Add(cmd)
	election.add(cmd, programLease)
	ListVar(cmd, &namespaces, "watch-namespaces", nil,
		"`namespaces` to work in, separated by commas; no permissions in others are needed (default all)")
	cmd.Flags().StringVar(&selector, "watch-namespace-selector", "",
		"label `selector` of the namespaces to work in, which may come and go")
	InGroup(cmd, groupControllers, "watch-namespaces", "watch-namespace-selector")
	return cmd
}

// checkOf is the command that prints a user's missing rights for the chosen controllers and namespaces.
func checkOf(f *ControllerFlags, namespaces []string, selector string) func(user string) string {
	scope := " --controllers " + strings.Join(f.Names, ",")
	if sources := f.sources.argument(); sources != "" {
		scope += " " + sources
	}
	if len(namespaces) > 0 {
		scope += " --watch-namespaces " + strings.Join(namespaces, ",")
	}
	if selector != "" {
		scope += " --watch-namespace-selector '" + selector + "'"
	}
	return func(user string) string { return "skiff check --as " + user + scope }
}

// compareTimeout is how long the comparison of the definitions may take to end: its requests end with its context.
const compareTimeout = 5 * time.Second

// RunControllers runs the controllers until ctx is done; with an elector, they work only while this process leads.
func RunControllers(ctx context.Context, on Cluster, f ControllerFlags, log logr.Logger) error {
	if len(on.namespaces) > 0 {
		on.namespaces = slices.Compact(slices.Sorted(slices.Values(on.namespaces)))
	}
	on.lease = programLease
	on.start(log, "controllers", strings.Join(f.Names, ","), "namespaces", on.scope())
	s := on.setup(&f.servingFlags, log)
	s.Workers, s.TemplatePolicy = f.workers, podpolicy.Policy(f.templatePolicy)
	f.memory.bound(&s)
	controllers, recorders := newControllers(f.Names, s, &f.tuning)
	var installed skew
	var places absent
	comparing, stop := context.WithCancel(ctx)
	var compare sync.WaitGroup
	compare.Go(func() { installed.watch(comparing, on.Client, log) })
	compare.Go(func() { places.watch(comparing, on.Client, on.namespaces, log) })
	err := on.run(ctx, &f.servingFlags, manager.Options{Controllers: controllers, Recorders: recorders,
		Attention: func() []health.Problem { return slices.Concat(places.attention(), installed.attention()) },
		History:   s.History, Log: log})
	stop()
	if !manager.EndsWithin(compareTimeout, compare.Wait) {
		log.Info("a part of the process does not stop, and is left", kube.Warn("part", "definitions")...)
	}
	return err
}
