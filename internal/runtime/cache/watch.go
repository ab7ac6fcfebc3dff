package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"skiff/internal/runtime/kube"
)

const (
	// A watch is asked to end after 5 to 10 minutes, drawn anew each time, so that the watches of many clients spread
	// over the servers again after the restart of a server, and do not all end at once.
	minWatch = 5 * time.Minute
	maxWatch = 10 * time.Minute
	// overdue is how much longer than asked a watch may live, and how much longer an idle watch may be silent: time
	// for the server's own end to arrive first.
	overdue = 30 * time.Second
	// A kube-apiserver sends a bookmark about every minute. Once regularBookmarks have come on a watch,
	// bookmarkSilence without a byte means a dead watch, also where a proxy goes on to answer pings.
	regularBookmarks = 2
	bookmarkSilence  = 3 * time.Minute
	// maxRefusals is how often a version is asked for although the server fails (500) or has not reached the version
	// (504), before a list: with the pauses between and the server's own wait, about half a minute, enough for a
	// server to catch up after the start.
	maxRefusals = 5
)

var (
	errShort   = errors.New("the server ended the watch within a second")
	errOverdue = errors.New("the server did not end the watch when asked to")
)

// watch is a watch under way.
type watch[T kube.Object] struct {
	stream     *kube.Stream[T]
	cancel     context.CancelCauseFunc // of the stream's own context
	opened     time.Time
	lifetime   time.Duration // after which the server was asked to end the watch
	progressed bool          // the watch has brought a change
	bookmarks  int           // brought by the watch
}

func (w *watch[T]) close() {
	_ = w.stream.Close() // all that was wanted has been read
	w.cancel(nil)
}

// newWatch returns a watch to be opened in its own context, which ends with ctx or by cancel.
func newWatch[T kube.Object](ctx context.Context) (*watch[T], context.Context) {
	w := &watch[T]{opened: time.Now(), lifetime: minWatch + rand.N(maxWatch-minWatch)}
	ctx, w.cancel = context.WithCancelCause(ctx)
	return w, ctx
}

// open opens a watch.
func (r *Reflector[T]) open(ctx context.Context, w *watch[T], o kube.WatchOptions) (err error) {
	o.Timeout, o.IdleTimeout, o.MaxObject = w.lifetime, w.lifetime+overdue, r.store.maxObject()
	if d := r.store.o.WatchIdleTimeout; d > 0 {
		o.IdleTimeout = d
	}
	if w.stream, err = kube.Watch[T](ctx, r.store.o.Client, r.query, o); err != nil {
		w.cancel(nil)
		return err
	}
	w.stream.Known(r.store.lookup)
	return nil
}

// resume opens a watch at the resume point.
func (r *Reflector[T]) resume(ctx context.Context, s state[T]) state[T] {
	if r.store.onTrial(r.scope) {
		return r.relist(s, "readmitted")
	}
	s, rewound, err := r.probe(ctx, s)
	switch {
	case ctx.Err() != nil:
		return s
	case rewound:
		return r.relist(s, "rewound")
	case err != nil && offline(err):
		return r.failSilent(s, err, resuming) // a watch would fare no better
	}
	w, own := newWatch[T](ctx)
	if err := r.open(own, w, kube.WatchOptions{ResourceVersion: s.rv, Skim: r.store.skims}); err != nil {
		return r.resumeFailed(ctx, s, err)
	}
	s.watch, s.phase, s.err = w, streaming, nil
	return s
}

// resumeFailed decides how to go on after the refusal of a watch. Without an answer nothing is known to be wrong with
// the resume point, which stays.
func (r *Reflector[T]) resumeFailed(ctx context.Context, s state[T], err error) state[T] {
	switch {
	case ctx.Err() != nil:
		return s
	case kube.IsGone(err):
		return r.relistAfter(s, err, "expired")
	case offline(err):
		return r.failSilent(s, err, resuming)
	case busy(err), kube.IsUnauthorized(err), kube.IsForbidden(err):
		return r.fail(s, err, resuming)
	case kube.IsNotFound(err):
		// The kind was uninstalled, and begins anew should it come back.
		return r.relistAfter(s, err, "missing")
	case kube.IsRefused(err):
		s.unset = true // perhaps the server cannot read the version
		return r.relistAfter(s, err, "rejected")
	}
	return r.refused(s, err)
}

