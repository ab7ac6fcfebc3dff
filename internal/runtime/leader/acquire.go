package leader

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/kube"
)

// acquire waits for the lease and takes it; false means that ctx has ended. It waits on a watch, so that a lease that
// is released is taken within the jitter, and one that is not renewed as soon as it has expired. Where it cannot
// watch, it asks again every RetryPeriod.
func (e *Elector) acquire(ctx context.Context) bool {
	logged, holder, failing := "", "", time.Time{}
	raced := false // the last try was too late
	for ctx.Err() == nil {
		err := e.get(ctx)
		if err == nil && !time.Now().Before(e.expires()) {
			if err = e.write(ctx); err == nil {
				return true
			}
			if !raced && (kube.IsConflict(err) || kube.IsAlreadyExists(err)) {
				raced = true
				continue // another candidate was faster: see who
			}
		}
		raced = false
		switch {
		case err == nil:
			failing, logged = time.Time{}, ""
		case failing.IsZero():
			failing = time.Now()
			fallthrough
		case ctx.Err() == nil && kube.Explain(err) != logged:
			// As with renewals, a server that restarts is not logged.
			if !kube.IsTransient(err) || time.Since(failing) >= e.o.RenewDeadline {
				logged = kube.Explain(err)
				e.log.Info("cannot get the lease, retrying", e.problem(err)...)
			}
		}
		if now := e.Standing().Holder; err == nil && now != holder {
			holder = now
			e.log.Info("standing by", "leader", kube.Printable(holder, 100))
		}
		if err != nil || !e.await(ctx) {
			pause(ctx, spread(e.o.RetryPeriod))
		}
	}
	return false
}

// await watches the lease until it can be taken; false means that it could not watch so long.
func (e *Elector) await(ctx context.Context) bool {
	e.mu.Lock()
	version := e.version
	e.mu.Unlock()
	if version == "" {
		pause(ctx, min(time.Until(e.expires()), spread(e.o.RetryPeriod)))
		return true
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	expired := time.AfterFunc(time.Until(e.expires()), cancel)
	defer expired.Stop()
	query := kube.Query{Resource: leases, Namespace: e.o.Namespace}.Object(e.o.Name)
	w, err := kube.Watch[*lease](ctx, e.o.Client, query,
		kube.WatchOptions{ResourceVersion: version, IdleTimeout: spread(watchIdle)})
	if err != nil {
		return ctx.Err() != nil || errors.Is(err, kube.ErrIdle)
	}
	defer w.Close()
	for {
		event, err := w.Next()
		if err != nil {
			return ctx.Err() != nil || errors.Is(err, kube.ErrIdle) // then a read shows whether the server answers
		}
		if event.Object == nil {
			continue
		}
		e.observe(event.Object)
		if event.Type == kube.Deleted {
			return true
		}
		left := time.Until(e.expires())
		if left <= 0 {
			pause(ctx, rand.N(takeoverSpread))
			return true
		}
		expired.Reset(left)
	}
}

// spread makes d longer by up to the jitter.
func spread(d time.Duration) time.Duration { return backoff.Spread(d, jitter) }

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
