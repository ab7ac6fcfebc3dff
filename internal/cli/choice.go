package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
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
	"skiff/internal/runtime/nearest"
	"skiff/internal/runtime/podpolicy"
)

// Choice is the controllers that a command tries, and the part of a cluster: `skiff plan` and `skiff-dev rehearse`
// have a Choice, with the flags of `skiff run` and of `skiff hooks run`.
type Choice struct {
	Namespaces []string // empty: all
	Selector   string   // of namespaces; "": none

	server kubeconfig.Flags
	names  []string
	policy string
	tuning
	files     hookFiles
	exec      execFlags
	manager   string
	answerMiB int
	log       logFlags

	named bool               // --controllers was given
	own   []string           // the chosen ones of skiff's own
	hooks []*spec.Controller // the chosen ones of hooks
}

// Add adds the flags to a command. File is the flag that names files with hook controllers: --hooks or -f.
func (c *Choice) Add(cmd *cobra.Command, file string) {
	addConnectionFlags(cmd, &c.server)
	fs := cmd.Flags()
	c.files.flag = file
	c.files.add(cmd)
	c.files.addCluster(cmd)
	ListVar(cmd, &c.names, "controllers", ControllerNames(),
		"`names` of the controllers, separated by commas; where hook controllers are given: default all of those")
	c.exec.add(cmd)
	ListVar(cmd, &c.Namespaces, "watch-namespaces", nil,
		"`namespaces` to work in, separated by commas (default all)")
	fs.StringVar(&c.Selector, "watch-namespace-selector", "", "label `selector` of the namespaces to work in")
	fs.StringVar(&c.policy, "template-policy", podpolicy.Policy("").String(),
		"`which` pods a WebServer or a Redis may have: baseline or restricted of the Pod Security Standards, or any")
	c.tuning.add(cmd)
	fs.StringVar(&c.manager, "field-manager", reconcile.Manager,
		"`name` of the field manager of the children of hook controllers")
	fs.IntVar(&c.answerMiB, "max-answer", 16, "how many `MiB` the answer of a hook may have")
	InGroup(cmd, groupControllers, "controllers", c.files.name(), "from-cluster", "target-label-selector",
		"allow-exec", "exec-uid", "watch-namespaces", "watch-namespace-selector", "template-policy")
	InGroup(cmd, GroupAdvanced, "field-manager", "max-answer")
}

// AddLog adds the flags of Logger to a command.
func (c *Choice) AddLog(cmd *cobra.Command) {
	c.log.add(cmd)
	c.files.verbosity = &c.log.verbosity
}

// Logger makes a logger from the flags.
func (c *Choice) Logger(stderr io.Writer) (logr.Logger, error) { return c.log.logger(stderr) }

// Check checks the flags, and reads the files of hook controllers.
func (c *Choice) Check(cmd *cobra.Command) error {
	if err := errors.Join(checkTemplatePolicy(c.policy), c.tuning.check(), c.files.check(),
		c.exec.check(&c.files),
		checkNamespaces("--watch-namespaces", c.Namespaces), checkSelector(c.Selector, c.Namespaces)); err != nil {
		return err
	}
	switch {
	case c.manager == "" || len(c.manager) > 128: // the server's limit
		return Usagef("--field-manager %q: must have 1 to 128 characters", c.manager)
	case c.answerMiB < 1 || c.answerMiB > 1024:
		return Usagef("--max-answer %d: want 1 to 1024 MiB", c.answerMiB)
	}
	c.named = cmd.Flags().Changed("controllers")
	if c.files.cluster {
		return nil // see Declared
	}
	var hooks []*spec.Controller
	if len(c.files.paths) > 0 {
		var err error
		if hooks, err = c.files.readValid(cmd); err != nil {
			return err
		}
	}
	return c.choose(hooks)
}

// FromCluster says that the hook controllers are those of the cluster.
func (c *Choice) FromCluster() bool { return c.files.cluster }

// Declared reads the hook controllers of --from-cluster, if that is given. Those that are invalid or may not run here
// are printed and left out: see Exit.
func (c *Choice) Declared(cmd *cobra.Command, client *kube.Client) error {
	if err := c.declared(cmd, client); err != nil {
		return err
	}
	all := c.hooks
	c.hooks = nil
	for _, h := range all {
		if err := c.refusal(h); err != nil {
			c.files.leaveOut(cmd, supervise.Invalid{Kind: h.Kind, Name: h.Name, Err: err})
			continue
		}
		c.hooks = append(c.hooks, h)
	}
	if len(all) > 0 && len(c.hooks)+len(c.own) == 0 {
		return ExitCode(ExitFailed)
	}
	return nil
}

// Exit returns how a command ends: with 4 where controllers of the cluster were left out, with 2 where some of files
// were.
func (c *Choice) Exit(err error) error { return c.files.exit(err, exitBlocked) }

func (c *Choice) declared(cmd *cobra.Command, client *kube.Client) error {
	if !c.files.cluster {
		return nil
	}
	hooks, err := c.files.declared(cmd, client)
	if err != nil {
		return err
	}
	return c.choose(hooks)
}

