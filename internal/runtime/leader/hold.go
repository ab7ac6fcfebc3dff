package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"skiff/internal/runtime/kube"
)

// The reasons for which a lease is lost before anybody has taken it.
var (
	errTaken     = errors.New("another process holds the lease")
	errNotWanted = errors.New("the lease names another process as its preferredHolder")
	errPanic     = errors.New("panic")
)

// contained calls f. A panic in it is counted, logged and returned as an errPanic: it costs a leadership, not the
// process and the other controllers in it.
func (e *Elector) contained(what string, f func() error) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		err = fmt.Errorf("%s: %w: %v", what, errPanic, p)
		e.mu.Lock()
		e.panics++
		e.mu.Unlock()
		e.log.Error(err, "leader election panicked; retrying", "stack", string(debug.Stack()))
	}()
	return f()
}

// hold runs lead and renews the lease until lead has returned. The result says why the lease was lost, nil where lead
// has returned while it was held.
func (e *Elector) hold(ctx context.Context, lead func(ctx, held context.Context)) error {
	held, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	defer lose(nil)
	e.setLeading(true)
	defer e.setLeading(false)
	e.log.Info("leading")
	ended := make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		failed = e.contained("lead", func() error { lead(ctx, held); return nil })
	}()
	lost := e.contained("renew the lease", func() error { return e.renew(held, lose, ended) })
	lose(lost) // first of all: what is under way is cut short, then waited for
	<-ended
	return cmp.Or(lost, failed)
}

func (e *Elector) setLeading(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leading && !on {
		e.lost = e.overdueLocked()
	}
	e.leading = on
}

// left returns how much longer the leader may work.
func (e *Elector) left() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.o.RenewDeadline - time.Since(e.sent)
}

// renew renews the lease until ended is closed (nil), or until the lease is lost (why). A timer of its own ends held
// at the deadline, whatever the request that is under way does. A server that restarts fails one or two renewals:
// that is told when half of the time is over.
func (e *Elector) renew(held context.Context, lose context.CancelCauseFunc, ended <-chan struct{}) error {
	late := fmt.Errorf("the lease could not be renewed within %s", e.o.RenewDeadline)
	deadline := time.AfterFunc(e.left(), func() { lose(late) })
	defer deadline.Stop()
	retry := time.NewTicker(e.o.RetryPeriod)
	defer retry.Stop()
	told := false
	for {
		select {
		case <-ended:
			return context.Cause(held) // the deadline may have ended both
		case <-held.Done():
			return context.Cause(held)
		case <-retry.C:
		}
		switch err := e.renewOnce(held); {
		case err == nil && deadline.Reset(e.left()):
			told = false
		case err == nil: // the timer has fired while the answer arrived
			return late
		case errors.Is(err, errTaken), errors.Is(err, errNotWanted):
			return err
		case !told && held.Err() == nil && (e.left() < e.o.RenewDeadline/2 || !kube.IsTransient(err)):
			told = true
			e.log.Info("cannot renew the lease, retrying", e.problem(err,
				"left", e.left().Round(time.Millisecond))...)
		}
	}
}

// renewOnce renews the lease. After a conflict it looks who has written it: an annotation, or a renewal of ours whose
// answer was lost, is no reason to stop.
func (e *Elector) renewOnce(ctx context.Context) error {
	if e.preferred() {
		return errNotWanted
	}
	err := e.write(ctx)
	if !kube.IsConflict(err) && !kube.IsNotFound(err) && !kube.IsAlreadyExists(err) {
		return err
	}
	e.mu.Lock()
	e.slow++
	e.mu.Unlock()
	if err := e.get(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	taken := e.version != "" && e.last.Holder != e.o.Identity
	e.mu.Unlock()
	switch {
	case taken:
		return errTaken
	case e.preferred():
		return errNotWanted
	}
	return e.write(ctx) // it is ours, or it was deleted: still ours by our own clock
}

// preferred says whether the lease asks for another leader.
func (e *Elector) preferred() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last.Preferred != "" && e.last.Preferred != e.o.Identity
}
