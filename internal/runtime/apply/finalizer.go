package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"skiff/internal/runtime/kube"
)

// AddFinalizer puts a finalizer on an object and returns the answer, the version that the next write has to name. It
// holds only for the version that was read, because a merge patch replaces the whole list, and with it what another
// controller has added meanwhile. Where there is another version by now the error is ErrConflict.
func (s *Statuses[T]) AddFinalizer(ctx context.Context, object T, name string) (T, error) {
	m := object.ObjectMeta()
	switch {
	case slices.Contains(m.Finalizers, name):
		return object, nil
	case m.Deleting():
		return object, fmt.Errorf("add finalizer %s to %s %s: %w", name, s.resource, m.Key(),
			errors.New("it is being deleted, and takes none any more"))
	}
	return s.setFinalizers(ctx, object, append(slices.Clone(m.Finalizers), name))
}

// RemoveFinalizer takes a finalizer off an object, only this one, and under the lock of AddFinalizer, and returns the
// answer. With the last one an object that is being deleted goes; that it is gone already is no error.
func (s *Statuses[T]) RemoveFinalizer(ctx context.Context, object T, name string) (T, error) {
	m := object.ObjectMeta()
	if !slices.Contains(m.Finalizers, name) {
		return object, nil
	}
	rest := slices.DeleteFunc(slices.Clone(m.Finalizers), func(f string) bool { return f == name })
	answer, err := s.setFinalizers(ctx, object, rest)
	if errors.Is(err, ErrConflict) && kube.IsNotFound(err) {
		err = nil
	}
	if err == nil && len(rest) == 0 && m.Deleting() {
		s.gone.Set(m.Key(), m.UID) // the answer has the version before, which the cache may have reached
	}
	return answer, err
}

// setFinalizers replaces the list. The uid keeps it from an object that was created in the place of this one.
func (s *Statuses[T]) setFinalizers(ctx context.Context, object T, list []string) (T, error) {
	m := object.ObjectMeta()
	return s.patch(ctx, object, kube.MergePatch, map[string]any{"metadata": map[string]any{"uid": m.UID,
		"resourceVersion": m.ResourceVersion, "finalizers": list}}, "")
}
