// Package schema knows which fields objects have. Those of the built-in kinds are in a table ([For]): their JSON
// types, and how Go treats their zero values. With that the server behaves like the real one's Go types: it prunes
// and reports unknown fields, refuses values of the wrong type in the words of Go's decoder, drops or shows zero
// values, reads and writes protobuf, gives server-side apply the declared fields, and describes the kinds in
// OpenAPI. The table comes from the schema of a real v1.36 server and from k8s.io/api. A test of internal/tools/e2e
// compares them, and go generate lets it write the table. Defaults and validation are in
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
	"regexp/syntax"
	"slices"
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
	n := *For("v1", "ConfigMap").Node().Field("metadata")
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

const (
	// maxPatterns bounds the patterns of one definition, in compiled instructions of 40 bytes: ten bytes of text can
	// be thousands of them.
	maxPatterns = 500_000
	// maxSchemaDepth bounds the nesting of a definition's schemas, of which each step makes a path: that is eight
	// times as deep as the deepest in use.
	maxSchemaDepth = 500
	// maxWork bounds the validation of one object, in which no other client can write it, in steps of some
	// nanoseconds. It is a hundred times what the largest useful object takes.
	maxWork = 100_000_000
	// maxDefaults bounds what defaults add to one object, in bytes of JSON: with more it is too large to be stored.
	maxDefaults = 3 << 19
)

// TooMuch returns a cause if the versions of a definition take more memory than a server has to spare.
func TooMuch(versions any) []Cause {
	if patternsIn(versions) > maxPatterns {
		return []Cause{obj.Forbidden("spec.versions",
			"the patterns of a definition may have no more than 500000 compiled instructions in all")}
	}
	if deeper(versions, maxSchemaDepth) {
		return []Cause{obj.Forbidden("spec.versions",
			"the schemas of a definition may be nested no more than 500 deep")}
	}
	return nil
}

// deeper reports whether a value is nested deeper than so many levels.
func deeper(v any, levels int) bool {
	switch v := v.(type) {
	case []any:
		return levels == 0 || slices.ContainsFunc(v, func(item any) bool { return deeper(item, levels-1) })
	case map[string]any:
		for _, member := range v {
			if levels == 0 || deeper(member, levels-1) {
				return true
			}
		}
	}
	return false
}

func patternsIn(v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if n += patternsIn(item); n > maxPatterns {
				break
			}
		}
	case map[string]any:
		for name, member := range v {
			if text, ok := member.(string); ok && name == "pattern" {
				n += max(4*len(text), instructions(text))
			} else {
				n += patternsIn(member)
			}
			if n > maxPatterns { // parsing the rest may take long, too
				break
			}
		}
	}
	return n
}

// instructions estimates the length of a compiled pattern, 0 for one that does not compile.
func instructions(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return lengthOf(re)
}

func lengthOf(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += lengthOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// spend reports whether there is time left for some steps, and counts them.
func (f *found) spend(steps int) bool {
	if f.work == nil { // a schema: it is bounded by its size
		return true
	}
	*f.work -= steps
	return *f.work >= 0
}
