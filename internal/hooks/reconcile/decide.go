package reconcile

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
	"skiff/internal/runtime/patch"
)

// uidLabel is on the children of a parent where generateSelector is on, with the parent's uid.
const uidLabel = "controller-uid"

// The indexes by which a child without a controller finds the parents with a fitting selector, and the other way
// round.
const (
	selectorIndex = "hooks selector" // of parents
	orphanIndex   = "hooks orphan"   // of children
	anyLabel      = ""               // the term of selectors that need no label, and of all orphans
)

// selectorOf returns the selector of the children of a parent; nil: all match.
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

// selectorTerms are labels; each child of a parent has one or more.
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

// orphanTerms are the labels of an object without a controller.
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

// parentsOf returns the parents to run after a change of a child: its controller, or any parent that would adopt the
// child.
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
		found, _ := parents.ByIndex(selectorIndex, namespace, term) // fails before the first list, which runs all
		for _, p := range found {
			if selector, err := readSelector(p); err == nil && selector.Match(child.Labels) {
				keys = append(keys, p.Key())
			}
		}
	}
	return keys
}

// observed are the children of a parent, as objects and as a hook gets them.
type observed struct {
	objects map[kube.Resource]map[kube.Key]*Object
	groups  []wire.Group // by kind
}

// observe returns the children of a parent, after orphans that fit the selector were adopted and children that do not
// fit released.
func (r *reconciler) observe(ctx context.Context, parent *Object, owner apply.Owner, selector labels.Requirements) (
	out observed, err error) {
	if r.Spec.IsComposite() && !parent.Deleting() {
		if err := r.adopt(ctx, owner, selector); err != nil {
			return out, err
		}
	}
	owned, err := r.engine.Owned(ctx, owner)
	if err != nil {
		return out, err
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
				return out, err
			}
			continue
		}
		if seen[child.Resource] == nil {
			seen[child.Resource] = map[kube.Key]*Object{}
		}
		seen[child.Resource][child.Key] = live
	}
	if err := admitRequest(ctx, seen); err != nil {
		return out, fmt.Errorf("send the children of %s %s to the hook: %w", r.Parent.Kind, owner.Key(), err)
	}
	out = observed{seen, make([]wire.Group, len(r.kinds))}
	for i, k := range r.kinds {
		if out.groups[i], err = group(k.Resource, inOrder(seen[k.Resource])); err != nil {
			return out, err
		}
	}
	return out, nil
}

// relabelled says whether a child has lost the labels of the selector while the hook was asked. An apply of the answer
// would put the labels back; the next run releases the child.
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

// admitRequest takes the room for a request with children: each child is encoded, then all together, beside the copies
// in the cache.
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

// copies is how often the texts of an answer are in memory beside the decoded values: as received, encoded to be
// compared, encoded to be sent, and in the request.
const copies = 4

// admitUnheld takes the room for children too large for the cache, which are read: a hook gets each child whole.
func admitUnheld(ctx context.Context, bytes int64) error {
	return call.RoomOf(ctx).Take(copies * bytes)
}

