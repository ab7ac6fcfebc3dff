package cache

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
)

// errInconsistent is a streamed list that differs from a paged one of the same version.
var errInconsistent = errors.New("the streamed list differs from a list of the same resource version")

// maxDifferences bounds the objects that are named where two lists differ.
const maxDifferences = 5

// verify lists the objects at the version that a streamed list has brought, and compares, if the options ask for it.
// Where that finds another content, the paged list is believed, which API servers have served for longer: it is read
// next.
func (r *Reflector[T]) verify(ctx context.Context, s state[T], slot *slot) state[T] {
	if !r.store.o.VerifyLists {
		return s
	}
	differences, err := r.compare(ctx, s.rv, slot)
	switch {
	case ctx.Err() != nil:
		return s
	case err != nil: // the version may be gone already
		r.log.Info("cannot compare the streamed list with a list of its version", "resourceVersion", s.rv,
			"reason", err.Error())
		return s
	case len(differences) == 0:
		r.log.V(1).Info("the streamed list is equal to a list of its version", "resourceVersion", s.rv)
		return s
	}
	r.store.count(r.scope, func(n *Counters) { n.Inconsistent++ })
	r.store.flood.Error(r.log, errInconsistent, "a fault of the API server: its objects are listed again, in pages",
		"resourceVersion", s.rv, "differences", len(differences),
		"first", strings.Join(differences[:min(len(differences), maxDifferences)], ", "))
	s.pagedUntil = time.Now().Add(pagedFor)
	return r.relist(closeStream(s), "inconsistent")
}

// compare returns how the content of the mirror differs from a list of that version. Nobody else changes it meanwhile.
func (r *Reflector[T]) compare(ctx context.Context, rv string, slot *slot) (differences []string, err error) {
	found := map[kube.Key]bool{}
	each := func(obj kube.Object, _ kube.Part, bad *kube.DecodeError) error {
		slot.moves()
		if bad != nil {
			found[bad.Key] = true
			return nil
		}
		k := obj.ObjectMeta().Key()
		found[k] = true
		switch held, _ := r.store.identify(k); {
		case !r.scope.covers(k.Namespace), r.store.skims(k):
		case !held.known:
			differences = append(differences, k.String()+" is missing")
		case !held.sameVersion(obj.ObjectMeta()):
			differences = append(differences, k.String()+" is of another version")
		}
		return nil
	}
	_, err = kube.List[T](ctx, r.store.o.Client, r.query, kube.ListOptions{ResourceVersion: rv,
		ResourceVersionMatch: "Exact", Each: each, Skim: func(kube.Key) bool { return true }, Again: func() {
			differences = nil
			clear(found)
		}})
	if err != nil {
		return nil, err
	}
	r.store.mu.RLock()
	defer r.store.mu.RUnlock()
	for e := range r.store.objects.entries(r.scope.namespace) {
		if !found[e.key()] {
			differences = append(differences, e.key().String()+" is not in the list")
		}
	}
	slices.Sort(differences)
	return differences, nil
}
