// Package simulate simulates a cluster around the embedded API server: the workloads (Deployments, ReplicaSets,
// StatefulSets, DaemonSets, Jobs and CronJobs) and their pods, nodes on which pods become Running and Ready, the
// endpoints of Services, the status of PodDisruptionBudgets and HorizontalPodAutoscalers, the garbage collector, and
// the ServiceAccount and root CA of each namespace. `skiff dev` and the demo use it. It does enough for kubectl to
// look as on a real cluster: `rollout status`, `rollout undo`, `wait`, `describe` and `get pods -w`. Never run it
// against a real cluster: it would fight with the real controllers.
//
// Its pods run no containers. Failures can be simulated: an image with the tag "broken" (BrokenTag) stays in
// ImagePullBackOff, the annotation simulate.skiff.dev/restarts: "2" (RestartsAnnotation) restarts the containers until
// they have restarted twice, and simulate.skiff.dev/exit-code: "1" (ExitAnnotation) ends them. The scheduler heeds
// cordons, node selectors, required node affinity, taints and requests, but no affinity between pods. Claims stay
// Pending. Package fakeapi allocates cluster IPs and node ports, empties deleted namespaces, counts quotas and serves
// CRDs.
//
// Each part is a controller on skiff's own runtime, with the goroutines of package controller and its own mirrors, so
// that the parts communicate only through the server. Run owns all of them. The package is beside the event path, in
// the place of an operator.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/cache"
	"skiff/internal/controller"
	"skiff/internal/events"
	"skiff/internal/kube"
)

// manager is the field manager of the simulation's writes, to tell them from skiff's own.
const manager = "skiff-simulate"

// Part is a part of the simulation that can be switched off.
type Part string

// The parts.
const (
	GC              Part = "gc"              // the garbage collector
	ServiceAccounts Part = "serviceaccounts" // the ServiceAccount "default" and the root CA of each namespace
	Deployments     Part = "deployments"     // with their ReplicaSets
	StatefulSets    Part = "statefulsets"
	DaemonSets      Part = "daemonsets"
	Jobs            Part = "jobs"
	CronJobs        Part = "cronjobs"
	Endpoints       Part = "endpoints" // and EndpointSlices
	Budgets         Part = "budgets"   // the status of PodDisruptionBudgets
	Scalers         Part = "scalers"   // the status of HorizontalPodAutoscalers
	Events          Part = "events"    // of the other parts
	Leases          Part = "leases"    // of the nodes, and the heartbeats in their status
	Pods            Part = "pods"      // nodes, the scheduler and the kubelet
)

// Parts returns all parts.
func Parts() []Part {
	return []Part{GC, ServiceAccounts, Deployments, StatefulSets, DaemonSets, Jobs, CronJobs, Endpoints, Budgets,
		Scalers, Pods, Leases, Events}
}

// Options of a simulation. The zero value is a small, quick cluster with all parts.
type Options struct {
	// Nodes are the names of the nodes; empty means node-1 to node-3, so that -o wide shows pods being spread.
	Nodes []string
	// PodStartDelay is how long a pod stays in ContainerCreating; 0 means a second, long enough to be seen.
	PodStartDelay time.Duration
	// PodStopDelay is how long a pod stays Terminating, at most its grace period; 0 means a second.
	PodStopDelay time.Duration
	// RootCA is the PEM certificate in the ConfigMap kube-root-ca.crt of each namespace.
	RootCA string
	// Without are the parts that are switched off.
	Without   []Part
	mirrors   *cache.Mirrors              // for those who read the same of a resource
	recorders map[string]*events.Recorder // by the sources of their Events; nil without Events
	// Log gets a line for each reconcile, which are many: give it a higher verbosity than skiff's own.
	Log logr.Logger
}

func (o Options) withDefaults() Options {
	if len(o.Nodes) == 0 {
		o.Nodes = []string{"node-1", "node-2", "node-3"}
	}
	if o.PodStartDelay == 0 {
		o.PodStartDelay = time.Second
	}
	if o.PodStopDelay == 0 {
		o.PodStopDelay = time.Second
	}
	return o
}

func (o Options) has(p Part) bool { return !slices.Contains(o.Without, p) }

// mirror returns the options of a mirror of all objects of a resource.
func (o Options) mirror(c *kube.Client, r kube.Resource) cache.Options {
	return cache.Options{Resource: r, Client: c, Log: o.Log}
}

func (o Options) controller() controller.Options { return controller.Options{Log: o.Log} }

// recordFunc records an Event about an object.
type recordFunc func(r kube.Resource, o kube.Object, kind events.Type, reason, note string)

