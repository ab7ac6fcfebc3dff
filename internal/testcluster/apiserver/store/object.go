package store

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"skiff/internal/runtime/patch"
)

// Object is one version of an object. It is immutable. It is kept as JSON, and decoded for as long as it is in use:
// the decoded value takes about four times the memory. It has no apiVersion and kind, which depend on the endpoint;
// its metadata.resourceVersion is Revision in decimal.
type Object struct {
	Key
	Revision int64
	Shape    any    // set by the writer, see Put
	Created  string // metadata.creationTimestamp
	Deleting bool   // it has a deletionTimestamp

	json    []byte // without the shared texts
	shared  []sharedText
	value   atomic.Pointer[map[string]any] // nil: decode json
	encoded atomic.Pointer[encoded]
	note    atomic.Pointer[any]
	store   *Store // nil for an object that is not stored: it keeps its value
}

// NewObject returns an object that is not stored: the result of a dry run, or of a write that removed it. It takes
// ownership of value.
func NewObject(k Key, revision int64, value map[string]any, shape any) *Object {
	meta, _ := value["metadata"].(map[string]any)
	o := &Object{Key: k, Revision: revision, Shape: shape}
	o.Created, _ = meta["creationTimestamp"].(string)
	deleted, _ := meta["deletionTimestamp"].(string)
	o.Deleting = deleted != ""
	b, err := patch.Encode(value)
	if err != nil {
		panic(fmt.Sprintf("store %s: %v", k.Name, err)) // not a JSON value: a bug of the writer
	}
	o.share(b, meta)
	o.value.Store(&value)
	return o
}

// sharedText is a text that belongs into an object's JSON at an offset.
type sharedText struct {
	at   int
	text patch.Text
}

// share keeps b without the owners of fields in managedFields, of which most objects of a kind have the same.
func (o *Object) share(b []byte, meta map[string]any) {
	entries, _ := meta["managedFields"].([]any)
	length, taken := len(b), 0
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		text, ok := entry["fieldsV1"].(patch.Text)
		if !ok {
			continue
		}
		at := bytes.Index(b[taken:], []byte(text.String()))
		if at < 0 {
			continue // never: Encode writes the entries in their order
		}
		o.shared = append(o.shared, sharedText{at: taken + at - (len(b) - length), text: text})
		taken += at + len(text.String())
		length -= len(text.String())
	}
	o.json = make([]byte, 0, length)
	from := 0
	for _, s := range o.shared {
		to := from + s.at - len(o.json)
		o.json = append(o.json, b[from:to]...)
		from = to + len(s.text.String())
	}
	o.json = append(o.json, b[from:]...)
}

// Size returns the length of the object as JSON.
func (o *Object) Size() int {
	n := len(o.json)
	for _, s := range o.shared {
		n += len(s.text.String())
	}
	return n
}

// AppendJSON appends the object as JSON.
func (o *Object) AppendJSON(b []byte) []byte {
	b = slices.Grow(b, o.Size())
	from := 0
	for _, s := range o.shared {
		b = append(append(b, o.json[from:s.at]...), s.text.String()...)
		from = s.at
	}
	return append(b, o.json[from:]...)
}

// SharedTexts has where the owners of fields are in the JSON of the object, each a value.
func (o *Object) SharedTexts() iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		before := 0
		for _, s := range o.shared {
			from := before + s.at
			before += len(s.text.String())
			if !yield(from, before+s.at) {
				return
			}
		}
	}
}

// JSON returns the object as JSON.
func (o *Object) JSON() []byte { return o.AppendJSON(nil) }

// Value returns the decoded object, which must not be changed.
func (o *Object) Value() map[string]any {
	if v := o.value.Load(); v != nil {
		return *v
	}
	if o.store != nil && len(o.json) > largeObject {
		o.store.large.Lock()
		defer o.store.large.Unlock()
		if v := o.value.Load(); v != nil {
			return *v
		}
	}
	v := patch.DecodeStored(o.JSON())
	o.value.Store(&v)
	if o.store != nil {
		o.store.decoded.add(o)
	}
	return v
}

