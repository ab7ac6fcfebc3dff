package reconcile

import (
	"fmt"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// Offline makes the requests for one parent and checks the answers to them as the controller does, without a cluster.
type Offline struct {
	r      reconciler
	parent *Object
}

// NewOffline returns the Offline of a parent. Of the options, Call is not used.
func NewOffline(o Options, parent *Object) *Offline {
	f := &Offline{r: reconciler{Options: o}, parent: parent}
	for _, resource := range o.Children {
		f.r.kinds = append(f.r.kinds, kind{Resource: resource})
	}
	return f
}

// Selected says whether the controller would call hooks for the parent.
func (f *Offline) Selected() bool { return f.r.selects(f.parent) }

// Hook returns a hook of the controller, nil if it has none.
func (f *Offline) Hook(hook wire.Hook) *spec.Hook { return f.r.hookOf(hook) }

// Objects are objects of one kind.
type Objects struct {
	Resource kube.Resource
	Items    []*Object
}

func groupsOf(all []Objects) ([]wire.Group, error) {
	groups := make([]wire.Group, 0, len(all))
	for _, of := range all {
		g, err := group(of.Resource, of.Items)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// Request returns what a hook gets for the parent.
func (f *Offline) Request(hook wire.Hook, children, related []Objects) ([]byte, error) {
	if _, err := f.r.selectorOf(f.parent); err != nil && hook != wire.Customize {
		return nil, err
	}
	item, err := encode(f.r.Parent.Resource, f.parent)
	if err != nil {
		return nil, err
	}
	request := wire.Request{Controller: f.r.Spec.Object, Parent: item.JSON, ParentKey: item.Key,
		Finalizing: hook == wire.Finalize}
	if request.Children, err = groupsOf(children); err != nil {
		return nil, err
	}
	if request.Related, err = groupsOf(related); err != nil {
		return nil, err
	}
	return request.Encode(f.r.Spec.IsComposite(), f.r.hookOf(hook).Version, hook), nil
}

// Check checks an answer of sync or finalize, and returns the children as they would be applied, too.
func (f *Offline) Check(hook wire.Hook, body []byte) (*wire.Answer, []apply.Child, error) {
	selector, err := f.r.selectorOf(f.parent)
	if err != nil {
		return nil, nil, err
	}
	answer, err := wire.Decode(body, wire.Options{Composite: f.r.Spec.IsComposite(), Strict: strict(f.r.hookOf(hook)),
		Parent: f.parent.Key(), ParentUID: f.parent.UID, Kinds: f.r.Children})
	if err != nil {
		return nil, nil, fmt.Errorf("answer of the %s hook: %w", hook, err)
	}
	children, err := f.r.desired(f.parent, apply.OwnerOf(f.r.Parent.Resource, f.parent), selector, answer)
	if err != nil {
		return nil, nil, fmt.Errorf("answer of the %s hook: %w", hook, err)
	}
	return answer, children, nil
}

// CheckRules checks an answer of customize.
func (f *Offline) CheckRules(body []byte) ([]wire.Rule, error) {
	h := f.r.Spec.Customize
	rules, err := wire.DecodeCustomize(body, wire.CustomizeOptions{Version: h.Version, Strict: strict(h),
		Parent: f.parent.Key()})
	if err != nil {
		return nil, fmt.Errorf("answer of the customize hook: %w", err)
	}
	return rules, nil
}

// Decode returns an object as a hook gets it, in package patch's form of JSON.
func Decode(r kube.Resource, o *Object) (map[string]any, error) {
	item, err := encode(r, o)
	if err != nil {
		return nil, err
	}
	v, err := patch.Decode(item.JSON)
	if err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", r.Kind, item.Key, err)
	}
	object, _ := v.(map[string]any)
	return object, nil
}
