package cache

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// This file is what is known of the objects that are not held as they are, for the mirror, and for conditions, status
// pages and metrics.

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
	owner      keyOwner // the controller
	size       int64    // what it would take, about
	large      bool     // it is larger than one object may be
	beyond     bool     // the same, or it seems so: it would not be held
	bare       bool     // what its deletion needs of it is held
	deleting   bool     // it is being deleted
	reported   bool     // its status says that it is not worked on
	// head is its metadata; nil: that is too long, or not the object is too large, or the mirror is that of owners.
	head *kube.MetaAnnotated
}

// keyOwner is what is kept of a controller: without the flags, which would make each key eight bytes larger.
type keyOwner struct{ APIVersion, Kind, Name, UID string }

// keyBytes is what a key takes besides its texts.
var keyBytes = int64(reflect.TypeFor[shedKey]().Size()) + entryBytes

// maxOwnerText bounds what is kept of a controller: names have 253 bytes at most.
const maxOwnerText = 1 << 10

// keyOf returns what is kept of an object that is not held.
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

// put notes an object, which is new if added says so and there is no key of it. It returns how much more the keys
// take, and whether there was room for this one.
func (k *keys) put(name string, key shedKey, added bool) (more int64, stored bool) {
	before, known := k.byName[name]
	switch {
	case known:
		more -= before.bytes(name)
		k.count(before, -1)
		key.reported = key.reported || before.reported && before.uid == key.uid
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

// keepReported keeps of which objects the status says that they are not worked on.
func (k *keys) keepReported(before *keys) {
	for name, key := range k.byName {
		if was := before.byName[name]; was.reported && was.uid == key.uid {
			key.reported = true
			k.byName[name] = key
		}
	}
}

func (k *keys) len() int { return len(k.byName) + k.more }

// stub returns an object that has what is known by a key: for those who ask which object a change is about.
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

// ShedNamespace is what a mirror does not hold of a namespace.
type ShedNamespace struct {
	Namespace string
	Whole     bool           // none of its objects is held; else those are too large that are not
	Objects   int            // that are not held
	Bytes     int64          // what they would take, about
	Largest   string         // the largest of them, as far as is known
	Most      int64          // what that would take
	Problem   health.Problem // what takes how much, and what to do
}

// Sheds returns what is not held, by namespace, those first that would take most.
func (s *Store[T]) Sheds() []ShedNamespace {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []ShedNamespace
	for namespace, sh := range s.shed {
		if !sh.whole && sh.keys.len() == 0 {
			continue
		}
		one := ShedNamespace{Namespace: namespace, Whole: sh.whole, Objects: sh.keys.len(),
			Bytes:   sh.keys.size + sh.keys.beyond,
			Problem: s.unheldLocked(kube.Key{Namespace: namespace}).Problem}
		for name, key := range sh.keys.byName {
			if key.size > one.Most || key.size == one.Most && name < one.Largest {
				one.Largest, one.Most = name, key.size
			}
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b ShedNamespace) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Namespace, b.Namespace))
	})
	return out
}

// Keys returns the keys of all objects of a namespace that are known, held or not, of the whole mirror where namespace
// is "", in no order.
func (s *Store[T]) Keys(namespace string) []kube.Key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []kube.Key
	for e := range s.objects.entries(namespace) {
		out = append(out, e.key())
	}
	for of, sh := range s.shed {
		for name, key := range sh.keys.byName {
			if (namespace == "" || namespace == of) && !key.bare {
				out = append(out, kube.Key{Namespace: of, Name: name})
			}
		}
	}
	return out
}

// ShedObject is what is known of an object that is not held.
type ShedObject struct {
	UID, ResourceVersion string
	Generation           int64
	Reported             bool // its status says so: see Reported
}

// Shed returns what is known of an object that is not held; false: it is held, or not known.
func (s *Store[T]) Shed(k kube.Key) (ShedObject, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sh := s.shed[k.Namespace]
	if sh == nil {
		return ShedObject{}, false
	}
	key, known := sh.keys.byName[k.Name]
	return ShedObject{key.uid, key.rv, key.generation, key.reported}, known && !key.bare
}

// Bare says that an object is held without its spec, because it is being deleted and there is no room for more.
func (s *Store[T]) Bare(k kube.Key) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := s.formLocked(k)
	return f.bare()
}

// Reported notes that the status of an object that is not held says so. It is forgotten when the object is held again.
func (s *Store[T]) Reported(k kube.Key, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shed[k.Namespace]
	if sh == nil {
		return
	}
	if key, known := sh.keys.byName[k.Name]; known && key.uid == uid {
		key.reported = true
		sh.keys.byName[k.Name] = key
	}
}

// KnownByOwner is ByOwner where some are not held: of these it returns, as far as they are known, the metadata that
// their deletion needs.
func (s *Store[T]) KnownByOwner(namespace, uid string) ([]T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	set, err := s.indexedLocked(ownerIndex, namespace, uid, false)
	if err != nil {
		return nil, s.readError("list", fmt.Sprintf("by %s %q in %s", ownerIndex, uid, namespace), err)
	}
	out := make([]T, 0, len(set))
	for _, e := range set {
		out = append(out, e.obj)
	}
	for of, sh := range s.shed {
		for name, key := range sh.keys.byName {
			if covers(namespace, of) && key.owner.UID == uid && !key.bare {
				out = append(out, stub[T](kube.Key{Namespace: of, Name: name}, key))
			}
		}
	}
	slices.SortFunc(out, func(a, b T) int { return a.ObjectMeta().Key().Compare(b.ObjectMeta().Key()) })
	return out, nil
}
