package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/faults"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/schema"
	"skiff/internal/testcluster/apiserver/store"
)

// Watches without timeoutSeconds last a random time between these: kube-apiserver's --min-request-timeout and twice
// that.
const minWatch, maxWatch = 30 * time.Minute, 60 * time.Minute

// watchBatch is how many changes are read from the log at a time.
const watchBatch = 64

// watcher sends the frames of one watch, on the goroutine of its request.
type watcher struct {
	*listOptions
	s      *Server
	faults *faults.Watch
	end    <-chan struct{} // closed by Restore
	sent   int64           // revision of the last frame, below which no bookmark may be
	start  int64           // revision at which the watch started; bookmarks must be later
	header bool            // a Table's column definitions were sent
}

// watch runs a watch until it ends. An error before the first frame is an HTTP status, a later one an ERROR frame.
func (s *Server) watch(r *request) error {
	o, err := s.parseListOptions(r)
	if err != nil {
		return err
	}
	timeout := o.timeout
	if timeout <= 0 {
		timeout = minWatch + time.Duration(s.randN(int((maxWatch-minWatch)/time.Millisecond)))*time.Millisecond
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	wt := &watcher{listOptions: o, s: s, end: s.untilRestored()}
	wt.faults = (&faults.Watch{W: r.writer, Frame: wt.frame, Status: wt.status}).On(ctx)

	var initial []*store.Object
	var cursor *store.Cursor
	if o.initial || o.revision == 0 && !o.initialSet {
		if err := s.waitFor(ctx, o.revision); err != nil {
			return err
		}
		if o.initial && o.version == "" { // this asks for the newest state
			faults.Sleep(ctx, faults.Lag(ctx))
		}
		if initial, cursor, err = s.listAndWatch(ctx, r.kind.TableName(), r.namespace); err != nil {
			return err
		}
	} else {
		if wt.start = o.revision; wt.start == 0 {
			wt.start = s.seen(ctx) // "most recent": start now, without synthetic events
		}
		var oldest int64
		cursor, oldest, err = s.store.Watch(r.kind.TableName(), wt.start)
		if wt.faults.Gone() {
			oldest, err = s.store.Revision(), store.ErrCompacted
		}
		if err != nil {
			err = httpd.Expired(fmt.Sprintf("too old resource version: %d (%d)", wt.start, oldest))
		}
		if err != nil && wt.faults.GoneAsHTTP() {
			return err
		}
		wt.sent = wt.start
	}
	wt.open()
	if err != nil {
		wt.faults.SendError(err) // where this fails, and when run ends, the client can no longer get an error
		return nil
	}
	wt.run(ctx, initial, cursor)
	return nil
}

func (wt *watcher) open() {
	contentType := "application/json"
	if wt.accept.Protobuf {
		contentType = forms.ProtobufType + ";stream=watch"
	}
	wt.writer.Header().Set("Content-Type", contentType)
	wt.writer.WriteHeader(http.StatusOK)
	wt.faults.Flush()
}

// run sends the initial objects, then changes and bookmarks until the timeout.
func (wt *watcher) run(ctx context.Context, initial []*store.Object, cursor *store.Cursor) error {
	if err := wt.faults.Start(ctx); err != nil {
		return err
	}
	if initial != nil {
		initial, err := wt.s.converted(ctx, wt.kind, initial)
		if err != nil {
			return wt.faults.SendError(err)
		}
		if err := wt.sendInitial(ctx, initial, cursor); err != nil {
			return err
		}
	}
	bookmark := time.NewTimer(wt.untilBookmark(ctx))
	defer bookmark.Stop()
	removed, last, due, lag := wt.s.registry.end(wt.kind), false, false, faults.Lag(ctx)
	for {
		events, revision, wait, err := cursor.Next(watchBatch)
		if err != nil {
			return err // the watcher is too slow: end the stream, so that the client resumes
		}
		if events, err = wt.s.convertEvents(ctx, wt.kind, events); err != nil {
			return wt.faults.SendError(err)
		}
		for _, e := range events {
			if lag > 0 && !faults.Sleep(ctx, time.Until(e.At.Add(lag))) {
				return ctx.Err()
			}
			if err := wt.change(ctx, e); err != nil {
				return err
			}
		}
		if len(events) > 0 {
			wt.faults.Flush()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		if last {
			return faults.ErrEnd
		}
		if due { // the revision is up to date only now
			due = false
			if err := wt.bookmark(min(revision, wt.s.seen(ctx))); err != nil {
				return err
			}
		}
		select {
		case <-wait:
		case <-removed:
			last = true // the objects that were deleted with the definition are still to be sent
		case <-bookmark.C:
			bookmark.Reset(wt.untilBookmark(ctx))
			due = true
		case <-wt.end:
			return faults.ErrEnd
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sendInitial sends the existing objects as ADDED events in key order, and the bookmark after them where the client
// allows bookmarks.
func (wt *watcher) sendInitial(ctx context.Context, objects []*store.Object, cursor *store.Cursor) error {
	for _, o := range objects {
		if wt.selects(o) {
			if err := wt.send(ctx, store.Added, o, o.Revision); err != nil {
				return err
			}
		}
	}
	wt.sent = cursor.Revision()
	wt.start = wt.sent
	defer wt.faults.Flush()
	return wt.sendBookmark(true)
}

// change converts a change to the event of this watch: an object that starts to match the selectors is ADDED, one that
// no longer matches is DELETED, with its last matching content and the revision of the change.
func (wt *watcher) change(ctx context.Context, e store.Event) error {
	was, is := wt.selects(e.Prev), e.Type != store.Deleted && wt.selects(e.Object)
	switch {
	case is && was:
		return wt.send(ctx, store.Modified, e.Object, e.Object.Revision)
	case is:
		return wt.send(ctx, store.Added, e.Object, e.Object.Revision)
	case was && e.Type == store.Deleted && wt.selects(e.Object):
		return wt.send(ctx, store.Deleted, e.Object, e.Object.Revision)
	case was:
		return wt.send(ctx, store.Deleted, e.Prev.At(e.Object.Revision), e.Object.Revision)
	}
	return nil
}

// lastBookmark is how long before its end a watch gets a last bookmark, as from the real server's watch cache.
const lastBookmark = 2 * time.Second

// untilBookmark returns the time until the next bookmark: a regular one, or the one shortly before the end.
func (wt *watcher) untilBookmark(ctx context.Context) time.Duration {
	next := wt.faults.BookmarkInterval(wt.s.opts.BookmarkInterval)
	deadline, ok := ctx.Deadline()
	if last := time.Until(deadline) - lastBookmark; ok && last > 0 && wt.s.opts.BookmarkInterval > 0 {
		return min(next, last)
	}
	return next
}

func (wt *watcher) bookmark(revision int64) error {
	if revision < wt.sent || revision <= wt.start && !wt.faults.Bookmarks(faults.BookmarksStorm) {
		return nil
	}
	wt.sent = revision
	defer wt.faults.Flush()
	return wt.sendBookmark(false)
}

// sendBookmark sends a bookmark, if there are any: first is that after the initial events.
func (wt *watcher) sendBookmark(first bool) error {
	if !wt.bookmarks || wt.faults.Bookmarks(faults.BookmarksNever) {
		return nil
	}
	meta := map[string]any{"resourceVersion": strconv.FormatInt(wt.sent, 10)}
	if first && !wt.faults.Bookmarks(faults.BookmarksUnmarked) {
		meta["annotations"] = map[string]any{"k8s.io/initial-events-end": "true"}
	}
	if first && wt.faults.Bookmarks(faults.BookmarksBehind) {
		meta["resourceVersion"] = "1"
	}
	if first && wt.accept.Table {
		body, err := wt.bookmarkRow(meta)
		if err != nil {
			return err
		}
		return wt.faults.Send("BOOKMARK", body)
	}
	return wt.faults.Send("BOOKMARK", wt.bookmarkObject(meta))
}

// bookmarkRow encodes the bookmark behind the initial events of a Table: a row like others, whose object has the mark.
func (wt *watcher) bookmarkRow(meta map[string]any) ([]byte, error) {
	a := wt.accept
	if a.Include == "None" {
		a.Include = "Metadata"
	}
	columns := !wt.header
	wt.header = true
	return encode(wt.kind, store.NewObject(store.Key{}, wt.sent, map[string]any{"metadata": meta}, wt.kind.Shape), a,
		columns)
}

// bookmarkObject encodes the object of a bookmark in the requested form.
func (wt *watcher) bookmarkObject(meta map[string]any) []byte {
	switch {
	case wt.accept.Table:
		return httpd.Encode(map[string]any{"kind": "Table", "apiVersion": wt.accept.Meta, "metadata": meta,
			"columnDefinitions": nil, "rows": []any{}})
	case wt.accept.MetadataOnly:
		return forms.EncodePartial(forms.Partial(meta, wt.accept), wt.accept)
	}
	kind := wt.kind
	if wt.faults.Bookmarks(faults.BookmarksOfAnother) {
		kind = &kinds.Kind{Resource: kube.Resource{Group: "example.com", Version: "v1", Kind: "Bookmark"}}
	}
	if wt.accept.Protobuf {
		return forms.ProtobufBookmark(wt.kind, kind, meta)
	}
	return forms.WithType(kind.Resource, httpd.Encode(map[string]any{"metadata": meta}))
}

// send sends one object in the requested form.
func (wt *watcher) send(ctx context.Context, t store.EventType, o *store.Object, revision int64) error {
	body, err := encode(wt.kind, o, wt.accept, !wt.header)
	if err != nil {
		return err
	}
	wt.header = true
	wt.sent = max(wt.sent, revision)
	return wt.faults.Event(ctx, string(t), body)
}

// status encodes the object of an ERROR event.
func (wt *watcher) status(err error) []byte {
	body, _ := httpd.StatusObject(err)
	if wt.accept.Protobuf {
		return forms.ProtobufStatus(body)
	}
	return httpd.Encode(body)
}

// frame encodes one event. Frames end with a newline, as the real server's do.
func (wt *watcher) frame(eventType string, object []byte) []byte {
	if wt.accept.Protobuf {
		return schema.EncodeEvent(eventType, object)
	}
	b := make([]byte, 0, len(object)+40)
	b = append(b, `{"type":"`...)
	b = append(b, eventType...)
	b = append(b, `","object":`...)
	b = append(b, object...)
	return append(b, "}\n"...)
}
