package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/reconcile"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/supervise"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/plan"
)

// planHooks are the flags of `skiff plan` about hook controllers: those of `skiff hooks run`, but that their files are
// named by --hooks.
type planHooks struct {
	files     hookFiles
	allowExec []string
	manager   string
	answerMiB int
}

func (f *planHooks) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.files.flag = "--hooks"
	fs.StringArrayVar(&f.files.paths, "hooks", nil,
		"`file` or directory with hook controllers to plan, as -f of 'skiff hooks run'")
	f.files.addCluster(cmd)
	fs.StringSliceVar(&f.allowExec, "allow-exec", nil,
		"`names` of the controllers of --from-cluster whose hooks may run commands here")
	fs.StringVar(&f.manager, "field-manager", reconcile.Manager,
		"`name` of the field manager of the children of hook controllers")
	fs.IntVar(&f.answerMiB, "max-answer", 16, "how many `MiB` the answer of a hook may have")
	InGroup(cmd, groupControllers, "hooks", "from-cluster", "target-label-selector", "allow-exec")
	InGroup(cmd, GroupAdvanced, "field-manager", "max-answer")
}

func (f *planHooks) check() error {
	switch {
	case len(f.files.paths) > 0 && f.files.cluster:
		return Usagef("--hooks and --from-cluster: give one of them")
	case !f.files.cluster && len(f.allowExec) > 0:
		return Usagef("--allow-exec: it is for --from-cluster")
	case f.manager == "" || len(f.manager) > 128: // the server's limit
		return Usagef("--field-manager %q: must have 1 to 128 characters", f.manager)
	case f.answerMiB < 1 || f.answerMiB > 1024:
		return Usagef("--max-answer %d: want 1 to 1024 MiB", f.answerMiB)
	}
	return f.files.check()
}

// given says that hook controllers are planned.
func (f *planHooks) given() bool { return f.files.cluster || len(f.files.paths) > 0 }

// read reads the controllers of --hooks.
func (f *planHooks) read(cmd *cobra.Command) ([]*spec.Controller, error) {
	if len(f.files.paths) == 0 {
		return nil, nil
	}
	return f.files.read(cmd)
}

// choose splits the names of --controllers into those of skiff's own and those of hook controllers.
func (f *planFlags) choose(cmd *cobra.Command, hooks []*spec.Controller) (own []string, chosen []*spec.Controller,
	err error) {
	if !cmd.Flags().Changed("controllers") {
		if f.hooks.given() {
			return nil, hooks, nil
		}
		return f.names, nil, nil
	}
	known := ControllerNames()
	for _, h := range hooks {
		known = append(known, h.Name)
	}
	for _, name := range f.names {
		if f.hooks.files.cluster && hooks == nil { // they are not known yet
			break
		}
		if !slices.Contains(known, name) {
			others := ", or name hook controllers with --hooks FILE or --from-cluster"
			if f.hooks.given() {
				others = ""
			}
			return nil, nil, Usagef("--controllers: unknown controller %q: choose from %s%s", name,
				strings.Join(known, ", "), others)
		}
		if slices.Contains(ControllerNames(), name) {
			own = append(own, name)
		}
	}
	for _, h := range hooks {
		if slices.Contains(f.names, h.Name) {
			chosen = append(chosen, h)
		}
	}
	return own, chosen, nil
}

// controllers makes the controllers of hook controllers. What keeps one from being planned is a line of the plan. end
// closes what calls the hooks.
func (f *planHooks) controllers(ctx context.Context, p *plan.Planner, setup controller.Setup, client *kube.Client,
	chosen []*spec.Controller) (all []*controller.Controller, end func()) {
	var ends []func()
	o := supervise.Options{Setup: setup, Manager: f.manager, Log: logr.Discard(),
		Call: call.Options{Log: logr.Discard(), MaxAnswer: f.answerMiB << 20, Credential: credentials(client)}}
	for _, c := range chosen {
		var cs []*controller.Controller
		var end func()
		err := error(nil)
		if f.files.cluster {
			err = supervise.CheckExec(c, f.allowExec)
		}
		if err == nil {
			cs, end, err = supervise.Planned(ctx, c, o)
		}
		if err != nil {
			p.Block(c.Name, err)
			continue
		}
		all, ends = append(all, cs...), append(ends, end)
	}
	return all, func() {
		for _, end := range ends {
			end()
		}
	}
}
