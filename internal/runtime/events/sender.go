package events

import (
	"context"
	"slices"
	"time"

	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/kube"
)

const (
	// refreshAfter is how often a series that goes on is written: an Event lives for an hour by default, and
	// a series that still happens must not expire.
	refreshAfter = 30 * time.Minute
	// finishAfter ends a series: what has not happened for six minutes is over, and its count is written. This
	// and refreshAfter are KEP-383's numbers.
	finishAfter = 6 * time.Minute
	// sweepEvery is how often series are looked at; the times above are kept to within it.
	sweepEvery = time.Minute
	// maxTries and retryAfter bound what one event may cost while the server is away: twelve tries in about
	// two minutes, as client-go. Between them it waits behind the others.
	maxTries   = 12
	retryAfter = 10 * time.Second
	// burst and refill limit the different events of one object: 25 at once, then one per five minutes, the
	// numbers of client-go's spam filter. Warnings may take as many as reserved beyond these: where two controllers
	// delete each other's children, the one Event that says so must not be dropped for all that tell of the deletions.
	burst    = 25
	refill   = 5 * time.Minute
	reserved = 5
	// maxNotes is how many notes of one key get an Event of their own within six minutes. A further one is counted in
	// the latest of these: texts that never repeat, say with a port number, must not make Events without end.
	maxNotes = 10
	// maxObjects bounds the memory of series and limits. Events about more objects than this within six minutes make
	// no series, and their limits begin anew; none is lost for that. 4,096 is the size of client-go's caches.
	maxObjects = 4096
)

// brakes are the pauses of all writes after one that failed: one event that cannot be sent hardly delays the others,
// and a server that is away is asked six times a minute.
var brakes = backoff.Backoff{Min: 100 * time.Millisecond, Max: retryAfter}

// sender is the state of Run's goroutine; only that touches it.
type sender struct {
	*Recorder
	series  map[key][]*series // of one key, the latest last
	buckets map[Object]*bucket
	waiting []*series // whose write has failed and is tried again, the next one first
	failed  int       // writes in a row
	brake   time.Time // nothing is sent before
	refused bool      // the server refused an event for lack of rights, and the log has it
	logged  uint64    // how many dropped events the log has, or need not have
}

func newSender(r *Recorder) *sender {
	return &sender{Recorder: r, series: map[key][]*series{}, buckets: map[Object]*bucket{}}
}

// take sends a new event, or counts a repeated one. The first repetition is written at once, so that the series can
// be seen; later ones wait for sweep.
func (s *sender) take(ctx context.Context, e queued) {
	k := keyOf(e.Event)
	e.Note = printable(e.Note)
	if run := s.find(k, e); run != nil {
		run.repeat(e.at)
		if run.written == 1 && !run.marked && run.retry.IsZero() {
			run.marked = true
			s.write(ctx, run)
		}
		return
	}
	if !s.allow(k.regarding, k.typ, e.at) {
		if runs := s.series[k]; len(runs) > 0 {
			runs[len(runs)-1].repeat(e.at)
		} else {
			s.dropped.Add(1)
		}
		return
	}
	run := &series{first: e, count: 1, last: e.at}
	if len(s.series) < maxObjects {
		s.series[k] = append(s.series[k], run)
	}
	s.write(ctx, run)
}

// sweep writes series that are due and forgets what is over.
func (s *sender) sweep(ctx context.Context, now time.Time) {
	for k, runs := range s.series {
		for _, run := range slices.Clone(runs) {
			over := now.Sub(run.last) >= finishAfter
			if !run.retry.IsZero() || s.braking() {
				continue
			}
			if run.count > run.written && (over || now.Sub(run.sent) >= refreshAfter) {
				s.write(ctx, run)
			}
			if over && run.retry.IsZero() {
				s.forget(k, run)
			}
		}
	}
	for o, b := range s.buckets {
		if now.Sub(b.at) >= (burst+reserved)*refill {
			delete(s.buckets, o)
		}
	}
}

// logDropped logs how many events were dropped since it last did.
func (s *sender) logDropped() {
	if n := s.Dropped(); n > s.logged {
		s.log.Info("events dropped: more than the server took in time, too many about one object, or refused",
			"dropped", n-s.logged, "total", n)
		s.logged = n
	}
}

// flush sends what is queued and the counts of open series, as far as flushTimeout allows.
func (s *sender) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case e := <-s.queue:
			s.take(ctx, *e)
			continue
		default:
		}
		break
	}
	for range s.waiting {
		s.retryFirst(ctx)
	}
	for _, run := range s.open() {
		if run.count > run.written && run.retry.IsZero() {
			s.write(ctx, run)
		}
	}
	for _, run := range s.open() { // without those that the server has just refused, which are counted
		if run.written == 0 {
			s.dropped.Add(1)
		}
	}
	s.dropped.Add(uint64(len(s.queue)))
}

// write creates the Event of a series or patches its count. Where the server is away it is put behind the others; what
// the server refuses is dropped, because it would be refused again. What the end of ctx interrupts is left to flush.
func (s *sender) write(ctx context.Context, run *series) {
	err := s.contain(func() error { return s.writeOnce(ctx, run) })
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
	s.brake = now.Add(brakes.After(s.failed))
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
		s.logged++
	case kube.IsForbidden(err):
		s.logged++
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

// send sends until ctx ends. It returns false after a panic.
func (s *sender) send(ctx context.Context) bool {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if s.contain(func() error { return s.step(ctx, tick.C) }) != nil {
			return false
		}
	}
	_ = s.contain(func() error { // which logs
		s.flush(context.WithoutCancel(ctx))
		s.logDropped()
		return nil
	})
	return true
}

// step waits for one thing to do, and does it.
func (s *sender) step(ctx context.Context, tick <-chan time.Time) error {
	queue, timer := s.next()
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case e := <-queue:
		s.take(ctx, *e)
	case <-timer.C:
		if len(s.waiting) > 0 && !s.braking() && !time.Now().Before(s.waiting[0].retry) {
			s.retryFirst(ctx)
		}
	case <-tick:
		s.sweep(ctx, time.Now())
		s.logDropped()
	}
	return nil
}
