package plan

import (
	"maps"
	"slices"
	"strings"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// place is the position of a value in an object: a field, or an item of a list.
type place struct {
	up   *place
	name string // of the field; of an item, the name or the merge key
	item any    // an item of a list; nil for a field
	list *patch.Node
}

// String writes the path: spec.template.spec.containers[web].image, metadata.annotations["a.b/c"].
func (p *place) String() string {
	switch {
	case p == nil:
		return ""
	case p.item != nil:
		return p.up.String() + "[" + p.name + "]"
	case !plainName(p.name):
		return p.up.String() + "[" + quoted(p.name) + "]"
	case p.up == nil:
		return p.name
	}
	return p.up.String() + "." + p.name
}

// plainName says whether a name can stand between dots.
func plainName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '$'
	})
}

// key returns the merge key of an item, nil where there is none.
func (p *place) key() map[string]any {
	if p.list.ListType() != patch.ListMap {
		return nil
	}
	return p.list.ItemKey(p.item)
}

// names returns the path as its parts, items by their names.
func (p *place) names() []string {
	if p == nil {
		return nil
	}
	return append(p.up.names(), p.name)
}

// change is a value that differs. nil stands for a missing value.
type change struct {
	at            *place
	before, after any
}

// changesOf returns the values in which two objects of a kind differ, in the order of their paths, each as low in the
// tree as the two have the same shape. An empty object or list counts as missing.
func changesOf(n *patch.Node, before, after map[string]any) []change {
	return compare(n, before, after, nil)
}

func compare(n *patch.Node, before, after any, at *place) (out []change) {
	if patch.IsEmpty(before) && patch.IsEmpty(after) {
		return nil
	}
	if was, is, ok := both[map[string]any](before, after); ok {
		for _, name := range union(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is))) {
			out = append(out, compare(n.Field(name), was[name], is[name], &place{up: at, name: name})...)
		}
		return out
	}
	if was, is, ok := both[[]any](before, after); ok {
		if changes, ok := compareItems(n, was, is, at); ok {
			return changes
		}
	}
	if n != nil && n.Quantity {
		was, known := patch.CanonicalQuantity(before)
		if is, too := patch.CanonicalQuantity(after); known && too && was == is {
			return nil
		}
	}
	if patch.Equal(before, after) {
		return nil
	}
	return []change{{at, before, after}}
}

// both returns two values of the same type, either of which may be missing.
func both[T map[string]any | []any](before, after any) (was, is T, ok bool) {
	was, had := before.(T)
	is, has := after.(T)
	return was, is, (had || before == nil) && (has || after == nil)
}

// union returns the names of two lists, each once and in order.
func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// compareItems compares lists of objects item by item, where each item has a name. Other lists are one value.
func compareItems(n *patch.Node, before, after []any, at *place) (out []change, ok bool) {
	was, is := itemNames(n, before, after)
	if was == nil {
		return nil, false
	}
	find := func(names []string, list []any, name string) any {
		if i := slices.Index(names, name); i >= 0 {
			return list[i]
		}
		return nil
	}
	for _, name := range union(was, is) {
		old, now := find(was, before, name), find(is, after, name)
		here := &place{up: at, name: name, item: old, list: n}
		if now != nil {
			here.item = now
		}
		out = append(out, compare(n.Item(), old, now, here)...)
	}
	return out, true
}

// maxItems bounds the lists that are compared item by item.
const maxItems = 500

// itemNames returns names for the items of two lists: their own names if all have one, else the merge keys; none if
// the items cannot be told apart.
func itemNames(n *patch.Node, before, after []any) (was, is []string) {
	if len(before) > maxItems || len(after) > maxItems {
		return nil, nil
	}
	byName := func(item map[string]any) string {
		name, _ := item["name"].(string)
		return name
	}
	byKey := func(item map[string]any) string {
		if n.ListType() != patch.ListMap {
			return ""
		}
		return strings.Trim(patch.KeyString(n.ItemKey(item)), "[]")
	}
	for _, of := range []func(map[string]any) string{byName, byKey} {
		if was, is = namesBy(of, before), namesBy(of, after); was != nil && is != nil {
			return was, is
		}
	}
	return nil, nil
}

// namesBy returns the names of a list's items; nil if an item has no name or two items have the same.
func namesBy(of func(map[string]any) string, list []any) []string {
	names := make([]string, 0, len(list))
	for _, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			return nil
		}
		name := of(object)
		if name == "" || slices.Contains(names, name) {
			return nil
		}
		names = append(names, name)
	}
	return names
}

// comparable returns an object without the fields in which two unchanged copies may differ.
func comparable(object map[string]any, isOwner bool) map[string]any {
	out := maps.Clone(object)
	for _, name := range []string{"status", "apiVersion", "kind"} {
		delete(out, name)
	}
	meta, _ := object["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	for _, name := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp",
		"selfLink", "name", "namespace"} {
		delete(meta, name)
	}
	if isOwner {
		delete(meta, "finalizers") // skiff sets and removes its own
	}
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		annotations = maps.Clone(annotations)
		delete(annotations, apply.HashAnnotation)
		meta["annotations"] = annotations
	}
	if owners, ok := meta["ownerReferences"].([]any); ok {
		meta["ownerReferences"] = ownerNames(owners)
	}
	if out != nil {
		out["metadata"] = meta
	}
	return out
}

// annotation returns an annotation of an object, "" if missing.
func annotation(object kube.Raw, name string) string {
	var o struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if len(object) == 0 || kube.Unmarshal(object, &o) != nil {
		return ""
	}
	return o.Metadata.Annotations[name]
}

// ownerNames are owner references without the uids.
func ownerNames(references []any) []any {
	names := make([]any, len(references))
	for i, r := range references {
		o, _ := r.(map[string]any)
		kind, _ := o["kind"].(string)
		name, _ := o["name"].(string)
		names[i] = kind + " " + name
	}
	return names
}
