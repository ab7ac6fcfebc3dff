package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/reconcile"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
	"skiff/internal/runtime/process"
)

// findEvery is how often a missing resource is looked for: a definition is there seconds after being installed, and a
// request about a group costs a server nothing. No request is sent while nothing is missing.
const findEvery = 5 * time.Second

// supervised is a hook controller.
type supervised struct {
	spec *spec.Controller
	o    *Options
	log  logr.Logger

	changes atomic.Int64 // how often a hook has changed
	returns atomic.Int64 // how often a hook that was down has answered again
	notes   reconcile.Notes
	// misplaced is set by a parent that has a namespace although the resource has none, or the reverse.
	misplaced atomic.Bool
	others    func() []string // the other controllers of the parent resources; nil: not known

	mu      sync.Mutex      // guards the rest
	waiting *health.Problem // keeps the controller from running; nil: running
	hooks   []*hook
	brake   *reconcile.Brake  // nil while the controller waits
	places  map[string]string // [spec.Controller.Places], as they are now
}

func newSupervised(c *spec.Controller, o *Options) *supervised {
	return &supervised{spec: c, o: o, places: c.Places, log: o.Log.WithValues("controller", c.Name)}
}

// tell records an Event about the object of the controller, or logs the text where there is no object.
func (s *supervised) tell(t events.Type, reason, note string) {
	if s.spec.UID == "" {
		values := []any{"reason", reason}
		if t == events.Warning {
			values = kube.Warn(values...)
		}
		s.log.Info(note, values...)
		return
	}
	s.o.Recorder.Record(events.Event{Type: t, Reason: reason, Action: "Supervise", Note: note,
		Regarding: events.Object{APIVersion: spec.APIVersion, Kind: s.spec.Kind, Name: s.spec.Name, UID: s.spec.UID}})
}

func (s *supervised) problems() (out []health.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.waiting != nil && s.waiting.Controller != "": // a controller that lacks something says so itself
		return nil
	case s.waiting != nil:
		p := *s.waiting
		p.Public = "does not run: " + p.Public
		return []health.Problem{p}
	}
	for _, h := range s.hooks {
		out = append(out, h.problems()...)
	}
	if s.brake != nil {
		if why := s.brake.Problem(); why != "" {
			out = append(out, health.Problem{Reason: reconcile.DeletesHeld, Public: why})
		}
	}
	for _, note := range s.notes.Problems() {
		out = append(out, health.Problem{Reason: "Degraded", Public: "is degraded: " + note})
	}
	return out
}

// waits notes why the controller does not run, nil: running, and logs each change of the Problem.
func (s *supervised) waits(why *health.Problem) {
	s.mu.Lock()
	before := s.waiting
	s.waiting = why
	s.mu.Unlock()
	now := time.Now()
	if why != nil && (before == nil || why.Text(now) != before.Text(now)) {
		s.tell(events.Warning, "CreateError", "the controller waits: "+why.Text(now))
	}
}

// contained is run; a panic inside stops only the controller.
func (s *supervised) contained(ctx context.Context) {
	err := process.Contain("run the hook controller", func() error { s.run(ctx); return nil })
	if p := new(process.Panic); errors.As(err, &p) {
		s.log.Error(err, "a hook controller panicked and is not running any more", "stack", string(p.Stack))
		s.waits(&health.Problem{Reason: "Panicked", Public: "it has panicked, which is a bug of skiff",
			Next: "see the log, and report it"})
	}
}

// run runs the controller from when the resources exist until ctx ends.
func (s *supervised) run(ctx context.Context) {
	for ctx.Err() == nil {
		found, err := s.find(ctx)
		if err == nil {
			if err = s.work(ctx, found); err == nil { // ctx has ended, or the resources are to be looked up again
				continue
			}
		}
		if ctx.Err() == nil {
			s.waits(&health.Problem{Reason: "ResourcesUnknown", Public: "its resources are not known",
				Quoted: err.Error()})
		}
		select {
		case <-time.After(findEvery):
		case <-ctx.Done():
		}
	}
}

// found are the resources that the rules of a controller name.
type found struct {
	parents  []discovery.Resource
	children []kube.Resource
}

