package apply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/keyed"
	"skiff/internal/runtime/kube"
)

// Statuses writes the status of the custom resources of one kind, and reads the resources so that a reconcile does not
// act on a status, or on a transition time, already replaced by its own write. It is safe for concurrent use by
// reconciles of different objects.
type Statuses[T kube.Object] struct {
	client   *kube.Client
	resource kube.Resource
	mirror   *cache.Store[T]
	blank    func() T // a new object, to decode an answer into

	answers keyed.Map[written]
	gone    keyed.Map[string] // the uid of an object whose last finalizer we removed, until the cache knows
}

// NewStatuses returns the Statuses of the mirrored kind, which has a status subresource; blank returns a new object.
func NewStatuses[T kube.Object](client *kube.Client, m *cache.Store[T], blank func() T) *Statuses[T] {
	return &Statuses[T]{client: client, resource: m.Resource(), mirror: m, blank: blank}
}

// Get returns the newest known copy of an object: the answer to our last write as long as the cache is behind, else
// the cached copy; false if there is none. An object under deletion that the cache does not hold for lack of memory is
// read from the server: the deletion makes room.
func (s *Statuses[T]) Get(ctx context.Context, k kube.Key) (T, bool, error) {
	answer, gone := s.answers.Get(k), s.gone.Get(k)
	remembered := answer.object != nil
	trusted := answer.trusted(s.mirror.Reached) // before the cache is read; see (*child).known
	var none T
	cached, ok, err := s.mirror.Get(k)
	unheld := cache.Unheld(err)
	if unheld != nil {
		s.Forget(k)
	}
	switch {
	case unheld != nil && unheld.Deleting:
		return s.read(ctx, k)
	case err != nil:
		return none, false, fmt.Errorf("read %s %s: %w", s.resource, k, err)
	}
	if gone != "" {
		if ok && cached.ObjectMeta().UID == gone {
			return none, false, nil
		}
		s.gone.Forget(k)
	}
	if trusted == fromAnswer && ok && cached.ObjectMeta().UID == answer.object.ObjectMeta().UID {
		return answer.object.(T), true, nil
	}
	if remembered { // obsolete, or too old to be better than the cache
		s.Forget(k)
	}
	return cached, ok, nil
}

// Forget drops the answer about an object; a deleted object stays deleted until the cache shows the deletion.
func (s *Statuses[T]) Forget(k kube.Key) { s.answers.Forget(k) }

// Leave drops all about the objects of a namespace.
func (s *Statuses[T]) Leave(namespace string) {
	s.answers.Leave(namespace)
	s.gone.Leave(namespace)
}

// Write makes status the status of object, unless from, the present status, is the same. Both are structs of one type,
// without omitempty; null removes a field. Only the fields that differ are sent, but the first status is sent whole,
// so that each field is there. The write holds only for the version read: otherwise the status of a deleted object
// could go to an object created in its place (the server ignores a uid here, seen on v1.36). Where there is another
// version by now the error is ErrConflict.
func (s *Statuses[T]) Write(ctx context.Context, object T, from, status any) (changed bool, err error) {
	if reflect.DeepEqual(from, status) {
		return false, nil // nearly always, and ten times as cheap as the rest
	}
	m := object.ObjectMeta()
	var patch struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Status kube.Raw `json:"status"`
	}
	patch.Metadata.ResourceVersion = m.ResourceVersion
	if patch.Status, err = statusPatch(from, status); err != nil {
		return false, fmt.Errorf("encode status of %s %s: %w", s.resource, m.Key(), err)
	}
	if patch.Status == nil {
		return false, nil
	}
	_, err = s.patch(ctx, object, kube.MergePatch, patch, "status")
	if kube.IsNotFound(err) && s.there(ctx, object) {
		return false, fmt.Errorf("write the status of %s %s: its definition has no status subresource; run `skiff "+
			"crds install`", s.resource, m.Key())
	}
	return err == nil, err
}

// patch changes an object and returns the answer, or the object unchanged on failure.
func (s *Statuses[T]) patch(ctx context.Context, object T, t kube.PatchType, patch any, subresource string) (T,
	error) {
	answer, k := s.blank(), object.ObjectMeta().Key()
	err := s.client.Patch(ctx, s.resource, k, t, patch, answer,
		kube.WriteOptions{FieldManager: Manager, Subresource: subresource})
	if err != nil {
		return object, s.conflict(ctx, k, err)
	}
	s.remember(answer)
	return answer, nil
}

// WriteUnheld writes fields of the status of an object not held by the mirror, once until the mirror holds the object
// again. The rest of the status is left alone and is not read.
func (s *Statuses[T]) WriteUnheld(ctx context.Context, object *cache.NotServed, status any) error {
	s.Forget(object.Key)
	if object.UID == "" || object.Reported {
		return nil
	}
	patch := map[string]any{"metadata": map[string]any{"resourceVersion": object.ResourceVersion}, "status": status}
	err := s.client.Patch(ctx, s.resource, object.Key, kube.MergePatch, patch, nil,
		kube.WriteOptions{FieldManager: Manager, Subresource: "status"})
	switch {
	case err == nil:
		s.mirror.Reported(object.Key, object.UID)
	case kube.IsNotFound(err): // gone, as an event will say
		return nil
	}
	return err
}

