package cache

import (
	"errors"
	"reflect"
	"time"

	"skiff/internal/runtime/kube"
)

// This file is what is known of an object that is not held as it is.

// maxKeys is how many objects of a namespace are known by their keys: more than most clusters have of a kind, in about
// a MiB. Beyond it they are only counted.
const maxKeys = 5_000

// keys are objects of a namespace that are not held.
type keys struct {
	byName map[string]shedKey
	more   int   // objects beyond maxKeys
	size   int64 // what those of them would take, about, that would be held
	beyond int64 // what the others would take
}

// shedKey is all that is known of an object that is not held.
type shedKey struct {
	uid, rv    string
	generation int64
	owner      kube.OwnerReference // the controller
	size       int64               // what it would take, about
	large      bool                // it is larger than one object may be
	beyond     bool                // the same, or it seems so: it would not be held
	bare       bool                // what its deletion needs of it is held
	deleting   bool                // it is being deleted
	told       bool                // its status says that it is not worked on
}

// keyBytes is what a key takes besides its texts.
var keyBytes = int64(reflect.TypeFor[shedKey]().Size()) + entryBytes

// maxOwnerText bounds what is kept of a controller: names have 253 bytes at most.
const maxOwnerText = 1 << 10

// keyOf returns what is kept of an object that is not held. Of one that was skimmed, the size is a guess: half of what
// came, because managedFields and the status of others are not held of any object.
func keyOf(m *kube.Meta, size int64) shedKey {
	k := shedKey{uid: m.UID, rv: m.ResourceVersion, generation: m.Generation, size: size,
		deleting: m.Deleting()}
	o, _ := m.Controller()
	if len(o.Name)+len(o.Kind)+len(o.UID)+len(o.APIVersion) <= maxOwnerText {
		k.owner = o
	}
	return k
}

func (k shedKey) bytes(name string) int64 {
	return keyBytes + int64(len(name)+len(k.uid)+len(k.rv)+len(k.owner.Name)+len(k.owner.UID))
}

// put notes an object, which is new if added says so and there is no key of it. It returns how much more the keys
// take, and whether there was room for this one.
func (k *keys) put(name string, key shedKey, added bool) (more int64, stored bool) {
	before, known := k.byName[name]
	switch {
	case known:
		more -= before.bytes(name)
		k.count(before, -1)
		key.told = key.told || before.told && before.uid == key.uid
	case len(k.byName) >= maxKeys:
		if added {
			k.more++
			k.count(key, 1)
		}
		return 0, false
	}
	if k.byName == nil {
		k.byName = map[string]shedKey{}
	}
	k.byName[name] = key
	k.count(key, 1)
	return more + key.bytes(name), true
}

// delete drops an object; size is what it took if there is no key of it.
func (k *keys) delete(name string, size int64) (less int64) {
	key, known := k.byName[name]
	switch {
	case known:
		delete(k.byName, name)
		k.count(key, -1)
		less = key.bytes(name)
	case k.more > 0:
		k.more--
		k.size -= size
	}
	if k.size < 0 || len(k.byName) == 0 && k.more == 0 {
		k.size = 0
	}
	if len(k.byName) == 0 && k.more == 0 {
		k.beyond = 0
	}
	return less
}

// count adds what an object would take, n times.
func (k *keys) count(key shedKey, n int64) {
	if key.beyond {
		k.beyond += n * key.size
	} else {
		k.size += n * key.size
	}
}

func (k *keys) bytes() (n int64) {
	for name, key := range k.byName {
		n += key.bytes(name)
	}
	return n
}

func (k *keys) len() int { return len(k.byName) + k.more }

// stub returns an object that has what is known by a key: for those who ask which object a change is about.
func stub[T kube.Object](k kube.Key, key shedKey) T {
	obj := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	m := obj.ObjectMeta()
	m.Name, m.Namespace, m.UID, m.ResourceVersion = k.Name, k.Namespace, key.uid, key.rv
	if key.deleting {
		m.DeletionTimestamp = time.Unix(0, 0) // since when is not known
	}
	if key.owner.UID != "" {
		m.OwnerReferences = []kube.OwnerReference{key.owner}
	}
	return obj
}

// maxBareText bounds the finalizers of an object that is being deleted and held without the rest.
const maxBareText = 2 << 10

// form is how an object is held that has come.
type form[T kube.Object] struct {
	name, uid, rv string
	obj           T     // if held
	held          bool  // as it is; with shed, without what only its spec needs
	bytes         int64 // that obj takes, if held
	shed          bool  // it is known by key
	key           shedKey
}

// largeOf returns what is known of an object that was too large to be read: its metadata.
func largeOf[T kube.Object](bad *kube.DecodeError) (obj T, part kube.Part, ok bool) {
	if bad == nil || bad.Meta == nil || bad.Key.Name == "" || !errors.Is(bad, kube.ErrTooLarge) {
		return obj, part, false
	}
	obj = stub[T](bad.Key, shedKey{})
	*obj.ObjectMeta() = *bad.Meta
	return obj, kube.Part{Size: int(bad.Size), Large: true}, true
}

// formOf returns in which form an object that has come is held; whole says that its namespace is shed. Of one that is
// being deleted, what that needs is held in any case: else nothing would ever make room.
func (s *Store[T]) formOf(obj T, part kube.Part, whole bool) form[T] {
	m := obj.ObjectMeta()
	f := form[T]{name: m.Name, uid: m.UID, rv: m.ResourceVersion, obj: obj, held: true}
	if !part.Skimmed && !part.Large {
		f.bytes = sizeOf(obj)
	}
	large := part.Large || f.bytes > s.o.MaxObjectBytes
	if !whole && !large && !part.Skimmed {
		return f
	}
	f.key, f.shed, f.held = keyOf(m, f.bytes), true, false
	switch {
	case part.Skimmed:
		f.key.size = int64(part.Size / 2)
	case part.Large:
		f.key.size = int64(part.Size)
	}
	f.bytes = 0
	f.key.large, f.key.beyond = large, large || f.key.size > s.o.MaxObjectBytes
	if s.o.Owners {
		if f.obj, f.held = bareOf(obj); f.held {
			f.key.bare, f.bytes = true, sizeOf(f.obj)
			f.key.size, f.key.beyond = f.bytes, false // it needs no more
		}
	}
	return f
}

// bareOf returns what the deletion of an object needs of it: its identity and its finalizers. false: there is none, or
// nothing to do for it.
func bareOf[T kube.Object](obj T) (T, bool) {
	m := obj.ObjectMeta()
	text := 0
	for _, f := range m.Finalizers {
		text += len(f)
	}
	bare := stub[T](m.Key(), shedKey{uid: m.UID, rv: m.ResourceVersion})
	b := bare.ObjectMeta()
	b.Generation, b.CreationTimestamp, b.DeletionTimestamp = m.Generation, m.CreationTimestamp, m.DeletionTimestamp
	b.Finalizers = m.Finalizers
	return bare, m.Deleting() && text > 0 && text <= maxBareText
}
