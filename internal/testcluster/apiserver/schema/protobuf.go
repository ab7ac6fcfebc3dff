package schema

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// Clients send protobuf as a magic number and a runtime.Unknown, an envelope of apiVersion and kind around the object.
// The object is decoded to what JSON of the same Go value would give. Unknown fields are dropped, as by the real
// server.

// magic is the prefix of each body of application/vnd.kubernetes.protobuf.
var magic = []byte("k8s\x00")

// maxDepth limits the nesting of messages. It is far deeper than any object, and shallow enough for JSON, which has at
// most two levels for each.
const maxDepth = 1000

// DecodeProtobuf decodes an object of application/vnd.kubernetes.protobuf. apiVersion and kind are used if the
// envelope has none. The error is in the real server's words; the object is nil if the envelope cannot be decoded. For
// a kind that is not in the table it has only apiVersion and kind.
func DecodeProtobuf(body []byte, apiVersion, kind string) (map[string]any, error) {
	content, ok := bytes.CutPrefix(body, magic)
	switch {
	case len(body) == 0:
		return nil, errors.New("empty data")
	case !ok:
		return nil, fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", magic)
	case len(content) == 0:
		return nil, errors.New("empty body")
	}
	envelope, err := smallMessage(content)
	if err != nil {
		return nil, err
	}
	typeMeta, err := smallMessage(envelope[1].data)
	if err != nil {
		return nil, err
	}
	apiVersion, kind = cmp.Or(text(typeMeta[1].data), apiVersion), cmp.Or(text(typeMeta[2].data), kind)
	object := map[string]any{"apiVersion": apiVersion, "kind": kind}
	t := For(apiVersion, kind)
	if kind == "DeleteOptions" { // each group has it
		t = For("v1", kind)
	}
	if t == nil {
		return object, nil
	}
	return object, t.numbers.decode(envelope[2].data, object, 0)
}

// numbers has the fields of a message by number.
type numbers map[uint64]numbered

// numbered is a field, or a struct whose fields JSON has inline.
type numbered struct {
	name string
	*Value
	inline numbers
}

// add adds a field under its number: 4, or 2.4 for field 4 of the struct that is field 2.
func (n numbers) add(path, name string, v *Value) {
	first, rest, nested := strings.Cut(path, ".")
	number, err := strconv.ParseUint(first, 10, 29)
	if err != nil {
		panic("fields.txt: number of " + name + ": " + err.Error())
	}
	if !nested {
		n[number] = numbered{name: name, Value: v}
		return
	}
	if n[number].inline == nil {
		n[number] = numbered{inline: numbers{}}
	}
	n[number].inline.add(rest, name, v)
}

// decode decodes a message into an object. As protobuf requires, a struct that occurs twice is merged.
func (n numbers) decode(message []byte, into map[string]any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested more than %d levels deep", maxDepth)
	}
	for len(message) > 0 {
		number, t, rest, err := nextToken(message)
		if err != nil {
			return err
		}
		message = rest
		switch f, known := n[number]; {
		case !known:
		case f.inline != nil:
			if err = t.is(lengthDelimited); err == nil {
				err = f.inline.decode(t.data, into, depth+1)
			}
		default:
			if into[f.name], err = f.decode(t, into[f.name], depth+1); err != nil {
				err = fmt.Errorf("%s: %w", f.name, err)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decode decodes a value; had is the field's value so far.
func (f *Value) decode(t token, had any, depth int) (any, error) {
	switch f.Form {
	case List:
		return f.appendTo(had, t, depth)
	case Map:
		return f.insertInto(had, t, depth)
	}
	if err := t.is(forms[f.Form].wire); err != nil {
		return nil, err
	}
	switch f.Form {
	case String:
		return text(t.data), nil
	case Bytes:
		return base64.StdEncoding.EncodeToString(t.data), nil
	case Bool:
		return t.number != 0, nil
	case Int32:
		return int64(int32(t.number)), nil
	case Int64:
		return int64(t.number), nil
	case Double:
		// JSON has neither NaN nor infinity, which is an error
		return patch.Decode(strconv.AppendFloat(nil, math.Float64frombits(t.number), 'g', -1, 64))
	case Struct:
		object, _ := had.(map[string]any)
		if object == nil {
			object = map[string]any{}
		}
		return object, f.Type.numbers.decode(t.data, object, depth)
	}
	if f.Form == Any && f.Type != nil {
		return f.Type.union(t.data, depth)
	}
	return f.special(t.data)
}

// special decodes the types that have another form in JSON.
func (f *Value) special(message []byte) (any, error) {
	m, err := smallMessage(message)
	if err != nil {
		return nil, err
	}
	switch f.Form {
	case Time, MicroTime:
		if len(message) == 0 {
			return nil, nil
		}
		return time.Unix(int64(m[1].number), int64(int32(m[2].number))).UTC().Format(timeLayouts[f.Form]), nil
	case Quantity:
		return text(m[1].data), nil
	case IntOrString:
		if m[1].number != 0 {
			return text(m[3].data), nil
		}
		return int64(int32(m[2].number)), nil
	}
	if len(m[1].data) == 0 { // free JSON
		return nil, nil
	}
	v, _, err := obj.Decode(m[1].data)
	return v, err
}

// union decodes a type of which JSON has only the field that is set. If a zero value is sent, too, it has the lower
// number. Zero values are removed here, because later steps do not look into unions.
func (t *Type) union(message []byte, depth int) (any, error) {
	object := map[string]any{}
	if err := t.numbers.decode(message, object, depth); err != nil {
		return nil, err
	}
	var last uint64
	var out any
	for number, f := range t.numbers {
		if v, ok := object[f.name]; ok && number >= last {
			last, out = number, f.drop(v)
		}
	}
	return out, nil
}

// appendTo decodes an item of a list, or several packed numbers.
func (f *Value) appendTo(had any, t token, depth int) (any, error) {
	list, _ := had.([]any)
	if forms[f.Elem.Form].wire != varint || t.wire != lengthDelimited {
		item, err := f.Elem.decode(t, nil, depth)
		return append(list, item), err
	}
	for packed := t.data; len(packed) > 0; {
		n, size := binary.Uvarint(packed)
		if size <= 0 {
			return nil, errTruncated
		}
		packed = packed[size:]
		item, err := f.Elem.decode(token{wire: varint, number: n}, nil, depth)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

// insertInto decodes a member of a map: a message of key and value.
func (f *Value) insertInto(had any, t token, depth int) (any, error) {
	members, _ := had.(map[string]any)
	if members == nil {
		members = map[string]any{}
	}
	if err := t.is(lengthDelimited); err != nil {
		return nil, err
	}
	m, err := smallMessage(t.data)
	if err != nil {
		return nil, err
	}
	value := f.Elem.zeroOf()
	switch {
	case f.Elem.Form == List: // a message of its own, as a member cannot be repeated
		list := map[string]any{}
		err = numbers{1: {name: "items", Value: f.Elem}}.decode(m[2].data, list, depth)
		value = list["items"]
	case m[2].sent:
		value, err = f.Elem.decode(m[2], nil, depth)
	}
	members[text(m[1].data)] = value
	return members, err
}