// adopt makes objects that fit the selector of a parent, and have no controller, children of the parent.
func (r *reconciler) adopt(ctx context.Context, owner apply.Owner, selector labels.Requirements) error {
	for _, k := range r.kinds {
		orphans, err := k.orphans(owner.Namespace, selector)
		if cache.Unheld(err) != nil {
			continue // the orphans are not known
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

// orphans returns the objects of a kind that fit a selector, without a controller, in key order.
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

// relatedOf returns the related objects of a revision of a parent by kind.
func (r *reconciler) relatedOf(ctx context.Context, parent *Object, revision string) ([]wire.Group, error) {
	if r.Spec.Customize == nil {
		return nil, nil
	}
	changes := r.Changes() + r.Returns()
	who := subject{parent.Key(), revision}
	a := r.related.get(parent, revision, changes)
	if a == nil || len(a.of) < len(a.rules) {
		if a == nil {
			var err error
			if a, err = r.customize(ctx, parent, changes); err != nil {
				return nil, err
			}
		}
		of, err := r.related.find(ctx, a.rules) // before the last rules go: a kind in both keeps its mirror
		a = &asked{a.uid, a.version, a.changes, a.rules, of}
		r.related.set(who, a)
		if err != nil {
			return nil, fmt.Errorf("answer of the customize hook: %w", err)
		}
	}
	var groups []wire.Group
	for i, resource := range a.of {
		if slices.Contains(a.of[:i], resource) {
			continue
		}
		objects, err := r.related.read(parent.Key(), a, resource)
		if err != nil {
			return nil, err
		}
		g, err := group(resource, objects)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// customize asks the hook for the rules of a parent.
func (r *reconciler) customize(ctx context.Context, parent *Object, changes int64) (*asked, error) {
	request, err := r.request(wire.Customize, parent, nil, nil)
	if err != nil {
		return nil, err
	}
	body, err := r.ask(ctx, wire.Customize, parent, request)
	if err != nil {
		return nil, err
	}
	rules, err := r.rules(parent, body)
	if err != nil {
		return nil, err
	}
	return &asked{uid: parent.UID, version: VersionOf(parent.ObjectMeta()), changes: changes, rules: rules}, nil
}

// rules reads and checks an answer of customize.
func (r *reconciler) rules(parent *Object, body []byte) ([]wire.Rule, error) {
	h := r.Spec.Customize
	rules, err := wire.DecodeCustomize(body, wire.CustomizeOptions{Version: h.Version, Strict: h.Strict,
		Parent: parent.Key()})
	if err != nil {
		return nil, ofHook(fmt.Errorf("answer of the customize hook: %w", err))
	}
	return rules, nil
}

// round is the decision of a hook for a parent.
type round struct {
	answer *wire.Answer
	want   []apply.Child // for answer.Children
	left   leftOut       // of want
}

// decideAll asks the hook for a decision. Where children roll, the hook is asked for each revision of the parent, and
// a child at a time goes from an older revision to the latest.
func (r *reconciler) decideAll(ctx context.Context, hook wire.Hook, parent *Object, owner apply.Owner,
	selector labels.Requirements, children observed) (round, error) {
	if r.revisions == nil || parent.Deleting() && hook != wire.Finalize {
		return r.decideFor(ctx, hook, parent, "", owner, selector, children.groups)
	}
	if parent.Namespace == "" {
		return round{}, errors.New("rolling updates need a namespaced parent: its ControllerRevisions are in its " +
			"namespace")
	}
	all, err := r.revisionsOf(ctx, parent, owner, selector)
	if err != nil {
		return round{}, err
	}
	var names []string
	for _, v := range all {
		v.round, err = r.decideFor(ctx, hook, v.parent, v.name, owner, selector, children.groups)
		if err != nil {
			return round{}, err
		}
		names = append(names, v.name)
	}
	r.related.keep(parent.Key(), names...)
	roll := rollout{reconciler: r, owner: owner, all: all, seen: children.objects}
	roll.claim()
	condition := roll.advance()
	if err := r.storeRevisions(ctx, owner, all); err != nil {
		return round{}, err
	}
	out := roll.merged(ctx)
	setCondition(out.answer, condition)
	return out, nil
}

// decideFor asks the hook about a state of a parent.
func (r *reconciler) decideFor(ctx context.Context, hook wire.Hook, parent *Object, revision string, owner apply.Owner,
	selector labels.Requirements, children []wire.Group) (out round, err error) {
	related, err := r.relatedOf(ctx, parent, revision)
	if err != nil {
		return out, err
	}
	if out.answer, err = r.decide(ctx, hook, parent, children, related); err != nil {
		return out, err
	}
	if out.want, err = r.desired(parent, owner, selector, out.answer); err != nil {
		return out, ofHook(err)
	}
	out.left = leftOut{}
	out.left.all(r, out.want)
	return out, nil
}

// rolls says whether children of a kind roll.
func (r *reconciler) rolls(kind int) bool {
	m := r.Spec.Children[kind].Method
	return m == spec.RollingInPlace || m == spec.RollingRecreate
}

// decide calls the hook and checks the answer.
func (r *reconciler) decide(ctx context.Context, hook wire.Hook, parent *Object, children, related []wire.Group) (
	*wire.Answer, error) {
	request, err := r.request(hook, parent, children, related)
	if err != nil {
		return nil, err
	}
	body, err := r.ask(ctx, hook, parent, request)
	if err != nil {
		return nil, err
	}
	return r.answer(hook, parent, body)
}

// request returns the request to a hook for a parent.
func (r *reconciler) request(hook wire.Hook, parent *Object, children, related []wire.Group) ([]byte, error) {
	item, err := encode(r.Parent.Resource, parent)
	if err != nil {
		return nil, err
	}
	request := wire.Request{Controller: r.Spec.Object, Parent: item.JSON, ParentKey: item.Key, Children: children,
		Related: related, Finalizing: hook == wire.Finalize}
	return request.Encode(r.Spec.IsComposite(), r.hookOf(hook).Version, hook), nil
}

// smallAnswer is the length up to which an answer is decoded without room: decoded, at most a megabyte.
const smallAnswer = 64 << 10

// ask calls a hook, and takes the room needed to decode the answer.
func (r *reconciler) ask(ctx context.Context, hook wire.Hook, parent *Object, request []byte) ([]byte, error) {
	room := call.RoomOf(ctx)
	before := room.Taken()
	answer, err := r.Call(ctx, hook, parent.ObjectMeta(), request)
	if err != nil {
		return nil, ofHook(err) // err names the hook
	}
	room.Give(room.Taken() - before) // taken for reading, for more bytes than came
	if len(answer) <= smallAnswer {
		return answer, nil
	}
	decoded, err := wire.Memory(answer)
	if err == nil {
		err = room.Take(int64(copies*len(answer) + decoded))
	}
	if err != nil {
		return nil, fmt.Errorf("answer of the %s hook: %w", hook, err)
	}
	return answer, nil
}

// answer reads and checks an answer of sync or finalize.
func (r *reconciler) answer(hook wire.Hook, parent *Object, body []byte) (*wire.Answer, error) {
	answer, err := wire.Decode(body, wire.Options{Composite: r.Spec.IsComposite(), Finalizing: hook == wire.Finalize,
		Strict: r.hookOf(hook).Strict, Parent: parent.Key(), ParentUID: parent.UID, Kinds: r.resources()})
	if err != nil {
		return nil, ofHook(fmt.Errorf("answer of the %s hook: %w", hook, err))
	}
	return answer, nil
}

// ofHook marks an error of the hook, and not of the server.
func ofHook(err error) error { return controller.WithReason(hookFailed, err) }

// hookOf returns a hook of the controller, nil if missing.
func (r *reconciler) hookOf(hook wire.Hook) *spec.Hook {
	switch hook {
	case wire.Finalize:
		return r.Spec.Finalize
	case wire.Customize:
		return r.Spec.Customize
	}
	return r.Spec.Sync
}

// resources returns the resources of the children's kinds.
func (r *reconciler) resources() []kube.Resource {
	out := make([]kube.Resource, len(r.kinds))
	for i := range r.kinds {
		out[i] = r.kinds[i].Resource
	}
	return out
}

// desired returns the children declared by an answer, in the engine's form.
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

// The labels of a ControllerRevision, beside the labels of the parent's children.
const (
	groupLabel    = spec.Group + "/apiGroup"
	resourceLabel = spec.Group + "/resource"
)

// revisionsOf returns the revisions of a parent, the latest first.
func (r *reconciler) revisionsOf(ctx context.Context, parent *Object, owner apply.Owner,
	selector labels.Requirements) ([]*revision, error) {
	body, err := bodyOf(parent)
	if err != nil {
		return nil, err
	}
	latest := &revision{patch: extract(body, r.Rule.FieldPaths), parent: parent, claims: map[claim]bool{}}
	if latest.name, err = r.revisionName(parent, latest.patch); err != nil {
		return nil, err
	}
	if !parent.Deleting() {
		if err := r.adoptRevisions(ctx, owner, selector); err != nil {
			return nil, err
		}
	}
	stored, err := r.revisions.Owned(ctx, owner)
	if err != nil {
		return nil, err
	}
	all := []*revision{latest}
	for _, s := range stored {
		live, ok := s.Live.(*Object)
		if !ok || s.Deleting {
			continue
		}
		v, err := readRevision(live)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read ControllerRevision %s: %w; delete it, and what is in it follows the latest "+
				"state at once", s.Key, err)
		case reflect.DeepEqual(v.patch, latest.patch):
			maps.Copy(latest.claims, v.claims)
			latest.name = v.name
			continue
		}
		if v.parent, err = withPatch(parent, v.patch, r.Rule.FieldPaths); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// adoptRevisions adopts ControllerRevisions without a controller that fit the selector of a parent, like children.
func (r *reconciler) adoptRevisions(ctx context.Context, owner apply.Owner, selector labels.Requirements) error {
	of := labels.Selector{MatchLabels: kube.Labels{{Key: groupLabel, Value: r.Parent.Group},
		{Key: resourceLabel, Value: r.Parent.Plural}}}
	orphans, err := r.stored.orphans(owner.Namespace, append(slices.Clip(selector), of.Requirements()...))
	if err != nil {
		return err
	}
	_, err = r.revisions.Adopt(ctx, owner, spec.Revisions, orphans)
	return err
}

// revisionName returns the name that metacontroller gives the ControllerRevision of a state. The name's SHA-1
// identifies the state, and protects nothing.
func (r *reconciler) revisionName(parent *Object, fields map[string]any) (string, error) {
	text, err := encodeValue(fields)
	if err != nil {
		return "", err
	}
	sum := sha1.Sum(append([]byte(parent.UID), text...))
	group := r.Parent.Group
	if group == "" {
		group = "core"
	}
	prefix := r.Parent.Plural + "." + group
	const longest = 253 - 1 - 2*sha1.Size // of a name, less a separator and the hash
	return prefix[:min(len(prefix), longest)] + "-" + hex.EncodeToString(sum[:]), nil
}

// encodeValue encodes a value with the keys in order, as encoding/json does.
func encodeValue(v any) ([]byte, error) { return json.Marshal(v) }
