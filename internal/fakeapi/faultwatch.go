package fakeapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// WatchFault is a fault within a watch. Events are counted from 1, with synthetic ones and without bookmarks.
type WatchFault struct {
	EventDelay time.Duration // before each event
	Gone       Gone          // whatever resourceVersion the client resumes from
	Bookmarks  BookmarkMode

	After    int      // after this many events (0: at once) ...
	End      End      // ... this happens to the stream
	EndError ErrorArg // of EndWithError

	Duplicate   bool // each event is sent twice
	Replay      bool // the first event is sent again after each later one
	UnknownType bool // an event of the unknown type HELLO precedes each event
	Reorder     bool // each second event is sent before the one that it follows, if they are of different objects
}

// Gone selects the form of the answer that a resourceVersion is too old.
type Gone int

// The two forms of a 410 that real servers use.
const (
	NotGone      Gone = iota
	GoneInStream      // HTTP 200, then an ERROR event
	GoneAsHTTP        // HTTP 410
)

// BookmarkMode changes which bookmarks are sent.
type BookmarkMode int

// Clients must not rely on bookmarks.
const (
	BookmarksAsUsual   BookmarkMode = iota
	BookmarksNever                  // not even the one that ends the initial events
	BookmarksStorm                  // one each millisecond
	BookmarksAtEnd                  // only the one shortly before the end of the watch
	BookmarksOfAnother              // their object is of another kind
	BookmarksUnmarked               // the one after the initial events lacks its annotation
	BookmarksBehind                 // that one has a resourceVersion far below those of the events before it
)

// End is how a stream ends.
type End int

// The ends of a stream, besides those of Fault.Cut.
const (
	NoEnd        End = iota
	EndCleanly       // as after timeoutSeconds
	EndCut           // the connection is cut between two frames
	EndMidFrame      // the connection is cut in the middle of the next frame
	EndSilent        // the stream stays open and silent
	EndWithError     // an ERROR event, then a clean end
)

// ErrorArg is the Status of an ERROR event.
type ErrorArg struct {
	Code            int
	Reason, Message string
}

// watchFaults are the faults that apply to one watch. Both the zero value and nil have no effect.
type watchFaults struct {
	all    []Fault
	events int
	first  []byte // the first frame's object, for Replay
	typ    string
	held   *heldEvent // for Reorder
}

// heldEvent is an event that waits for the one after it.
type heldEvent struct {
	typ, name string
	body      []byte
}

func (f *faults) forWatch(r *request) *watchFaults {
	hits, _ := r.Context().Value(faultKey{}).([]Fault)
	return &watchFaults{all: hits}
}

func (wf *watchFaults) any(is func(WatchFault) bool) bool {
	for _, f := range wf.all {
		if is(f.Watch) {
			return true
		}
	}
	return false
}

func (wf *watchFaults) gone() bool {
	return wf.any(func(f WatchFault) bool { return f.Gone != NotGone })
}

func (wf *watchFaults) goneAsHTTP() bool {
	return wf.any(func(f WatchFault) bool { return f.Gone == GoneAsHTTP })
}

// bookmarks reports whether a fault with this mode applies to the watch.
func (wf *watchFaults) bookmarks(mode BookmarkMode) bool {
	return wf.any(func(f WatchFault) bool { return f.Bookmarks == mode })
}

// never is longer than any watch.
const never = 1000 * time.Hour

func (wf *watchFaults) bookmarkInterval(usual time.Duration) time.Duration {
	if wf.bookmarks(BookmarksStorm) {
		return time.Millisecond
	}
	if usual <= 0 || wf.bookmarks(BookmarksAtEnd) {
		return never
	}
	return usual
}

// start applies the faults that precede the first event of a stream.
func (wf *watchFaults) start(ctx context.Context, wt *watcher) error {
	return wf.endAt(ctx, wt, 0)
}

// event sends one event with the faults that apply to it.
func (wf *watchFaults) event(ctx context.Context, wt *watcher, eventType string, body []byte) error {
	if len(wf.all) == 0 {
		return wt.frame(eventType, body)
	}
	for _, f := range wf.all {
		if !sleep(ctx, f.Watch.EventDelay) {
			return ctx.Err()
		}
		if f.Rewrite != nil {
			body = f.Rewrite(body)
		}
	}
	if err := wf.midFrame(wt, eventType, body); err != nil {
		return err
	}
	if wf.any(func(f WatchFault) bool { return f.Reorder }) {
		return wf.reorder(wt, eventType, body)
	}
	if err := wf.sendAll(wt, eventType, body); err != nil {
		return err
	}
	if wf.events++; wf.events == 1 {
		wf.first, wf.typ = body, eventType
	}
	return wf.endAt(ctx, wt, wf.events)
}

