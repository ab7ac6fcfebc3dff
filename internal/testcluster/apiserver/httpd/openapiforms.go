package httpd

import (
	_ "embed"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
)

// documentV2 returns the one document of OpenAPI v2, of all kinds.
func documentV2(all []*kinds.Kind) map[string]any {
	schemas, paths := describe(all)
	definitions := make(map[string]any, len(schemas))
	for name, s := range schemas {
		definitions[name] = definitionV2(s.(map[string]any))
	}
	for _, path := range paths {
		for _, operation := range path.(map[string]any) {
			operationV2(operation.(map[string]any))
		}
	}
	return map[string]any{"swagger": "2.0", "paths": paths, "definitions": definitions}
}

// operationV2 makes an operation one of v2, in place.
func operationV2(o map[string]any) {
	for _, p := range obj.Maps(o, "parameters") {
		p["type"], p["uniqueItems"] = obj.String(p, "schema", "type"), true
		delete(p, "schema")
	}
	for _, answer := range obj.Map(o, "responses") {
		answer := answer.(map[string]any)
		if s := obj.Map(answer, "content", "application/json", "schema"); s != nil {
			answer["schema"] = schemaV2(s)
		}
		delete(answer, "content")
	}
}

// definitionV2 returns the schema of a kind in the form of v2. Of a kind that keeps unknown fields no field is
// declared: kubectl would refuse the others.
func definitionV2(s map[string]any) map[string]any {
	const gvk = "x-kubernetes-group-version-kind"
	if obj.Bool(s, keepsUnknown) {
		return map[string]any{"type": "object", gvk: s[gvk]}
	}
	return schemaV2(s)
}

const keepsUnknown = "x-kubernetes-preserve-unknown-fields"

// schemaV2 returns a schema of v3 in the form of v2, which has no alternatives and no null, as a real server does.
func schemaV2(s map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range s {
		switch name {
		case "allOf", "anyOf", "oneOf", "not", "nullable", "default":
		case "$ref":
			out[name] = strings.Replace(v.(string), schema.RefPrefix, "#/definitions/", 1)
		case "properties":
			properties := map[string]any{}
			for field, of := range obj.Map(s, name) {
				if of, ok := of.(map[string]any); ok {
					properties[field] = schemaV2(of)
				}
			}
			out[name] = properties
		case "required":
			required := slices.DeleteFunc(slices.Clone(v.([]any)), func(field any) bool {
				return obj.Bool(s, "properties", field.(string), "nullable")
			})
			if len(required) > 0 {
				out[name] = required
			}
		case "items", "additionalProperties":
			if out[name] = v; obj.Map(s, name) != nil {
				out[name] = schemaV2(obj.Map(s, name))
			}
		default:
			out[name] = v
		}
	}
	if all := obj.Maps(s, "allOf"); len(all) == 1 && all[0]["$ref"] != nil {
		out["$ref"] = schemaV2(all[0])["$ref"]
	}
	if s["oneOf"] != nil && s["type"] == nil { // a quantity, or a number or string
		out["type"] = "string"
	}
	if obj.Bool(s, "nullable") { // which kubectl could not check
		for _, name := range []string{"type", "format", "items", "properties", "additionalProperties"} {
			delete(out, name)
		}
	}
	if obj.Bool(s, keepsUnknown) { // where kubectl would refuse what is not declared
		for _, name := range []string{"items", "properties"} {
			delete(out, name)
		}
		if out["type"] != "string" {
			delete(out, "type")
		}
	}
	return out
}

// openapi.txt says in its first lines what it has.
//
//go:embed openapi.txt
var openapi string

// messages are the fields of each message of openapi.txt, by version and name.
var messages = sync.OnceValue(func() map[string]map[string]protoField {
	out := map[string]map[string]protoField{}
	for line := range strings.Lines(strings.ReplaceAll(openapi, "\\\n", "")) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		fields := map[string]protoField{}
		for _, word := range words[2:] {
			name, rest, _ := strings.Cut(word, "=")
			numbers, kind, _ := strings.Cut(rest, ":")
			f := protoField{kind: kind}
			for n := range strings.SplitSeq(numbers, "/") {
				number, _ := strconv.Atoi(n) // a test encodes all
				f.path = append(f.path, number)
			}
			fields[name] = f
		}
		out[words[0]+" "+words[1]] = fields
	}
	return out
})

