// Package controller decides when a reconcile function runs, and what follows from its answer.
//
// A Controller has sources (For, Owns, Watches), which turn changes of mirrors into keys, a queue, and
// workers, which call the function with one key at a time: with a deadline, with panics contained, and with
// one log line for each run. Its answer decides what comes next: done, again after a while, an error with
// backoff, a terminal error, an error at the longest interval. A Controller does not know the work of a reconcile, nor
// leader election and probes (package manager).
//
// Sources run on the goroutines of the mirrors' Reflectors and only put keys into the queue; each worker has
// its own goroutine. Run owns and waits for all of them. On the way of an event it is a source
// (Watches, Owns, For), and then (*Controller).work, reconcile and call.
package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
	"skiff/internal/runtime/process"
	"skiff/internal/runtime/queue"
)

const (
	// DefaultWorkers make a few hundred writes a second on a server with answers in ten milliseconds, and do not
	// overload a small server.
	DefaultWorkers = 4
	// DefaultReconcileTimeout leaves room for two requests that take all of their 30 s.
	DefaultReconcileTimeout = time.Minute
	// DrainTimeout is how long runs under way may go on at a shutdown. Together with abortGrace the time fits into the
	// 30 s in which Kubernetes expects a pod to end.
	DrainTimeout = 25 * time.Second

	// abortGrace is how long a run may take to return once its context was cancelled.
	abortGrace = 2 * time.Second
	// staleAfter is how long requests of a synced mirror may fail before the controller is not ready any more: longer
	// than a server takes to restart, so that an upgrade of the control plane does not show.
	staleAfter = 2 * time.Minute
	// reportEvery is how often a controller checks the reasons why a namespace waits, and logs a change.
	reportEvery = 5 * time.Second
)

// Func makes the world fit the declaration under key. A Func is level-triggered: a call has a name, reads the latest
// state, must come to the same end for any cause, and must return soon after ctx ends. Two calls for one key never
// overlap.
type Func func(ctx context.Context, key kube.Key) (Outcome, error)

// Outcome says when a key runs again after a run without an error; an error always wins.
type Outcome struct {
	after time.Duration
	cause string
	gone  bool

	unlisted bool
}

// Done waits for the next change. It is the zero value.
var Done Outcome

// Gone is Done for a key without an object that the controller works on: all Memories forget the key.
var Gone = Outcome{gone: true}

// Unlisted is Done for a run that could not read a mirror attached in that run: the mirror has the key run again once
// there is a list.
var Unlisted = Outcome{unlisted: true}

// After asks for another run after d, or at the next change if earlier. With d <= 0 the run follows at once, so that a
// time already past is never taken for Done.
func After(d time.Duration) Outcome { return Outcome{after: max(d, 1), cause: recheckCause} }

// Wait is After, and Done for 0, for callers where 0 means no wait.
func Wait(d time.Duration) Outcome {
	if d == 0 {
		return Done
	}
	return After(d)
}

// Behind asks for another run behind the keys that wait for a worker now, or at once if no key waits. A Func returns
// Behind once the important work is done, so that other keys get their important work first: see Controller.Backlog.
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
	Workers          int           // runs of one namespace at a time, beside one of another; 0 = DefaultWorkers
	ReconcileTimeout time.Duration // of one run; 0 = DefaultReconcileTimeout
	Elected          bool          // Run only mirrors, the work is done in calls of Lead
	InFlight         *InFlight     // shared by all controllers of a process; nil: no bound
	History          *history.Log  // of the process; nil: runs are not remembered
	Advice           Advice
	Log              logr.Logger
}

