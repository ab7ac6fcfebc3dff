package forms

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/schema"
	"skiff/internal/testcluster/apiserver/store"
)

// protobufForm is nil for a kind that has none, and for definitions of custom resources: their schemas are not
// encoded.
func protobufForm(k *kinds.Kind) *schema.Type {
	if k.Kind == "CustomResourceDefinition" {
		return nil
	}
	return schema.For(k.APIVersion(), k.Kind)
}

// encoder encodes objects of one kind. What it makes is kept with the version of the object, as far as there is room.
type encoder struct {
	kind      *kinds.Kind
	form      *schema.Type
	e         schema.Encoder
	json, out []byte // reused
}

// fields returns the fields of an object, until the next call.
func (e *encoder) fields(o *store.Object) ([]byte, error) {
	if _, body := o.Encoded(e.form); body != nil {
		return body, nil
	}
	view, err := ViewOf(e.kind, o)
	if err != nil {
		return nil, err
	}
	e.json, e.e.Known = AppendObject(e.json[:0], e.kind, o, view, false), e.e.Known[:0]
	if view == nil {
		for from, to := range o.SharedTexts() {
			e.e.Known = append(e.e.Known, schema.Span{From: from, To: to})
		}
	}
	if e.out, err = e.e.Append(e.out[:0], e.form, e.json); err != nil {
		return nil, err
	}
	o.Keep(e.form, e.out)
	return e.out, nil
}

// size returns how many bytes the fields of an object take.
func (e *encoder) size(o *store.Object) (int, error) {
	if size, _ := o.Encoded(e.form); size > 0 {
		return size, nil
	}
	fields, err := e.fields(o)
	return len(fields), err
}

// ProtobufObject encodes an object of a kind that PrefersProtobuf has said to have that form.
func ProtobufObject(k *kinds.Kind, o *store.Object) ([]byte, error) {
	e := encoder{kind: k, form: protobufForm(k)}
	fields, err := e.fields(o)
	return schema.InEnvelope(k.APIVersion(), k.Kind, fields), err
}

// lengthOf returns how many bytes the items of a list take. They are encoded for that on all processors, as the client
// waits meanwhile.
func (e *encoder) lengthOf(objects []*store.Object) (int, error) {
	const least = 500 // objects for a goroutine: they take some milliseconds
	var each sync.WaitGroup
	var total atomic.Int64
	var failed atomic.Pointer[error]
	n := min(runtime.GOMAXPROCS(0), len(objects)/least+1)
	for part := range slices.Chunk(objects, len(objects)/n+1) {
		each.Go(func() {
			defer func() { // as in the goroutine of the request, a panic ends only that
				if p := recover(); p != nil {
					err := fmt.Errorf("encode a list of %s: %v", e.kind.Plural, p)
					failed.Store(&err)
				}
			}()
			e, item := encoder{kind: e.kind, form: e.form}, []byte(nil)
			for _, o := range part {
				size, err := e.size(o)
				if err != nil {
					failed.Store(&err)
					return
				}
				item = schema.AppendItem(item[:0], size)
				total.Add(int64(len(item) + size))
			}
		})
	}
	each.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return int(total.Load()), nil
}

// WriteProtobufList answers with a list. Its length is ahead of it, so each object is encoded for its length first,
// and again where there was no room to keep it.
func WriteProtobufList(w http.ResponseWriter, k *kinds.Kind, meta map[string]any, objects []*store.Object) error {
	e, item := encoder{kind: k, form: protobufForm(k)}, []byte(nil)
	total, err := e.lengthOf(objects)
	if err != nil {
		return err
	}
	head, err := schema.AppendList(nil, k.APIVersion(), k.List(), httpd.Encode(meta), total)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", ProtobufType)
	w.Header().Set("Content-Length", strconv.Itoa(len(head)+total+len(schema.EndOfEnvelope)))
	w.WriteHeader(http.StatusOK)
	w.Write(head) // an error means that the client is gone
	for _, o := range objects {
		fields, err := e.fields(o)
		if err != nil {
			panic(err) // never: it was encoded before
		}
		item = append(schema.AppendItem(item[:0], len(fields)), fields...)
		w.Write(item)
	}
	w.Write([]byte(schema.EndOfEnvelope))
	return nil
}

// ProtobufStatus encodes a Status.
func ProtobufStatus(o map[string]any) []byte { return protobuf(status, o) }

func protobuf(k kube.Resource, o map[string]any) []byte {
	return must(schema.For(k.APIVersion(), k.Kind).Encode(k.APIVersion(), k.Kind, httpd.Encode(o)))
}

// SetType says that an answer is in protobuf, where it is.
func SetType(w http.ResponseWriter, a Accept) {
	if a.Protobuf {
		w.Header().Set("Content-Type", ProtobufType)
	}
}

// Write answers with an object that is not stored, of a built-in kind.
func Write(w http.ResponseWriter, code int, a Accept, k kube.Resource, o map[string]any) {
	SetType(w, a)
	switch {
	case a.MetadataOnly && k != status:
		httpd.Bytes(w, code, EncodePartial(Partial(o["metadata"], a), a))
	case a.Protobuf:
		httpd.Bytes(w, code, protobuf(k, o))
	default:
		httpd.Bytes(w, code, WithType(k, httpd.Encode(Untyped(o))))
	}
}

var status = kube.Resource{Version: "v1", Kind: "Status"}

// WriteStatus answers with a Status.
func WriteStatus(w http.ResponseWriter, code int, a Accept, o map[string]any) {
	Write(w, code, a, status, o)
}

// WriteProtobufError is writeError for a request that is answered in protobuf.
func WriteProtobufError(w http.ResponseWriter, err error) {
	body, st := httpd.StatusObject(err)
	w.Header().Set("Content-Type", ProtobufType)
	httpd.SetRetryAfter(w, st)
	httpd.Bytes(w, st.Code, ProtobufStatus(body))
}

// ProtobufBookmark encodes a bookmark, whose object has the fields of one kind and says that it is of another, which
// may be the same.
func ProtobufBookmark(fieldsOf, said *kinds.Kind, meta map[string]any) []byte {
	object := httpd.Encode(map[string]any{"metadata": meta})
	return must(protobufForm(fieldsOf).Encode(said.APIVersion(), said.Kind, object))
}

// must is for objects that the server made itself.
func must(body []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return body
}