// relistAfter backs off, then lists.
func (r *Reflector[T]) relistAfter(s state[T], err error, reason string) state[T] {
	s = r.relist(s, reason)
	return r.fail(s, err, s.phase)
}

// refused asks for the same version again, a few times.
func (r *Reflector[T]) refused(s state[T], err error) state[T] {
	s.refusals++
	if s.refusals < maxRefusals {
		return r.fail(s, err, resuming)
	}
	s.refusals = 0
	s.unset = kube.IsTooLargeResourceVersion(err)
	return r.relistAfter(s, err, "refused")
}

// stream takes a frame off the watch.
func (r *Reflector[T]) stream(ctx context.Context, s state[T]) state[T] {
	ev, err := s.watch.stream.Next()
	if ctx.Err() != nil {
		return s
	}
	if err == nil {
		s = r.handle(ctx, s, ev)
	} else if bad, ok := errors.AsType[*kube.DecodeError](err); ok {
		s = r.handleBad(ctx, s, ev.Type, bad)
	} else if r.store.onTrial(r.scope) {
		r.store.count(r.scope, func(n *Counters) { n.Reconnects["readmitted"]++ })
		return r.relist(closeStream(s), "readmitted")
	} else {
		return r.streamEnded(s, err)
	}
	s.refusals = 0
	s = r.recovered(s)
	if s.phase == streaming && time.Since(s.watch.opened) > s.watch.lifetime+overdue {
		return r.streamEnded(s, errOverdue)
	}
	return s
}

// streamEnded decides how to go on after a watch. A clean end is normal. A watch that lived long, or brought a
// change, shows a working server: past failures are forgotten. Bookmarks do not count as a change, because a server
// that sends a bookmark and hangs up would then be asked as fast as the answers come.
func (r *Reflector[T]) streamEnded(s state[T], err error) state[T] {
	age := time.Since(s.watch.opened)
	if age >= healthy || s.watch.progressed {
		s.failures, s.missing = 0, 0
	}
	s = closeStream(s)
	if s.failures == 0 { // else the watch before ended early, too
		s.lost = s.lost || err != io.EOF || time.Since(s.probed) >= soonLost
	}
	reason := endReason(err, age)
	r.store.count(r.scope, func(n *Counters) { n.Reconnects[reason]++ })
	if reason == "short" {
		err = errShort
	}
	err = fmt.Errorf("watch %s: %w", r.query, err)
	switch reason {
	case "ended":
		s.phase = resuming
		return r.recovered(s)
	case "idle":
		// Silence may mean that nothing happens, or a dead connection: a new watch shows which. The timeout itself
		// spaces the requests, unless very short.
		if age >= shortWatch {
			s.phase = resuming
			return s
		}
	case "refused":
		return r.refused(s, err)
	case "expired", "error", "frame too large":
		return r.relistAfter(s, err, reason)
	}
	return r.fail(s, err, resuming)
}

// EndReasons are the results of endReason: the keys of Counters.Reconnects.
var EndReasons = []string{"readmitted", "short", "ended", "idle", "frame too large", "expired", "throttled",
	"refused", "error", "broken"}

// endReason names the end of a watch. Only "expired", "error" and "frame too large" say that the watch cannot be
// continued from the resume point.
func endReason(err error, age time.Duration) string {
	switch {
	case err == io.EOF && age < shortWatch:
		return "short"
	case err == io.EOF, err == errOverdue:
		return "ended"
	case errors.Is(err, kube.ErrIdle):
		return "idle"
	case errors.Is(err, kube.ErrFrameTooLarge):
		return "frame too large"
	case kube.IsGone(err):
		return "expired"
	case busy(err):
		return "throttled"
	case failing(err):
		return "refused"
	case kube.AsStatus(err) != nil:
		return "error"
	}
	return "broken"
}

