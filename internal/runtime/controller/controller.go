// Package controller decides when a reconcile function runs, and what follows from its answer.
//
// A Controller has sources (For, Owns, Watches), which turn changes of mirrors into keys, a queue, and
// workers, which call the function with one key at a time: with a deadline, with panics contained, and with
// one log line for each run. Its answer decides what comes next: done, again after a while, an error with
// backoff, a terminal error, an error at the longest interval. What a reconcile does is not its business, nor are
// leader election and probes (package manager).
//
// Sources run on the goroutines of the mirrors' Reflectors and only put keys into the queue; each worker has
// its own goroutine. Run owns and waits for all of them. On the way of an event it is a source
// (Watches, Owns, For), and then (*Controller).work, reconcile and call.
package controller

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
	"skiff/internal/runtime/queue"
)

const (
	// DefaultWorkers make a few hundred writes a second on a server that answers in ten milliseconds, and do not
	// overload a small one.
	DefaultWorkers = 4
	// DefaultReconcileTimeout leaves room for two requests that take all of their 30 s.
	DefaultReconcileTimeout = time.Minute
	// DrainTimeout is for how long runs under way may go on at a shutdown. It fits, with abortGrace, into the 30 s
	// that Kubernetes gives a pod to end.
	DrainTimeout = 25 * time.Second

	// abortGrace is how long a run may take to return once its context was cancelled.
	abortGrace = 2 * time.Second
	// staleAfter is how long requests of a synced mirror may fail before the controller is not ready any more: longer
	// than a server takes to restart, so that an upgrade of the control plane does not show.
	staleAfter = 2 * time.Minute
	// reportEvery is how often a controller checks whether what it waits for has changed, and logs it.
	reportEvery = 5 * time.Second
)

// Func makes the world fit what is declared under key. It is level-triggered: it gets a name, reads the
// latest state, and must come to the same end for any cause. It must return soon after ctx ends.
// Two calls for one key never overlap.
type Func func(ctx context.Context, key kube.Key) (Outcome, error)

// Outcome says what comes next after a run without an error; an error always wins over it.
type Outcome struct {
	after time.Duration
	cause string
	gone  bool
}

// Done waits for the next change. It is the zero value.
var Done Outcome

// Gone is Done for a key that has no object, or one that the controller does not work on: all Memories forget the key.
var Gone = Outcome{gone: true}

// After asks for another run after d, or at the next change if that is earlier. A d that is not positive
// means at once, so that a time already past is never taken for Done.
func After(d time.Duration) Outcome { return Outcome{after: max(d, 1), cause: recheckCause} }

// Wait is After for waits where 0 means that there is nothing to wait for: then it is Done.
func Wait(d time.Duration) Outcome {
	if d == 0 {
		return Done
	}
	return After(d)
}

// Behind asks for another run behind the keys that wait for a worker now, or at once if there are none. A Func that
// has done what matters asks for it to let others have that first: see Controller.Backlog.
func Behind(cause string) Outcome { return Outcome{cause: cause} }

// Because names the cause of the run that o asks for: "debounce over", "waits for deployment/web".
func (o Outcome) Because(cause string) Outcome {
	if o != Done && cause != "" {
		o.cause = cause
	}
	return o
}

// Options configure a Controller. Zero values mean the defaults.
type Options struct {
	Workers          int           // runs of one namespace at a time, and one more is of others; 0 = DefaultWorkers
	ReconcileTimeout time.Duration // of one run; 0 = DefaultReconcileTimeout
	Elected          bool          // Run only mirrors, the work is done in calls of Lead
	InFlight         *InFlight     // shared by all controllers of a process; nil: no bound
	History          *history.Log  // of the process; nil: runs are not remembered
	Advice           Advice
	Log              logr.Logger
}

// Controller runs a Func for the keys that its sources name.
type Controller struct {
	name     string
	f        Func
	o        Options
	log      logr.Logger
	queue    *queue.Queue
	mirrors  []mirror // of the sources, each once
	own      mirror   // of the objects of For; nil: the keys are no objects
	sources  []func() // disconnect the sources
	attached attached // what came after New
	unseen   unseenFunc
	shed     shedFunc
	paces    paces
	keys     func(namespace string) []kube.Key // of the objects of For
	kind     string                            // of the objects of For
	object   func(kube.Key) kube.Object        // the same; nil: it is not held
	size     func(kube.Key) int64              // of the object under a key; nil: not known
	shows    Shows
	parts    parts
	streaks  streaks
	reports  reports
	started  atomic.Bool
	working  chan struct{} // closed when there is something to work on
	lead     chan struct{} // has an element while Lead runs: it runs once at a time, and Run waits for it
	turns    atomic.Uint64 // keys that workers have taken or put away
	manned   atomic.Int32  // workers that run
	stats    counters
	counts   []*metrics.Counts // of the operator; do not change after Run has begun

	memories []Memory // do not change after Run has begun
}

// noKind stands for the kind of objects where a key is no object.
const noKind = "key"

