// Package simulate is what a cluster does around the embedded API server: Deployments and ReplicaSets that make pods,
// nodes on which pods become Running and Ready, and the garbage collector. `skiff dev` and the demo run on it; it is
// enough that `kubectl rollout status`, `rollout restart`, `rollout undo` and `get pods -w` look as they do on a real
// cluster. It must not be pointed at one: it would fight with the real controllers.
//
// Nothing runs in its pods. Two things can be asked of them: an image with the tag "broken" (BrokenTag) stays in
// ImagePullBackOff, and the annotation simulate.skiff.dev/restarts: "2" (RestartsAnnotation) makes the containers
// restart until they have done so twice. It knows no StatefulSets, DaemonSets and Jobs, adopts no orphans, and makes
// no Endpoints. Cluster IPs, node ports, namespaces and CRDs are the server's own business (package fakeapi).
//
// All are controllers on skiff's own runtime, each with the goroutines of package controller and with mirrors of its
// own, so that they know of each other only what the server tells. Run owns all of them. It stands beside the event
// path, where an operator stands.
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
	"skiff/internal/kube"
)

// manager is the field manager of the simulation's writes, so that managedFields do not show them as skiff's.
const manager = "skiff-simulate"

// Options of a simulation. The zero value is a small, quick cluster.
type Options struct {
	// Nodes are the names of the nodes; empty means node-1 to node-3, so that -o wide shows pods being spread.
	Nodes []string
	// PodStartDelay is how long a pod stays in ContainerCreating; 0 means a second, long enough to be seen.
	PodStartDelay time.Duration
	// PodStopDelay is how long a pod stays Terminating, at most its grace period; 0 means a second.
	PodStopDelay time.Duration
	// Log gets a line for each reconcile, which is much: give it a higher verbosity than skiff's own.
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

// mirror returns the options of a mirror of all objects of a resource.
func (o Options) mirror(c *kube.Client, r kube.Resource) cache.Options {
	return cache.Options{Resource: r, Client: c, Log: o.Log}
}

func (o Options) controller() controller.Options { return controller.Options{Log: o.Log} }

// Cluster is a simulation that can be run once.
type Cluster struct {
	client      *kube.Client
	o           Options
	controllers []*controller.Controller
	gc          *collectors
}

// New returns the simulation of a cluster on the server of c. It sends nothing before Run.
func New(c *kube.Client, o Options) *Cluster {
	o = o.withDefaults()
	return &Cluster{
		client:      c,
		o:           o,
		controllers: []*controller.Controller{newDeployments(c, o), newReplicaSets(c, o), newKubelet(c, o)},
		gc:          newCollectors(c, o),
	}
}

// Run simulates until ctx ends, and waits for everything that it has started. The error is nil after a clean stop.
func (s *Cluster) Run(ctx context.Context) error {
	if err := createNodes(ctx, s.client, s.o); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it had begun, which is a clean stop
		}
		return fmt.Errorf("simulate a cluster: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	parts := []func(context.Context) error{s.gc.run}
	for _, c := range s.controllers {
		parts = append(parts, c.Run)
	}
	errs := make([]error, len(parts))
	var running sync.WaitGroup
	for i, run := range parts {
		running.Go(func() {
			defer stop() // a cluster without one of its parts is none
			errs[i] = run(ctx)
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("simulate a cluster: %w", err)
	}
	return nil
}

// Ready returns nil when all controllers follow the server, and else what is missing.
func (s *Cluster) Ready() error {
	var errs []error
	for _, c := range s.controllers {
		errs = append(errs, c.Ready())
	}
	return errors.Join(append(errs, s.gc.ready())...)
}

// PauseGC stops the garbage collector, or lets it go on within a second: for tests of controllers that must not rely
// on its speed.
func (s *Cluster) PauseGC(pause bool) { s.gc.paused.Store(pause) }

// lookAgain is the wait for a mirror to catch up. What it waits for comes as an event, which brings an earlier look.
const lookAgain = time.Second

// patient makes a reconcile whose writes met something else than its mirrors showed look again soon. That is no
// failure: what has changed is on its way.
func patient(f controller.Func) controller.Func {
	return func(ctx context.Context, k kube.Key) (controller.Outcome, error) {
		outcome, err := f(ctx, k)
		if err != nil && oldNews(err) {
			return controller.After(lookAgain), nil
		}
		return outcome, err
	}
}

// oldNews says that all of err is that objects are gone, or are others or in another state than the writer thought.
func oldNews(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !oldNews(e) })
	}
	return kube.IsNotFound(err) || kube.IsConflict(err)
}

// alive asks the server whether an owner is still there and not being deleted. Mirrors of two kinds are not in step:
// one can show that a child is gone before the other shows that its owner went first, and then the child must not come
// back.
func alive(ctx context.Context, c *kube.Client, r kube.Resource, owner *kube.Meta) (bool, error) {
	var now object
	err := c.Get(ctx, r, owner.Key(), &now)
	if kube.IsNotFound(err) {
		return false, nil
	}
	return err == nil && now.UID == owner.UID && !now.Deleting(), err
}
