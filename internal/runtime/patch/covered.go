package patch

import (
	"fmt"
	"slices"
)

// Covered reports whether live already has everything in desired, so that no write is needed. If not, path names the
// first difference (fields in byte order), the answer to "why did this write happen".
//
// Parts of live beyond desired belong to other writers: more fields of an object, more items of a list of objects with
// keys, more members of a set. Details:
//   - null, "", {} and [] are covered by absence: the API server drops such values of most fields. 0 and false are
//     not: in many fields (runAsUser, automountServiceAccountToken) they mean something else than absence.
//   - Items of a list with keys must also have desired's relative order, which server-side apply establishes: the
//     order has a meaning for env and initContainers.
//   - An atomic list has equal length, and each item is covered: the server writes defaults into items.
//   - An atomic map whose keys are data (a selector) has no other keys.
//   - Quantities are compared by value ("0.5" and "500m"), and numbers are; an int-or-string is not: port 80 and the
//     port named "80" are different.
func Covered(n *Node, desired, live any) (ok bool, path string) {
	c := comparison{max: 1}
	c.compare(n, desired, live, nil)
	if c.count == 0 {
		return true, ""
	}
	return false, c.found[0].String()
}

// Differences returns the first differences to be found by Covered, at most max, and how many there are.
func Differences(n *Node, desired, live any, max int) (found []Difference, count int) {
	c := comparison{max: max, all: true}
	c.compare(n, desired, live, nil)
	return c.found, c.count
}

// Difference is a place where live lacks a part of desired.
type Difference struct {
	At   *Path
	note string // behind the path: the member of a set, or " (order)"
}

// String returns the path.
func (d Difference) String() string { return d.At.String() + d.note }

// comparison collects differences.
type comparison struct {
	max   int
	all   bool // count all; else stop at the max-th
	found []Difference
	count int
}

func (c *comparison) done() bool { return !c.all && c.count >= c.max }

// differs notes a difference.
func (c *comparison) differs(at *Path, note string) {
	if len(c.found) < c.max {
		c.found = append(c.found, Difference{at, note})
	}
	c.count++
}

func (c *comparison) compare(n *Node, desired, live any, at *Path) {
	if IsEmpty(desired) && IsEmpty(live) {
		return
	}
	same := false
	switch desired := desired.(type) {
	case map[string]any:
		if live, ok := live.(map[string]any); ok {
			c.compareObjects(n, desired, live, at)
			return
		}
	case []any:
		if live, ok := live.([]any); ok || len(desired) == 0 {
			c.compareLists(n, desired, live, at)
			return
		}
	default:
		same = n != nil && n.Quantity && equalQuantity(desired, live) || equalScalar(desired, live)
	}
	if !same {
		c.differs(at, "")
	}
}

// IsEmpty says whether a value is nil, or an empty text, object or list.
func IsEmpty(v any) bool {
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

func (c *comparison) compareObjects(n *Node, desired, live map[string]any, at *Path) {
	for _, name := range sortedKeys(desired) {
		if c.done() {
			return
		}
		c.compare(n.Field(name), desired[name], live[name], at.below(name))
	}
	if n.IsAtomicObject() && !n.Struct {
		for _, name := range sortedKeys(live) {
			if _, ok := desired[name]; !ok && !c.done() {
				c.differs(at.below(name), "")
			}
		}
	}
}

func (c *comparison) compareLists(n *Node, desired, live []any, at *Path) {
	switch n.ListType() {
	case ListMap:
		c.compareKeyed(n, desired, live, at)
		return
	case ListSet:
		c.compareSets(desired, live, at)
		return
	}
	if len(desired) != len(live) {
		c.differs(at, "")
		return
	}
	for i := range desired {
		if c.done() {
			return
		}
		c.compare(n.Item(), desired[i], live[i], at.item(nil, "", i))
	}
}

func (c *comparison) compareSets(desired, live []any, at *Path) {
	members := make(map[string]bool, len(live)) // almost all sets are of strings
	var others []any
	for _, v := range live {
		if text, ok := v.(string); ok {
			members[text] = true
		} else {
			others = append(others, v)
		}
	}
	for _, v := range desired {
		if c.done() {
			return
		}
		text, isText := v.(string)
		if isText && members[text] || !isText && slices.ContainsFunc(others, func(w any) bool { return Equal(v, w) }) {
			continue
		}
		c.differs(at, Short(fmt.Sprintf("[=%v", v))+"]")
	}
}

func (c *comparison) compareKeyed(n *Node, desired, live []any, at *Path) {
	find := finder(n, desired, live)
	last := -1
	for i, item := range desired {
		if c.done() {
			return
		}
		key := n.ItemKey(item)
		if key == nil {
			c.differs(at.item(nil, "", i), "")
			continue
		}
		here := at.item(key, "", 0)
		found := find(key)
		switch {
		case found < 0:
			c.differs(here, "")
			continue
		case found < last:
			c.differs(here, " (order)")
		}
		last = max(last, found)
		c.compare(n.Item(), item, live[found], here)
	}
}

// fewPairs is how many comparisons of keys are cheaper than an index.
const fewPairs = 1000

// finder returns a function from a key to the item's index in live, -1 if missing. Long lists get an index: comparing
// each item with each would take minutes.
func finder(n *Node, desired, live []any) func(key map[string]any) int {
	if len(desired)*len(live) <= fewPairs {
		return func(key map[string]any) int {
			return slices.IndexFunc(live, func(other any) bool { return Equal(key, n.ItemKey(other)) })
		}
	}
	index := make(map[string]int, len(live))
	for i, other := range live {
		if key := n.ItemKey(other); key != nil {
			text := KeyString(key)
			if _, twice := index[text]; !twice {
				index[text] = i
			}
		}
	}
	return func(key map[string]any) int {
		if i, ok := index[KeyString(key)]; ok {
			return i
		}
		return -1
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
