package cache

import (
	"reflect"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// This file keeps the keys of objects not held whole, for the mirror, and for conditions, status pages and metrics.

// maxKeys is how many objects of a namespace are known by key: more than most clusters have of a kind, in about a
// MiB. Objects beyond maxKeys are only counted.
const maxKeys = 5_000

// keys are the objects of a namespace that are not held.
type keys struct {
	byName map[string]shedKey
	more   int   // objects beyond maxKeys
	size   int64 // memory the objects would take, about
}

// shedKey is all that is known of an object not held.
type shedKey struct {
	uid, rv    string
	generation int64
	owner      keyOwner // the controller
	size       int64    // memory the object would take, about
	large      bool     // larger than one object may be
	deleting   bool     // being deleted
	reported   bool     // the object's status says: not worked on
	// head is the object's metadata; nil: the metadata is too long, or the object is not too large.
	head *kube.MetaAnnotated
}

// keyOwner is a controller without the flags, which would make each key eight bytes larger.
type keyOwner struct{ APIVersion, Kind, Name, UID string }

// keyBytes is the size of a key besides the texts.
var keyBytes = int64(reflect.TypeFor[shedKey]().Size()) + entryBytes

// maxOwnerText bounds the texts kept of a controller: names have 253 bytes at most.
const maxOwnerText = 1 << 10

// keyOf returns the key of an object not held.
func keyOf(m *kube.Meta, size int64) shedKey {
	k := shedKey{uid: m.UID, rv: m.ResourceVersion, generation: m.Generation, size: size, deleting: m.Deleting()}
	o, _ := m.Controller()
	if len(o.Name)+len(o.Kind)+len(o.UID)+len(o.APIVersion) <= maxOwnerText {
		k.owner = keyOwner{o.APIVersion, o.Kind, o.Name, o.UID}
	}
	return k
}

func (k shedKey) bytes(name string) int64 {
	n := keyBytes + int64(len(name)+len(k.uid)+len(k.rv)+len(k.owner.Name)+len(k.owner.UID))
	if k.head != nil {
		n += headBytes + textOf(k.head)
	}
	return n
}

// put notes an object: a new object if added is true and no key is known. The result is by how much the keys grow.
func (k *keys) put(name string, key shedKey, added bool) (more int64) {
	before, known := k.byName[name]
	switch {
	case known:
		more -= before.bytes(name)
		k.size -= before.size
		key.reported = key.reported || before.reported && before.uid == key.uid
	case len(k.byName) >= maxKeys:
		if added {
			k.more++
			k.size += key.size
		}
		return 0
	}
	if k.byName == nil {
		k.byName = map[string]shedKey{}
	}
	k.byName[name] = key
	k.size += key.size
	return more + key.bytes(name)
}

// delete drops an object; size is the object's size if no key is known.
func (k *keys) delete(name string, size int64) (less int64) {
	key, known := k.byName[name]
	switch {
	case known:
		delete(k.byName, name)
		k.size -= key.size
		less = key.bytes(name)
	case k.more > 0:
		k.more--
		k.size -= size
	}
	if k.size < 0 || len(k.byName) == 0 && k.more == 0 {
		k.size = 0
	}
	return less
}

func (k *keys) bytes() (n int64) {
	for name, key := range k.byName {
		n += key.bytes(name)
	}
	return n
}

// keepReported keeps the reported marks of the keys before.
func (k *keys) keepReported(before *keys) {
	for name, key := range k.byName {
		if was := before.byName[name]; was.reported && was.uid == key.uid {
			key.reported = true
			k.byName[name] = key
		}
	}
}

func (k *keys) len() int { return len(k.byName) + k.more }

// stub returns an object with the fields known by a key: for those who ask which object a change is about.
func stub[T kube.Object](k kube.Key, key shedKey) T {
	obj := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	if key.head != nil {
		kube.SetHead(obj, *key.head)
		return obj
	}
	m := obj.ObjectMeta()
	m.Name, m.Namespace, m.UID, m.ResourceVersion = k.Name, k.Namespace, key.uid, key.rv
	if key.deleting {
		m.DeletionTimestamp = time.Unix(0, 0) // since when is not known
	}
	if o := key.owner; o.UID != "" {
		m.OwnerReferences = []kube.OwnerReference{{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID,
			Controller: true}}
	}
	return obj
}

// ShedNamespace is the part of a namespace not held by a mirror.
type ShedNamespace struct {
	Namespace string
	Whole     bool           // no object is held; else only the too large ones are missing
	Objects   int            // not held
	Bytes     int64          // memory the objects would take, about
	Largest   string         // the largest object, as far as is known
	Most      int64          // memory of Largest
	Problem   health.Problem // the memory taken, and the next step
}