func (wf *watchFaults) sendAll(wt *watcher, eventType string, body []byte) error {
	if wf.any(func(f WatchFault) bool { return f.UnknownType }) {
		if err := wt.frame("HELLO", body); err != nil {
			return err
		}
	}
	copies := 1
	if wf.any(func(f WatchFault) bool { return f.Duplicate }) {
		copies = 2
	}
	for range copies {
		if err := wt.frame(eventType, body); err != nil {
			return err
		}
	}
	if wf.first != nil && wf.any(func(f WatchFault) bool { return f.Replay }) {
		return wt.frame(wf.typ, wf.first)
	}
	return nil
}

// reorder holds an event back until the next one, which it sends first if it is of another object.
func (wf *watchFaults) reorder(wt *watcher, eventType string, body []byte) error {
	next := &heldEvent{typ: eventType, body: body}
	if v, err := patch.Decode(body); err == nil {
		o, _ := v.(map[string]any)
		next.name = obj.String(o, "metadata", "namespace") + "/" + obj.String(o, "metadata", "name")
	}
	held := wf.held
	if wf.held = next; held == nil {
		return nil
	}
	wf.held = nil
	if held.name == next.name {
		held, next = next, held
	}
	if err := wf.sendAll(wt, next.typ, next.body); err != nil {
		return err
	}
	return wf.sendAll(wt, held.typ, held.body)
}

// midFrame breaks the connection in the middle of the next frame.
func (wf *watchFaults) midFrame(wt *watcher, eventType string, body []byte) error {
	if !wf.any(func(f WatchFault) bool { return f.End == EndMidFrame && f.After == wf.events }) {
		return nil
	}
	frame := wt.frameOf(eventType, body)
	if _, err := wt.w.Write(frame[:len(frame)/2]); err != nil {
		return err
	}
	wt.flush()
	panic(http.ErrAbortHandler)
}

// endAt ends the stream if a fault does so after n events.
func (wf *watchFaults) endAt(ctx context.Context, wt *watcher, n int) error {
	for _, f := range wf.all {
		if f.Watch.After != n {
			continue
		}
		switch f.Watch.End {
		case EndCleanly:
			wt.flush()
			return errEnd
		case EndCut:
			wt.flush()
			panic(http.ErrAbortHandler)
		case EndSilent:
			wt.flush()
			<-ctx.Done()
			return ctx.Err()
		case EndWithError:
			e := f.Watch.EndError
			// the stream ends in any case
			wt.sendError(answer.Failure(e.Code, e.Reason, e.Message, kube.StatusDetails{}))
			return errEnd
		}
	}
	return nil
}

// Poison returns a Rewrite that makes the object with this name undecodable, or all with "", alone or in a list: they
// keep their metadata, and spec and status become strings.
func Poison(name string) func([]byte) []byte {
	return rewriteObjects(func(o map[string]any) {
		if name == "" || obj.String(o, "metadata", "name") == name {
			o["spec"], o["status"] = "poison", "poison"
		}
	})
}

// Huge returns a Rewrite that adds an annotation of n bytes to each object.
func Huge(n int) func([]byte) []byte {
	return rewriteObjects(func(o map[string]any) {
		obj.Set(o, strings.Repeat("x", n), "metadata", "annotations", "huge")
	})
}

// Kindless returns a Rewrite that takes apiVersion and kind off each object.
func Kindless() func([]byte) []byte {
	return rewriteObjects(func(o map[string]any) {
		delete(o, "kind")
		delete(o, "apiVersion")
	})
}

// Nulls returns a Rewrite that makes spec, status, labels and owner references null.
func Nulls() func([]byte) []byte {
	return rewriteObjects(func(o map[string]any) {
		o["spec"], o["status"] = nil, nil
		obj.Set(o, nil, "metadata", "labels")
		obj.Set(o, nil, "metadata", "ownerReferences")
	})
}

// rewriteObjects calls change on an object, or on each item of a list.
func rewriteObjects(change func(map[string]any)) func([]byte) []byte {
	return func(body []byte) []byte {
		v, err := patch.Decode(body)
		o, ok := v.(map[string]any)
		if err != nil || !ok {
			return body // not an object
		}
		if items := obj.Maps(o, "items"); items != nil {
			for _, item := range items {
				change(item)
			}
		} else {
			change(o)
		}
		return answer.Encode(o)
	}
}