// Controller runs a Func for the keys of its sources.
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
	keys     func(namespace string) []kube.Key   // of the objects of For
	kind     string                              // of the objects of For
	object   func(kube.Key) (kube.Object, error) // the same; nil: there is none, or the error says why not
	size     func(kube.Key) int64                // of the object under a key; nil: not known
	shows    Shows
	parts    parts
	streaks  streaks
	reports  reports
	started  atomic.Bool
	working  chan struct{} // closed when there is something to work on
	lead     chan struct{} // has an element while Lead runs: once at a time, and Run waits
	turns    atomic.Uint64 // keys that workers have taken or put away
	manned   atomic.Int32  // workers that run
	stats    counters
	counts   []*metrics.Counts // of the operator; do not change after Run has begun

	memories []Memory // do not change after Run has begun
}

// noKind stands for the kind of objects where a key is no object.
const noKind = "key"

// New returns a controller, connects the sources to its queue and starts nothing. Run runs the stores of the sources,
// which other controllers may use at the same time.
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
	// Leave drops a namespace which is no longer selected, again after each run that was under way in the namespace.
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
// stops those last. The reasons to wait are logged and in Ready; a resource that the server does not have yet, or a
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
// finish. When leaseCtx ends before, the runs are cancelled, and their keys wait in the queue for the next call. Lead
// returns when no run is under way any more; the error names the keys whose runs did not return in time.
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

// work hands keys from the queue to reconcile until feed ends. Runs get the context runs, which lives on.
func (c *Controller) work(feed, runs context.Context) {
	c.manned.Add(1)
	defer c.manned.Add(-1)
	for {
		item, ok := c.queue.Get(feed)
		if !ok {
			return
		}
		c.turns.Add(1)
		if runs.Err() != nil { // taken in the moment in which leadership was lost
			c.queue.Add(item.Key, item.Cause())
			c.queue.Done(item.Key)
			return
		}
		switch doing, why := c.admit(item); doing {
		case working:
			c.reconcile(runs, item)
			if c.parts.left(item.Key.Namespace) { // meanwhile, and the run has remembered something
				c.leave(item.Key.Namespace)
			}
		case reporting:
			c.reportUnseen(runs, item, why)
		case muted:
			_ = c.isThere(item.Key) // else it is forgotten
			c.queue.Done(item.Key)
		case left:
			c.streaks.Forget(item.Key)
			fallthrough
		default:
			c.queue.Done(item.Key)
		}
		c.turns.Add(1)
	}
}

// itemKey is where the context of a run has its item.
type itemKey struct{}

// CauseOf returns the cause of the run of ctx, and how many runs of the key have failed before, in a row.
func CauseOf(ctx context.Context) (cause string, failures int) {
	item, ok := ctx.Value(itemKey{}).(*queue.Item)
	if !ok {
		return "", 0
	}
	before, _ := ctx.Value(streakKey{}).(streak)
	return item.Cause(), before.failures
}

// kindKey is where the context of a run has the kind of the objects of its controller.
type kindKey struct{}

// RunOf returns the kind and the key of the object that the run of ctx is for; false in the context of no run.
func RunOf(ctx context.Context) (kind string, key kube.Key, ok bool) {
	item, ok := ctx.Value(itemKey{}).(*queue.Item)
	if !ok {
		return "", kube.Key{}, false
	}
	kind, _ = ctx.Value(kindKey{}).(string)
	return kind, item.Key, true
}

// RunAll runs the controller for all objects of the source made by For, in one namespace, or in all with "".
func (c *Controller) RunAll(namespace, cause string) {
	for _, k := range c.keys(namespace) {
		c.queue.AddLow(k, cause)
	}
}

