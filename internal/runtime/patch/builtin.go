package patch

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
)

//go:embed builtin.txt
var builtinTable string

// SchemaFor returns the schema of a built-in kind, or nil: then there is no strategic merge patch (the API server
// answers 415 for a custom resource), and lists are atomic until the kind's own schema says otherwise.
func SchemaFor(apiVersion, kind string) *Node {
	return builtinKinds()[kindName{apiVersion, kind}]
}

type kindName struct{ apiVersion, kind string }

// builtinKinds reads the table at the first request, so that a process without patches pays nothing. An error in the
// table is a programming error, found by the test of this package; hence the panics.
var builtinKinds = sync.OnceValue(func() map[kindName]*Node {
	kinds := map[kindName]*Node{}
	types := map[string]*Node{}
	typeNamed := func(name string) *Node { // a use may precede the definition
		if name == "-" {
			return plain
		}
		if types[name] == nil {
			types[name] = &Node{Struct: true, Rest: plain, Items: plain, Fields: map[string]*Node{}}
		}
		return types[name]
	}
	type fieldLine struct {
		owner *Node
		words []string
	}
	var fields []fieldLine
	var current *Node
	for line := range strings.Lines(builtinTable) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#" || strings.HasPrefix(line, "#"):
		case line[0] == ' ':
			fields = append(fields, fieldLine{current, words})
		case len(words) > 1:
			for _, k := range words[1:] {
				kind, typ, ok := strings.Cut(k, "=")
				if !ok {
					typ = kind
				}
				kinds[kindName{words[0], kind}] = typeNamed(typ)
			}
		default:
			current = typeNamed(words[0])
		}
	}
	// A type's own properties come first: users of the type take a copy of them.
	for _, f := range fields {
		if f.words[0] == "-" {
			setProperties(f.owner, f.words[2:])
		}
	}
	for _, f := range fields {
		if f.words[0] != "-" {
			f.owner.Fields[f.words[0]] = fieldNode(typeNamed(f.words[1]), f.words[2:])
		}
	}
	return kinds
})

// plain is a value of a built-in kind without an entry: nested objects are structs, lists are atomic.
var plain = func() *Node {
	n := &Node{Struct: true}
	n.Rest, n.Items = n, n
	return n
}()

// fieldNode is the node of a field: the type with the properties of this use. The table does not say whether a field
// is a list: a node describes both, an object by its Fields and a list by its Items.
func fieldNode(typ *Node, properties []string) *Node {
	n := *typ
	n.Items = typ
	setProperties(&n, properties)
	return &n
}

func setProperties(n *Node, properties []string) {
	for _, p := range properties {
		name, value, _ := strings.Cut(p, ":")
		switch name {
		case "atomic":
			n.Atomic = true
		case "granular":
			n.Atomic = false
		case "free":
			n.Struct = false
		case "map":
			n.List, n.Keys = ListMap, strings.Split(value, ",")
		case "set":
			n.List = ListSet
		case "merge":
			n.Merge, n.MergeKey = true, value
		case "replace":
			n.Replace = true
		case "zero":
			n.Zero = ZeroObject
		case "null":
			n.Zero = ZeroNull
		case "quantity":
			n.Quantity = true
			if !n.Struct { // a map of quantities
				n.Quantity, n.Rest = false, &Node{Quantity: true}
			}
		case "default":
			n.Default = value
		default:
			panic(fmt.Sprintf("builtin.txt: unknown property %q", p))
		}
	}
}
