package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/reconcile"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
)

// Planned returns the controllers of a hook controller, one for each parent resource, for a plan: nothing runs the
// controllers, and no Brake holds anything. The hooks are told of the dry run. end closes all callers of hooks.
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
	if s.spec.Customize == nil { // the related objects are not known before
		setup.Client = setup.Client.Limit(spec.Rights(s.spec))
	}
	for i, p := range f.parents {
		ask := func(ctx context.Context, name wire.Hook, parent *kube.Meta, request []byte) ([]byte, error) {
			if p.ClusterScoped != (parent.Namespace == "") {
				s.misplaced.Store(true)
				return nil, fmt.Errorf("the scope of %s has changed; its definition is looked up again", p)
			}
			return ask(ctx, name, parent, request)
		}
		all = append(all, reconcile.New(setup, s.o.Recorder, reconcile.Options{Spec: s.spec, Rule: s.spec.Parents[i],
			Parent: p, Children: f.children, Call: ask, Changes: s.changes.Load, Returns: s.returns.Load,
			Brake: s.brake, Notes: &s.notes, Others: s.others, HasConditions: s.hasConditions(p.Resource),
			Manager: s.o.Manager, Resync: s.o.Resync, Memory: s.o.Memory, Pods: s.o.Pods}))
	}
	return all
}

// conditionsEvery bounds how often the server is asked for a definition: the server's description changes about a
// second after the definition.
const conditionsEvery = 10 * time.Second

// hasConditions returns a function that says whether the definition of a resource has status.conditions now.
func (s *supervised) hasConditions(r kube.Resource) func(ctx context.Context) bool {
	var mu sync.Mutex // guards the rest
	var has bool
	var asked time.Time
	return func(ctx context.Context) bool {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); asked.IsZero() || now.Sub(asked) >= conditionsEvery {
			fields := discovery.FieldNames(ctx, s.o.Setup.Client, r, "status.conditions[0].type")
			has, asked = slices.Contains(fields, "reason") && slices.Contains(fields, "message"), now
		}
		return has
	}
}

// CheckExec refuses a controller of the cluster whose hooks are programs, unless its kind and name are allowed to have
// some: who may write such an object could otherwise run commands here.
func CheckExec(c *spec.Controller, allowed []string) error {
	name := allowedName(c.Kind, c.Name)
	for _, h := range c.Hooks() {
		if h.Exec != nil && !slices.Contains(allowed, name) {
			return fmt.Errorf("spec.hooks: exec runs commands where skiff runs, and %s %s may not; use a webhook, "+
				"or have skiff started with --allow-exec=%s", c.Kind, c.Name, name)
		}
	}
	return nil
}

// allowedName is how --allow-exec names a controller. The kind is part of the name: a DecoratorController may have the
// name of a CompositeController, and another author.
func allowedName(kind, name string) string { return strings.ToLower(kind) + "/" + name }

// CheckAllowed checks the names of --allow-exec.
func CheckAllowed(names []string) error {
	for _, text := range names {
		kind, name, ok := strings.Cut(text, "/")
		if !ok && kube.ValidName(text) {
			return fmt.Errorf("%q has no kind: write %s or %s", text, allowedName(spec.Composite, text),
				allowedName(spec.Decorator, text))
		}
		known := kind == strings.ToLower(spec.Composite) || kind == strings.ToLower(spec.Decorator)
		if !known || !kube.ValidName(name) {
			return fmt.Errorf("%.100q: want KIND/NAME, such as %s", text, allowedName(spec.Composite, "apps"))
		}
	}
	return nil
}
