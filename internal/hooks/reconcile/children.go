package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
	"skiff/internal/runtime/patch"
)

// uidLabel is on the children of a parent where generateSelector is on, with the parent's uid.
const uidLabel = "controller-uid"

// The indexes by which a child without a controller finds the parents whose selectors it fits, and the other way
// round.
const (
	selectorIndex = "hooks selector" // of parents
	orphanIndex   = "hooks orphan"   // of children
	anyLabel      = ""               // the term of selectors that no label is needed for, and of all orphans
)

// selectorOf returns what the children of a parent have to match; nil: all do.
func (r *reconciler) selectorOf(parent *Object) (labels.Requirements, error) {
	switch {
	case !r.Spec.IsComposite():
		return nil, nil
	case r.Spec.GenerateSelector:
		return labels.Requirements{{Key: uidLabel, Operator: "In", Values: []string{parent.UID}}}, nil
	}
	selector, err := readSelector(parent)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	return selector, nil
}

// readSelector reads spec.selector of a parent.
func readSelector(parent *Object) (labels.Requirements, error) {
	var body struct {
		Spec struct {
			Selector *labels.Selector `json:"selector"`
		} `json:"spec"`
	}
	if len(parent.Body) > 0 {
		if err := kube.Unmarshal(parent.Body, &body); err != nil {
			return nil, err
		}
	}
	if body.Spec.Selector == nil {
		return nil, errors.New("is missing; set it, or generateSelector of the controller")
	}
	selector := body.Spec.Selector.Requirements()
	if len(selector) == 0 {
		return nil, errors.New("is empty, and would select everything; name a label, or set generateSelector")
	}
	return selector, selector.Check()
}

// selectorTerms are the labels of which a child of a parent has one.
func selectorTerms(parent *Object) []string {
	selector, err := readSelector(parent)
	if err != nil {
		return nil
	}
	if terms := selector.Terms(); len(terms) > 0 && selector.Positive() {
		return terms
	}
	return []string{anyLabel}
}

// orphanTerms are the same of an object that has no controller.
func orphanTerms(of kube.Labels, owners []kube.OwnerReference) []string {
	if slices.ContainsFunc(owners, func(o kube.OwnerReference) bool { return o.Controller }) {
		return nil
	}
	return termsOf(of)
}

func termsOf(of kube.Labels) []string {
	out := make([]string, 1, 2*len(of)+1)
	out[0] = anyLabel
	for _, l := range of {
		out = append(out, l.Key, l.Key+"="+l.Value)
	}
	return out
}

// parentsOf returns the parents that a change of a child is about: the one that owns it, or those that would adopt
// it.
func (r *reconciler) parentsOf(parents *cache.Store[*Object], child *Object) (keys []kube.Key) {
	namespace := child.Namespace
	if r.Parent.ClusterScoped {
		namespace = ""
	}
	if o, ok := child.Controller(); ok {
		if o.Kind == r.Parent.Kind && (spec.Type{APIVersion: o.APIVersion}).Group() == r.Parent.Group {
			keys = append(keys, kube.Key{Namespace: namespace, Name: o.Name})
		}
		return keys
	}
	if !r.Spec.IsComposite() || r.Spec.GenerateSelector {
		return nil
	}
	for _, term := range termsOf(child.Labels) {
		found, _ := parents.ByIndex(selectorIndex, namespace, term) // before the first list: all run after it
		for _, p := range found {
			if selector, err := readSelector(p); err == nil && selector.Match(child.Labels) {
				keys = append(keys, p.Key())
			}
		}
	}
	return keys
}

