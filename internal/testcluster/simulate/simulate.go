// Package simulate simulates a cluster around the embedded API server: the workloads (Deployments, ReplicaSets,
// ReplicationControllers, StatefulSets, DaemonSets, Jobs and CronJobs) and their pods, nodes on which pods become
// Running and Ready, the endpoints of Services, the binding of PersistentVolumeClaims, the status of
// PodDisruptionBudgets and HorizontalPodAutoscalers, the garbage collector, and the ServiceAccount and root CA of each
// namespace, for skiff-dev and the demo. To kubectl all looks as on a real cluster: `rollout status`, `rollout undo`,
// `wait`, `describe` and `get pods -w`. Never run a simulation against a real cluster: the parts would fight with the
// real controllers.
//
// The pods run no containers. Failures can be simulated: an image with the tag "broken" (BrokenTag) stays in
// ImagePullBackOff, the annotation simulate.skiff.dev/restarts: "2" (RestartsAnnotation) has the containers restart
// twice, and simulate.skiff.dev/exit-code: "1" (ExitAnnotation) ends the containers. The scheduler obeys cordons, node
// selectors, required node affinity, taints and requests, but no affinity between pods and no claims. Claims are bound
// to existing volumes, or with a class of Provisioner to new volumes. Package apiserver allocates cluster IPs and node
// ports, empties deleted namespaces, counts quotas and serves CRDs.
//
// Each part is a controller on skiff's own runtime, with the goroutines of package controller. The parts communicate
// only through the server. Run owns all parts. The package is beside the event path, in the place of an operator.
package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// manager is the field manager of the simulation's writes, which differs from skiff's own.
const manager = "skiff-simulate"

// Part is a part of the simulation that can be switched off.
type Part string

// The parts.
const (
	GC                     Part = "gc"              // the garbage collector
	ServiceAccounts        Part = "serviceaccounts" // the ServiceAccount "default" and the root CA of each namespace
	Deployments            Part = "deployments"     // with their ReplicaSets
	ReplicationControllers Part = "replicationcontrollers"
	StatefulSets           Part = "statefulsets"
	DaemonSets             Part = "daemonsets"
	Jobs                   Part = "jobs"
	CronJobs               Part = "cronjobs"
	Endpoints              Part = "endpoints" // and EndpointSlices
	Volumes                Part = "volumes"   // binding of claims, and protection of claims and volumes in use
	Budgets                Part = "budgets"   // the status of PodDisruptionBudgets
	Scalers                Part = "scalers"   // the status of HorizontalPodAutoscalers
	Policies               Part = "policies"  // type checks of admission policies, with Options.TypeCheck
	Events                 Part = "events"    // of the other parts
	Leases                 Part = "leases"    // of the nodes, and the heartbeats in their status
	Pods                   Part = "pods"      // nodes, the scheduler and the kubelet
)

// Parts returns all parts.
func Parts() []Part {
	return []Part{GC, ServiceAccounts, Deployments, ReplicationControllers, StatefulSets, DaemonSets, Jobs, CronJobs,
		Endpoints, Volumes, Budgets, Scalers, Policies, Pods, Leases, Events}
}

// Options of a simulation. The zero value is a small, quick cluster with all parts.
type Options struct {
	// Nodes are the names of the nodes; empty means node-1 to node-3, so that -o wide shows pods being spread.
	Nodes []string
	// PodStartDelay is how long a pod stays in ContainerCreating; 0 means a second, long enough to be seen.
	PodStartDelay time.Duration
	// PodStopDelay is how long a pod stays Terminating, at most the grace period; 0 means a second.
	PodStopDelay time.Duration
	// Version is the version of the kubelets, such as v1.36.0; "" means v0.0.0-simulated.
	Version string
	// RootCA is the PEM certificate in the ConfigMap kube-root-ca.crt of each namespace.
	RootCA string
	// TypeCheck returns the expressionWarnings for the spec of a ValidatingAdmissionPolicy. nil: there are none.
	TypeCheck func(spec []byte) []any
	// Copied tells of the cluster that the existing objects come from.
	Copied Copied
	// Without are the parts that are switched off.
	Without []Part
	// Collected are the resources that the garbage collector looks at: no object may have an owner of another
	// resource. nil: all resources of the server, which are fifty watches.
	Collected []kube.Resource
	// Log gets a line for each reconcile, which are many: give it a higher verbosity than skiff's own.
	Log logr.Logger
}

