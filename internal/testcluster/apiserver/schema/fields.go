package schema

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/features"
)

//go:generate sh -c "cd ../../../tools/e2e && go test -count=1 -run TestFieldTableIsThatOfTheRealServer . -update"
//go:embed fields.txt
var table string

//go:embed answers.txt
var answers string

// Form is the JSON type of a value, as Go's decoder distinguishes them.
type Form int

// The forms.
const (
	Any         Form = iota // not checked: free JSON, or the value of one field of Type
	String                  //
	Time                    // a string in RFC 3339, with seconds
	MicroTime               // likewise, with microseconds
	Bytes                   // base64 in a string
	Bool                    //
	Int32                   //
	Int64                   //
	Double                  //
	Quantity                // string or number
	IntOrString             // string or number
	List                    // of Elem
	Map                     // of Elem, by names that are data
	Struct                  // of Type
)

// forms has what is known of each form.
var forms = [...]struct {
	word    string // its name in the table; "" for those with elements
	goType  string // of the real server, with that of the elements behind it
	json    string // the types of its values in the words of Go's decoder; "" is any
	openAPI string // likewise in the words of OpenAPI
	format  string // in OpenAPI
	zero    patch.Zero
	wire    int // in protobuf
}{
	Any:       {"any", "interface {}", "", "object", "", patch.ZeroNull, lengthDelimited},
	String:    {"string", "string", "string", "string", "", patch.ZeroString, lengthDelimited},
	Time:      {"time", "string", "string", "string", "date-time", patch.ZeroNull, lengthDelimited},
	MicroTime: {"micro-time", "string", "string", "string", "date-time", patch.ZeroNull, lengthDelimited},
	Bytes:     {"bytes", "[]uint8", "string", "string", "byte", patch.ZeroNull, lengthDelimited},
	Bool:      {"bool", "bool", "bool", "boolean", "", patch.ZeroFalse, varint},
	Int32:     {"int32", "int32", "number", "integer", "int32", patch.ZeroNumber, varint},
	Int64:     {"int64", "int64", "number", "integer", "int64", patch.ZeroNumber, varint},
	Double:    {"double", "float64", "number", "number", "double", patch.ZeroNumber, fixed64},
	Quantity: {"quantity", "resource.Quantity", "string|number", "string|number", "", patch.ZeroQuantity,
		lengthDelimited},
	IntOrString: {"int-or-string", "intstr.IntOrString", "string|number", "integer|string", "int-or-string",
		patch.ZeroNumber, lengthDelimited},
	List:   {"", "[]", "array", "array", "", patch.ZeroNull, lengthDelimited},
	Map:    {"", "map[string]", "object", "object", "", patch.ZeroNull, lengthDelimited},
	Struct: {"", "", "object", "object", "", patch.ZeroObject, lengthDelimited},
}

// Value is the type of a field, an item of a list or a member of a map.
type Value struct {
	Form Form
	List string // of a list: how it is owned and merged, as in the table; "" is one value
	Word string // its name in the table
	Elem *Value
	Type *Type
}

// Type is an object with declared fields.
type Type struct {
	Name   string // group.version.Name, such as core.v1.Container
	Atomic bool   // server-side apply owns it as one value
	Fields map[string]Field

	numbers numbers   // the same by their numbers in protobuf
	once    sync.Once // makes written
	written *layout
	drops   bool        // it, or a type that it is made of, has fields that are off
	node    *patch.Node // guarded by building
}

// Field is a field of a type.
type Field struct {
	*Value
	Always  bool // it is encoded even if it is zero
	Pointer bool // a zero value differs from a missing one, and is kept
	// Required is what OpenAPI documents say: a real server's validation says more.
	Required bool
	off      bool // it is dropped from objects: its feature gate is off
}

// GoName is the name of the Go type.
func (t *Type) GoName() string { return t.Name[strings.LastIndexByte(t.Name, '.')+1:] }

// For returns the type of a built-in kind in the newest version, nil if it is not in the table.
func For(apiVersion, kind string) *Type { return In(features.Set{}, apiVersion, kind) }

// In returns the type of a built-in kind as a version of Kubernetes has it, nil if that does not serve the kind.
func In(set features.Set, apiVersion, kind string) *Type {
	types, ok := parsed.Load(set)
	if !ok {
		types, _ = parsed.LoadOrStore(set, parse(set))
	}
	return types.(map[string]*Type)[apiVersion+" "+kind]
}

// parsed has the types of each features.Set that was asked for, by apiVersion and kind: a map[string]*Type.
var parsed sync.Map

