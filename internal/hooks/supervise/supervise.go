// Package supervise runs hook controllers: the package finds the resources in the rules, waits for missing resources,
// makes a controller of each parent resource, and watches over the hooks.
//
// The job is to prepare a controller for running, and to follow the state of hooks: a hook without an answer is asked
// less. Package reconcile does the work for a parent. Run has a goroutine for each hook controller,
// which ends with Run; calls of hooks run on the workers of the controllers.
package supervise

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Options of a Supervisor.
type Options struct {
	Setup    controller.Setup
	Set      *controller.Set  // runs the controllers
	Recorder *events.Recorder // nil: no Events
	Manager  string           // field manager of children; "": reconcile.Manager
	Resync   time.Duration    // of controllers without a period of their own; 0: never
	Call     call.Options
	Memory   *call.Memory // nil: no bound for answers
	// Pods reads the pods of a namespace with some labels, for the live page; nil: no pods are shown.
	Pods func(ctx context.Context, namespace, selector string) (controller.Pods, error)
	Log  logr.Logger
}

// Supervisor runs hook controllers. All methods may be called from any goroutine.
type Supervisor struct {
	o Options

	mu      sync.Mutex // guards the rest
	wanted  map[string]*supervised
	changed chan struct{} // closed, and made anew, when wanted has changed
}

// New returns a Supervisor without controllers.
func New(o Options) *Supervisor {
	return &Supervisor{o: o, wanted: map[string]*supervised{}, changed: make(chan struct{})}
}

// endTimeout is how long a hook controller may take to stop: runs have half a minute, and programs seconds.
const endTimeout = time.Minute

// nameOf returns the unique name of a hook controller.
func nameOf(kind, name string) string { return kind + " " + name }

// Put has a controller run, in the place of the controller with the same kind and name. Equal controllers are left
// alone.
func (s *Supervisor) Put(c *spec.Controller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := nameOf(c.Kind, c.Name)
	if is := s.wanted[name]; is != nil && sameSpec(is.spec, c) {
		is.moved(c.Places)
		return
	}
	s.wanted[name] = newSupervised(c, &s.o)
	s.wanted[name].others = func() []string { return s.others(c) }
	if rivals := rivalsOf(c, specsOf(s.wanted)); rivals != "" {
		s.o.Log.Info("two CompositeControllers have one parent resource, and replace each other's status; give both "+
			"a parentResource.labelSelector, or stop one", kube.Warn("controller", name, "others", rivals,
			"resource", c.Parents[0].GroupResource())...)
	}
	s.changeLocked()
}

// specsOf returns the controllers in the order of their names.
func specsOf(wanted map[string]*supervised) []*spec.Controller {
	all := make([]*spec.Controller, 0, len(wanted))
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		all = append(all, wanted[name].spec)
	}
	return all
}

// rivalsOf names the first [spec.Controller.Rivals] of c among all, "" if there are none.
func rivalsOf(c *spec.Controller, all []*spec.Controller) string {
	var names []string
	for _, rival := range c.Rivals(all) {
		names = append(names, rival.Name)
	}
	return strings.Join(names[:min(len(names), maxOthers)], ", ")
}

// others returns the other controllers with a parent resource of c.
func (s *Supervisor) others(c *spec.Controller) (names []string) {
	wanted, _ := s.snapshot()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if name != nameOf(c.Kind, c.Name) && slices.ContainsFunc(wanted[name].spec.Parents, func(p spec.Parent) bool {
			return slices.ContainsFunc(c.Parents, func(q spec.Parent) bool { return p.Type == q.Type })
		}) {
			names = append(names, name)
		}
	}
	return names[:min(len(names), maxOthers)]
}

// maxOthers is how many other controllers are named.
const maxOthers = 3

// sameSpec says whether two versions of a controller say the same. The metadata and the status of the object may
// differ.
func sameSpec(a, b *spec.Controller) bool {
	x, y := *a, *b
	x.Places, y.Places = nil, nil
	if x.UID != "" {
		x.Object, y.Object = nil, nil
	}
	return reflect.DeepEqual(x, y)
}

// Drop has a controller stop. Its children stay.
func (s *Supervisor) Drop(kind, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted[nameOf(kind, name)] != nil {
		delete(s.wanted, nameOf(kind, name))
		s.changeLocked()
	}
}

func (s *Supervisor) changeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Supervisor) snapshot() (map[string]*supervised, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.wanted), s.changed
}

// Run runs the controllers as they come and go, until ctx ends and all have stopped.
func (s *Supervisor) Run(ctx context.Context) {
	type one struct {
		*supervised
		stop context.CancelFunc
		done chan struct{}
	}
	running := map[string]one{}
	end := func(name string) {
		running[name].stop()
		late := time.NewTimer(endTimeout)
		defer late.Stop()
		select {
		case <-running[name].done:
		case <-late.C:
			s.o.Log.Info("a hook controller does not stop, and is left: a program of its hooks cannot be killed",
				kube.Warn("controller", name, "after", endTimeout)...)
		}
		delete(running, name)
	}
	for ctx.Err() == nil {
		wanted, changed := s.snapshot()
		for name := range running {
			if running[name].supervised != wanted[name] {
				end(name) // before the successor begins
			}
		}
		for name, c := range wanted {
			if _, runs := running[name]; runs {
				continue
			}
			working, stop := context.WithCancel(ctx)
			of := one{c, stop, make(chan struct{})}
			running[name] = of
			go func() {
				defer close(of.done)
				c.contained(working)
			}()
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	for name := range running {
		end(name)
	}
}

// Attention returns the Problems of controllers that do not run, whose hooks do not answer, or that have rivals.
func (s *Supervisor) Attention() (out []health.Problem) {
	wanted, _ := s.snapshot()
	all := specsOf(wanted)
	for _, c := range all {
		name := nameOf(c.Kind, c.Name)
		if rivals := rivalsOf(c, all); rivals != "" {
			out = append(out, health.Problem{Controller: c.Name, Reason: "Rivals",
				Public: name + " has the parent resource of " + rivals + ", too",
				Next:   "give both a parentResource.labelSelector, or stop one"})
		}
		for _, p := range wanted[name].problems() {
			p.Controller, p.Public = c.Name, name+" "+p.Public
			out = append(out, p)
		}
	}
	return out
}
