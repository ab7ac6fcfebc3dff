package kube

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Object is what a list or watch can be decoded into: a pointer to a struct that embeds Meta (or
// MetaAnnotated) under "metadata" and declares the other fields that its reader wants, and no more:
//
//	type Pod struct {
//		kube.Meta `json:"metadata"`
//		Status    PodStatus `json:"status"`
//	}
//
// Objects that came from a server are shared by all readers and must not be changed.
type Object interface {
	ObjectMeta() *Meta
}

// Meta is the part of ObjectMeta needed by a controller runtime. Annotations are left out, because most watched kinds
// do not need them and the last-applied annotation holds a whole object; managedFields always.
type Meta struct {
	Name              string           `json:"name"`
	Namespace         string           `json:"namespace"`
	UID               string           `json:"uid"`
	ResourceVersion   string           `json:"resourceVersion"`
	Generation        int64            `json:"generation"`
	CreationTimestamp time.Time        `json:"creationTimestamp,omitzero"` // whole seconds
	DeletionTimestamp time.Time        `json:"deletionTimestamp,omitzero"` // zero: not being deleted
	Labels            Labels           `json:"labels"`
	OwnerReferences   []OwnerReference `json:"ownerReferences"`
	Finalizers        []string         `json:"finalizers"`
}

// MetaAnnotated is Meta with annotations, for kinds whose controller reads some.
type MetaAnnotated struct {
	Meta
	Annotations Labels `json:"annotations"`
}

// ManagedFields says which fields of an object one manager owns.
type ManagedFields struct {
	Manager     string `json:"manager"`
	Operation   string `json:"operation"` // "Apply" or "Update"
	Subresource string `json:"subresource"`
	Time        string `json:"time"` // of the manager's last change, RFC 3339 in UTC
	FieldsV1    Raw    `json:"fieldsV1"`
}

// ObjectHead returns m itself: see HeadOf.
func (m *MetaAnnotated) ObjectHead() *MetaAnnotated { return m }

// HeadOf returns the metadata of an object, with the annotations if declared. The result may be shared.
func HeadOf(obj Object) *MetaAnnotated {
	if annotated, ok := obj.(interface{ ObjectHead() *MetaAnnotated }); ok {
		return annotated.ObjectHead()
	}
	return &MetaAnnotated{Meta: *obj.ObjectMeta()}
}

// SetHead sets the metadata of an object, as far as declared.
func SetHead(obj Object, head MetaAnnotated) {
	if annotated, ok := obj.(interface{ ObjectHead() *MetaAnnotated }); ok {
		*annotated.ObjectHead() = head
		return
	}
	*obj.ObjectMeta() = head.Meta
}

// MetaWhole is all of the metadata but managedFields, for kinds of which whole objects are passed on.
type MetaWhole struct {
	MetaAnnotated
	ManagedFields Skipped `json:"managedFields"`
	Rest          Raw     `json:",embed"` // all other members as one JSON object; nil: none
}

// MetaOwn is Meta with skiff's own annotations. Other annotations are skipped while reading: on objects of users they
// can be 256 KiB without interest to a controller.
type MetaOwn struct {
	Meta
	Annotations Labels `json:"annotations" prefix:"skiff.dev/"`
}

// OwnerReference names an owner of an object.
type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         bool   `json:"controller,omitempty"`
	BlockOwnerDeletion bool   `json:"blockOwnerDeletion,omitempty"`
}

// ObjectMeta returns m, so that every struct with an embedded Meta is an Object.
func (m *Meta) ObjectMeta() *Meta { return m }

// Key returns where the object is.
func (m *Meta) Key() Key { return Key{Namespace: m.Namespace, Name: m.Name} }

// Deleting reports whether the object was deleted and waits for finalizers or a grace period.
func (m *Meta) Deleting() bool { return !m.DeletionTimestamp.IsZero() }

// Controller returns the owner reference whose controller field is true, and false where there is none.
func (m *Meta) Controller() (OwnerReference, bool) {
	for _, o := range m.OwnerReferences {
		if o.Controller {
			return o, true
		}
	}
	return OwnerReference{}, false
}