// there says whether the server has an object. The server answers 404 also for a status without a subresource (seen on
// v1.36).
func (s *Statuses[T]) there(ctx context.Context, object T) bool {
	live, ok, err := s.read(ctx, object.ObjectMeta().Key())
	return ok && err == nil && live.ObjectMeta().UID == object.ObjectMeta().UID
}

// read returns an object from the server; false: not found.
func (s *Statuses[T]) read(ctx context.Context, k kube.Key) (T, bool, error) {
	live := s.blank()
	err := s.client.Get(ctx, s.resource, k, live)
	if kube.IsNotFound(err) {
		return live, false, nil
	}
	return live, err == nil, err
}

// statusPatch returns the fields of after, a struct, that have another JSON than in before, nil if there are none; all
// fields if before is the zero value.
func statusPatch(before, after any) (kube.Raw, error) {
	was := reflect.ValueOf(before)
	if was.IsZero() {
		return json.Marshal(after)
	}
	changed := map[string]kube.Raw{}
	if err := differing(was, reflect.ValueOf(after), changed); err != nil || len(changed) == 0 {
		return nil, err
	}
	return json.Marshal(changed)
}

// differing adds the fields of after, a struct, that have another JSON than in before.
func differing(before, after reflect.Value, into map[string]kube.Raw) error {
	for i := range after.NumField() {
		field, was, is := after.Type().Field(i), before.Field(i), after.Field(i)
		if field.Anonymous {
			if err := differing(was, is, into); err != nil {
				return err
			}
			continue
		}
		if reflect.DeepEqual(was.Interface(), is.Interface()) {
			continue
		}
		old, errOld := json.Marshal(was.Interface())
		text, err := json.Marshal(is.Interface())
		if err := errors.Join(errOld, err); err != nil {
			return err
		}
		if !bytes.Equal(old, text) { // equal: the same time in another zone
			into[field.Tag.Get("json")] = text
		}
	}
	return nil
}

// ErrConflict says that an object has changed since the read, or is gone. The event is on the way; should the watch be
// dead, Statuses.Get returns a changed owner all the same, because the next write would meet the same conflict.
var ErrConflict = errors.New("it has changed since it was read")

// conflict adds ErrConflict to a conflict or a missing object, and returns any other error unchanged.
func (s *Statuses[T]) conflict(ctx context.Context, k kube.Key, err error) error {
	switch {
	case kube.IsConflict(err), kube.IsTestFailed(err):
		s.readAgain(ctx, k)
	case kube.IsNotFound(err) && kube.AsStatus(err).Details.Name == k.Name: // and not the resource as a whole
	default:
		return err
	}
	return fmt.Errorf("%w: %w", ErrConflict, err)
}

// readAgain reads an object for Get. If the read fails, the next write meets the same conflict.
func (s *Statuses[T]) readAgain(ctx context.Context, k kube.Key) {
	live := s.blank()
	if s.client.Get(ctx, s.resource, k, live) == nil {
		s.remember(live)
	}
}

// remember keeps an answer of the server for Get, unless the cache does not hold the object for lack of memory: Get
// reads such an object anyway, and the answers of a whole namespace do not fit either.
func (s *Statuses[T]) remember(answer T) {
	k := answer.ObjectMeta().Key()
	if _, _, err := s.mirror.Get(k); cache.Unheld(err) != nil {
		s.Forget(k)
		return
	}
	var w written
	w.set(answer)
	s.answers.Set(k, w)
}

// Replace makes status, a JSON object, the whole status of an object, by its status subresource if there is one, and
// returns the answer. The write holds only for the version read: a late write of a killed process could otherwise undo
// its successor's. Where there is another version by now, or none, the error is ErrConflict.
func (s *Statuses[T]) Replace(ctx context.Context, object T, status kube.Raw, subresource bool) (T, error) {
	m := object.ObjectMeta()
	of := ""
	if subresource {
		of = "status"
	}
	return s.patch(ctx, object, kube.JSONPatch, []patchOperation{{"test", "/metadata/uid", m.UID},
		{"test", "/metadata/resourceVersion", m.ResourceVersion}, {"add", "/status", status}}, of)
}

// Merge changes labels and annotations of an object, where nil removes a key, and returns the answer.
func (s *Statuses[T]) Merge(ctx context.Context, object T, labels, annotations map[string]*string) (T, error) {
	m := object.ObjectMeta()
	meta := map[string]any{"uid": m.UID}
	if len(labels) > 0 {
		meta["labels"] = labels
	}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	return s.patch(ctx, object, kube.MergePatch, map[string]any{"metadata": meta}, "")
}
