// Package schema knows which fields objects have. Those of the built-in kinds are in a table ([For]): their JSON
// types, and how Go treats their zero values. With that the server behaves like the real one's Go types: it prunes
// and reports unknown fields, refuses values of the wrong type in the words of Go's decoder, drops or shows zero
// values, reads and writes protobuf, gives server-side apply the declared fields, and describes the kinds in
// OpenAPI. The table comes from the schema of a real v1.36 server and from k8s.io/api. A test of internal/tools/e2e
// compares them, and go generate lets it write the table. Merge keys are in package patch, defaults and validation in
// package kinds.
//
// Those of custom resources are in their structural schema ([Schema]), the openAPIV3Schema of one version, which is
// checked, and which prunes, sets defaults, validates with the API server's messages, and gives patch and ssa what
// they need to merge fields. It finds fault with rules in CEL, because a rule that is silently not checked would make
// tests wrong: a server that evaluates them does not ask it about definitions.
//
// All runs on the goroutine of a request. A Schema is immutable, and no function changes its arguments.
package schema

import (
	"fmt"
	"regexp"
	"sync"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// Cause is one error, as in details.causes of a 422 Status.
type Cause = obj.Cause

// found has the causes that were found.
type found struct {
	causes []Cause
	work   *int // how many steps there is time for; nil is no limit
}

func (f *found) add(causes ...Cause) {
	for _, c := range causes {
		if f.spend(1000 + 40*len(c.Message)) { // some 3 MB of them can be sent
			f.causes = append(f.causes, c)
		}
	}
}

func (f *found) invalid(path string, v any, format string, args ...any) {
	f.add(obj.Invalid(path, v, fmt.Sprintf(format, args...)))
}

// nowhere is the field of a cause without a field.
const nowhere = "<nil>"

// Schema is a structural schema, or a part of one.
type Schema struct {
	typ, format      string
	nullable         bool
	intOrString      bool
	preserveUnknown  bool
	embeddedResource bool
	embeds           bool // it is an embedded resource, or has one below it

	properties map[string]*Schema
	additional *Schema // the values of a map; nil: none, or see anyFields
	anyFields  bool    // additionalProperties: true
	items      *Schema

	defaultValue any
	hasDefault   bool

	listType    string
	listMapKeys []string
	mapType     string

	required                     []string
	enum                         []any
	pattern                      *regexp.Regexp
	patternLength                int // in instructions
	minimum, maximum, multipleOf *float64
	exclusiveMin, exclusiveMax   bool
	minLength, maxLength         *int64
	minItems, maxItems           *int64
	minProperties, maxProperties *int64

	allOf, anyOf, oneOf []*Schema
	not                 *Schema
}

// Node returns what patch and ssa need: the declared fields, and how lists and maps are owned.
func (s *Schema) Node() *patch.Node {
	root := *s
	root.embeddedResource = true
	return root.node()
}

// TypeAt returns the type of the field at a path, and whether the schema has it.
func (s *Schema) TypeAt(path []string) (string, bool) {
	for _, name := range path {
		if s = s.properties[name]; s == nil {
			return "", false
		}
	}
	return s.typ, true
}

// metadataNode is the node of metadata.
var metadataNode = sync.OnceValue(func() *patch.Node {
	n := *Close(patch.SchemaFor("v1", "ConfigMap"), For("v1", "ConfigMap")).Field("metadata")
	n.Zero = patch.ZeroAbsent
	return &n
})

func (s *Schema) node() *patch.Node {
	if s == nil || (s.preserveUnknown && len(s.properties) == 0 && s.items == nil && !s.embeddedResource) {
		return nil // without a schema
	}
	n := &patch.Node{Default: s.defaultValue, Items: s.items.node(), Atomic: s.mapType == "atomic",
		Closed: s.typ == "object" && !s.preserveUnknown && !s.anyFields && s.additional == nil}
	if len(s.properties) > 0 || s.embeddedResource {
		n.Fields = make(map[string]*patch.Node, len(s.properties))
	}
	for name, p := range s.properties {
		n.Fields[name] = p.node()
	}
	if s.embeddedResource {
		n.Fields["apiVersion"], n.Fields["kind"], n.Fields["metadata"] = &patch.Node{}, &patch.Node{}, metadataNode()
	}
	if s.additional != nil {
		n.Rest = s.additional.node()
	}
	switch s.listType {
	case "set":
		n.List = patch.ListSet
	case "map":
		n.List, n.Keys = patch.ListMap, s.listMapKeys
	}
	return n
}
