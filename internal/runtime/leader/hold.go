package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/process"
)

// The reasons for which a lease is lost before another process has taken it.
var (
	errTaken     = errors.New("another process holds the lease")
	errNotWanted = errors.New("the lease names another process as its preferredHolder")
	errGivenUp   = errors.New("this process has given up the lease")
)

// contained calls f. A panic is counted, logged and returned as a [process.Panic], and costs a leadership, not the
// process and the other controllers.
func (e *Elector) contained(what string, f func() error) error {
	err := process.Contain(what, f)
	if p := new(process.Panic); errors.As(err, &p) {
		e.mu.Lock()
		e.panics++
		e.mu.Unlock()
		e.log.Error(err, "leader election panicked; retrying", "stack", string(p.Stack))
	}
	return err
}

// hold runs lead and renews the lease until lead has returned. The result says why the lease was lost, nil where lead
// has returned while it was held.
func (e *Elector) hold(ctx context.Context, lead func(ctx, leaseCtx context.Context)) error {
	leaseCtx, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	defer lose(nil)
	e.setLeading(lose)
	defer e.setLeading(nil)
	e.log.Info("leading")
	ended := make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		failed = e.contained("lead", func() error { lead(ctx, leaseCtx); return nil })
	}()
	lost := e.contained("renew the lease", func() error { return e.renew(leaseCtx, lose, ended) })
	lose(lost) // first of all: what is under way is cut short, then waited for
	<-ended
	return cmp.Or(lost, failed)
}

// setLeading notes that led work runs, and what cuts it short; nil: it has ended.
func (e *Elector) setLeading(lose context.CancelCauseFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	on := lose != nil
	if e.leading && !on {
		e.lost = e.overdueLocked()
	}
	e.leading, e.lose, e.gaveUp = on, lose, false
}

// left returns how much longer the leader may work.
func (e *Elector) left() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.o.RenewDeadline - time.Since(e.sent)
}

// renew renews the lease until ended is closed (nil), or until the lease is lost (why). Another timer ends leaseCtx
// at the deadline, also while a request is under way. A server that restarts fails one or two renewals:
// that is logged when half of the time is over.
func (e *Elector) renew(leaseCtx context.Context, lose context.CancelCauseFunc, ended <-chan struct{}) error {
	late := fmt.Errorf("the lease could not be renewed within %s", e.o.RenewDeadline)
	deadline := time.AfterFunc(e.left(), func() { lose(late) })
	defer deadline.Stop()
	retry := time.NewTicker(e.o.RetryPeriod)
	defer retry.Stop()
	logged := false
	for {
		select {
		case <-ended:
			return context.Cause(leaseCtx) // the deadline may have ended both
		case <-leaseCtx.Done():
			return context.Cause(leaseCtx)
		case <-retry.C:
		}
		switch err := e.renewOnce(leaseCtx); {
		case err == nil && deadline.Reset(e.left()):
			logged = false
		case err == nil: // the timer has fired while the answer arrived
			return late
		case errors.Is(err, errTaken), errors.Is(err, errNotWanted):
			return err
		case !logged && leaseCtx.Err() == nil && (e.left() < e.o.RenewDeadline/2 || !kube.IsTransient(err)):
			logged = true
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

// Standing is what an Elector knows of who leads. All times are of the local clock.
type Standing struct {
	Leading bool // this process holds the lease for certain
	// Holder held the lease when it was seen last; "": no process did, or the lease has not been seen yet.
	Holder string
	// Renewed is when the lease was seen to change last, or when this process sent its last renewal; zero: never.
	Renewed time.Time
	// Expires is when another process may take the lease if it is not renewed; zero: at once.
	Expires time.Time
	// Lost is when this process had to stop because no renewal was answered; zero once it has seen the lease again.
	Lost time.Time
}

// Standing returns what is known of who leads. In a process that was stopped for a while it is right at once.
func (e *Elector) Standing() Standing {
	s := Standing{Expires: e.expires()}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.Holder, s.Renewed, s.Lost = e.last.Holder, e.renewed, e.lost
	if s.Holder == e.o.Identity {
		s.Renewed, s.Expires = e.sent, e.sent.Add(e.o.LeaseDuration)
	}
	if e.leading {
		s.Lost = e.overdueLocked()
		s.Leading = s.Lost.IsZero() && !e.gaveUp
	}
	return s
}

// overdueLocked returns when the time of leadership was over, the zero time if it is not.
func (e *Elector) overdueLocked() time.Time {
	if end := e.sent.Add(e.o.RenewDeadline); !time.Now().Before(end) {
		return end
	}
	return time.Time{}
}

// Contact returns what is known of the answers of the server to requests about the lease.
func (e *Elector) Contact() kube.Contact { return e.o.Client.Contact() }