// largeObject is the length of JSON above which objects are decoded one at a time, because they can take sixty times
// that: many readers of one share its value.
const largeObject = 64 << 10

// Note returns what Annotate attached, nil if nothing: what a reader wants to know about this version without
// decoding it again.
func (o *Object) Note() any {
	if n := o.note.Load(); n != nil {
		return *n
	}
	return nil
}

// Annotate attaches a note; a later one replaces it.
func (o *Object) Annotate(note any) { o.note.Store(&note) }

// At returns the object with another revision: a watch sends that when an object no longer matches.
func (o *Object) At(revision int64) *Object {
	v := withMetadata(o.Value())
	v["metadata"].(map[string]any)["resourceVersion"] = strconv.FormatInt(revision, 10)
	return NewObject(o.Key, revision, v, o.Shape)
}

// decodedBytes is how much JSON the store keeps decoded, too: some hundred objects, more than clients change at the
// same time.
const decodedBytes = 2 << 20

// decoded remembers which objects are decoded, in the order in which they were.
type decoded struct {
	mu    sync.Mutex // guards what follows
	queue []*Object
	bytes int // of JSON of the queue
}

// add notes that o is decoded, and drops the values that were decoded first once there are too many.
func (d *decoded) add(o *Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = append(d.queue, o)
	d.bytes += len(o.json)
	for d.bytes > decodedBytes && len(d.queue) > 1 { // the new one stays: its reader is at work
		first := d.queue[0]
		d.queue[0], d.queue = nil, d.queue[1:]
		d.bytes -= len(first.json)
		first.value.Store(nil)
	}
}

// encoded is an object in another form than JSON.
type encoded struct {
	form any
	size int
	body atomic.Pointer[[]byte] // nil: there was no room
}

// Encoded returns what Keep has kept of an object: the length of its encoded form, 0 if it is not known, and that form
// itself, nil if it is not kept any more.
func (o *Object) Encoded(form any) (size int, body []byte) {
	e := o.encoded.Load()
	if e == nil || e.form != form {
		return 0, nil
	}
	if b := e.body.Load(); b != nil {
		body = *b
	}
	return e.size, body
}

// Keep keeps the length of an object's encoded form, and a copy of that form where there is room.
func (o *Object) Keep(form any, body []byte) {
	e := &encoded{form: form, size: len(body)}
	if o.encoded.Store(e); o.store != nil {
		o.store.encoded.add(e, body)
	}
}

// encodedBytes is how much the store keeps encoded: some ten thousand pods of a test, and several times what changes
// while all watchers of a pod read it.
const encodedBytes = 32 << 20

// turnover is how many forms are not kept, where there is no room, for each that takes the place of others: those may
// be of old versions. Lists read all objects in turn, so what was used least recently would be what is needed next.
const turnover = 16

// encodings remembers what is kept.
type encodings struct {
	mu    sync.Mutex // guards what follows
	kept  []*encoded
	bytes int
}

// add keeps a form, in the place of others if there is no room.
func (k *encodings) add(e *encoded, body []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bytes+e.size > encodedBytes && (rand.IntN(turnover) > 0 || e.size > encodedBytes) {
		return
	}
	for k.bytes += e.size; k.bytes > encodedBytes; {
		i, last := rand.IntN(len(k.kept)), len(k.kept)-1
		k.kept[i].body.Store(nil)
		k.bytes -= k.kept[i].size
		k.kept[i], k.kept[last] = k.kept[last], nil
		k.kept = k.kept[:last]
	}
	body = bytes.Clone(body)
	e.body.Store(&body)
	k.kept = append(k.kept, e)
}

// forget drops all forms, many of which are of versions that nobody reads any more.
func (k *encodings) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.kept {
		e.body.Store(nil)
	}
	k.kept, k.bytes = nil, 0
}

// withMetadata returns a copy of an object that shares all but the metadata, so that its resourceVersion can be set.
func withMetadata(v map[string]any) map[string]any {
	out := maps.Clone(v)
	meta, _ := v["metadata"].(map[string]any)
	out["metadata"] = maps.Clone(meta)
	return out
}
