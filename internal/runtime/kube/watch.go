package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"time"
)

// EventType is the type of a watch event.
type EventType string

// The event types of a watch (API concepts, "Efficient detection of changes"). ERROR is missing: Next returns such an
// event as a Status.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"  // gone, or no longer selected
	Bookmark EventType = "BOOKMARK" // no object, only how far the stream has come
)

// initialEventsEnd is the annotation of the bookmark that ends the initial events (KEP-3157).
const initialEventsEnd = "k8s.io/initial-events-end"

// bookmark is the decoded part of a bookmark.
type bookmark struct {
	MetaAnnotated `json:"metadata"`
}

// Event is one frame of a watch.
type Event[T Object] struct {
	Type             EventType // an unknown type is handed out unchanged, without the object
	Object           T         // nil for a bookmark or an unknown type
	ResourceVersion  string    // of the object or bookmark: where to resume
	InitialEventsEnd bool      // on a bookmark: all initial events that were asked for have come
	Part             Part      // of the object
}

// WatchOptions say from where and for how long to watch.
type WatchOptions struct {
	// ResourceVersion is where the last list or event left off. With SendInitialEvents it may be "".
	ResourceVersion string
	// SendInitialEvents asks for the present objects as ADDED events first, ended by a bookmark with
	// InitialEventsEnd ("streaming list", KEP-3157).
	SendInitialEvents bool
	// MaxObject is that of ListOptions.
	MaxObject int64
	// Timeout is what we ask the server to end the stream after, in whole seconds. 0: the server chooses, 30 to
	// 60 minutes.
	Timeout time.Duration
	// IdleTimeout ends the stream with ErrIdle when no byte has arrived for so long. It counts from the
	// request on, because a buffering proxy may hold even the headers back until the first event. 0: never. Until the
	// initial events have come, the rate of a list is asked for instead.
	IdleTimeout time.Duration
	// Skim, if not nil, says of which objects only the metadata is to be decoded.
	Skim func(Key) bool
}

// Stream is a watch read by calls of Next: no goroutine, no channel, and a slow reader slows the sender down. Only one
// goroutine may use a Stream.
type Stream[T Object] struct {
	cancel  context.CancelCauseFunc
	why     func() error // why the request's context ended, nil while it has not
	body    io.Closer
	contact *contact
	idle    *idleTimer
	quiet   time.Duration            // the idle timeout after the initial events
	listed  bool                     // no initial events were asked for, or their end has come
	next    func() (Event[T], error) // reads one event
	forget  func()                   // clears what was read of values that are not to be held
	known   func(Key) (T, bool)      // see Known
}

// Watch opens a watch. An answer other than 200 is a Status: IsGone says that the resource version is too
// old. The caller closes the stream.
func Watch[T Object](ctx context.Context, c *Client, q Query, o WatchOptions) (*Stream[T], error) {
	values := q.values()
	values.Set("watch", "true")
	values.Set("allowWatchBookmarks", "true")
	if o.ResourceVersion != "" {
		values.Set("resourceVersion", o.ResourceVersion)
	}
	if o.SendInitialEvents {
		values.Set("sendInitialEvents", "true")
		values.Set("resourceVersionMatch", "NotOlderThan")
	}
	if s := int(o.Timeout / time.Second); s > 0 {
		values.Set("timeoutSeconds", strconv.Itoa(s))
	}
	r, err := q.request(values)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", q, err)
	}
	r.verb = "watch"
	plan := c.protoPlan(&r, protoPlanOf[T])
	ctx, cancel := context.WithCancelCause(ctx)
	var idle *idleTimer
	if o.SendInitialEvents {
		idle = startListIdle(cancel)
	} else {
		idle = startIdle(o.IdleTimeout, cancel)
	}
	resp, err := c.send(ctx, &r)
	var protobuf bool
	if err == nil {
		if protobuf, err = inProtobuf(resp, plan != nil); err != nil {
			drain(resp.Body)
		}
	}
	if err != nil {
		idle.stop()
		err = fmt.Errorf("watch %s: %w", q, readError(ctx, err))
		cancel(nil)
		return nil, err
	}
	s := &Stream[T]{
		cancel:  cancel,
		why:     func() error { return context.Cause(ctx) },
		body:    resp.Body,
		idle:    idle,
		quiet:   o.IdleTimeout,
		listed:  !o.SendInitialEvents,
		contact: c.contact,
	}
	body := idle.reader(c.contact.reader(resp.Body))
	if protobuf {
		in := q.protoReader(body, plan, o.MaxObject)
		in.want.skim = o.Skim
		s.next = func() (Event[T], error) {
			defer func() { in.forget(in.pos) }()
			return nextProtoEvent(in, s.known)
		}
		s.forget = func() { in.forget(len(in.buf)) }
	} else {
		in := q.scanner(body, o.MaxObject)
		in.want.skim, in.wipes = o.Skim, holdsDigests(reflect.TypeFor[T]())
		s.next = func() (Event[T], error) {
			defer func() { in.forget(in.pos) }()
			return nextEvent[T](in)
		}
		s.forget = func() { in.forget(len(in.buf)) }
	}
	return s, nil
}

// Close ends the watch. It may be called more than once.
func (s *Stream[T]) Close() error {
	s.idle.stop()
	s.cancel(nil)
	s.forget()
	return s.body.Close()
}

// IdleAfter lowers the idle timeout to d from now on, if longer, for a stream of known rhythm. Call IdleAfter between
// two calls of Next.
func (s *Stream[T]) IdleAfter(d time.Duration) { s.idle.shorten(d) }

// Known sets a function that returns the version of an object held by the reader: decoding takes unchanged parts from
// there, where the encoding makes that cheaper.
func (s *Stream[T]) Known(f func(Key) (T, bool)) { s.known = f }

// Next waits for the next event. io.EOF means that the server ended the stream in good order; a *Status is an ERROR
// event; a *DecodeError is an object that does not decode, with the stream intact behind the object and the event's
// Type still set. Any other error has broken the stream. A partial frame is never an event.
func (s *Stream[T]) Next() (Event[T], error) {
	ev, err := s.next()
	switch {
	case s.listed: // not requested, or a second time: an ordinary bookmark
		ev.InitialEventsEnd = false
	case ev.InitialEventsEnd:
		s.listed = true
		s.idle.listed(s.quiet)
	}
	if s.listed && ev.ResourceVersion != "" && ev.Type != Bookmark {
		s.contact.event()
	}
	if err == nil || err == io.EOF {
		return ev, err
	}
	var bad *DecodeError
	var status *Status
	if errors.As(err, &bad) || errors.As(err, &status) {
		return ev, err
	}
	if why := s.why(); why != nil {
		err = why
	}
	return ev, fmt.Errorf("read watch: %w", err)
}
