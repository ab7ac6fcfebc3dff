package cache

import (
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Heads are the metadata of objects too large to be held: who owns and who selects an object, so that a too large
// object concerns nobody else.

const (
	// maxHead bounds the metadata kept of a too large object: twenty labels need a quarter.
	maxHead = 4 << 10
	// maxHeadValue bounds an annotation kept. Longer annotations are configuration, or a copy of the object; those
	// about owners are short.
	maxHeadValue = 256
)

// headBytes is the size of a head besides the texts, with a few labels.
const headBytes = 512

// headOf returns the metadata kept of a too large object; nil: the metadata is too long as well.
func headOf(obj kube.Object) *kube.MetaAnnotated {
	head := *kube.HeadOf(obj)
	annotations := head.Annotations
	head.Annotations = nil
	for _, a := range annotations {
		if len(a.Value) <= maxHeadValue {
			head.Annotations = append(head.Annotations, a)
		}
	}
	if textOf(&head) > maxHead {
		return nil
	}
	return &head
}

// textOf is about how long metadata is.
func textOf(m *kube.MetaAnnotated) (n int64) {
	for _, of := range []kube.Labels{m.Labels, m.Annotations} {
		for _, l := range of {
			n += int64(labelBytes + len(l.Key) + len(l.Value))
		}
	}
	for _, o := range m.OwnerReferences {
		n += int64(ownerBytes + len(o.APIVersion) + len(o.Kind) + len(o.Name) + len(o.UID))
	}
	for _, f := range m.Finalizers {
		n += int64(stringBytes + len(f))
	}
	return n
}

// Large is an object too large to be held.
type Large struct {
	Key     kube.Key
	Labels  kube.Labels
	Known   bool           // Labels are known
	Problem health.Problem // the memory taken, and the next step
}
