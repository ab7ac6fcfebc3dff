package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"skiff/internal/runtime/kube"
)

// AddFinalizer puts a finalizer on an object and returns the answer, whose version the next write has to name. The
// write holds only for the version read, because a merge patch replaces the whole list and would drop a finalizer
// added meanwhile by another controller. Where there is another version by now the error is ErrConflict.
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

// RemoveFinalizer takes only the named finalizer off an object, under the same version check as AddFinalizer, and
// returns the answer. With the last finalizer an object under deletion goes; an object already gone is no error.
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
		s.Forget(m.Key())
	}
	return answer, err
}

// setFinalizers replaces the list. The uid protects an object recreated under the same name.
func (s *Statuses[T]) setFinalizers(ctx context.Context, object T, list []string) (T, error) {
	m := object.ObjectMeta()
	return s.patch(ctx, object, kube.MergePatch, map[string]any{"metadata": map[string]any{"uid": m.UID,
		"resourceVersion": m.ResourceVersion, "finalizers": list}}, "")
}
