package patch

import (
	"maps"
	"slices"
	"strings"
)

// Change is a value that differs between two versions of an object. Nil stands for a missing value.
type Change struct {
	At            *Path
	Before, After any
}

// Changes returns the values in which two versions of an object of a kind differ, in the order of their paths, each as
// low in the tree as the two have the same shape. An empty text, object or list counts as missing. Items of a list are
// known by their names if all have one, else by their merge keys; any other list, and a list of more than 500 items,
// is one value.
//
// Unlike in Covered, quantities differ where the server stores another text, such as 1Gi and 1073741824: StatefulSets
// and DaemonSets compare texts, and their pods roll.
func Changes(n *Node, before, after map[string]any) []Change {
	return changes(n, before, after, nil)
}

func changes(n *Node, before, after any, at *Path) (out []Change) {
	if IsEmpty(before) && IsEmpty(after) {
		return nil
	}
	if was, is, ok := both[map[string]any](before, after); ok {
		for _, name := range union(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is))) {
			out = append(out, changes(n.Field(name), was[name], is[name], at.below(name))...)
		}
		return out
	}
	if was, is, ok := both[[]any](before, after); ok {
		if changes, ok := changesOfItems(n, was, is, at); ok {
			return changes
		}
	}
	if n != nil && n.Quantity && storedAlike(before, after) || Equal(before, after) {
		return nil
	}
	return []Change{{at, before, after}}
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

// changesOfItems compares lists of objects item by item; false: the items cannot be told apart.
func changesOfItems(n *Node, before, after []any, at *Path) (out []Change, ok bool) {
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
		item := now
		if item == nil {
			item = old
		}
		var key map[string]any
		if n.ListType() == ListMap {
			key = n.ItemKey(item)
		}
		out = append(out, changes(n.Item(), old, now, at.item(key, name, 0))...)
	}
	return out, true
}

// maxItems bounds the lists that are compared item by item.
const maxItems = 500

// itemNames returns names for the items of two lists: their own names if all have one, else the merge keys; none if
// the items cannot be told apart.
func itemNames(n *Node, before, after []any) (was, is []string) {
	if len(before) > maxItems || len(after) > maxItems {
		return nil, nil
	}
	byName := func(item map[string]any) string {
		name, _ := item["name"].(string)
		return name
	}
	byKey := func(item map[string]any) string {
		if n.ListType() != ListMap {
			return ""
		}
		return strings.Trim(KeyString(n.ItemKey(item)), "[]")
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