// reconcile runs the Func for one key, decides when the key runs next, and logs the run in one line: a write or a
// failure at level 0, a run without either at level 1.
func (c *Controller) reconcile(ctx context.Context, item queue.Item) {
	defer c.queue.Done(item.Key)
	weight := c.weight(item.Key)
	if wait := c.o.InFlight.Begin(item.Key.Namespace, weight); wait > 0 {
		c.queue.Return(item, wait)
		return
	}
	defer c.o.InFlight.End(item.Key.Namespace, weight)
	log := c.logOf(item)
	start := time.Now()
	c.stats.waited.Observe(item.Waited)
	c.stats.causes.count(item)
	c.streaks.begin(item.Key)
	counting, writes := kube.CountWrites(ctx, c.keptWrites())
	outcome, err := c.call(counting, log, item, c.f)
	if err == nil && writes.Sent() > 0 {
		c.requestsWork(func(namespace string) bool { return namespace == item.Key.Namespace })
	}
	if len(c.mirrors) > 0 && (err != nil || writes.Sent() > 0) {
		c.mirrors[0].Answered(err)
	}
	before := c.streaks.Get(item.Key)
	next := c.requeue(ctx, item, outcome, err)
	took := time.Since(start)
	c.stats.took.Observe(took)
	c.stats.worked.Observe(took)
	c.remember(item, start, took, writes, next, err)
	if err == nil && writes.Sent() == 0 {
		if log = log.V(1); !log.Enabled() { // most runs find all as it should be
			return
		}
	}
	log = log.WithValues("duration_ms", float64(took.Microseconds())/1000, "outcome", next)
	var p *process.Panic
	switch {
	case err == nil && writes.Sent() == 0:
		log.Info("reconciled")
	case err == nil:
		log.Info("reconciled", "writes", writes.Sent())
	case ctx.Err() != nil:
		log.Info("reconcile interrupted", "reason", context.Cause(ctx).Error(), "error", err.Error())
	case notShed(err) == nil:
		log.V(1).Info("not worked on", "reason", err.Error())
	case errors.As(err, &p):
		log.Error(err, "reconcile panicked", "failures", c.streaks.Get(item.Key).failures, "stack", string(p.Stack))
	default:
		s := c.streaks.Get(item.Key)
		known := writes.Sent() == 0 && s.text == before.text && start.Sub(before.last) < SlowDelay
		c.logFailure(log, err, s, known)
	}
}

// logFailure logs a run that failed, as loud as that deserves. A failure of the whole process, a server that does
// not answer or refuses the credential, has its own line, so that a thousand objects do not say it, too. known says
// that it has failed in the same way before the next try was due, and wrote nothing: the write of its status wakes an
// object that is refused.
func (c *Controller) logFailure(log logr.Logger, err error, s streak, known bool) {
	const message = "reconcile failed"
	switch {
	case s.class == terminal && known,
		s.class == passing && (kube.IsOutage(err) || s.failures <= newsAfter):
		log.V(1).Info(message, "failures", s.failures, "error", err)
	case s.class == passing, s.class == forbidden:
		log.Info(message, kube.Warn("failures", s.failures, "error", err)...)
	default:
		log.Error(err, message, "failures", s.failures)
	}
}

// requeue queues the run that follows from a run, if any, and returns the decision as text.
func (c *Controller) requeue(ctx context.Context, item queue.Item, outcome Outcome, err error) string {
	k := item.Key
	switch {
	case err == nil && outcome.gone:
		c.stats.done.Add(1)
		c.succeeded(k) // first: it asks a memory whether a change was passed over
		c.forget(k)
		return "done"
	case err == nil && (outcome == Done || outcome.unlisted):
		c.stats.done.Add(1)
		c.succeeded(k)
		return "done"
	case err == nil:
		c.stats.again.Add(1)
		c.succeeded(k)
		c.queue.AddAfter(k, outcome.after, outcome.cause)
		if outcome.after == 0 && !c.queue.ShuttingDown() {
			return "requeued after pending keys"
		}
		return c.again("again in ", outcome.after)
	case ctx.Err() != nil:
		c.queue.Add(k, cutCause) // for when this process leads again; not heard at a shutdown
		return stopped
	case cache.Unheld(err) != nil:
		rest := c.besideShed(ctx, item, err)
		if rest == nil {
			return c.requeueShed(ctx, item, cache.Unheld(err))
		}
		err = rest
	}
	c.stats.errors.Add(1)
	before := c.streaks.Get(k)
	n := next(err, before, time.Now())
	d := c.retry(k, n, err)
	switch {
	case n.class == terminal:
		c.stats.terminal.Add(1)
		return c.again("refused; next try when the object changes or in ", d)
	case n.Stalled:
		return c.again(
			fmt.Sprintf("%d failures in a row; next try when the object changes or in ", before.failures+1), d)
	}
	if kube.UnknownOutcome(err) {
		return c.again("looking, then trying again in ", d)
	}
	return c.again("error, again in ", d)
}

