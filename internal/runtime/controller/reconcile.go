package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/process"
	"skiff/internal/runtime/queue"
)

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

// CauseOf returns why the run that ctx belongs to takes place, and how many runs of its key have failed before it.
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

// RunAll runs the controller for all objects of its source made by For, of one namespace, or of all if that is "".
func (c *Controller) RunAll(namespace, cause string) {
	for _, k := range c.keys(namespace) {
		c.queue.AddLow(k, cause)
	}
}

// reconcile runs the Func for one key, decides what follows, and logs it in one line: a run that wrote or failed at
// level 0, one that did nothing at level 1.
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
	before := c.streaks.get(item.Key)
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
		log.Error(err, "reconcile panicked", "failures", c.streaks.get(item.Key).failures, "stack", string(p.Stack))
	default:
		s := c.streaks.get(item.Key)
		known := writes.Sent() == 0 && s.text == before.text && start.Sub(before.last) < SlowDelay
		c.logFailure(log, err, s, known)
	}
}

// logFailure logs a run that failed, as loud as that deserves. What concerns the whole process, a server that does
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

// requeue has the queue do what follows from a run, and returns it as text.
func (c *Controller) requeue(ctx context.Context, item queue.Item, outcome Outcome, err error) string {
	k := item.Key
	switch {
	case err == nil && outcome.gone:
		c.stats.done.Add(1)
		c.succeeded(k) // first: it asks a memory whether a change was passed over
		for _, m := range c.memories {
			m.Forget(k)
		}
		return "done"
	case err == nil && outcome == Done:
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
	before := c.streaks.get(k)
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
	if before := c.streaks.get(item.Key); before.failures > 0 {
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

// streakKey is where the context of a run has the failures of its key before it; nothing is there if there were none.
type streakKey struct{}

// timeoutError is a run that failed after its deadline.
type timeoutError struct {
	limit time.Duration
	err   error
}

// restarts are the pauses before a part of a controller that panicked is run again.
var restarts = backoff.Backoff{Min: time.Second, Max: 30 * time.Second}

// contained runs a part of the controller until it returns. A panic in it is counted and logged, and the part is run
// again after a pause that doubles: no mistake of ours ends the process, and with it the other controllers.
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