// recorder returns what records the Events of a source, such as default-scheduler; without the part Events it does
// nothing.
func (o Options) recorder(c *kube.Client, source string) recordFunc {
	if o.recorders == nil {
		return func(kube.Resource, kube.Object, events.Type, string, string) {}
	}
	if o.recorders[source] == nil {
		o.recorders[source] = events.New(events.Options{Client: c, Controller: source, Instance: source, Log: o.Log})
	}
	recorder := o.recorders[source]
	return func(r kube.Resource, obj kube.Object, kind events.Type, reason, note string) {
		recorder.Record(events.Event{Regarding: events.ObjectOf(r, obj), Type: kind, Reason: reason, Note: note})
	}
}

// Cluster is a simulation that can be run once.
type Cluster struct {
	client      *kube.Client
	o           Options
	controllers []*controller.Controller
	gc          *collectors // nil without GC
}

// New returns the simulation of a cluster on the server of c. It sends nothing before Run.
func New(c *kube.Client, o Options) *Cluster {
	s := &Cluster{client: c, o: o.withDefaults()}
	s.o.mirrors = cache.NewMirrors()
	if o.has(Events) {
		s.o.recorders = map[string]*events.Recorder{}
	}
	add := func(p Part, make ...func(*kube.Client, Options) *controller.Controller) {
		for _, f := range make {
			if o.has(p) {
				s.controllers = append(s.controllers, f(c, s.o))
			}
		}
	}
	add(ServiceAccounts, newServiceAccounts)
	add(Deployments, newDeployments)
	for _, k := range workloadKinds {
		add(k.part, newWorkloads(k))
	}
	add(CronJobs, newCronJobs)
	add(Endpoints, newEndpoints)
	add(Budgets, newBudgets)
	add(Scalers, newScalers)
	add(Pods, newKubelet)
	add(Leases, newHeartbeats)
	if o.has(GC) {
		s.gc = newCollectors(c, s.o)
	}
	return s
}

// Run simulates until ctx is done, and waits for everything that it has started. The error is nil after a clean stop.
func (s *Cluster) Run(ctx context.Context) error {
	if s.o.has(Pods) {
		if err := createNodes(ctx, s.client, s.o); err != nil {
			if ctx.Err() != nil {
				return nil // stopped while it started, which is a clean stop
			}
			return fmt.Errorf("simulate a cluster: %w", err)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var parts []func(context.Context) error
	if s.gc != nil {
		parts = append(parts, s.gc.run)
	}
	for _, c := range s.controllers {
		parts = append(parts, c.Run)
	}
	for _, r := range s.o.recorders {
		parts = append(parts, r.Run)
	}
	if len(parts) == 0 {
		<-ctx.Done()
		return nil
	}
	errs := make([]error, len(parts))
	var running sync.WaitGroup
	for i, run := range parts {
		running.Go(func() {
			defer stop() // if one part fails, all stop
			errs[i] = run(ctx)
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("simulate a cluster: %w", err)
	}
	return nil
}

// Ready returns nil once all controllers have synced, or an error that names the missing ones.
func (s *Cluster) Ready() error {
	var errs []error
	for _, c := range s.controllers {
		errs = append(errs, c.Ready())
	}
	if s.gc != nil {
		errs = append(errs, s.gc.ready())
	}
	return errors.Join(errs...)
}

// PauseGC pauses the garbage collector, or resumes it within a second: for tests of controllers that must not depend
// on its speed.
func (s *Cluster) PauseGC(pause bool) { s.gc.paused.Store(pause) }

// mirrorLag is the longest wait for a mirror to catch up. Usually the awaited event triggers the reconcile earlier.
const mirrorLag = time.Second

// retryStale retries a reconcile soon whose writes failed because its mirrors were out of date. That is not a failure:
// the events are on their way.
func retryStale(f controller.Func) controller.Func {
	return func(ctx context.Context, k kube.Key) (controller.Outcome, error) {
		outcome, err := f(ctx, k)
		if err != nil && isStale(err) {
			return controller.After(mirrorLag), nil
		}
		return outcome, err
	}
}

// isStale reports whether err consists only of NotFound and Conflict, which writes based on an old mirror get.
func isStale(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !isStale(e) })
	}
	return kube.IsNotFound(err) || kube.IsConflict(err)
}

// alive asks the server whether an owner exists and is not being deleted. Mirrors of two kinds are not in step: one
// can show that a child was deleted before the other shows that its owner was deleted first, and then the child must
// not be created again.
func alive(ctx context.Context, c *kube.Client, r kube.Resource, owner *kube.Meta) (bool, error) {
	var now object
	err := c.Get(ctx, r, owner.Key(), &now)
	if kube.IsNotFound(err) {
		return false, nil
	}
	return err == nil && now.UID == owner.UID && !now.Deleting(), err
}
