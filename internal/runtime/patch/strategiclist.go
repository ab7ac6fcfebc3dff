package patch

import (
	"fmt"
	"slices"
	"strings"
)

func deleteScalars(target map[string]any, name string, directive any) error {
	list, ok := target[name].([]any)
	if !ok {
		return nil // nothing there to take out of
	}
	remove, ok := directive.([]any)
	if !ok {
		return fmt.Errorf("%w: must be a list", ErrStrategicMismatch)
	}
	kept := make([]any, 0, len(list))
	for _, v := range list {
		if indexOf(remove, v, "") < 0 {
			kept = append(kept, v)
		}
	}
	target[name] = kept
	return nil
}

// mergeOrderedLists merges the lists with an order in the patch, and takes them out of the patch.
func mergeOrderedLists(n *Node, target, patch map[string]any) error {
	for _, key := range sortedKeys(patch) {
		name, ok := strings.CutPrefix(key, prefixElementOrder)
		if !ok {
			continue
		}
		if err := mergeOrderedList(n.Field(name), target, patch, name); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		delete(patch, key)
	}
	return nil
}

func mergeOrderedList(n *Node, target, patch map[string]any, name string) error {
	order, ok := patch[prefixElementOrder+name].([]any)
	if !ok {
		return fmt.Errorf("%w: must be a list", ErrStrategicMismatch)
	}
	old, hasOld := target[name]
	add, hasAdd := patch[name]
	if !hasOld && !hasAdd {
		return nil
	}
	oldList, ok := old.([]any)
	if hasOld && !ok {
		return fmt.Errorf("%w: %s is not a list", ErrStrategicMismatch, name)
	}
	addList, ok := add.([]any)
	if hasAdd && !ok {
		return fmt.Errorf("%w: %s is not a list in the patch", ErrStrategicMismatch, name)
	}
	mergeKey := ""
	if n != nil {
		mergeKey = n.MergeKey
	}
	if err := notLong(oldList, addList, order); err != nil {
		return err
	}
	if err := matchesOrder(addList, order, mergeKey); err != nil {
		return err
	}
	delete(patch, name)
	merged := oldList
	if hasAdd && hasOld && n != nil && n.Merge {
		var err error
		if merged, err = mergeList(n, oldList, addList); err != nil {
			return err
		}
	} else if hasAdd {
		v, _ := stripped(addList)
		merged = v.([]any)
	}
	target[name] = inOrder(merged, order, oldList, mergeKey)
	return nil
}

// matchesOrder checks the order of the patch's items, except for deleted items.
func matchesOrder(items, order []any, mergeKey string) error {
	if len(items) == 0 || len(order) == 0 {
		return nil
	}
	at := 0
	for _, item := range items {
		if m, ok := item.(map[string]any); ok && m[directivePatch] != nil {
			continue
		}
		i := indexOf(order[at:], item, mergeKey)
		if i < 0 {
			return fmt.Errorf("%w: the order of the list is not that of its $setElementOrder", ErrStrategicMismatch)
		}
		at += i + 1
	}
	return nil
}

// maxMerged bounds the merged lists, because each item is compared with each. A pod has some ten containers, and a
// hundred variables at most.
const maxMerged = 1000

func notLong(lists ...[]any) error {
	for _, list := range lists {
		if len(list) > maxMerged {
			return fmt.Errorf("%w: a list that is merged has more than %d items", ErrStrategicMismatch, maxMerged)
		}
	}
	return nil
}

// mergeList merges the items of add into old, by merge key if they are objects, else as a set.
func mergeList(n *Node, old, add []any) ([]any, error) {
	if err := sameKind(n, old, add); err != nil {
		return nil, err
	}
	if err := notLong(old, add); err != nil {
		return nil, err
	}
	for _, item := range add {
		if m, ok := item.(map[string]any); ok && m[directivePatch] == "replace" {
			return replacement(add), nil
		}
	}
	merged, original := slices.Clone(old), old
	for _, item := range add {
		m, ok := item.(map[string]any)
		if directive := m[directivePatch]; directive == "delete" {
			merged = slices.DeleteFunc(merged, func(v any) bool { return sameItem(v, item, n.MergeKey) })
			continue
		} else if directive != nil {
			return nil, fmt.Errorf("%w: unknown patch type: %v", ErrStrategicMismatch, directive)
		}
		i := indexOf(merged, item, n.MergeKey)
		switch {
		case i < 0:
			v, _ := stripped(item)
			merged = append(merged, v)
		case ok:
			v, err := mergeObject(n.Item(), merged[i].(map[string]any), m)
			if err != nil {
				return nil, err
			}
			merged[i] = v
		}
	}
	return inOrder(merged, add, original, n.MergeKey), nil
}

// replacement is a list with a `$patch: replace` among the items: the remaining items are the new list.
func replacement(add []any) []any {
	v, _ := stripped(add)
	return v.([]any)
}

// sameKind checks that all items are objects with the merge key, or all are scalars.
func sameKind(n *Node, lists ...[]any) error {
	for _, list := range lists {
		for _, item := range list {
			m, isObject := item.(map[string]any)
			_, isList := item.([]any)
			switch {
			case isList:
				return ErrListOfLists
			case isObject != (n.MergeKey != ""):
				return fmt.Errorf("%w: list element types are not identical", ErrStrategicMismatch)
			case isObject && m[n.MergeKey] == nil && m[directivePatch] != "replace":
				return fmt.Errorf("%w: an item does not contain the merge key %s", ErrStrategicMismatch, n.MergeKey)
			}
		}
	}
	return nil
}

// inOrder sorts items: items named in order come in the same order, all others as in old; an unnamed item comes before
// a named item if it did so in old.
func inOrder(items, order, old []any, mergeKey string) []any {
	type ranked struct {
		item any
		rank int
	}
	var named []ranked
	var ordered, others []any
	for _, v := range items {
		if rank := indexOf(order, v, mergeKey); rank >= 0 {
			named = append(named, ranked{v, rank})
		} else {
			others = append(others, v)
		}
	}
	slices.SortStableFunc(named, func(a, b ranked) int { return a.rank - b.rank })
	for _, r := range named {
		ordered = append(ordered, r.item)
	}
	out := make([]any, 0, len(items))
	for len(ordered) > 0 && len(others) > 0 {
		a, b := indexOf(old, others[0], mergeKey), indexOf(old, ordered[0], mergeKey)
		if a >= 0 && b >= 0 && a < b {
			out, others = append(out, others[0]), others[1:]
		} else {
			out, ordered = append(out, ordered[0]), ordered[1:]
		}
	}
	return append(append(out, others...), ordered...)
}

func indexOf(list []any, item any, mergeKey string) int {
	return slices.IndexFunc(list, func(v any) bool { return sameItem(v, item, mergeKey) })
}

// sameItem compares by merge key, or by value for scalars, whose merge key is empty.
func sameItem(a, b any, mergeKey string) bool {
	if mergeKey == "" {
		return Equal(a, b)
	}
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	k, ok := x[mergeKey]
	l, ok2 := y[mergeKey]
	return ok && ok2 && Equal(k, l)
}
