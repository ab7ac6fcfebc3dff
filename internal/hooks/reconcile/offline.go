package reconcile

import (
	"fmt"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// Offline makes the requests for one parent and checks the answers as the controller does, without a cluster.
type Offline struct {
	r      reconciler
	parent *Object
}

// NewOffline returns the Offline of a parent. Options.Call is not used.
func NewOffline(o Options, parent *Object) *Offline {
	f := &Offline{r: reconciler{Options: o}, parent: parent}
	for _, resource := range o.Children {
		f.r.kinds = append(f.r.kinds, kind{Resource: resource})
	}
	return f
}

// Selected says whether the controller would call hooks for the parent.
func (f *Offline) Selected() bool { return f.r.selects(f.parent) }

// Hook returns a hook of the controller, nil if missing.
func (f *Offline) Hook(hook wire.Hook) *spec.Hook { return f.r.hookOf(hook) }

// Objects are objects of a kind.
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

// Request returns the request to a hook for the parent.
func (f *Offline) Request(hook wire.Hook, children, related []Objects) ([]byte, error) {
	if _, err := f.r.selectorOf(f.parent); err != nil && hook != wire.Customize {
		return nil, err
	}
	of, err := groupsOf(children)
	if err != nil {
		return nil, err
	}
	others, err := groupsOf(related)
	if err != nil {
		return nil, err
	}
	return f.r.request(hook, f.parent, of, others)
}

// Check checks an answer of sync or finalize, and returns the children as they would be applied, too.
func (f *Offline) Check(hook wire.Hook, body []byte) (*wire.Answer, []apply.Child, error) {
	selector, err := f.r.selectorOf(f.parent)
	if err != nil {
		return nil, nil, err
	}
	answer, err := f.r.answer(hook, f.parent, body)
	if err != nil {
		return nil, nil, err
	}
	children, err := f.r.desired(f.parent, apply.OwnerOf(f.r.Parent.Resource, f.parent), selector, answer)
	if err != nil {
		return nil, nil, fmt.Errorf("answer of the %s hook: %w", hook, err)
	}
	return answer, children, nil
}

// CheckRules checks an answer of customize.
func (f *Offline) CheckRules(body []byte) ([]wire.Rule, error) { return f.r.rules(f.parent, body) }

// Decode returns an object as sent to a hook, in package patch's form of JSON.
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