// ControllerUID returns the uid of the controlling owner, or "".
func (m *Meta) ControllerUID() string {
	o, _ := m.Controller()
	return o.UID
}

// Raw is a field kept as received JSON, to be compared or passed on as a whole.
type Raw = json.RawMessage

// Label is one key and value of Labels.
type Label struct{ Key, Value string }

// Labels holds labels or annotations: sorted by key, immutable, a fifth of the size of a map. Its strings are
// shared between objects.
type Labels []Label

// Get returns the value of key; false: not set.
func (l Labels) Get(key string) (string, bool) {
	i, ok := slices.BinarySearchFunc(l, key, func(e Label, k string) int { return cmp.Compare(e.Key, k) })
	if !ok {
		return "", false
	}
	return l[i].Value, true
}

// Map returns a copy of l as a map, which the caller may change.
func (l Labels) Map() map[string]string {
	m := make(map[string]string, len(l))
	for _, e := range l {
		m[e.Key] = e.Value
	}
	return m
}

// UnmarshalJSON reads a JSON object of strings.
func (l *Labels) UnmarshalJSON(text []byte) error { return Unmarshal(text, l) }

// MarshalJSON writes l as a JSON object.
func (l Labels) MarshalJSON() ([]byte, error) { return json.Marshal(l.Map()) }

// labelSize is the memory of a label besides its texts.
var labelSize = int(reflect.TypeFor[Label]().Size())

// labelsPlan is the plan of Labels with keys that begin with one of prefixes; nil: with all keys. A repeated key keeps
// the last value, as on the server.
func labelsPlan(prefixes []string) plan {
	return func(s *scanner, v reflect.Value) error { return decodeLabels(s, v, prefixes) }
}

func decodeLabels(s *scanner, v reflect.Value, prefixes []string) error {
	if ok, err := s.enterInto('{', v); !ok {
		return err
	}
	// Eight labels are more than most objects have; more grow the slice.
	var buf [8]Label
	out := buf[:0]
	var bad *misfit
	for first := true; ; first = false {
		name, ok, err := s.member(first)
		if !ok {
			if err != nil {
				return err
			}
			break
		}
		if !keeps(prefixes, name) {
			if err := s.skip(); err != nil {
				return err
			}
			continue
		}
		key := interned.of(name)
		text, unread := []byte(nil), errLarge()
		if s.admits(labelSize+len(key), 0) {
			text, unread = s.value()
		} else {
			unread = cmp.Or(s.skip(), unread)
		}
		if err = cmp.Or(unread, err); err == nil && text[0] != '"' {
			err = wrongKind('"', text)
		}
		if err == nil {
			var value []byte
			if value, err = unquote(text); err == nil {
				out = append(out, Label{key, interned.of(value)})
			}
		}
		if err != nil {
			if bad, err = keep(bad, err, "."+key); err != nil {
				return err
			}
		}
	}
	if bad != nil {
		return bad
	}
	*v.Addr().Interface().(*Labels) = sharedLabels.of(Labels(out).sorted())
	return nil
}

// keeps says whether a field of Labels with some prefixes keeps a key.
func keeps(prefixes []string, name []byte) bool {
	for _, prefix := range prefixes {
		inner, anywhere := strings.CutPrefix(prefix, "*")
		if anywhere && strings.Contains(string(name), inner) || strings.HasPrefix(string(name), prefix) {
			return true // the compiler makes no string of the name
		}
	}
	return prefixes == nil
}

// sorted sorts l itself, and keeps the last of equal keys.
func (l Labels) sorted() Labels {
	slices.SortStableFunc(l, func(a, b Label) int { return cmp.Compare(a.Key, b.Key) })
	n := 0
	for i := range l {
		if i+1 < len(l) && l[i+1].Key == l[i].Key {
			continue
		}
		l[n] = l[i]
		n++
	}
	return l[:n]
}
