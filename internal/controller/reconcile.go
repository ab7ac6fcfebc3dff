package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/kube"
	"skiff/internal/queue"
)

// work hands keys from the queue to reconcile until feed ends. Runs get the context runs, which lives on.
func (c *Controller) work(feed, runs context.Context) {
	for {
		item, ok := c.queue.Get(feed)
		if !ok {
			return
		}
		c.reconcile(runs, item)
	}
}

// reconcile runs the Func for one key, decides what follows, and logs it in one line.
func (c *Controller) reconcile(ctx context.Context, item queue.Item) {
	defer c.queue.Done(item.Key)
	log := c.log.WithValues("key", item.Key, "cause", item.Cause())
	start := time.Now()
	outcome, err := c.call(ctx, log, item)
	next := c.settle(ctx, item, outcome, err)
	log = log.WithValues("duration", time.Since(start).Round(time.Microsecond), "outcome", next)
	var p *panicError
	switch {
	case err == nil:
		log.Info("reconciled")
	case ctx.Err() != nil:
		log.Info("reconcile was cut short by the shutdown", "error", err.Error())
	case errors.As(err, &p):
		log.Error(err, "reconcile panicked", "failures", item.Failures+1, "stack", string(p.stack))
	default:
		log.Error(err, "reconcile failed", "failures", item.Failures+1)
	}
}

// settle tells the queue what follows from a run, and returns it as text.
func (c *Controller) settle(ctx context.Context, item queue.Item, outcome Outcome, err error) string {
	k := item.Key
	switch class := classify(err); {
	case err == nil && outcome == Done:
		c.stats.done.Add(1)
		c.queue.Forget(k)
		return "done"
	case err == nil:
		c.stats.again.Add(1)
		c.queue.Forget(k)
		d := time.Duration(outcome)
		c.queue.AddAfter(k, d, "asked to look again")
		return "again in " + rounded(d)
	case ctx.Err() != nil: // nobody is left to try again
		return "stopped"
	case class == terminal:
		c.stats.errors.Add(1)
		c.stats.terminal.Add(1)
		d := c.queue.RetryAfter(k, SlowDelay, "look again after a terminal error")
		return "terminal error, waiting for a change, at most " + rounded(d)
	case class == failing && item.Failures+1 >= StallAfter:
		c.stats.errors.Add(1)
		d := c.queue.RetryAfter(k, SlowDelay, "retry from the slow lane")
		return "error, slow lane, again in " + rounded(d)
	default:
		c.stats.errors.Add(1)
		d := c.queue.RetryAfter(k, min(kube.RetryAfter(err), maxRetryAfter), "retry after an error")
		return "error, again in " + rounded(d)
	}
}

func rounded(d time.Duration) string {
	if d >= time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// call runs the Func with a deadline and makes an error of a panic.
func (c *Controller) call(ctx context.Context, log logr.Logger, item queue.Item) (outcome Outcome, err error) {
	run, cancel := context.WithTimeout(ctx, c.o.ReconcileTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			c.stats.panics.Add(1)
			err = &panicError{value: p, stack: debug.Stack()}
		}
	}()
	run = context.WithValue(logr.NewContext(run, log), attemptKey{}, item.Failures)
	outcome, err = c.f(run, item.Key)
	if err != nil && ctx.Err() == nil && run.Err() != nil {
		c.stats.timeouts.Add(1)
		err = &timeoutError{limit: c.o.ReconcileTimeout, err: err}
	}
	return outcome, err
}

type attemptKey struct{}

// Attempt returns the failures in a row of the key before this run, given the context of the run. From
// StallAfter on the key is in the slow lane, which a reconcile that fails again should tell its user.
func Attempt(ctx context.Context) int {
	n, _ := ctx.Value(attemptKey{}).(int)
	return n
}

// panicError is a panic of a Func.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("reconcile: panic: %v", e.value) }

// timeoutError is a run that failed after its deadline.
type timeoutError struct {
	limit time.Duration
	err   error
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("reconcile: not done within its deadline of %v: %v", e.limit, e.err)
}
func (e *timeoutError) Unwrap() error { return e.err }
