package e2e

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
)

// Object is a decoded JSON object. Its methods walk a path of field names and list indexes; what is not there is the
// zero value, so a test reads as one line and a missing field shows up as a wrong value.
type Object map[string]any

// At is the value at path, or nil.
func (o Object) At(path ...string) any {
	var at any = map[string]any(o)
	for _, step := range path {
		switch v := at.(type) {
		case map[string]any:
			at = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}

// Str is the string at path.
func (o Object) Str(path ...string) string {
	s, _ := o.At(path...).(string)
	return s
}

// Int is the number at path, and -1 where there is none, because 0 replicas is not the same as no replicas.
func (o Object) Int(path ...string) int {
	n, ok := o.At(path...).(float64)
	if !ok {
		return -1
	}
	return int(n)
}

// List is the list of objects at path.
func (o Object) List(path ...string) []Object {
	list, _ := o.At(path...).([]any)
	out := make([]Object, 0, len(list))
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// Name is metadata.name.
func (o Object) Name() string { return o.Str("metadata", "name") }

// UID is metadata.uid.
func (o Object) UID() string { return o.Str("metadata", "uid") }

// Condition is the condition of that type in the status, or an empty object. Its message is that of the condition to
// which it refers, if it does.
func (o Object) Condition(kind string) Object {
	for _, c := range o.List("status", "conditions") {
		if c.Str("type") != kind {
			continue
		}
		if other, ok := strings.CutPrefix(c.Str("message"), "see the condition "); ok {
			c = maps.Clone(c)
			c["message"] = o.Condition(other).Str("message")
		}
		return c
	}
	return Object{}
}

// ControllerUID is the uid of the controller owner reference, or "".
func (o Object) ControllerUID() string {
	for _, ref := range o.List("metadata", "ownerReferences") {
		if ref.At("controller") == true {
			return ref.Str("uid")
		}
	}
	return ""
}

// String is the object as indented JSON, for messages.
func (o Object) String() string {
	text, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}
