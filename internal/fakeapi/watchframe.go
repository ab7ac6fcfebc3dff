package fakeapi

import (
	"context"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/faults"
	"skiff/internal/fakeapi/fields"
	"skiff/internal/fakeapi/forms"
	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/store"
	"skiff/internal/kube"
)

// bookmarkObject encodes the object of a bookmark in the requested form.
func (wt *watcher) bookmarkObject(meta map[string]any) []byte {
	switch {
	case wt.accept.Table:
		return answer.Encode(map[string]any{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta,
			"columnDefinitions": nil, "rows": []any{}})
	case wt.accept.MetadataOnly:
		return answer.Encode(map[string]any{"kind": "PartialObjectMetadata",
			"apiVersion": "meta.k8s.io/v1", "metadata": meta})
	}
	kind := wt.kind
	if wt.faults.Bookmarks(faults.BookmarksOfAnother) {
		kind = &kinds.Kind{Resource: kube.Resource{Group: "example.com", Version: "v1", Kind: "Bookmark"}}
	}
	if wt.accept.Protobuf {
		return forms.ProtobufBookmark(wt.kind, kind, meta)
	}
	return forms.WithType(kind, answer.Encode(map[string]any{"metadata": meta}))
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
	body, _ := answer.StatusObject(err)
	if wt.accept.Protobuf {
		return forms.ProtobufStatus(body)
	}
	return answer.Encode(body)
}

// frame encodes one event. Frames end with a newline, as the real server's do.
func (wt *watcher) frame(eventType string, object []byte) []byte {
	if wt.accept.Protobuf {
		return fields.EncodeEvent(eventType, object)
	}
	b := make([]byte, 0, len(object)+40)
	b = append(b, `{"type":"`...)
	b = append(b, eventType...)
	b = append(b, `","object":`...)
	b = append(b, object...)
	return append(b, "}\n"...)
}