// protoField is a field of a message.
type protoField struct {
	path []int
	kind string
}

func encodeOpenAPI(version string, document map[string]any) []byte {
	return protoEncoder(version).message("Document", document)
}

// protoEncoder encodes documents of a version of OpenAPI.
type protoEncoder string

func (e protoEncoder) message(name string, m map[string]any) (out []byte) {
	if ref := obj.String(m, "$ref"); name == "SchemaOrReference" && ref != "" {
		return wrapped([]int{2, 1}, []byte(ref))
	} else if name == "SchemaOrReference" {
		return wrapped([]int{1}, e.message("Schema", m))
	}
	fields := messages()[string(e)+" "+name]
	for _, key := range obj.Keys(m) {
		f, known := fields[key]
		switch extension, isExtension := fields["x-"]; {
		case known:
			out = append(out, e.field(f, m[key])...)
		case isExtension && strings.HasPrefix(key, "x-"):
			out = append(out, e.pair(extension.path[0], key, e.field(protoField{[]int{2}, "any"}, m[key]))...)
		case fields["*"].path != nil:
			f := fields["*"]
			value := e.field(protoField{append([]int{2}, f.path[1:]...), f.kind}, m[key])
			out = append(out, e.pair(f.path[0], key, value)...)
		}
	}
	return out
}

// pair encodes a name and its value, which is encoded as field 2.
func (e protoEncoder) pair(number int, name string, value []byte) []byte {
	return wrapped([]int{number}, append(wrapped([]int{1}, []byte(name)), value...))
}

// field encodes a value, or each of a list.
func (e protoEncoder) field(f protoField, v any) (out []byte) {
	if list, ok := v.([]any); ok && f.kind != "any" {
		if f.kind == "anys" {
			f.kind = "any"
		}
		for _, item := range list {
			out = append(out, e.field(f, item)...)
		}
		return out
	}
	switch last := len(f.path) - 1; v := v.(type) {
	case map[string]any:
		if f.kind != "any" && f.kind != "default" && f.kind != "" {
			return wrapped(f.path, e.message(f.kind, v))
		}
	case bool:
		switch f.kind {
		case "default":
			return scalar(append(slices.Clone(f.path), 2), v)
		case "Schema", "SchemaOrReference": // as additionalProperties
			return scalar(append(slices.Clone(f.path[:last]), 2), v)
		case "bool":
			return scalar(f.path, v)
		}
	case string:
		if f.kind == "default" {
			return wrapped(append(slices.Clone(f.path), 3), []byte(v))
		} else if f.kind == "" {
			return wrapped(f.path, []byte(v))
		}
	case int64:
		switch f.kind {
		case "default", "double":
			return e.field(f, float64(v))
		case "int":
			return scalar(f.path, v)
		}
	case float64:
		switch f.kind {
		case "default":
			return scalar(append(slices.Clone(f.path), 1), v)
		case "double":
			return scalar(f.path, v)
		}
	}
	if f.kind == "any" { // as YAML, of which JSON is a part
		return wrapped(append(slices.Clone(f.path), 2), Encode(v))
	}
	return nil
}

// wrapped encodes bytes as a field, within the messages of one field each that the path leads through.
func wrapped(path []int, body []byte) []byte {
	for _, n := range slices.Backward(path) {
		out := binary.AppendUvarint(make([]byte, 0, len(body)+10), uint64(n)<<3|2)
		out = binary.AppendUvarint(out, uint64(len(body)))
		body = append(out, body...)
	}
	return body
}

// scalar encodes a number or bool likewise.
func scalar(path []int, v any) (out []byte) {
	last := len(path) - 1
	tag := uint64(path[last]) << 3
	switch v := v.(type) {
	case float64:
		out = binary.LittleEndian.AppendUint64(binary.AppendUvarint(nil, tag|1), math.Float64bits(v))
	case int64:
		out = binary.AppendUvarint(binary.AppendUvarint(nil, tag), uint64(v))
	case bool:
		out = binary.AppendUvarint(nil, tag)
		if out = append(out, 0); v {
			out[len(out)-1] = 1
		}
	}
	return wrapped(path[:last], out)
}
