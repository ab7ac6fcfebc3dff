package patch

import (
	"fmt"
	"slices"
	"strings"
)

// Covered reports whether live already has everything that desired asks for, so that no write is needed. If not, path
// names the first difference (fields in byte order): it is the answer to "why did this write happen".
//
// What live has beyond desired belongs to somebody else: more fields of an object, more items of a list of objects
// with keys, more members of a set. Details:
//   - null, "", {} and [] are covered by absence: the API server drops such values of most fields. 0 and false are not:
//     in many fields (runAsUser, automountServiceAccountToken) they say something else than absence does.
//   - Items of a list with keys must also have desired's relative order, which server-side apply establishes: it has a
//     meaning for env and initContainers.
//   - An atomic list has equal length, and its items are covered one by one: the server writes defaults into them.
//   - An atomic map whose keys are data (a selector) has no other keys.
//   - Quantities are compared by value ("0.5" and "500m"), and numbers are; an int-or-string is not: port 80 and the
//     port named "80" are different.
func Covered(n *Node, desired, live any) (ok bool, path string) {
	path, same := firstDifference(n, desired, live, "")
	return same, path
}

// firstDifference returns the path of it, or true if there is none.
func firstDifference(n *Node, desired, live any, path string) (string, bool) {
	if isEmpty(desired) && isEmpty(live) {
		return "", true
	}
	switch desired := desired.(type) {
	case map[string]any:
		if live, ok := live.(map[string]any); ok {
			return objectDifference(n, desired, live, path)
		}
		return path, false
	case []any:
		live, ok := live.([]any)
		if !ok && len(desired) > 0 {
			return path, false
		}
		return listDifference(n, desired, live, path)
	}
	if n != nil && n.Quantity {
		return path, equalQuantity(desired, live)
	}
	return path, equalScalar(desired, live)
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

func objectDifference(n *Node, desired, live map[string]any, path string) (string, bool) {
	for _, name := range sortedKeys(desired) {
		if at, ok := firstDifference(n.Field(name), desired[name], live[name], join(path, name)); !ok {
			return at, false
		}
	}
	if n.IsAtomicObject() && !n.Struct {
		for _, name := range sortedKeys(live) {
			if _, ok := desired[name]; !ok {
				return join(path, name), false
			}
		}
	}
	return "", true
}

func listDifference(n *Node, desired, live []any, path string) (string, bool) {
	switch n.ListType() {
	case ListMap:
		return keyedDifference(n, desired, live, path)
	case ListSet:
		for _, v := range desired {
			if !slices.ContainsFunc(live, func(w any) bool { return Equal(v, w) }) {
				return fmt.Sprintf("%s[=%v]", path, v), false
			}
		}
		return "", true
	}
	if len(desired) != len(live) {
		return path, false
	}
	for i := range desired {
		if at, ok := firstDifference(n.Item(), desired[i], live[i], fmt.Sprintf("%s[%d]", path, i)); !ok {
			return at, false
		}
	}
	return "", true
}

func keyedDifference(n *Node, desired, live []any, path string) (string, bool) {
	last := -1
	for i, item := range desired {
		key := n.ItemKey(item)
		if key == nil {
			return fmt.Sprintf("%s[%d]", path, i), false
		}
		at := path + KeyString(key)
		found := slices.IndexFunc(live, func(other any) bool { return Equal(key, n.ItemKey(other)) })
		if found < 0 {
			return at, false
		}
		if found < last {
			return at + " (order)", false
		}
		last = found
		if at, ok := firstDifference(n.Item(), item, live[found], at); !ok {
			return at, false
		}
	}
	return "", true
}

// KeyString writes the key of an item as the API server does in paths: [containerPort=80,protocol="TCP"].
func KeyString(key map[string]any) string {
	parts := make([]string, 0, len(key))
	for _, k := range sortedKeys(key) {
		if s, ok := key[k].(string); ok {
			parts = append(parts, fmt.Sprintf("%s=%q", k, s))
		} else {
			parts = append(parts, fmt.Sprintf("%s=%v", k, key[k]))
		}
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
