package cache

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
)

// Untyped is an object of a kind that is known only at run time.
type Untyped struct {
	kube.MetaAnnotated `json:"metadata"`
	// A watch event has these two, an item of a list has not.
	APIVersion kube.Skipped `json:"apiVersion"`
	Kind       kube.Skipped `json:"kind"`
	// Body holds the other members as one JSON object, of which only the declared fields: {"spec":{"replicas":3}}. It
	// is nil where there is none of them.
	Body kube.Raw `json:",embed"`
}

// maxFields bounds the fields of a mirror and the names in one of them: they may come from outside.
const maxFields = 256

// Untyped returns the mirror of a kind that is known only at run time, as Shared does. fields are the paths of what is
// kept beside the metadata, such as "spec.replicas"; without any, everything is kept. A backslash escapes a dot that
// belongs to a name. A path that reaches a list keeps the whole list.
func (m *Mirrors) Untyped(o Options, fields []string) (*Store[*Untyped], error) {
	root, err := fieldTree(fields)
	if err != nil {
		return nil, fmt.Errorf("mirror %s: %w", o.Resource, err)
	}
	key := slices.Clone(fields)
	slices.Sort(key)
	return shared(m, o, strings.Join(slices.Compact(key), ","),
		func(obj *Untyped) { obj.Body = root.of(obj.Body) }), nil
}

// fields is a tree of names. A leaf keeps the whole value.
type fields map[string]fields

// fieldTree makes a tree of paths.
func fieldTree(paths []string) (fields, error) {
	if len(paths) > maxFields {
		return nil, fmt.Errorf("%d fields are declared, at most %d can be", len(paths), maxFields)
	}
	root := fields{}
	for _, path := range paths {
		names := strings.Split(strings.ReplaceAll(path, `\.`, "\x00"), ".")
		if slices.Contains(names, "") || len(names) > maxFields {
			return nil, fmt.Errorf("field %q: want names separated by dots, such as spec.replicas", path)
		}
		at := root
		for i, name := range names {
			name = strings.ReplaceAll(name, "\x00", ".")
			below, known := at[name]
			switch {
			case known && below == nil: // all of it is kept already
			case i == len(names)-1:
				at[name] = nil
			case !known:
				below = fields{}
				at[name] = below
			}
			if at[name] == nil {
				break
			}
			at = below
		}
	}
	return root, nil
}

// of returns the part of a JSON object that the tree names, in its own memory.
func (f fields) of(body kube.Raw) kube.Raw {
	if len(f) == 0 || len(body) == 0 {
		return body
	}
	var out bytes.Buffer
	if err := f.copy(body, &out); err != nil || out.Len() <= len("{}") {
		return nil // it was read as JSON before
	}
	return slices.Clip(bytes.Clone(out.Bytes()))
}

// copy writes the members of an object that the tree names.
func (f fields) copy(object kube.Raw, out *bytes.Buffer) error {
	next := byte('{')
	err := kube.Members(object, func(name []byte, value kube.Raw) error {
		below, wanted := f[string(name)]
		if !wanted {
			return nil
		}
		quoted, err := json.Marshal(string(name))
		if err != nil {
			return err
		}
		out.WriteByte(next)
		next = ','
		out.Write(append(quoted, ':'))
		if below != nil && value[0] == '{' {
			return below.copy(value, out)
		}
		out.Write(value)
		return nil
	})
	if next == '{' {
		out.WriteByte('{')
	}
	out.WriteByte('}')
	return err
}