// requeueShed is requeue for a run that has found that an object is not held, and nothing else. Nothing was done,
// nothing is lost, and nothing is to be tried again before it is held: that is an event.
func (c *Controller) requeueShed(ctx context.Context, item queue.Item, shed *cache.NotServed) string {
	wait, ok := c.turn(item, shed)
	if wait > 0 {
		c.queue.AddAfter(item.Key, wait, turnCause)
		return c.again("not worked on ("+shed.Reason+"); its status says so in ", wait)
	}
	if ok {
		err := c.reportShed(ctx, item, shed, shed.Note())
		if err != nil && ctx.Err() != nil {
			c.queue.Add(item.Key, cutCause)
			return stopped
		}
		if err != nil {
			c.stats.errors.Add(1)
			return c.again("not worked on ("+shed.Reason+"), and its status cannot say so: "+kube.Explain(err)+
				"; again in ", c.retry(item.Key, next(err, c.streaks.Get(item.Key), time.Now()), err))
		}
	}
	c.streaks.Forget(item.Key)
	c.queue.AddAfter(item.Key, SlowDelay, recheckCause) // what it depends on may be in another namespace
	return c.again("not worked on ("+shed.Reason+"); looks again in ", SlowDelay)
}

// turn returns how long the status of an object that is not held has to wait to say so; false: it does not say so.
func (c *Controller) turn(item queue.Item, shed *cache.NotServed) (wait time.Duration, ok bool) {
	if c.shed == nil || slices.Contains(item.Causes, turnCause) {
		return 0, c.shed != nil
	}
	return c.paces.claim(item.Key.Namespace, time.Now(), paceOf(shed.Reason))
}

// reportShed says in the status of an object that it is not worked on.
func (c *Controller) reportShed(ctx context.Context, item queue.Item, shed *cache.NotServed, message string) error {
	c.Report(item.Key, &shed.Problem)
	counting, writes := kube.CountWrites(ctx, 0)
	_, err := c.call(counting, c.logOf(item), item, func(ctx context.Context, key kube.Key) (Outcome, error) {
		return Done, c.shed(ctx, key, shed.Reason, message)
	})
	if shed.Reason == cache.TooLarge && writes.Sent() > 0 { // for OverBudget, the namespace has a line
		c.logOf(item).Info("not worked on", kube.Warn("reason", shed.Reason, "message", message)...)
	}
	return err
}

// besideShed returns what a run has failed for, but for objects that are not held; nil: nothing else. Where there is
// something, the status says that, too, if the server has refused it, and the run is tried again for it.
func (c *Controller) besideShed(ctx context.Context, item queue.Item, err error) error {
	rest := notShed(err)
	if rest == nil || c.shed == nil {
		return rest
	}
	shed := cache.Unheld(err)
	message := shed.Note()
	if kube.IsRefused(rest) {
		message += "; " + kube.Explain(rest)
	}
	if wait, ok := c.turn(item, shed); ok && wait == 0 {
		return errors.Join(rest, c.reportShed(ctx, item, shed, message))
	}
	return rest // the status says it at a later try
}

// queueReturned queues the objects of a namespace of which a mirror holds what it did not.
func (c *Controller) queueReturned(namespace string) {
	if c.keys == nil {
		return
	}
	c.paces.leave(namespace)
	for _, k := range c.keys(namespace) {
		c.queue.AddLow(k, returnedCause)
	}
}

// stopped is the outcome of a run after which the controller stops.
const stopped = "stopped"

