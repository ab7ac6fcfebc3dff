package events

import (
	"context"
	"time"

	"skiff/internal/runtime/kube"
)

// write creates the Event of a series or patches its count. Where the server is away it is put behind the others; what
// the server refuses is dropped, because it would be refused again. What the end of ctx interrupts is left to flush.
func (s *sender) write(ctx context.Context, run *series) {
	s.writing = run
	err := s.writeOnce(ctx, run)
	s.writing = nil
	if err == nil {
		run.written, run.sent, run.tries, s.failed = run.count, time.Now(), 0, 0
		return
	}
	if ctx.Err() != nil {
		return
	}
	if run.tries++; !kube.IsTransient(err) || run.tries == maxTries || len(s.waiting) == queueSize {
		run.tries = 0
		s.drop(err)
		if run.written == 0 {
			s.forget(keyOf(run.first.Event), run)
		}
		return
	}
	now := time.Now()
	s.brake = now.Add(min(firstBrake<<min(s.failed, 10), retryAfter))
	s.failed++
	run.retry = now.Add(retryAfter)
	s.waiting = append(s.waiting, run)
}

// braking reports whether nothing is to be sent now because writes have failed.
func (s *sender) braking() bool { return time.Now().Before(s.brake) }

// retryFirst writes the series that waits for longest.
func (s *sender) retryFirst(ctx context.Context) {
	run := s.waiting[0]
	s.waiting = s.waiting[1:]
	run.retry = time.Time{}
	s.write(ctx, run)
}

// next returns what to wait for: the queue, unless nothing is to be sent now, and a timer for the end of that or for
// the next retry.
func (s *sender) next() (queue <-chan *queued, timer *time.Timer) {
	switch {
	case s.braking():
		return nil, time.NewTimer(time.Until(s.brake))
	case len(s.waiting) > 0:
		return s.queue, time.NewTimer(time.Until(s.waiting[0].retry))
	}
	return s.queue, time.NewTimer(sweepEvery)
}

// drop counts what could not be sent. A missing right is logged once, not for each event; a namespace that
// is ending takes its events with it.
func (s *sender) drop(err error) {
	s.dropped.Add(1)
	switch {
	case kube.IsNamespaceTerminating(err), kube.IsNotFound(err):
		s.told++
	case kube.IsForbidden(err):
		s.told++
		if !s.refused {
			s.refused = true
			s.log.Info("events are not recorded: grant create and patch on events in events.k8s.io",
				kube.Warn("problem", err.Error())...)
		}
	default:
		s.log.V(1).Info("event dropped", "error", err.Error())
	}
}

// writeOnce patches the Event of a series, or creates it where there is none, or none any more: Events expire.
func (s *sender) writeOnce(ctx context.Context, run *series) error {
	if run.created {
		k := kube.Key{Namespace: namespaceOf(run.first.Regarding), Name: run.name}
		err := s.client.Patch(ctx, resource, k, kube.MergePatch, seriesPatch(run), nil, kube.WriteOptions{})
		if !kube.IsNotFound(err) {
			return err
		}
		run.created, run.name = false, ""
	}
	if run.name == "" {
		run.name = eventName(run.first.Regarding.Name, time.Now())
	}
	err := s.create(ctx, run)
	if kube.IsAlreadyExists(err) && !run.unsure {
		run.name = randomName() // two Events of one object were named at the same time
		err = s.create(ctx, run)
	}
	if kube.IsAlreadyExists(err) && run.unsure {
		err = nil // an earlier request has made it, whose answer was lost
	}
	run.created = err == nil
	return err
}

func (s *sender) create(ctx context.Context, run *series) error {
	err := s.client.Create(ctx, resource, namespaceOf(run.first.Regarding), s.body(run, run.name), nil,
		kube.WriteOptions{Name: run.name})
	run.unsure = run.unsure || kube.UnknownOutcome(err)
	return err
}