// New returns a controller. It connects the sources to its queue and starts nothing. Run runs the stores of the
// sources, which other controllers may use at the same time.
func New(name string, f Func, o Options, sources ...Source) *Controller {
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	if o.ReconcileTimeout <= 0 {
		o.ReconcileTimeout = DefaultReconcileTimeout
	}
	c := &Controller{
		name:  name,
		kind:  noKind,
		f:     f,
		o:     o,
		log:   o.Log.WithValues("controller", name),
		queue: queue.New(o.Workers),

		working: make(chan struct{}),
		lead:    make(chan struct{}, 1),
	}
	c.stats.waited, c.stats.worked = metrics.NewHistogram(queueBounds), metrics.NewHistogram(queueBounds)
	c.stats.took = metrics.NewHistogram(runBounds)
	seen := map[mirror]bool{}
	for _, s := range sources {
		c.sources = append(c.sources, s.connect(c))
		if s.keys != nil {
			c.kind, c.keys, c.object, c.own = s.mirror.Resource().Kind, s.keys, s.object, s.mirror
		}
		if s.unseen != nil {
			c.unseen, c.shed = s.unseen, s.shed
		}
		if s.size != nil {
			c.size = s.size
		}
		if s.mirror != nil && !seen[s.mirror] {
			seen[s.mirror] = true
			c.mirrors = append(c.mirrors, s.mirror)
			c.sources = append(c.sources, s.mirror.OnReturn(c.queueReturned))
		}
	}
	c.memories = []Memory{&c.streaks.Map, &c.reports}
	c.parts.follow(c.mirrors)
	return c
}

// Elected reports whether the controller works only while it leads.
func (c *Controller) Elected() bool { return c.o.Elected }

// Memory holds values of a Func by key, such as a keyed.Map. Both methods may be called from any goroutine.
type Memory interface {
	// Forget drops a key, after a run of the key that ended in Gone.
	Forget(k kube.Key)
	// Leave drops a namespace that is no longer selected, and does so again after each run in the namespace that was
	// under way.
	Leave(namespace string)
}

// Remembers adds Memories for the controller to empty. It is called before Run.
func (c *Controller) Remembers(memories ...Memory) { c.memories = append(c.memories, memories...) }

// Backlog returns how many keys wait for a worker.
func (c *Controller) Backlog() int { return c.queue.Stats().Due }

// Name returns the controller's name, as in logs and checks.
func (c *Controller) Name() string { return c.name }

// Kind returns the kind of the objects that the controller works for.
func (c *Controller) Kind() string { return c.kind }

// Run mirrors what the sources need, works on each namespace as soon as all of it is there, and does so until ctx
// ends. Then it takes no further key, lets the runs under way finish on mirrors that still follow the server, and
// stops those last. What it waits for is logged and in Ready; a resource that the server does not have yet, or a
// missing right, stops only the namespaces that lack it.
//
// The error is nil after a clean stop. Otherwise runs did not return in time: it names their keys.
func (c *Controller) Run(ctx context.Context) error {
	if !c.started.CompareAndSwap(false, true) {
		return fmt.Errorf("run controller %s: it has been started before", c.name)
	}
	mirroring, stopMirrors := context.WithCancel(context.WithoutCancel(ctx))
	defer stopMirrors()
	var running sync.WaitGroup
	for _, m := range c.mirrors {
		running.Go(func() { m.Run(mirroring) })
	}
	endAttached := c.attached.open(mirroring)
	err := c.serve(ctx)
	for _, disconnect := range c.sources {
		disconnect() // others may go on with the mirrors
	}
	endAttached()
	stopMirrors()
	running.Wait()
	if err != nil {
		return fmt.Errorf("controller %s: %w", c.name, err)
	}
	return nil
}

// serve runs the workers from when there is something to work on until ctx ends, and drains.
func (c *Controller) serve(ctx context.Context) error {
	defer c.queue.ShutDown()
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	work := sync.OnceFunc(func() { close(c.working) })
	watch.Go(func() { c.contained(watching, "watch namespaces", func() { c.watchParts(watching, work) }) })
	if !c.o.Elected {
		return c.Lead(ctx, context.WithoutCancel(ctx))
	}
	<-ctx.Done()
	c.lead <- struct{}{} // until the drain of Lead is over
	return nil
}

// Lead runs the workers from when there is something to work on until ctx ends, and drains: the runs under way may
// finish. When leaseCtx ends before, the runs are cancelled, and their keys wait in the queue for the next
// call. It returns when no run is under way any more; the error names those that did not return in time.
func (c *Controller) Lead(ctx, leaseCtx context.Context) error {
	select {
	case c.lead <- struct{}{}:
	case <-ctx.Done(): // Run has ended already
		return nil
	}
	defer func() { <-c.lead }()
	feed, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(leaseCtx, stop)()
	select {
	case <-c.working:
	case <-feed.Done():
		return nil
	}
	c.log.Info("started", "workers", c.o.Workers)
	runs, abort := context.WithCancel(leaseCtx)
	defer abort()
	done := make(chan struct{})
	var workers sync.WaitGroup
	for range c.o.Workers + 1 { // the queue keeps one free for another namespace
		workers.Go(func() { c.contained(feed, "worker", func() { c.work(feed, runs) }) })
	}
	go func() {
		workers.Wait()
		close(done)
	}()
	select {
	case <-done:
		if ctx.Err() == nil {
			c.log.Info("paused", "reason", context.Cause(leaseCtx).Error())
		}
		return nil
	case <-ctx.Done():
		c.queue.ShutDown()
		return c.drain(done, abort)
	}
}

// drain waits for the workers; after the drain timeout it cancels their runs.
func (c *Controller) drain(done <-chan struct{}, abort context.CancelFunc) error {
	timer := time.NewTimer(DrainTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
	}
	c.log.Info("cancelling reconciles that are still running", "keys", c.queue.Processing(), "after", DrainTimeout)
	abort()
	timer.Reset(abortGrace)
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("drain: still running %s after the end of its context: %v", c.name, c.queue.Processing())
	}
}
