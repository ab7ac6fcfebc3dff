package schema

import (
	"slices"
	"strings"
	"sync"

	"skiff/internal/runtime/patch"
)

// Close returns the tree of package patch for a kind, completed so that each declared field has a node. Then an apply
// of an unknown field is refused, and each quantity is compared as one. For a kind that package patch does not know,
// the table of fields says how lists are owned and merged.
func Close(n *patch.Node, t *Type) *patch.Node {
	if t == nil {
		return n
	}
	if tree, ok := closed.Load(pair{n, t}); ok {
		return tree.(*patch.Node)
	}
	c, from := &closer{made: map[pair]*patch.Node{}, lists: n == nil}, n
	if n == nil {
		from = &patch.Node{Struct: true}
	}
	tree := c.object(from, t)
	closed.Store(pair{n, t}, tree)
	return tree
}

// closed has the trees that Close has made, which are not changed any more: each server of a process has the same.
var closed sync.Map

type pair struct {
	n *patch.Node
	t *Type
}

// closer keeps the nodes that it made, because types can contain themselves (JSONSchemaProps).
type closer struct {
	made  map[pair]*patch.Node
	lists bool // the table of fields says how lists are owned
}

func (c *closer) object(n *patch.Node, t *Type) *patch.Node {
	if out := c.made[pair{n, t}]; out != nil {
		return out
	}
	out := *n
	c.made[pair{n, t}] = &out
	out.Closed, out.Fields = true, make(map[string]*patch.Node, len(t.Fields))
	out.Struct, out.Atomic = out.Struct || c.lists, out.Atomic || c.lists && t.Atomic
	for name, f := range t.Fields {
		field := c.value(n.Field(name), f.Value)
		if f.Always && field.Zero == patch.ZeroAbsent {
			shown := *field
			if shown.Zero = forms[f.Form].zero; f.Pointer {
				shown.Zero = patch.ZeroNull
			}
			field = &shown
		}
		out.Fields[name] = field
	}
	return &out
}

func (c *closer) value(n *patch.Node, f *Value) *patch.Node {
	if n == nil {
		n = &patch.Node{}
	}
	switch f.Form {
	case Struct:
		return c.object(n, f.Type)
	case List:
		out := *n
		out.Items = c.value(n.Item(), f.Elem)
		if c.lists {
			f.own(&out)
		}
		return &out
	case Map:
		out := *n
		out.Struct = false // its keys are data
		out.Rest = c.value(n.Rest, f.Elem)
		return &out
	case Quantity:
		out := *n
		out.Quantity = true
		return &out
	}
	return n
}

// own sets how a list is owned and merged: "set", "map:KEYS" for server-side apply, and behind a semicolon "merge" or
// "merge:KEY" for a strategic merge patch.
func (f *Value) own(n *patch.Node) {
	apply, merge, _ := strings.Cut(f.List, ";")
	switch kind, keys, _ := strings.Cut(apply, ":"); kind {
	case "set":
		n.List = patch.ListSet
	case "map":
		n.List, n.Keys = patch.ListMap, strings.Split(keys, ",")
		slices.Sort(n.Keys)
	}
	if kind, key, _ := strings.Cut(merge, ":"); kind == "merge" {
		n.Merge, n.MergeKey = true, key
	}
}
