package cache

import (
	"errors"

	"skiff/internal/runtime/kube"
)

// form is how an object is known and held. The zero value stands for an unknown object.
type form[T kube.Object] struct {
	obj   T       // the object held, or come and not held; nil where only the key is known
	held  bool    // whole
	bytes int64   // size of obj, if held
	shed  bool    // known by key alone
	key   shedKey // if shed
}

func (f *form[T]) known() bool { return f.held || f.shed }

func (f *form[T]) uid() string {
	if f.held {
		return f.obj.ObjectMeta().UID
	}
	return f.key.uid
}

func (f *form[T]) rv() string {
	if f.held {
		return f.obj.ObjectMeta().ResourceVersion
	}
	return f.key.rv
}

// is says that the known object is m in the same version.
func (f *form[T]) is(m *kube.Meta) bool {
	return f.known() && f.uid() == m.UID && m.ResourceVersion != "" && f.rv() == m.ResourceVersion
}

// meta is the metadata of object.
func (f *form[T]) meta(k kube.Key) *kube.Meta { return f.object(k).ObjectMeta() }

// object returns the object of k, or the metadata as far as the key has them.
func (f *form[T]) object(k kube.Key) T {
	var none T
	if any(f.obj) == any(none) {
		return stub[T](k, f.key)
	}
	return f.obj
}

// largeOf returns the known part of an object too large to be read: the metadata.
func largeOf[T kube.Object](bad *kube.DecodeError) (obj T, part kube.Part, ok bool) {
	if bad == nil || bad.Head == nil || bad.Key.Name == "" || !errors.Is(bad, kube.ErrTooLarge) {
		return obj, part, false
	}
	obj = stub[T](bad.Key, shedKey{})
	kube.SetHead(obj, *bad.Head)
	return obj, kube.Part{Size: int(bad.Size), Large: true, Whole: bad.Whole}, true
}

// content is the forms of many objects: a list that is to become the content of a mirror.
type content[T kube.Object] struct {
	objects table[T]
	bad     map[kube.Key]*kube.DecodeError
	keys    map[string]*keys // by namespace: the objects not held whole
	rv      string
	// rewound: rv is of another history than the mirror, where the same version may be another content.
	rewound bool
}

func newContent[T kube.Object]() content[T] {
	return content[T]{objects: table[T]{}, bad: map[kube.Key]*kube.DecodeError{}, keys: map[string]*keys{}}
}

func (c *content[T]) form(k kube.Key) (f form[T]) {
	f.obj, f.held = c.objects.get(k)
	if of := c.keys[k.Namespace]; of != nil {
		f.key, f.shed = of.byName[k.Name]
	}
	return f
}

// put adds an object not known yet. The result is by how much the content grows.
func (c *content[T]) put(f form[T]) (more int64) {
	m := f.obj.ObjectMeta()
	if f.shed {
		of := c.keys[m.Namespace]
		if of == nil {
			of = &keys{}
			c.keys[m.Namespace] = of
		}
		of.put(m.Name, f.key, true)
		return 0
	}
	c.objects.share(m)
	c.objects.put(f.obj)
	return f.bytes
}

// putBad adds an object that does not decode. The last good copy stays.
func (c *content[T]) putBad(bad *kube.DecodeError) (more int64) {
	more = sizeOfBad(bad) - c.dropBad(bad.Key)
	c.bad[bad.Key] = bad
	return more
}

func (c *content[T]) dropBad(k kube.Key) (less int64) {
	if bad := c.bad[k]; bad != nil {
		delete(c.bad, k)
		return sizeOfBad(bad)
	}
	return 0
}

// drop removes the object under a key; size is the object's size if the key is not known. The result is by how much
// the content shrinks.
func (c *content[T]) drop(k kube.Key, size int64) (less int64) {
	less = c.dropBad(k)
	if of := c.keys[k.Namespace]; of != nil {
		if _, known := of.byName[k.Name]; known || size > 0 {
			of.delete(k.Name, size)
		}
	}
	if obj, ok := c.objects.get(k); ok {
		less += sizeOf(obj)
		c.objects.delete(k)
	}
	return less
}
