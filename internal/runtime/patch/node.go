package patch

// ListType is how server-side apply owns a list, x-kubernetes-list-type.
type ListType int

const (
	ListAtomic ListType = iota // a single value with a single owner; also the type of an unknown list
	ListSet                    // each scalar has owners
	ListMap                    // each item, found by Keys, has owners
)

// Node describes the value at one place of an object: for the built-in kinds from [SchemaFor], for custom resources
// made from their structural schema by apiserver/schema. A nil *Node is an unknown value; all methods work on nil. A
// Node is read only after it is built, and trees may share nodes.
type Node struct {
	Fields map[string]*Node // the fields of an object with a node of their own
	Rest   *Node            // every other field
	// Struct: a field missing in Fields is declared all the same. Struct is set for the built-in kinds, whose table
	// names only the special fields, and not for maps, whose keys are data. Server-side apply tells structs and maps
	// apart.
	Struct bool
	Closed bool // a field missing in Fields does not exist, despite Struct; an apply with such a field is refused
	Atomic bool // server-side apply owns the object as a whole

	Items *Node // the items of a list
	List  ListType
	Keys  []string // of a ListMap, sorted

	// MergeKey and Merge are the strategic merge patch's view of a list, which differs from server-side apply's in
	// places: Merge lists are merged, by MergeKey if the items are objects; all others are replaced.
	Merge    bool
	MergeKey string
	Replace  bool // strategic merge patch replaces the object as a whole

	Quantity bool // a resource quantity
	Default  any  // of a field among the Keys of the list around: counts where the item has no such field
	Zero     Zero
}

// Zero is the value of a missing field in the API server's Go type of a built-in kind.
type Zero int

const (
	ZeroAbsent   Zero = iota // nothing
	ZeroObject               // {}: a struct, not a pointer
	ZeroNull                 // null: a list, map or pointer without omitempty, or a time
	ZeroString               // "": a string without omitempty
	ZeroNumber               // 0, likewise
	ZeroFalse                // false, likewise
	ZeroQuantity             // "0": a quantity, not a pointer
)

// Value is the zero value as JSON; absent is null.
func (z Zero) Value() any {
	switch z {
	case ZeroObject:
		return map[string]any{}
	case ZeroString:
		return ""
	case ZeroNumber:
		return int64(0)
	case ZeroFalse:
		return false
	case ZeroQuantity:
		return "0"
	}
	return nil
}

// Field is the node of a field of an object.
func (n *Node) Field(name string) *Node {
	if n == nil {
		return nil
	}
	if f, ok := n.Fields[name]; ok {
		return f
	}
	return n.Rest
}

// Declared reports whether the schema names the field, as a field of a struct and not a key of a map.
func (n *Node) Declared(name string) bool {
	if n == nil {
		return false
	}
	_, ok := n.Fields[name]
	return ok || n.Struct && !n.Closed
}

// Item is the node of the items of a list.
func (n *Node) Item() *Node {
	if n == nil {
		return nil
	}
	return n.Items
}

// IsAtomicObject reports whether server-side apply owns the object as one value.
func (n *Node) IsAtomicObject() bool { return n != nil && n.Atomic }

// ListType is the list type for server-side apply; atomic where nothing is known.
func (n *Node) ListType() ListType {
	if n == nil {
		return ListAtomic
	}
	return n.List
}

// ItemKey is the identity of an item of a ListMap: the values of the key fields, by name, with their defaults. The key
// is nil for an item that is no object or has no key field; the API server refuses such an item. In a built-in kind an
// absent key field counts as "", as in the server's Go types; the item then fails in validation.
func (n *Node) ItemKey(item any) map[string]any {
	m, ok := item.(map[string]any)
	if !ok {
		return nil
	}
	var key map[string]any
	for _, k := range n.Keys {
		v, ok := m[k]
		if !ok {
			if v = n.Item().Field(k).keyDefault(n.Item()); v == nil {
				continue
			}
		}
		if key == nil {
			key = map[string]any{}
		}
		key[k] = v
	}
	return key
}

func (n *Node) keyDefault(item *Node) any {
	if n != nil && n.Default != nil {
		return n.Default
	}
	if item != nil && item.Struct {
		return ""
	}
	return nil
}

// FillZero returns object with the fields that the API server's Go types always have, as {}, null or another zero. A
// served object shows them (`strategy: {}`, `resources: {}`), and server-side apply counts them as present from the
// beginning. For a custom resource, or without a schema, the result is a copy.
func FillZero(n *Node, object map[string]any) map[string]any {
	out := make(map[string]any, len(object))
	for name, v := range object {
		out[name] = fillZero(n.Field(name), v)
	}
	if n == nil {
		return out
	}
	for name, f := range n.Fields {
		if _, ok := out[name]; ok || f == nil {
			continue
		}
		switch f.Zero {
		case ZeroAbsent:
		case ZeroObject:
			out[name] = FillZero(f, nil)
		default:
			out[name] = f.Zero.Value()
		}
	}
	return out
}

func fillZero(n *Node, v any) any {
	switch v := v.(type) {
	case map[string]any:
		return FillZero(n, v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = fillZero(n.Item(), v[i])
		}
		return out
	}
	return v
}