// observe returns the children of a parent by kind, after it has adopted what fits its selector and has no
// controller, and released what does not fit any more.
func (r *reconciler) observe(ctx context.Context, parent *Object, owner apply.Owner, selector labels.Requirements) (
	[]wire.Group, error) {
	if r.Spec.IsComposite() && !parent.Deleting() {
		if err := r.adopt(ctx, owner, selector); err != nil {
			return nil, err
		}
	}
	owned, err := r.engine.Owned(ctx, owner)
	if err != nil {
		return nil, err
	}
	seen := map[kube.Resource]map[kube.Key]*Object{}
	for _, child := range owned {
		live, ok := child.Live.(*Object)
		switch {
		case !ok:
			continue
		case !selector.Match(live.Labels) && parent.Deleting():
			continue
		case !selector.Match(live.Labels):
			if err := r.engine.Release(ctx, owner, child.Resource, live); err != nil {
				return nil, err
			}
			continue
		}
		if seen[child.Resource] == nil {
			seen[child.Resource] = map[kube.Key]*Object{}
		}
		seen[child.Resource][child.Key] = live
	}
	if err := admitRequest(ctx, seen); err != nil {
		return nil, fmt.Errorf("send the children of %s %s to the hook: %w", r.Parent.Kind, owner.Key(), err)
	}
	groups := make([]wire.Group, len(r.kinds))
	for i, k := range r.kinds {
		if groups[i], err = group(k.Resource, inOrder(seen[k.Resource])); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// relabelled says whether the labels of a child have been changed while the hook was asked, so that the selector does
// not match any more. An apply of the answer would put the labels back; the next run releases the child.
func (r *reconciler) relabelled(owner apply.Owner, selector labels.Requirements, asked []wire.Group) bool {
	for i, g := range asked {
		for _, item := range g.Items {
			live, ok, err := r.kinds[i].mirror.Get(item.Key)
			if err != nil || !ok || selector.Match(live.Labels) {
				continue
			}
			if o, ok := live.Controller(); ok && o.UID == owner.UID {
				return true
			}
		}
	}
	return false
}

// largeRequest is how long a request may be without asking for room: few are as long.
const largeRequest = 1 << 20

// admitRequest takes the room for a request with children: each is encoded, and then all are, beside what the cache
// holds of them.
func admitRequest(ctx context.Context, children map[kube.Resource]map[kube.Key]*Object) error {
	var bytes int64
	for _, of := range children {
		for _, child := range of {
			bytes += int64(len(child.Body) + len(child.Status) + len(child.Rest))
		}
	}
	if bytes <= largeRequest {
		return nil
	}
	return call.RoomOf(ctx).Take(2 * bytes)
}

// adopt makes objects that fit the selector of a parent, and have no controller, its children.
func (r *reconciler) adopt(ctx context.Context, owner apply.Owner, selector labels.Requirements) error {
	for _, k := range r.kinds {
		orphans, err := k.orphans(owner.Namespace, selector)
		if cache.Unheld(err) != nil {
			continue // which there are is not known
		}
		if err != nil {
			return err
		}
		if _, err := r.engine.Adopt(ctx, owner, k.Resource, orphans); err != nil {
			return err
		}
	}
	return nil
}

// orphans returns the objects of a kind that fit a selector and have no controller, in key order.
func (k *kind) orphans(namespace string, selector labels.Requirements) ([]kube.Object, error) {
	terms := selector.Terms()
	if len(terms) == 0 || !selector.Positive() {
		terms = []string{anyLabel}
	}
	found := map[kube.Key]kube.Object{}
	for _, term := range terms {
		objects, err := k.mirror.KnownByIndex(orphanIndex, namespace, term)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", k.Resource, err)
		}
		for _, o := range objects {
			if selector.Match(o.Labels) && !o.Deleting() {
				found[o.Key()] = o
			}
		}
	}
	return inOrder(found), nil
}

// inOrder returns objects in key order.
func inOrder[O any](objects map[kube.Key]O) []O {
	out := make([]O, 0, len(objects))
	for _, key := range slices.SortedFunc(maps.Keys(objects), kube.Key.Compare) {
		out = append(out, objects[key])
	}
	return out
}

// desired returns the children that an answer declares, as the engine takes them.
func (r *reconciler) desired(parent *Object, owner apply.Owner, selector labels.Requirements, answer *wire.Answer) (
	[]apply.Child, error) {
	out := make([]apply.Child, 0, len(answer.Children))
	for _, child := range answer.Children {
		meta, _ := child.Body["metadata"].(map[string]any)
		if r.Spec.GenerateSelector {
			if _, has := child.Labels.Get(uidLabel); !has {
				child.Labels = labelled(meta, child.Labels, parent.UID)
			}
		}
		if !selector.Match(child.Labels) {
			return nil, fmt.Errorf("%s.metadata.labels: do not match the selector of %s %s (%s); add the labels, or "+
				"skiff would not find the child again", child.Path, r.Parent.Kind, parent.Key(), selector)
		}
		if !r.Spec.IsComposite() {
			annotations, _ := meta["annotations"].(map[string]any)
			if annotations == nil {
				annotations = map[string]any{}
				meta["annotations"] = annotations
			}
			annotations[DecoratorAnnotation] = r.Spec.Name
		}
		references, _ := meta["ownerReferences"].([]any)
		meta["ownerReferences"] = append(slices.Clip(references), owner.Reference())
		of := r.kinds[child.Kind]
		if err := checkKeys(patch.SchemaFor(of.APIVersion(), of.Resource.Kind), child.Body, child.Path); err != nil {
			return nil, err
		}
		out = append(out, apply.Child{Body: child.Body})
	}
	return out, nil
}

// labelled adds the label of generateSelector to a child.
func labelled(meta map[string]any, have kube.Labels, uid string) kube.Labels {
	of, _ := meta["labels"].(map[string]any)
	if of == nil {
		of = map[string]any{}
		meta["labels"] = of
	}
	of[uidLabel] = uid
	out := append(slices.Clone(have), kube.Label{Key: uidLabel, Value: uid})
	slices.SortFunc(out, func(a, b kube.Label) int { return strings.Compare(a.Key, b.Key) })
	return out
}