// Copied is the knowledge of a cluster of which the simulated cluster is a copy. Both are sets of uids.
type Copied struct {
	Pods   map[string]bool // run there: the status stays until the pod is deleted
	Owners map[string]bool // of copied objects, but not copied: the garbage collector takes such owners for existing
}

func (o Options) withDefaults() Options {
	if len(o.Nodes) == 0 {
		o.Nodes = []string{"node-1", "node-2", "node-3"}
	}
	o.PodStartDelay, o.PodStopDelay = cmp.Or(o.PodStartDelay, time.Second), cmp.Or(o.PodStopDelay, time.Second)
	return o
}

func (o Options) has(p Part) bool { return !slices.Contains(o.Without, p) }

// runner is a part of the simulation that runs: a controller, or the garbage collector.
type runner interface {
	Run(ctx context.Context) error
	Ready() error
}

// Cluster is a simulation that can be run once.
type Cluster struct {
	*shared
	parts []runner
	gc    *collectors
}

// New returns the simulation of a cluster on the server of c. Nothing is sent before Run.
func New(c *kube.Client, o Options) *Cluster {
	s := &Cluster{shared: &shared{Options: o.withDefaults(), client: c, mirrors: cache.NewMirrors()}}
	if o.has(Events) {
		s.recorders = map[string]*events.Recorder{}
	}
	s.gc = newCollectors(s.shared)
	add := func(p Part, r func(*shared) runner) {
		if o.has(p) {
			s.parts = append(s.parts, r(s.shared))
		}
	}
	add(ServiceAccounts, newServiceAccounts)
	add(Deployments, newDeployments)
	for _, k := range workloadKinds {
		add(k.part, k.controller)
	}
	add(CronJobs, newCronJobs)
	add(Endpoints, newEndpoints)
	add(Volumes, newClaims)
	add(Volumes, newVolumes)
	add(Volumes, newAttributesClasses)
	add(Budgets, newBudgets)
	add(Scalers, newScalers)
	if o.TypeCheck != nil {
		add(Policies, newPolicies)
	}
	add(Pods, newKubelet)
	add(Leases, newHeartbeats)
	add(GC, func(*shared) runner { return s.gc })
	return s
}

// Run simulates until ctx is done, and waits for all parts. The error is nil after a clean stop.
func (s *Cluster) Run(ctx context.Context) error {
	if s.has(Pods) {
		if err := s.createNodes(ctx); err != nil {
			if ctx.Err() != nil {
				return nil // stopped during the start, which is a clean stop
			}
			return fmt.Errorf("simulate a cluster: %w", err)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var parts []func(context.Context) error
	for _, p := range s.parts {
		parts = append(parts, p.Run)
	}
	for _, r := range s.recorders {
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
			defer stop() // if a part fails, all stop
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
	for _, p := range s.parts {
		errs = append(errs, p.Ready())
	}
	return errors.Join(errs...)
}

// Controllers returns the controllers that simulate the cluster now.
func (s *Cluster) Controllers() (out []*controller.Controller) {
	for _, p := range s.parts {
		if c, ok := p.(*controller.Controller); ok {
			out = append(out, c)
		}
	}
	s.gc.mu.Lock()
	defer s.gc.mu.Unlock()
	if s.gc.current != nil {
		out = append(out, s.gc.current)
	}
	return out
}

// PauseGC pauses the garbage collector, or resumes within a second: for tests of controllers that must not depend on
// the collector's speed.
func (s *Cluster) PauseGC(pause bool) { s.gc.paused.Store(pause) }
