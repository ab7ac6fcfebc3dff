package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/supervise"
	"skiff/internal/operators/restart"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/plan"
)

// exitBlocked is the exit code of `skiff plan` where something is in the way.
const exitBlocked = 4

// planFlags are the flags of `skiff plan`.
type planFlags struct {
	Choice
	memory      memoryFlags
	objects     []string // files
	output      string
	full        bool
	showSecrets string
}

func newPlan() *cobra.Command {
	f := planFlags{}
	cmd := &cobra.Command{
		Use:   "plan [KIND/NAME ...]",
		Short: "Show what the controllers would write, without writing",
		Long: `Runs each controller once for each object, and sends every write as a dry run: nothing changes. What the
server answers is compared with what is there, field by field. Run the new version's 'skiff plan' before an upgrade, or
'skiff plan -f FILE' before FILE is applied.

  +  create       ~  change       -  delete       -+  replace: delete, and create again
  !  blocked: what is in the way, and the next step
  =  held: it differs, and is left so (paused, or OnDelete)

Read rights are enough: where a dry run is refused, what would be sent is compared here, and the output says so.

Exit codes: 0 nothing to write, 3 there are writes, 4 something is blocked, 1 an object could not be planned or the
server cannot be reached, 2 wrong usage or an invalid hook controller in a file. The others are planned.`,
		Example: `  skiff plan                                 # all objects of all controllers
  skiff plan webserver/web -n shop
  skiff plan -f web.yaml                     # as it would be after 'kubectl apply -f web.yaml'
  skiff plan -o json | jq -r 'select(.op).name'`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.Add(cmd, "--hooks")
	fs := cmd.Flags()
	fs.StringVarP(&f.server.Namespace, "namespace", "n", "",
		"`namespace` of KIND/NAME, and of objects in FILE without one (default that of the kubeconfig context)")
	f.memory.add(cmd, cache.DefaultObjectBytes)
	fs.StringArrayVarP(&f.objects, "file", "f", nil,
		"`file` or directory with objects as they would be; only these are planned")
	fs.StringVarP(&f.output, "output", "o", "text", "`format`: text or json")
	fs.BoolVar(&f.full, "full", false, "print all fields of what is created")
	fs.StringVar(&f.showSecrets, "show-secrets", "",
		"print the values of Secrets; `always`: also into a file or a pipe")
	fs.Lookup("show-secrets").NoOptDefVal = "terminal"
	return cmd
}

// check refuses flags that make no sense.
func (f *planFlags) check(cmd *cobra.Command) error {
	switch {
	case f.output != "text" && f.output != "json":
		return wrongChoice("--output", f.output, []string{"text", "json"})
	case !slices.Contains([]string{"", "terminal", "always"}, f.showSecrets):
		return Usagef("--show-secrets=%s: want --show-secrets or --show-secrets=always", f.showSecrets)
	}
	return errors.Join(f.memory.check(), f.Check(cmd))
}

// secretsShown says whether the values of Secrets go to stdout.
func (f *planFlags) secretsShown(stdout io.Writer) bool {
	return f.showSecrets == "always" || f.showSecrets == "terminal" && isTerminal(stdout)
}

// isTerminal says whether a person reads what is written.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (f *planFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	targets, err := planTargets(args)
	if err != nil {
		return err
	}
	objects, err := readProposals(f.objects)
	if err != nil {
		return err
	}
	client, namespace, err := f.Connect(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := cmd.Context()
	server, err := discovery.ServerVersion(ctx, client)
	if err != nil {
		return err
	}
	if err := f.declared(cmd, client); err != nil {
		return err
	}
	p := plan.New(plan.Options{Client: client, Full: f.full, ShowSecrets: f.secretsShown(cmd.OutOrStdout()),
		Books:    []kube.Resource{spec.Revisions},
		Managers: []string{apply.Manager, restart.Manager, f.manager}})
	targets.resolve(ctx, client)
	controllers, end := f.controllers(ctx, p, client, targets)
	defer end()
	if err := targets.have(ctx, client, controllers, namespace,
		func() []kube.Resource { return f.resources(ctx, client) }); err != nil {
		return err
	}
	proposals, err := proposals(objects, controllers, namespace)
	if err != nil {
		return err
	}
	if len(proposals) > 0 {
		targets = proposedTargets(proposals)
	}
	out, err := p.Run(ctx, controllers, proposals, targets.wants(namespace))
	if err != nil {
		return err
	}
	missing := targets.missing(ctx, client, namespace)
	if missing == nil && out.Objects == 0 {
		missing = f.noNamespace(ctx, client)
	}
	// An error says enough where nothing was planned: a reader might stop at "No changes" above.
	if missing == nil || out.Objects > 0 || len(out.Owners) > 0 || f.output == "json" {
		if err := f.print(cmd, out, server); err != nil {
			return err
		}
	}
	if missing != nil {
		return missing
	}
	if exit := out.Summary().Exit(); exit != ExitDone {
		return f.Exit(ExitCode(exit))
	}
	return nil
}

// controllers makes the chosen controllers that work for the targets. A hook controller that cannot be planned is a
// line of the plan. end closes all callers of hooks.
func (f *planFlags) controllers(ctx context.Context, p *plan.Planner, client *kube.Client, targets planned) (
	all []*controller.Controller, end func()) {
	setup := f.setup(p.Client(), logr.Discard())
	f.memory.bound(&setup)
	all = f.made(setup, targets.concern)
	if f.memory.objectKiB<<10 == cache.DefaultObjectBytes { // as `skiff hooks run` would
		setup.ObjectBytes = hookObjectBytes
	}
	for _, one := range f.files.invalid {
		p.Block(one.Name, one.Err)
	}
	var ends []func()
	for _, h := range f.hooks {
		err := f.refusal(h)
		var of []*controller.Controller
		var end func()
		if err == nil {
			of, end, err = supervise.Planned(ctx, h, f.supervised(setup, client))
		}
		if err != nil {
			p.Block(h.Name, err)
			continue
		}
		ends = append(ends, end)
		for _, c := range of {
			if targets.concern(c.Resource()) {
				all = append(all, c)
			}
		}
	}
	return all, func() {
		for _, end := range ends {
			end()
		}
	}
}

func (f *planFlags) print(cmd *cobra.Command, out *plan.Plan, server string) error {
	w := cmd.OutOrStdout()
	if f.output == "json" {
		version, _ := kube.Version()
		return out.JSON(w, version, server)
	}
	_, err := io.WriteString(w, out.Text(isTerminal(w) && os.Getenv("NO_COLOR") == ""))
	return err
}
