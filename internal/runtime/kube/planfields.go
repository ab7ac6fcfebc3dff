package kube

import (
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
)

// field is a declared member of an object.
type field struct {
	name  string
	index []int // of embedded structs, outermost first, then of the field
	plan  plan
	// prefixes are the prefixes of the keys kept by a field of Labels (the tag `prefix:"skiff.dev/ *a.example/"`), of
	// which one with a star may have anything in front; nil: all are kept.
	prefixes []string
}

// fieldsOf returns the members declared by a struct, and the index of the Raw field for all other members in one JSON
// object, nil if none (the tag `json:",embed"`). ok is false for a struct with unsupported features: other options,
// embedded pointers, unexported fields, repeated names.
func fieldsOf(t reflect.Type, outer []int) (fields []field, rest []int, ok bool) {
	seen := map[string]bool{}
	for i := range t.NumField() {
		sf := t.Field(i)
		index := append(outer[:len(outer):len(outer)], i)
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		inner, innerRest := []field(nil), []int(nil)
		switch {
		case sf.Tag.Get("json") == "-", !sf.IsExported() && !sf.Anonymous && name == "":
			continue
		case sf.IsExported() && options == "embed" && name == "" && sf.Type == reflect.TypeFor[Raw]():
			innerRest = index
		case !sf.IsExported(), strings.ContainsAny(name, `'"\`+"`"),
			options != "" && options != "omitzero" && options != "omitempty":
			return nil, nil, false
		case sf.Anonymous && name == "":
			if sf.Type.Kind() != reflect.Struct || ownMethods(sf.Type) {
				return nil, nil, false
			}
			if inner, innerRest, ok = fieldsOf(sf.Type, index); !ok {
				return nil, nil, false
			}
		case name == "":
			inner = []field{{sf.Name, index, planOf(sf.Type), nil}}
		case sf.Tag.Get("prefix") != "":
			if sf.Type != reflect.TypeFor[Labels]() {
				return nil, nil, false
			}
			prefixes := strings.Fields(sf.Tag.Get("prefix"))
			inner = []field{{name, index, labelsPlan(prefixes), prefixes}}
		default:
			inner = []field{{name, index, planOf(sf.Type), nil}}
		}
		if rest != nil && innerRest != nil {
			return nil, nil, false
		}
		fields = append(fields, inner...)
		if innerRest != nil {
			rest = innerRest
		}
	}
	for _, f := range fields {
		if seen[f.name] {
			return nil, nil, false
		}
		seen[f.name] = true
	}
	return fields, rest, true
}

// fewMembers is more than most objects have: up to there addMember keeps no slack. Larger objects grow in steps,
// because a copy for each of 100,000 members would be slow.
const fewMembers = 16

// addMember adds member n, of which the name has just been read and the value is next, to a JSON object as they came.
func addMember(s *scanner, object *Raw, n int) error {
	name := slices.Clone(s.name)
	if !s.admits(len(name), 0) {
		return cmp.Or(s.skip(), errLarge())
	}
	value, err := s.value()
	if err != nil {
		return err
	}
	if !json.Valid(value) {
		return &misfit{path: "." + strings.Trim(string(name), `"`), err: errors.New("not valid JSON")}
	}
	out := *object
	if n < fewMembers {
		out = make(Raw, len(*object), max(len(*object), 1)+len(name)+len(value)+2)
		copy(out, *object)
	}
	if len(out) == 0 {
		out = append(out, '{')
	} else {
		out[len(out)-1] = ','
	}
	*object = append(append(append(append(out, name...), ':'), value...), '}')
	return nil
}