// again says when a run follows, after a text that ends in "in " or the like.
func (c *Controller) again(text string, d time.Duration) string {
	if c.queue.ShuttingDown() {
		return stopped
	}
	return text + rounded(d)
}

func rounded(d time.Duration) string {
	if d >= time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// call runs f with a deadline and makes an error of a panic.
func (c *Controller) call(ctx context.Context, log logr.Logger, item queue.Item, f Func) (outcome Outcome, err error) {
	run, cancel := context.WithTimeout(ctx, c.o.ReconcileTimeout)
	defer cancel()
	run = context.WithValue(logr.NewContext(run, log), itemKey{}, &item)
	run = context.WithValue(run, kindKey{}, c.kind)
	if before := c.streaks.Get(item.Key); before.failures > 0 {
		run = context.WithValue(run, streakKey{}, before)
	}
	err = process.Contain("reconcile", func() (err error) { outcome, err = f(run, item.Key); return err })
	if err != nil && errors.As(err, new(*process.Panic)) { // new allocates
		c.stats.panics.Add(1)
		return outcome, err
	}
	if err != nil && ctx.Err() == nil && run.Err() != nil {
		c.stats.timeouts.Add(1)
		err = &timeoutError{limit: c.o.ReconcileTimeout, err: err}
	}
	return outcome, err
}

// streakKey is where the context of a run has the earlier failures of the key; absent without failures.
type streakKey struct{}

// restarts are the pauses before a part of a controller that panicked is run again.
var restarts = backoff.Backoff{Min: time.Second, Max: 30 * time.Second}

// contained runs a part of the controller until the part returns. A panic is counted and logged, and the part runs
// again after a pause, twice as long each time: no mistake of skiff's ends the process, and with the process the other
// controllers.
func (c *Controller) contained(ctx context.Context, part string, run func()) {
	for crashes := 0; !c.runOnce(part, run); crashes++ {
		timer := time.NewTimer(restarts.After(crashes))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// runOnce reports whether run returned without a panic.
func (c *Controller) runOnce(part string, run func()) bool {
	err := process.Contain(part, func() error { run(); return nil })
	if p := new(process.Panic); errors.As(err, &p) {
		c.stats.crashes.Add(1)
		c.log.Error(err, "a part of the controller panicked; it is run again", "stack", string(p.Stack))
	}
	return err == nil
}

// logOf returns the log of a run.
func (c *Controller) logOf(item queue.Item) logr.Logger {
	sink := c.log.GetSink()
	if sink == nil {
		return c.log // discards
	}
	return c.log.WithSink(&runLog{LogSink: sink, item: item})
}

// requestsWork runs the keys that failed because requests did not work.
func (c *Controller) requestsWork(in func(namespace string) bool) {
	for _, k := range c.streaks.wake(in) {
		c.queue.Add(k, worksCause)
	}
}

// retry counts a failure of a key, queues the run that follows, and returns how long the key has to wait.
func (c *Controller) retry(k kube.Key, n Next, err error) time.Duration {
	d := n.pause(c.streaks.add(k, n, err))
	c.queue.AddAfter(k, d, n.cause)
	return d
}

// succeeded clears the failures of a key. A change passed over during the run leads to a run now.
func (c *Controller) succeeded(k kube.Key) {
	if c.streaks.drop(k) {
		c.queue.Add(k, missedCause)
	}
}

// keptWrites is how many writes of a run are kept: without a history none is needed.
func (c *Controller) keptWrites() int {
	if c.o.History == nil {
		return 0
	}
	return history.MaxWrites
}

// remember adds a run to the history of the process. next says when the key runs again.
func (c *Controller) remember(item queue.Item, began time.Time, took time.Duration, writes *kube.Writes, next string,

	err error) {
	switch {
	case c.o.History == nil:
		return
	case err == nil && writes.Sent() == 0:
		c.o.History.Quiet()
		return
	}
	r := history.Run{Controller: c.name, Kind: c.kind, Namespace: item.Key.Namespace, Name: item.Key.Name,
		Causes: item.Causes, MoreCauses: item.More, Due: began.Add(-item.Waited), Began: began,
		Ended: began.Add(took), Outcome: next}
	if err != nil {
		r.Failures, r.Error = c.streaks.Get(item.Key).failures, history.ErrorOf(err, ReasonOf(err))
	}
	kept := writes.Kept()
	for _, w := range kept {
		r.Writes = append(r.Writes, history.Write{Verb: w.Verb, Object: w.What, Code: w.Code,
			Sent: w.Sent, Millis: history.Millis(w.Took), DryRun: w.DryRun})
	}
	r.MoreWrites = max(0, writes.Sent()-len(kept))
	c.o.History.Add(r)
}

// weight is how many bytes a run of a key takes at most.
func (c *Controller) weight(k kube.Key) int64 {
	if c.size == nil || c.o.InFlight == nil {
		return 0
	}
	return runFactor * c.size(k)
}

// admit says how to treat a key, and why if the object is not seen.
func (c *Controller) admit(item queue.Item) (doing, string) {
	d, why := c.parts.admit(item, c.queue)
	if d == left { // or selected just now: a mirror may be quicker than watchParts
		c.followSelection()
		return c.parts.admit(item, c.queue)
	}
	return d, why
}

// followSelection has a part for each namespace that is selected now.
func (c *Controller) followSelection() {
	for _, namespace := range c.parts.follow(c.mirrors) {
		c.leave(namespace)
	}
}

// leave forgets the keys of a namespace which is no longer selected.
func (c *Controller) leave(namespace string) {
	c.queue.Release(namespace) // admit drops the keys
	c.paces.leave(namespace)
	for _, m := range c.memories {
		m.Leave(namespace)
	}
}

// watchParts decides which parts are worked on, and logs why a part is not, until ctx ends. The first part with work
// to do leads to a call of work.
func (c *Controller) watchParts(ctx context.Context, work func()) {
	news := make(chan struct{}, 1)
	for _, m := range c.mirrors {
		defer m.OnServes(func() {
			select {
			case news <- struct{}{}:
			default: // there is news already
			}
		})()
	}
	for _, one := range c.parts.list() {
		one.closed = time.Now()
	}
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		if c.parts.selected {
			c.followSelection()
		}
		if c.updateParts() {
			work()
		}
		select {
		case <-news: // a mirror has heard of the server after a while, or no longer may
			c.requestsWork(c.parts.works)
		case <-tick.C: // not at once: one missing grant shows in one mirror after the other
			c.logParts()
		case <-ctx.Done():
			return
		}
	}
}

// updateParts turns parts to working when all mirrors serve them, and away when a mirror does not. The result says
// whether any part has work to do.
func (c *Controller) updateParts() (work bool) {
	all := c.parts.list()
	for _, one := range all {
		serves := !slices.ContainsFunc(c.mirrors, func(m mirror) bool { return !m.Serves(one.namespace) })
		was := c.parts.stage(one)
		switch {
		case serves && was.doing != working:
			c.parts.setStage(one, working, "")
			c.queue.Release(one.namespace)
			if was.doing != waiting {
				c.queueAll(one, seenCause)
			}
		case !serves && was.doing == working:
			c.parts.setStage(one, waiting, "")
		case !serves:
			c.updateUnseen(one, was)
		}
		work = work || c.parts.stage(one).doing != waiting
	}
	return work || len(all) == 0
}

// logParts logs why a part is not worked on, and each change of the reason.
func (c *Controller) logParts() {
	for _, one := range c.parts.list() {
		problem := ""
		working := c.parts.stage(one).doing == working
		if !working {
			problem = health.Texts(c.problemsOf(one), time.Now())
		}
		if problem == one.logged || problem == "" && !working || !working && time.Since(one.closed) < reportEvery {
			continue // not heard of yet, or a server that has just started and has not loaded its rules
		}
		one.logged = problem
		if problem == "" {
			c.log.Info("working again", "namespace", one.namespace)
		} else {
			c.log.Info("waiting", kube.Warn("namespace", one.namespace, "problem", problem)...)
		}
	}
}

// updateUnseen makes the status of the objects of a part Unknown, after the part could not be watched for long, and
// again when the reason changes or after a pause in which the status could not be written.
func (c *Controller) updateUnseen(one *part, was stage) {
	if c.unseen == nil || time.Since(one.closed) < unseenAfter || !c.parked(one) {
		return // a server that does not answer takes no status either
	}
	why := health.Texts(c.problemsOf(one), time.Now())
	if was.doing == reporting && why == was.why || was.doing == muted && time.Since(was.since) < muteTime {
		return
	}
	c.parts.setStage(one, reporting, why)
	c.queue.Release(one.namespace)
	c.queueAll(one, unseenCause)
}

// parked reports whether a right or a resource is missing in a part.
func (c *Controller) parked(one *part) bool {
	return slices.ContainsFunc(c.mirrors, func(m mirror) bool {
		return slices.ContainsFunc(m.State(), func(s cache.ScopeState) bool {
			return s.Parked && (s.Namespace == "" || s.Namespace == one.namespace)
		})
	})
}

// queueAll queues all objects of a part.
func (c *Controller) queueAll(one *part, cause string) {
	if c.keys == nil {
		return
	}
	for _, k := range c.keys(one.namespace) {
		c.queue.AddLow(k, cause)
	}
}

// isThere says that the object under a key of a part that is not seen can be read; of one that is gone, all is
// forgotten, as no run will say so.
func (c *Controller) isThere(k kube.Key) bool {
	object, err := c.object(k)
	if object == nil && err == nil {
		c.forget(k)
	}
	return object != nil
}

// forget drops all that is remembered of a key.
func (c *Controller) forget(k kube.Key) {
	for _, m := range c.memories {
		m.Forget(k)
	}
}

// reportUnseen runs the unseenFunc for one key. After an answer 403 no status is written in the part for a while:
// other objects would meet the same answer.
func (c *Controller) reportUnseen(ctx context.Context, item queue.Item, why string) {
	defer c.queue.Done(item.Key)
	if !c.isThere(item.Key) {
		return // no status to write
	}
	log := c.log.WithValues("key", item.Key, "cause", item.Cause())
	_, err := c.call(ctx, log, item, func(ctx context.Context, key kube.Key) (Outcome, error) {
		return Done, c.unseen(ctx, key, why)
	})
	switch {
	case err == nil:
		c.streaks.Forget(item.Key)
	case ctx.Err() != nil:
		c.queue.Add(item.Key, cutCause)
	case kube.IsForbidden(err):
		c.streaks.Forget(item.Key)
		if c.parts.mute(item.Key) {
			log.Info("cannot set the status to Unknown; it may be stale",
				kube.Warn("problem", kube.Explain(err))...)
		}
	default:
		c.stats.errors.Add(1)
		d := c.retry(item.Key, next(err, c.streaks.Get(item.Key), time.Now()), err)
		log.Error(err, "cannot set the status to Unknown", "outcome", c.again("error, again in ", d))
	}
}

// Attach adds a source while the controller runs, for a kind that its Func has just learnt of; the Func calls it. No
// part waits for its mirror: the Func has to see to it that what it reads is listed. served names the keys that are to
// run when the mirror may have become readable. detach takes the source away, and returns when its mirror has
// stopped, unless others run that, too. The end of Run does so for all sources.
func (c *Controller) Attach(s Source, served func() []kube.Key) (detach func()) {
	disconnect := s.connect(c)
	unhear := s.mirror.OnServes(func() {
		for _, k := range served() {
			c.queue.AddLow(k, listedCause)
		}
	})
	stop := func() {}
	one := &attachment{mirror: s.mirror, end: sync.OnceFunc(func() {
		disconnect()
		unhear()
		stop()
	})}
	a := &c.attached
	a.mu.Lock()
	running := a.run != nil
	if running {
		stop = a.run(s.mirror)
		a.all = append(slices.Clip(a.all), one)
	}
	a.mu.Unlock()
	if !running {
		one.end()
	}
	return func() {
		one.end()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all = slices.DeleteFunc(slices.Clone(a.all), func(o *attachment) bool { return o == one })
	}
}

// everyMirror returns the mirrors of all sources.
func (c *Controller) everyMirror() []mirror {
	c.attached.mu.Lock()
	defer c.attached.mu.Unlock()
	all := slices.Clone(c.mirrors)
	for _, one := range c.attached.all {
		all = append(all, one.mirror)
	}
	return all
}

// planCause is the cause of the runs of a plan, where Follow, Settle and Once take the place of Run: without workers,
// no key runs twice, is retried or logged.
const planCause = "plan"

// settleEvery is how often Settle looks. A list takes milliseconds.
const settleEvery = 5 * time.Millisecond

// Follow has the mirrors of the controller follow the server, until stop has returned.
func (c *Controller) Follow(ctx context.Context) (stop func()) {
	mirroring, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, m := range c.mirrors {
		running.Go(func() { m.Run(mirroring) })
	}
	endAttached := c.attached.open(mirroring)
	return func() {
		endAttached()
		cancel()
		running.Wait()
		c.queue.ShutDown()
	}
}

// Settle waits until each mirror is listed, or parked because a right or the resource is missing. The error names the
// first mirror that is neither, and the reason.
func (c *Controller) Settle(ctx context.Context) error {
	look := time.NewTicker(settleEvery)
	defer look.Stop()
	for {
		if c.parts.selected {
			c.followSelection()
		}
		err := c.unsettled()
		if err == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (c *Controller) unsettled() error {
	for _, m := range c.everyMirror() {
		for _, s := range m.State() {
			switch {
			case s.Synced || s.Parked:
			case s.Err != nil:
				return fmt.Errorf("list %s: %w", scopeName(m.Resource(), s), s.Err)
			default:
				return fmt.Errorf("list %s: no answer yet", scopeName(m.Resource(), s))
			}
		}
	}
	return nil
}

// Once calls the Func for a key. After a call that attached more mirrors and could not read one (Unlisted), Once calls
// again when the new mirrors are listed.
func (c *Controller) Once(ctx context.Context, k kube.Key) (outcome Outcome, err error) {
	for {
		before := len(c.everyMirror())
		item := queue.Item{Key: k, Causes: []string{planCause}}
		if outcome, err = c.call(ctx, c.log, item, c.f); err != nil || !outcome.unlisted ||
			len(c.everyMirror()) <= before {
			return outcome, err
		}
		if err := c.Settle(ctx); err != nil {
			return outcome, err
		}
	}
}

// Resource returns that of the objects of For; the zero value if the keys are no objects.
func (c *Controller) Resource() kube.Resource {
	if c.own == nil {
		return kube.Resource{}
	}
	return c.own.Resource()
}

// Keys returns the objects of For, in order.
func (c *Controller) Keys() []kube.Key {
	return c.keys("")
}

// Assume has the mirror of For show an object as if an event had brought it.
func (c *Controller) Assume(object kube.Raw) error { return c.own.Assume(object) }

// Serves returns nil if runs in a namespace can read all mirrors, else an error with the first unreadable resource.
func (c *Controller) Serves(namespace string) error {
	for _, m := range c.mirrors {
		of := namespace
		if m.Resource().ClusterScoped {
			of = ""
		}
		if !m.Serves(of) {
			return fmt.Errorf("%s cannot be listed", m.Resource().GroupResource())
		}
	}
	return nil
}

// Missing returns what keeps the controller from working, and where.
func (c *Controller) Missing() []health.Problem { return c.notWorking() }