// find asks the server for the resources of the rules.
func (s *supervised) find(ctx context.Context) (f found, err error) {
	for _, p := range s.spec.Parents {
		r, err := s.resource(ctx, p.Type)
		if err != nil {
			return f, err
		}
		if s.spec.IsComposite() && !r.Status {
			return f, fmt.Errorf("%s %s does not have subresource 'Status' enabled; add `subresources: {status: {}}` "+
				"to this version of its definition", r.APIVersion(), r.Plural)
		}
		f.parents = append(f.parents, r)
	}
	for _, child := range s.spec.Children {
		r, err := s.resource(ctx, child.Type)
		if err != nil {
			return f, err
		}
		f.children = append(f.children, r.Resource)
	}
	return f, nil
}

func (s *supervised) resource(ctx context.Context, t spec.Type) (discovery.Resource, error) {
	r, ok, err := discovery.Find(ctx, s.o.Setup.Client, t.Group(), t.Version(), t.Resource)
	switch {
	case err != nil && !kube.IsNotFound(err):
		return r, err
	case !ok:
		next := "apply its definition"
		if near := discovery.NearestPlural(ctx, s.o.Setup.Client, t.Group(), t.Version(), t.Resource); near != "" {
			next = "did you mean " + near + "?"
		}
		return r, fmt.Errorf("the server has no resource %s in %s; %s", t.Resource, t.APIVersion, next)
	case r.Plural != t.Resource:
		return r, fmt.Errorf("resource %q: the plural is %q; name that", t.Resource, r.Plural)
	}
	return r, nil
}

// work has the controllers of all parent resources run until ctx ends or the definitions have changed. The error says
// that no work can begin.
func (s *supervised) work(ctx context.Context, f found) error {
	s.tell(events.Normal, "Starting", "the controller starts")
	if err := s.connect(); err != nil {
		return err
	}
	defer s.close()
	var running []*controller.Controller
	stopped := false
	defer func() {
		for _, c := range running {
			if err := s.o.Set.Remove(context.WithoutCancel(ctx), c); err != nil {
				s.log.Error(err, "a hook controller did not stop")
			}
		}
		if stopped {
			s.tell(events.Normal, "Stopped", "the controller has stopped; its children stay")
		}
	}()
	for _, c := range s.controllers(f, s.call) {
		if err := s.o.Set.Add(c); err != nil {
			return err
		}
		running = append(running, c)
	}
	s.follow(running)
	s.waits(nil)
	s.tell(events.Normal, "Started", "the controller runs")
	s.watch(ctx, running, f)
	s.tell(events.Normal, "Stopping", "the controller stops")
	stopped = true
	return nil
}

// connect makes the hooks and the brake.
func (s *supervised) connect() error {
	var hooks []*hook
	for _, h := range s.spec.Hooks() {
		name := wire.Hook(h.Name)
		caller, err := call.New(s.spec, name, h.Hook, s.o.Call)
		if err != nil {
			return fmt.Errorf("prepare the %s hook: %w", name, err)
		}
		hooks = append(hooks, &hook{name: name, caller: caller, log: s.log, tell: s.tell, changes: &s.changes,
			returns: &s.returns, version: caller.Version(), counts: counts{took: metrics.NewHistogram(hookBounds)}})
	}
	brake, err := s.newBrake(hooks[0]) // which is sync
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks, s.brake = hooks, brake
	s.placeLocked()
	return nil
}

// moved takes note of where the hooks are written now: nothing else of the controller has changed.
func (s *supervised) moved(places map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places = places
	s.placeLocked()
}

func (s *supervised) placeLocked() {
	for _, h := range s.hooks {
		h.caller.Moved(s.places[string(h.name)])
	}
}

// follow has the hooks run all parents of the controllers where they have changed.
func (s *supervised) follow(controllers []*controller.Controller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hooks {
		h.follow(func(namespace, cause string) {
			for _, c := range controllers {
				c.RunAll(namespace, cause)
			}
		})
	}
}

func (s *supervised) close() {
	s.mu.Lock()
	hooks := s.hooks
	s.hooks, s.brake = nil, nil
	s.mu.Unlock()
	for _, h := range hooks {
		h.caller.Close()
	}
}

// currentHooks returns the hooks; none while the controller waits.
func (s *supervised) currentHooks() []*hook {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hooks
}

// call calls a hook for a parent.
func (s *supervised) call(ctx context.Context, name wire.Hook, parent *kube.Meta, request []byte) ([]byte, error) {
	for _, h := range s.currentHooks() {
		if h.name == name {
			return h.call(ctx, parent, request)
		}
	}
	return nil, errors.New("there is no such hook")
}