// parse parses the table: a line "apiVersion Kind type" for each kind, then each type with its fields, a line for
// each type of value. An error in the table is a bug that this package's test finds, so it panics.
func parse(set features.Set) map[string]*Type {
	kinds, types := map[string]*Type{}, map[string]*Type{}
	typeNamed := func(name string) *Type { // may be used before it is defined
		if types[name] == nil {
			types[name] = &Type{Name: name}
		}
		return types[name]
	}
	var current *Type
	for line := range strings.Lines(table + answers) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(line, "#"):
		case line[0] == ' ':
			v := parseValue(words[0], typeNamed)
			for _, word := range words[1:] {
				word, number, numbered := strings.Cut(word, "=")
				word, required := strings.CutSuffix(word, "+")
				name := strings.TrimRight(word, "!*")
				if !set.Declares(current.Name, name) {
					continue
				}
				off := set.Drops(current.Name, name)
				current.Fields[name] = Field{Value: v, Always: strings.Contains(word, "!"),
					Pointer: strings.HasSuffix(word, "*"), Required: required, off: off}
				current.drops = current.drops || off
				if numbered {
					current.numbers.add(number, name, v)
				}
			}
		case len(words) == 3 && !set.Serves(words[0], words[1]):
		case len(words) == 3:
			kinds[words[0]+" "+words[1]] = typeNamed(words[2])
		case len(words) <= 2:
			current = typeNamed(words[0])
			current.Atomic = len(words) == 2 && words[1] == "atomic"
			current.Fields, current.numbers = map[string]Field{}, numbers{}
		default:
			panic(fmt.Sprintf("fields.txt: line %q", line))
		}
	}
	for name, t := range types {
		if t.Fields == nil {
			panic("fields.txt: no type " + name)
		}
	}
	spread(types)
	return kinds
}

func parseValue(word string, typeNamed func(string) *Type) *Value {
	if rest, ok := strings.CutPrefix(word, "["); ok {
		owned, elem, _ := strings.Cut(rest, "]")
		v := &Value{Form: List, List: owned, Elem: parseValue(elem, typeNamed)}
		v.Word = "[]" + v.Elem.Word
		return v
	}
	if elem, ok := strings.CutPrefix(word, "map:"); ok {
		return &Value{Form: Map, Word: word, Elem: parseValue(elem, typeNamed)}
	}
	if union, ok := strings.CutPrefix(word, "any:"); ok {
		return &Value{Form: Any, Word: word, Type: typeNamed(union)}
	}
	for form, known := range forms {
		if known.word == word {
			return &Value{Form: Form(form), Word: word}
		}
	}
	return &Value{Form: Struct, Word: word, Type: typeNamed(word)}
}

// building is held while the nodes of types are made, which types have of each other, and themselves.
var building sync.Mutex

// Node returns what patch and ssa need of a kind: each declared field, so that an apply of an unknown one is refused,
// and each quantity is compared as one.
func (t *Type) Node() *patch.Node {
	building.Lock()
	defer building.Unlock()
	return t.build()
}

func (t *Type) build() *patch.Node {
	if t.node != nil {
		return t.node
	}
	t.node = &patch.Node{Struct: true, Closed: true, Atomic: t.Atomic,
		Fields: make(map[string]*patch.Node, len(t.Fields))}
	for name, f := range t.Fields {
		n := *f.build()
		switch {
		case f.Always && f.Pointer:
			n.Zero = patch.ZeroNull
		case f.Always:
			n.Zero = forms[f.Form].zero
		}
		switch how := special[t.Name+"."+name]; how[0] {
		case mapType:
			n.Atomic = how[1] == "atomic"
		case patchStrategy:
			n.Replace = how[1] == "replace"
		case keyDefault:
			n.Default = how[1]
		}
		t.node.Fields[name] = &n
	}
	return t.node
}

// build returns a node that the caller may copy, but not change.
func (f *Value) build() *patch.Node {
	switch f.Form {
	case Struct:
		return f.Type.build()
	case List:
		n := &patch.Node{Items: f.Elem.build()}
		f.own(n)
		return n
	case Map: // its keys are data
		return &patch.Node{Rest: f.Elem.build()}
	}
	// free JSON is owned as one value
	return &patch.Node{Quantity: f.Form == Quantity, Atomic: f.Form == Any && f.Type == nil}
}

// own sets how a list is owned and merged: "set", "map:KEYS" for server-side apply, and behind a semicolon "merge" or
// "merge:KEY" for a strategic merge patch; "merge,retainKeys:KEY" is the same to a server.
func (f *Value) own(n *patch.Node) {
	apply, merge, _ := strings.Cut(f.List, ";")
	switch kind, keys, _ := strings.Cut(apply, ":"); kind {
	case "set":
		n.List = patch.ListSet
	case "map":
		n.List, n.Keys = patch.ListMap, strings.Split(keys, ",")
		slices.Sort(n.Keys)
	}
	if kind, key, _ := strings.Cut(merge, ":"); kind != "" {
		n.Merge, n.MergeKey = true, key
	}
}