// handle brings one event into the mirror, notifies the handlers and moves the resume point.
func (r *Reflector[T]) handle(ctx context.Context, s state[T], ev kube.Event[T]) state[T] {
	switch ev.Type {
	case kube.Added, kube.Modified, kube.Deleted:
	case kube.Bookmark:
		if older(ev.ResourceVersion, s.rv) {
			return r.outdated(ctx, s)
		}
		s.watch.bookmarks++
		if s.watch.bookmarks == regularBookmarks {
			s.watch.stream.IdleAfter(bookmarkSilence)
		}
		return r.advance(s, ev.ResourceVersion, true)
	default: // of a later API: the meaning is unknown, so the resume point stays before it
		r.store.count(r.scope, func(n *Counters) { n.UnknownType++ })
		r.log.V(1).Info("event of unknown type skipped", "type", string(ev.Type))
		return s
	}
	k := ev.Object.ObjectMeta().Key()
	if !r.belongs(k) {
		return s
	}
	old := r.store.look(k)
	// The mirror shows the collection at s.rv, so events up to there are in the content already. (The second
	// condition can hold alone where a list carried objects newer than the list.)
	late := older(ev.ResourceVersion, s.rv) || old.known() && older(ev.ResourceVersion, old.rv())
	switch {
	case ev.Type == kube.Deleted:
		return r.handleDeletion(ctx, s, ev, old, late)
	case late:
		return r.outdated(ctx, s)
	case old.is(ev.Object.ObjectMeta()):
		r.store.count(r.scope, func(n *Counters) { n.Outdated++ })
		return r.advance(s, ev.ResourceVersion, false)
	}
	s.rv, s.watch.progressed = newest(s.rv, ev.ResourceVersion), true
	r.store.put(r.scope, ev.Object, ev.Part, ev.Type, s.rv)
	return s
}

// handleDeletion removes the object of the event, and no other object under the same name by now. The event carries
// the object's last state, with the version of the deletion. (Some servers leave the version that we have: that is no
// late event.)
func (r *Reflector[T]) handleDeletion(ctx context.Context, s state[T], ev kube.Event[T], old form[T],
	late bool) state[T] {
	m := ev.Object.ObjectMeta()
	if old.known() && old.uid() != m.UID || late && !old.is(m) {
		return r.outdated(ctx, s)
	}
	s.watch.progressed = s.watch.progressed || old.known()
	s.rv = newest(s.rv, ev.ResourceVersion)
	r.store.remove(r.scope, m.Key(), ev.Part, s.rv, Change[T]{Type: Gone, Old: ev.Object})
	return s
}

// handleBad puts an object that does not decode into quarantine and moves on: a new request would bring the same
// object.
func (r *Reflector[T]) handleBad(ctx context.Context, s state[T], t kube.EventType, bad *kube.DecodeError) state[T] {
	if obj, part, ok := largeOf[T](bad); ok {
		return r.handle(ctx, s, kube.Event[T]{Type: t, Object: obj, ResourceVersion: bad.ResourceVersion, Part: part})
	}
	if older(bad.ResourceVersion, s.rv) {
		return r.outdated(ctx, s)
	}
	if bad.Key.Name != "" && !r.belongs(bad.Key) {
		return s
	}
	old := r.store.look(bad.Key)
	s.rv = newest(s.rv, bad.ResourceVersion)
	if t == kube.Deleted && bad.Key.Name != "" {
		s.watch.progressed = s.watch.progressed || old.known()
		r.store.remove(r.scope, bad.Key, kube.Part{}, s.rv,
			Change[T]{Type: Gone, Old: old.object(bad.Key), Unknown: true})
		return s
	}
	if r.store.quarantine(r.scope, bad, s.rv) { // logged once for an object
		r.log.Error(bad, "object does not decode; its last good copy stays", "object", bad.Key, "hasCopy", old.held)
	}
	r.store.relieve()
	return s
}

// advance moves the resume point with the content unchanged.
func (r *Reflector[T]) advance(s state[T], rv string, bookmark bool) state[T] {
	s.rv = newest(s.rv, rv)
	r.store.advance(r.scope, s.rv, bookmark)
	return s
}

// newest returns where to resume after an event: never before where we were. Versions without an order are taken as
// they come.
func newest(rv, of string) string {
	if of == "" || older(of, rv) {
		return rv
	}
	return of
}
