package reconcile

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"

	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// statuses remember what was made of the statuses that hooks have declared. A server drops what a definition does not
// have, and adds defaults: without this, each sync would write such a status once more.
type statuses struct {
	mu sync.Mutex // guards of
	of map[kube.Key]written
}

// written is a status as it was declared, and as the server stored it.
type written struct {
	uid, declared, stored string
	deferred              bool // the last sync has left the status to the next one
}

func (s *statuses) get(k kube.Key) written {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[k]
}

func (s *statuses) set(k kube.Key, w written) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[k] = w
}

// defers says whether the status of a parent can wait for the next sync, which it can once in a row.
func (s *statuses) defers(parent *Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.of[parent.Key()]
	if w.uid != parent.UID {
		w = written{uid: parent.UID}
	}
	w.deferred = !w.deferred
	s.of[parent.Key()] = w
	return w.deferred
}

func (s *statuses) forget(k kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, k)
}

// leave forgets all of a namespace.
func (s *statuses) leave(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(k kube.Key, _ written) bool { return k.Namespace == namespace })
}

// writeStatus makes what a hook has declared the whole status of a parent, with the generation that was observed.
func (r *reconciler) writeStatus(ctx context.Context, parent *Object, status map[string]any) error {
	declared := make(map[string]any, len(status)+1)
	maps.Copy(declared, status)
	if r.Spec.IsComposite() {
		declared["observedGeneration"] = parent.Generation
	}
	text, err := patch.Encode(declared)
	if err != nil {
		return fmt.Errorf("encode the status of %s %s: %w", r.Parent.Kind, parent.Key(), err)
	}
	key := parent.Key()
	w := r.statuses.get(key)
	if w.uid == parent.UID && w.declared == string(text) && w.stored == string(parent.Status) {
		return nil
	}
	if len(parent.Status) > 0 {
		stored, err := patch.Decode(parent.Status)
		if err != nil {
			return fmt.Errorf("read the status of %s %s: %w", r.Parent.Kind, key, err)
		}
		if same, _ := patch.Decode(text); reflect.DeepEqual(stored, same) {
			r.statuses.set(key, written{uid: parent.UID, declared: string(text), stored: string(parent.Status)})
			return nil
		}
	}
	answer, err := r.parents.Replace(ctx, parent, text, r.Parent.Status)
	if err != nil {
		return err
	}
	r.statuses.set(key, written{uid: parent.UID, declared: string(text), stored: string(answer.Status)})
	return nil
}

// decorate changes the labels, annotations and status of the object of a DecoratorController, where they differ.
func (r *reconciler) decorate(ctx context.Context, parent *Object, answer *wire.Answer) (*Object, error) {
	labels := differing(parent.Labels, answer.Labels)
	annotations := differing(parent.Annotations, answer.Annotations)
	if len(labels)+len(annotations) > 0 {
		var err error
		if parent, err = r.parents.Merge(ctx, parent, labels, annotations); err != nil {
			return parent, err
		}
	}
	if answer.Status == nil {
		return parent, nil
	}
	return parent, r.writeStatus(ctx, parent, answer.Status)
}

// differing returns the changes of labels that are not there already.
func differing(have kube.Labels, want map[string]*string) map[string]*string {
	out := map[string]*string{}
	for key, value := range want {
		if is, ok := have.Get(key); ok != (value != nil) || ok && is != *value {
			out[key] = value
		}
	}
	return out
}
