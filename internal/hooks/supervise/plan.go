package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/reconcile"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// Planned returns the controllers of a hook controller, one for each parent resource, for a plan: nothing runs them,
// and nothing is held by a Brake. Its hooks are told that it is a dry run. end closes what calls them.
func Planned(ctx context.Context, c *spec.Controller, o Options) (all []*controller.Controller, end func(),
	err error) {
	o.Call.DryRun = true
	s := newSupervised(c, &o)
	f, err := s.find(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := s.connect(); err != nil {
		return nil, nil, err
	}
	s.brake = nil
	ask := func(ctx context.Context, name wire.Hook, parent *kube.Meta, request []byte) ([]byte, error) {
		answer, err := s.call(ctx, name, parent, request)
		if later := new(call.Later); errors.As(err, &later) { // a plan does not call again
			return nil, errors.New(later.Error())
		}
		return answer, err
	}
	all = s.controllers(f, ask)
	s.follow(all)
	return all, s.close, nil
}

// controllers makes the controllers of all parent resources; ask calls a hook.
func (s *supervised) controllers(f found, ask func(context.Context, wire.Hook, *kube.Meta, []byte) ([]byte, error)) (
	all []*controller.Controller) {
	setup := s.o.Setup
	if s.spec.Customize == nil { // what that names is not known before
		setup.Client = setup.Client.Limit(spec.Rights(s.spec))
	}
	for i, p := range f.parents {
		all = append(all, reconcile.New(setup, s.o.Recorder, reconcile.Options{Spec: s.spec, Rule: s.spec.Parents[i],
			Parent: p, Children: f.children, Call: ask, Changes: s.changes.Load, Brake: s.brake, Manager: s.o.Manager,
			Resync: s.o.Resync, Memory: s.o.Memory}))
	}
	return all
}

// CheckExec refuses a controller of the cluster whose hooks are programs, unless its name is allowed to have some: who
// may write such an object could otherwise run commands here.
func CheckExec(c *spec.Controller, allowed []string) error {
	for _, h := range c.Hooks() {
		if h.Exec != nil && !slices.Contains(allowed, c.Name) {
			return fmt.Errorf("spec.hooks: exec runs commands where skiff runs, and %s may not; use a webhook, "+
				"or have skiff started with --allow-exec=%s", c.Name, c.Name)
		}
	}
	return nil
}
