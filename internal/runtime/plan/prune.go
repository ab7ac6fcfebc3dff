package plan

import (
	"maps"
	"slices"
	"strings"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// A dry run of an apply misleads where the step before was a dry run, too: our entry in managedFields is still an
// Update, from which an apply removes nothing; or a field should have been handed over to another manager, and falls
// to the default. Such an apply is sent as a merge patch that makes the same change.

// instead returns the merge patch in place of an apply; false: send the apply itself.
func (p *Planner) instead(w *kube.Write) (kube.Raw, bool) {
	before, err := decoded(w.Before)
	sent, errSent := decoded(w.Body)
	if before == nil || err != nil || errSent != nil || strings.HasSuffix(w.Manager, apply.Handover) {
		return nil, false
	}
	managers := managersOf(w.Before)
	handed := p.handedOver(w)
	updates := false
	for _, e := range managers {
		updates = updates || e.Manager == w.Manager && e.Operation != "Apply" && e.Subresource == ""
	}
	if !updates && len(handed) == 0 {
		return nil, false
	}
	schema := patch.SchemaFor(w.Resource.APIVersion(), w.Resource.Kind)
	rest := pruned(schema, before, sent, owners(managers, w.Manager, handed), true)
	after, _ := overlay(schema, rest, sent).(map[string]any)
	text, err := patch.Encode(mergePatch(before, after))
	return text, err == nil
}

// handedOver returns the fields given to another manager by package apply before a write.
func (p *Planner) handedOver(w *kube.Write) (sets []patch.FieldSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.writes {
		h := &p.writes[i]
		if h.Manager != w.Manager+apply.Handover || idOf(h.Resource, h.Key) != idOf(w.Resource, w.Key) {
			continue
		}
		if body, err := decoded(h.Body); err == nil {
			fields, _ := body["spec"].(map[string]any)
			sets = append(sets, patch.SetOf("spec", slices.Collect(maps.Keys(fields))...))
		}
	}
	return sets
}

// pruned returns an object without our undeclared fields that no other manager owns, as server-side apply removes
// them; without fields, only items of lists go.
func pruned(n *patch.Node, live, sent any, o ownership, fields bool) any {
	switch live := live.(type) {
	case map[string]any:
		if n.IsAtomicObject() {
			return live
		}
		want, _ := sent.(map[string]any)
		out := make(map[string]any, len(live))
		for name, v := range live {
			below := o.below(field(name))
			declared, ok := want[name]
			if ok || !fields || !below.goes() {
				out[name] = pruned(n.Field(name), v, declared, below, fields)
			}
		}
		return out
	case []any:
		want, _ := sent.([]any)
		if n.ListType() != patch.ListAtomic {
			return prunedItems(n, live, want, o, fields)
		}
	}
	return live
}

func prunedItems(n *patch.Node, live, want []any, o ownership, fields bool) []any {
	out := []any{}
	for _, item := range live {
		below := o.below(func(s patch.FieldSet) (patch.FieldSet, bool) {
			if n.ListType() == patch.ListMap {
				return s.Item(n.ItemKey(item))
			}
			return s.Member(item)
		})
		var declared any
		if i := indexOf(n, want, item); i >= 0 {
			declared = want[i]
		}
		if declared != nil || !below.goes() {
			out = append(out, pruned(n.Item(), item, declared, below, fields))
		}
	}
	return out
}

// mergePatch returns the merge patch (RFC 7386) that turns before into after.
func mergePatch(before, after map[string]any) map[string]any {
	out := map[string]any{}
	for name := range before {
		if _, ok := after[name]; !ok {
			out[name] = nil
		}
	}
	for name, v := range after {
		was, existed := before[name]
		old, wasObject := was.(map[string]any)
		is, isObject := v.(map[string]any)
		switch {
		case wasObject && isObject:
			if below := mergePatch(old, is); len(below) > 0 {
				out[name] = below
			}
		case !existed || !patch.Equal(was, v):
			out[name] = v
		}
	}
	return out
}
