package reconcile

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/keyed"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// statuses remember what was made of the statuses that hooks have declared. A server drops what a definition does not
// have, and adds defaults: without this, each sync would write such a status once more.
type statuses struct {
	keyed.Map[written]
	// early says that the status which was declared last beside new children was the same once the hook had seen
	// them. Read and written in change.
	early bool
}

// written is a status as it was declared, and as the server stored it.
type written struct {
	uid, declared, stored string
	beside                string // the status that was declared when children were created; "": none were
	deferred              bool   // the last sync has left the status to the next one
	asked                 string // the resourceVersion of the parent that the hook was asked about last
	memory                int64  // what the answers of the last run took
	squeezed              string // the version of the parent that was applied while its namespace was over budget
	pace                  pace
	decorated             string    // the last changes of labels and annotations
	synced, since         string    // the status of the condition Synced, and from when on
	failed                time.Time // when the condition Synced was written for a failure of the hook
	failedIn              int64     // the hook that failed then: see Options.Changes
	fight                 fight
	peace                 time.Time // until then children count as contested; zero: they are not
}

// set notes how the server has stored a status.
func (s *statuses) set(parent *Object, declared, stored kube.Raw) {
	s.change(parent, func(w *written) { w.declared, w.stored = string(declared), string(stored) })
}

// change changes what is remembered of a parent; of another one of that name, nothing is.
func (s *statuses) change(parent *Object, change func(w *written)) {
	s.Change(parent.Key(), func(w *written) {
		if w.uid != parent.UID {
			*w = written{uid: parent.UID}
		}
		change(w)
	})
}

// defers takes in a status that is declared, and whether children have been created for the same answer. It says
// whether to leave the status to the next sync, which their events lead to: a status that counts children would be
// written twice. It is not left twice in a row, and not as long as statuses do not depend on children being seen: the
// event of its write comes with those of the children then, and both lead to one call.
func (s *statuses) defers(parent *Object, declared string, created bool) (deferred bool) {
	s.change(parent, func(w *written) {
		if w.beside != "" {
			s.early = w.beside == declared
		}
		deferred = created && !w.deferred && !s.early
		w.beside, w.deferred = "", deferred
		if created {
			w.beside = declared
		}
	})
	return deferred
}

// asks notes that the hook is asked about a version of a parent.
func (s *statuses) asks(parent *Object) {
	s.change(parent, func(w *written) { w.asked = parent.ResourceVersion })
}

// asked says that the hook was asked last about this version of a parent: it was known from the answer to a write, and
// its event brings nothing new.
func (s *statuses) asked(parent *Object) bool {
	return s.Get(parent.Key()).asked == parent.ResourceVersion
}

// declaredStatus returns what a hook has declared as the status of a parent, of a CompositeController with the
// generation that was observed.
func (r *reconciler) declaredStatus(parent *Object, status map[string]any) (kube.Raw, error) {
	declared := make(map[string]any, len(status)+1)
	maps.Copy(declared, status)
	if r.Spec.IsComposite() {
		declared["observedGeneration"] = parent.Generation
	}
	if err := r.addSynced(parent, declared); err != nil {
		return nil, err
	}
	text, err := patch.Encode(declared)
	if err != nil {
		return nil, fmt.Errorf("encode the status of %s %s: %w", r.Parent.Kind, parent.Key(), err)
	}
	return text, nil
}

// writeStatus makes what was declared the whole status of a parent.
func (r *reconciler) writeStatus(ctx context.Context, parent *Object, declared kube.Raw) error {
	key := parent.Key()
	w := r.statuses.Get(key)
	if w.uid == parent.UID && w.declared == string(declared) && w.stored == string(parent.Status) {
		return nil
	}
	if len(parent.Status) > 0 {
		stored, err := patch.Decode(parent.Status)
		if err != nil {
			return fmt.Errorf("read the status of %s %s: %w", r.Parent.Kind, key, err)
		}
		if same, _ := patch.Decode(declared); reflect.DeepEqual(stored, same) {
			r.statuses.set(parent, declared, parent.Status)
			return nil
		}
	}
	if w.uid == parent.UID && w.declared == string(declared) && r.undone(parent, "the status") {
		return nil
	}
	answer, err := r.parents.Replace(ctx, parent, declared, r.Parent.Status)
	if err != nil {
		return err
	}
	r.statuses.set(parent, declared, answer.Status)
	r.statuses.change(parent, func(w *written) { w.fight.wrote = true })
	return nil
}

// decorate changes the labels, annotations and status of the object of a DecoratorController, where they differ.
func (r *reconciler) decorate(ctx context.Context, parent *Object, answer *wire.Answer) (*Object, error) {
	labels := differing(parent.Labels, answer.Labels)
	annotations := differing(parent.Annotations, answer.Annotations)
	changes := describe(labels) + describe(annotations)
	same := r.statuses.Get(parent.Key()).decorated == changes
	if changes != "" && !(same && r.undone(parent, "labels or annotations")) {
		var err error
		if parent, err = r.parents.Merge(ctx, parent, labels, annotations); err != nil {
			return parent, err
		}
		r.statuses.change(parent, func(w *written) { w.decorated, w.fight.wrote = changes, true })
	}
	if answer.Status == nil {
		return parent, nil
	}
	declared, err := r.declaredStatus(parent, answer.Status)
	if err != nil {
		return parent, err
	}
	return parent, r.writeStatus(ctx, parent, declared)
}

// describe returns a text that is the same for the same changes; "": there are none.
func describe(changes map[string]*string) string {
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		if v := changes[key]; v != nil {
			fmt.Fprintf(&out, "%q=%q,", key, *v)
		} else {
			fmt.Fprintf(&out, "%q,", key)
		}
	}
	return out.String()
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