// refusal says why a hook controller must not run here: its object in the cluster names a command.
func (c *Choice) refusal(h *spec.Controller) error {
	if !c.files.cluster {
		return nil
	}
	return supervise.CheckExec(h, c.exec.allowed)
}

// choose splits the names of --controllers into those of skiff's own and those of hook controllers. Where hook
// controllers are given and no names, these are chosen.
func (c *Choice) choose(hooks []*spec.Controller) error {
	c.own, c.hooks = nil, nil
	if !c.named {
		if c.hooks = hooks; len(hooks) == 0 {
			c.own = c.names
		}
		return nil
	}
	known := knownControllers()
	for _, h := range hooks {
		known = append(known, h.Name)
		if slices.Contains(c.names, h.Name) {
			c.hooks = append(c.hooks, h)
		}
	}
	if len(c.names) == 0 {
		return Usagef("--controllers: name at least one of %s", strings.Join(known, ", "))
	}
	for _, name := range c.names {
		if !slices.Contains(known, name) {
			instead := Instead(name, known)
			if len(hooks) == 0 && nearest.Of(name, known) == "" {
				instead += ", or name hook controllers with " + c.files.flag + " FILE or --from-cluster"
			}
			return Usagef("--controllers: unknown controller %q: %s", name, instead)
		}
		if slices.Contains(knownControllers(), name) {
			c.own = append(c.own, name)
		}
	}
	return nil
}

// Connect returns a client of the cluster that the flags name, and the namespace of its kubeconfig context.
func (c *Choice) Connect(stderr io.Writer) (*kube.Client, string, error) {
	return connect(c.server, warnTo(stderr))
}

// HasHooks says that hook controllers are among the chosen ones.
func (c *Choice) HasHooks() bool { return len(c.hooks) > 0 }

// Rights are all that the chosen controllers need.
func (c *Choice) Rights() (out []kube.Right) {
	for _, op := range c.operators() {
		out = append(out, op.rightsFor(c.tuning.sources.Sources)...)
	}
	for _, h := range c.hooks {
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

// Reference is an object that is read by name.
type Reference struct {
	kube.Resource
	kube.Key
}

// References are the Secrets and ConfigMaps with which the webhooks of the chosen controllers are reached.
func (c *Choice) References() (out []Reference) {
	for _, h := range c.hooks {
		for _, r := range h.References() {
			var one Reference
			if one.Resource, one.Key = r.Object(); !slices.Contains(out, one) {
				out = append(out, one)
			}
		}
	}
	return out
}

// operators are the chosen ones of skiff's own controllers.
func (c *Choice) operators() []builtIn {
	return slices.DeleteFunc(slices.Clone(operators), func(op builtIn) bool {
		return !slices.Contains(c.own, op.name)
	})
}

// setup is what all controllers have in common. Events are not recorded.
func (c *Choice) setup(client *kube.Client, log logr.Logger) controller.Setup {
	return controller.Setup{Client: client, Mirrors: cache.NewMirrors(), Namespaces: sorted(c.Namespaces),
		NamespaceSelector: c.Selector, TemplatePolicy: podpolicy.Policy(c.policy), Advice: advice, Log: log}
}

// made makes those of skiff's own controllers that are chosen and that wants says yes to.
func (c *Choice) made(setup controller.Setup, wants func(kube.Resource) bool) (out []*controller.Controller) {
	if c.Selector != "" {
		out = append(out, controller.SelectNamespaces(setup))
	}
	for _, op := range c.operators() {
		if slices.ContainsFunc(op.worksFor(), wants) {
			out = append(out, op.new(setup, nil, &c.tuning)...)
		}
	}
	return out
}

// supervised are the options of hook controllers. Their hooks are told that nothing comes of what they answer.
// The server has the Secrets with which webhooks are reached.
func (c *Choice) supervised(setup controller.Setup, server *kube.Client) supervise.Options {
	return supervise.Options{Setup: setup, Manager: c.manager, Log: setup.Log, Call: call.Options{Log: setup.Log,
		MaxAnswer: c.answerMiB << 20, DryRun: true, RunAs: c.exec.id, Credential: credentials(server)}}
}

// Start makes the controllers on a client. All returns the present controllers, and whether more are to come; run runs
// all until the context of run ends.
func (c *Choice) Start(client *kube.Client, log logr.Logger) (all func() (cs []*controller.Controller, more bool),
	run func(context.Context) error) {
	setup := c.setup(client, log)
	fixed := c.made(setup, func(kube.Resource) bool { return true })
	o := c.supervised(setup, client)
	o.Set = controller.NewSet(log)
	hooks := supervise.New(o)
	for _, h := range c.hooks {
		hooks.Put(h)
	}
	all = func() ([]*controller.Controller, bool) {
		now := o.Set.All()
		return append(slices.Clip(fixed), now...), len(now) < len(c.hooks) && len(hooks.Attention()) == 0
	}
	return all, func(ctx context.Context) error {
		var running sync.WaitGroup
		running.Go(func() { hooks.Run(ctx) })
		errs := make([]error, len(fixed)+1)
		for i, one := range fixed {
			running.Go(func() { errs[i] = one.Run(ctx) })
		}
		running.Go(func() { errs[len(fixed)] = o.Set.Run(ctx) })
		running.Wait()
		return errors.Join(errs...)
	}
}
