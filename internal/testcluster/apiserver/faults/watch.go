package faults

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/obj"
)

// WatchFault is a fault within a watch. Events are counted from 1, with synthetic ones and without bookmarks.
type WatchFault struct {
	EventDelay time.Duration `json:"eventDelay"` // before each event
	Gone       Gone          `json:"gone"`       // for any resourceVersion that the client resumes from
	Bookmarks  BookmarkMode  `json:"bookmarks"`

	After    int      `json:"after"` // after this many events (0: at once) ...
	End      End      `json:"end"`   // ... this happens to the stream
	EndError ErrorArg `json:"error"` // of EndWithError

	Duplicate   bool `json:"duplicate"`   // each event is sent twice
	Replay      bool `json:"replay"`      // the first event is sent again after each later one
	UnknownType bool `json:"unknownType"` // an event of the unknown type HELLO precedes each event
	// each second event is sent before the one that it follows, if they are of different objects
	Reorder bool `json:"reorder"`
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
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Watch sends the events of one watch with the faults that apply to it.
type Watch struct {
	W      http.ResponseWriter
	Frame  func(eventType string, object []byte) []byte // encodes an event
	Status func(error) []byte                           // encodes the object of an ERROR event

	all     []Fault
	events  int
	first   *event // for Replay
	delayed *event // for Reorder: it waits for the one after it
}

type event struct {
	typ  string
	body []byte
}

func (e *event) about() string {
	v, _, _ := obj.Decode(e.body)
	o, _ := v.(map[string]any)
	return obj.String(o, "metadata", "namespace") + "/" + obj.String(o, "metadata", "name")
}

// On sets the faults to those of the watch's request.
func (wf *Watch) On(ctx context.Context) *Watch {
	wf.all = hitsOf(ctx)
	return wf
}

func (wf *Watch) any(is func(WatchFault) bool) bool {
	return slices.ContainsFunc(wf.all, func(f Fault) bool { return is(f.Watch) })
}

func (wf *Watch) Gone() bool { return wf.any(func(f WatchFault) bool { return f.Gone != NotGone }) }

func (wf *Watch) GoneAsHTTP() bool {
	return wf.any(func(f WatchFault) bool { return f.Gone == GoneAsHTTP })
}

// Bookmarks reports whether a fault with this mode applies to the watch.
func (wf *Watch) Bookmarks(mode BookmarkMode) bool {
	return wf.any(func(f WatchFault) bool { return f.Bookmarks == mode })
}

// Send sends one event as it is.
func (wf *Watch) Send(eventType string, object []byte) error {
	_, err := wf.W.Write(wf.Frame(eventType, object))
	return err
}

// SendError sends an ERROR event.
func (wf *Watch) SendError(err error) error {
	sendErr := wf.Send("ERROR", wf.Status(err))
	wf.Flush()
	return sendErr
}

// Flush sends what net/http holds back. An error means that the client is gone.
func (wf *Watch) Flush() { http.NewResponseController(wf.W).Flush() }

// ErrEnd ends a stream without an ERROR event.
var ErrEnd = errors.New("end of the stream")

// never is longer than any watch.
const never = 1000 * time.Hour

func (wf *Watch) BookmarkInterval(usual time.Duration) time.Duration {
	if wf.Bookmarks(BookmarksStorm) {
		return time.Millisecond
	}
	if usual <= 0 || wf.Bookmarks(BookmarksAtEnd) {
		return never
	}
	return usual
}

// Start applies the faults that precede the first event of a stream.
func (wf *Watch) Start(ctx context.Context) error { return wf.endAt(ctx, 0) }

// Event sends one event with the faults that apply to it.
func (wf *Watch) Event(ctx context.Context, eventType string, body []byte) error {
	if len(wf.all) == 0 {
		return wf.Send(eventType, body)
	}
	for _, f := range wf.all {
		if !Sleep(ctx, f.Watch.EventDelay) {
			return ctx.Err()
		}
		if f.Rewrite != nil {
			body = f.Rewrite(body)
		}
	}
	if err := wf.midFrame(eventType, body); err != nil {
		return err
	}
	e := &event{eventType, body}
	if wf.any(func(f WatchFault) bool { return f.Reorder }) {
		return wf.reorder(e)
	}
	if err := wf.sendAll(e); err != nil {
		return err
	}
	if wf.events++; wf.events == 1 {
		wf.first = e
	}
	return wf.endAt(ctx, wf.events)
}

// sendAll sends an event with those that faults add to it.
func (wf *Watch) sendAll(e *event) error {
	all := []*event{e}
	if wf.any(func(f WatchFault) bool { return f.UnknownType }) {
		all = []*event{{"HELLO", e.body}, e}
	}
	if wf.any(func(f WatchFault) bool { return f.Duplicate }) {
		all = append(all, e)
	}
	if wf.first != nil && wf.any(func(f WatchFault) bool { return f.Replay }) {
		all = append(all, wf.first)
	}
	for _, e := range all {
		if err := wf.Send(e.typ, e.body); err != nil {
			return err
		}
	}
	return nil
}

// reorder holds an event back until the next one, which it sends first if it is of another object.
func (wf *Watch) reorder(next *event) error {
	first := wf.delayed
	if wf.delayed = next; first == nil {
		return nil
	}
	wf.delayed = nil
	if first.about() == next.about() {
		first, next = next, first
	}
	if err := wf.sendAll(next); err != nil {
		return err
	}
	return wf.sendAll(first)
}

// midFrame breaks the connection in the middle of the next frame.
func (wf *Watch) midFrame(eventType string, body []byte) error {
	if !wf.any(func(f WatchFault) bool { return f.End == EndMidFrame && f.After == wf.events }) {
		return nil
	}
	frame := wf.Frame(eventType, body)
	if _, err := wf.W.Write(frame[:len(frame)/2]); err != nil {
		return err
	}
	wf.Flush()
	panic(http.ErrAbortHandler)
}

// endAt ends the stream if a fault does so after n events.
func (wf *Watch) endAt(ctx context.Context, n int) error {
	for _, f := range wf.all {
		if f.Watch.After != n {
			continue
		}
		switch f.Watch.End {
		case EndCleanly:
			wf.Flush()
			return ErrEnd
		case EndCut:
			wf.Flush()
			panic(http.ErrAbortHandler)
		case EndSilent:
			wf.Flush()
			<-ctx.Done()
			return ctx.Err()
		case EndWithError:
			e := f.Watch.EndError
			// the stream ends in any case
			wf.SendError(httpd.Failure(e.Code, e.Reason, e.Message, kube.StatusDetails{}))
			return ErrEnd
		}
	}
	return nil
}
