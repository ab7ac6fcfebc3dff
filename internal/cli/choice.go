package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/reconcile"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/supervise"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/kubeconfig"
	"skiff/internal/runtime/podpolicy"
)

// Choice is which controllers run on which part of a cluster, for a command that tries them elsewhere. Its flags are
// those of `skiff run` and, with -f, of `skiff hooks run`.
type Choice struct {
	Namespaces []string // empty: all
	Selector   string   // of namespaces; "": none

	server      kubeconfig.Flags
	names       []string
	policy      string
	manager     string
	floors      floorFlags
	log         logFlags
	files       hookFiles
	controllers []*spec.Controller // of files
}

// Add adds the flags to a command.
func (c *Choice) Add(cmd *cobra.Command) {
	addConnectionFlags(cmd, &c.server)
	fs := cmd.Flags()
	fs.StringSliceVar(&c.names, "controllers", ControllerNames(),
		"`names` of the controllers, separated by commas; with -f none unless given")
	c.files.add(cmd)
	fs.StringSliceVar(&c.Namespaces, "watch-namespaces", nil, "`namespaces` to copy, separated by commas (default "+
		"all)")
	fs.StringVar(&c.Selector, "watch-namespace-selector", "", "label `selector` of the namespaces to copy")
	fs.StringVar(&c.policy, "template-policy", podpolicy.Policy("").String(),
		"`which` pods a WebServer or a Redis may have: baseline or restricted of the Pod Security Standards, or any")
	fs.StringVar(&c.manager, "field-manager", reconcile.Manager,
		"`name` of the field manager of the children of hook controllers")
	c.floors.add(cmd)
	c.log.add(cmd)
	InGroup(cmd, groupControllers, "controllers", "file", "watch-namespaces", "watch-namespace-selector",
		"template-policy")
	InGroup(cmd, GroupAdvanced, "field-manager")
}

// Check checks the flags and reads the files of -f.
func (c *Choice) Check(cmd *cobra.Command) (err error) {
	if err := errors.Join(checkTemplatePolicy(c.policy), c.floors.check(),
		checkNamespaces("--watch-namespaces", c.Namespaces), checkSelector(c.Selector, c.Namespaces)); err != nil {
		return err
	}
	if len(c.files.paths) > 0 {
		if c.controllers, err = c.files.read(cmd); err != nil {
			return err
		}
		if !cmd.Flags().Changed("controllers") {
			c.names = nil
			return nil
		}
	}
	return checkControllers(c.names)
}

// Logger makes a logger from the flags.
func (c *Choice) Logger(stderr io.Writer) (logr.Logger, error) { return c.log.logger(stderr) }

// Connect returns a client of the cluster that the flags name.
func (c *Choice) Connect(stderr io.Writer) (*kube.Client, error) {
	client, _, err := connect(c.server, warnTo(stderr))
	return client, err
}

// HasHooks says that controllers of others are among the chosen ones.
func (c *Choice) HasHooks() bool { return len(c.controllers) > 0 }

// Rights are all that the chosen controllers need.
func (c *Choice) Rights() (out []kube.Right) {
	for _, op := range operators {
		if slices.Contains(c.names, op.name) {
			out = append(out, op.rights...)
		}
	}
	for _, h := range c.controllers {
		versions := map[string]string{} // which a rule of a Role does not have
		for _, p := range h.Parents {
			versions[p.GroupResource()] = p.Version()
		}
		for _, child := range h.Children {
			versions[child.GroupResource()] = child.Version()
		}
		for _, right := range spec.Rights(h) {
			if r := &right.Resource; r.Version == "" {
				r.Version = versions[r.GroupResource()]
			}
			out = append(out, right)
		}
	}
	return out
}

// Reference is an object that is read by its name.
type Reference struct {
	kube.Resource
	kube.Key
}

// References are the Secrets and ConfigMaps with which the webhooks of the chosen controllers are reached.
func (c *Choice) References() (out []Reference) {
	for _, h := range c.controllers {
		for _, r := range h.References() {
			one := Reference{kube.Resource{Version: "v1", Plural: "secrets", Kind: "Secret"},
				kube.Key{Namespace: r.Namespace, Name: r.Name}}
			if r.ConfigMap {
				one.Resource = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
			}
			if !slices.Contains(out, one) {
				out = append(out, one)
			}
		}
	}
	return out
}

// Start makes the controllers on a client. Events are not recorded. All returns those that there are, and whether more
// are to come; run runs them until its context ends.
func (c *Choice) Start(client *kube.Client, log logr.Logger) (all func() (cs []*controller.Controller, more bool),
	run func(context.Context) error) {
	setup := controller.Setup{Client: client, Mirrors: cache.NewMirrors(), NamespaceSelector: c.Selector,
		Namespaces:  slices.Compact(slices.Sorted(slices.Values(c.Namespaces))),
		MinDebounce: c.floors.minDebounce, MinCooldown: c.floors.minCooldown,
		TemplatePolicy: podpolicy.Policy(c.policy), Advice: advice, Log: log}
	var fixed []*controller.Controller
	if c.Selector != "" {
		fixed = append(fixed, controller.SelectNamespaces(setup))
	}
	for _, op := range operators {
		if slices.Contains(c.names, op.name) {
			fixed = append(fixed, op.new(setup, nil))
		}
	}
	set := controller.NewSet(log)
	hooks := supervise.New(supervise.Options{Setup: setup, Set: set, Manager: c.manager, Log: log,
		Call: call.Options{Log: log, Credential: credentials(client)}})
	for _, h := range c.controllers {
		hooks.Put(h)
	}
	all = func() ([]*controller.Controller, bool) {
		now := set.All()
		return append(slices.Clip(fixed), now...), len(now) < len(c.controllers) && len(hooks.Attention()) == 0
	}
	return all, func(ctx context.Context) error {
		var running sync.WaitGroup
		running.Go(func() { hooks.Run(ctx) })
		errs := make([]error, len(fixed)+1)
		for i, one := range fixed {
			running.Go(func() { errs[i] = one.Run(ctx) })
		}
		running.Go(func() { errs[len(fixed)] = set.Run(ctx) })
		running.Wait()
		return errors.Join(errs...)
	}
}
