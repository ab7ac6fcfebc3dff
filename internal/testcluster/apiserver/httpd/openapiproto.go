package httpd

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"skiff/internal/testcluster/apiserver/obj"
)

// messages are those of OpenAPI documents in protobuf, by version: a line has the name of the message, and its fields
// as NAME=NUMBERS:TYPE. Several numbers are messages in each other, of one field each. * is any other name, of which
// the number is that of a pair of name and value; x- one of an extension. A field without a type is a string.
var messages = sync.OnceValue(func() map[string]map[string]protoField {
	const v2 = `
Document swagger=1 info=2:Info paths=8:Paths definitions=9:Schemas
Info title=1 version=2
Paths *=2:PathItem
PathItem get=2:Operation put=3:Operation post=4:Operation delete=5:Operation patch=8:Operation
Operation operationId=5 parameters=8/1/2/3:Parameter responses=9:Responses x-=13
Parameter in=2 name=4 type=6 uniqueItems=20:bool
Responses *=1/1:Response
Response description=1 schema=2/1:Schema
Schemas *=1:Schema
Schema $ref=1 format=2 title=3 description=4 default=5:any multipleOf=6:double maximum=7:double \
  exclusiveMaximum=8:bool minimum=9:double exclusiveMinimum=10:bool maxLength=11:int minLength=12:int pattern=13 \
  maxItems=14:int minItems=15:int uniqueItems=16:bool maxProperties=17:int minProperties=18:int required=19 \
  enum=20:anys additionalProperties=21/1:Schema type=22/1 items=23/1:Schema properties=25:Schemas example=30:any x-=31`
	const v3 = `
Document openapi=1 info=2:Info paths=4:Paths components=5:Components
Info title=1 version=6
Paths *=1:PathItem
PathItem get=4:Operation put=5:Operation post=6:Operation delete=7:Operation patch=10:Operation
Operation operationId=5 parameters=6/1:Parameter responses=8:Responses x-=13
Parameter name=1 in=2 schema=10:SchemaOrReference
Responses *=2/1:Response
Response description=1 content=3:MediaTypes
MediaTypes *=1:MediaType
MediaType schema=1:SchemaOrReference
Components schemas=1:Schemas
Schemas *=1:SchemaOrReference
Schema nullable=1:bool example=7:any title=9 multipleOf=10:double maximum=11:double exclusiveMaximum=12:bool \
  minimum=13:double exclusiveMinimum=14:bool maxLength=15:int minLength=16:int pattern=17 maxItems=18:int \
  minItems=19:int uniqueItems=20:bool maxProperties=21:int minProperties=22:int required=23 enum=24:anys type=25 \
  allOf=26:SchemaOrReference oneOf=27:SchemaOrReference anyOf=28:SchemaOrReference not=29:Schema \
  items=30/1:SchemaOrReference properties=31:Schemas additionalProperties=32/1:SchemaOrReference \
  default=33:default description=34 format=35 x-=36`
	out := map[string]map[string]protoField{}
	for version, text := range map[string]string{"v2": v2, "v3": v3} {
		for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
			words := strings.Fields(line)
			if len(words) == 0 {
				continue
			}
			fields := map[string]protoField{}
			for _, word := range words[1:] {
				name, rest, _ := strings.Cut(word, "=")
				numbers, kind, _ := strings.Cut(rest, ":")
				f := protoField{kind: kind}
				for n := range strings.SplitSeq(numbers, "/") {
					number, _ := strconv.Atoi(n) // a test encodes all
					f.path = append(f.path, number)
				}
				fields[name] = f
			}
			out[version+" "+words[0]] = fields
		}
	}
	return out
})

// protoField is a field of a message.
type protoField struct {
	path []int
	kind string
}

// encodeOpenAPI encodes a document in protobuf.
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
	case int64, float64:
		switch f.kind {
		case "default":
			return scalar(append(slices.Clone(f.path), 1), asDouble(v))
		case "double":
			return scalar(f.path, asDouble(v))
		case "int":
			return scalar(f.path, v)
		}
	}
	if f.kind == "any" { // as YAML, of which JSON is a part
		return wrapped(append(slices.Clone(f.path), 2), Encode(v))
	}
	return nil
}

func asDouble(v any) float64 {
	if n, ok := v.(int64); ok {
		return float64(n)
	}
	f, _ := v.(float64)
	return f
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
