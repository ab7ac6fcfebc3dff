package spec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/nearest"
)

// Bounds of a document. The most deeply nested object that anyone writes has some 20 levels, and the largest that a
// cluster stores has fewer than 100,000 values; yaml.v3 lets aliases repeat more than four times as many.
const (
	maxDepth  = 100
	maxValues = 100_000
	maxItems  = 100 // of a list of a definition; each resource costs a watch
)

// The kinds of values, as problems name them.
const (
	null     = "null"
	aBoolean = "a boolean"
	aNumber  = "a number"
	aString  = "a string"
	aList    = "a list"
	anObject = "an object"
)

// decoder reads a document into structs with tags, adds a problem for each value of another form, and writes the
// document as JSON with the defaults. yaml.v3 decodes into structs, too, but names no field, only lines, takes 10 for
// "10", and reads no JSON of a server.
type decoder struct {
	kind   string // of the controller
	found  *Problems
	places map[any]*place // of a field of a struct, by a pointer to the field
	json   []byte
	values int
	ended  bool // too large: the rest is not read
}

// document reads y into the value of a pointer.
func (d *decoder) document(y *yaml.Node, out any) {
	d.places = map[any]*place{}
	d.value(y, reflect.ValueOf(out).Elem(), "", &place{item: -1, line: y.Line, has: true})
}

func (d *decoder) end(at *place, format string, args ...any) {
	d.found.add(at, format, args...)
	d.ended = true
}

// value reads a value by the tags of its field.
func (d *decoder) value(y *yaml.Node, out reflect.Value, tag reflect.StructTag, at *place) {
	if y.Kind == yaml.AliasNode {
		y = y.Alias // an alias within the anchor ends at maxDepth
	}
	switch d.values++; {
	case d.ended:
		return
	case d.values > maxValues:
		d.end(at, "more than %d values, with what aliases repeat", maxValues)
		return
	case at.depth > maxDepth:
		d.end(at, "nested more than %d deep", maxDepth)
		return
	}
	is, text, err := kindOf(y)
	if err != nil {
		d.found.add(at, "%v", err)
		return
	}
	want := wanted[out.Kind()]
	if want != "" && is != want {
		hint := ""
		if want == aString && (is == aNumber || is == aBoolean) {
			hint = ": put it in quotes"
		}
		d.found.add(at, "must be %s, is %s%s", want, is, hint)
	}
	if is != want {
		out = reflect.Value{}
	}
	switch is {
	case anObject:
		d.object(y, out, tag, at)
	case aList:
		d.list(y, out, tag, at)
	case aString:
		d.json = appendText(d.json, text)
		if out.IsValid() {
			d.string(text, out, tag, at)
		}
	default:
		if d.json = append(d.json, text...); out.Kind() == reflect.Bool {
			out.SetBool(text == "true")
		} else if out.IsValid() {
			d.number(text, out, tag, at)
		}
	}
}

// wanted is the kind of values that a field takes, by the type of the field; not there: any.
var wanted = map[reflect.Kind]string{reflect.Bool: aBoolean, reflect.Int: aNumber, reflect.String: aString,
	reflect.Slice: aList, reflect.Struct: anObject, reflect.Pointer: anObject, reflect.Map: anObject}

// kindOf returns the kind of a value, and the JSON of a scalar; of a string, its text.
func kindOf(y *yaml.Node) (kind, text string, err error) {
	switch tag := y.ShortTag(); {
	case y.Kind == yaml.MappingNode:
		return anObject, "", nil
	case y.Kind == yaml.SequenceNode:
		return aList, "", nil
	case tag == "!!str" || tag == "!!timestamp": // JSON has no form for a date
		return aString, y.Value, nil
	default:
		kind = map[string]string{"!!null": null, "!!bool": aBoolean, "!!int": aNumber, "!!float": aNumber}[tag]
		if kind == "" {
			return "", "", fmt.Errorf("has the tag %.100q, which JSON has no form for", y.Tag)
		}
	}
	var v any
	err = y.Decode(&v)
	digits, encodeErr := json.Marshal(v) // JSON has no infinity, and no NaN
	if err != nil || encodeErr != nil {
		return "", "", fmt.Errorf("must be %s that JSON has, is %.100q", kind, y.Value)
	}
	return kind, string(digits), nil
}

func appendText(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("spec: encode a string: %v", err)) // encoding/json replaces bytes other than UTF-8
	}
	return append(b, quoted...)
}

func (d *decoder) string(text string, out reflect.Value, tag reflect.StructTag, at *place) {
	need, enum, is := cmp.Or(tag.Get("need"), tag.Get("empty")), tag.Get("enum"), formats[tag.Get("is")]
	switch names := strings.Split(enum, ","); {
	case text == "" && need != "":
		d.found.add(at, "%s", need)
	case text != "" && enum != "" && !slices.Contains(names, text):
		d.found.add(at, "must be %s, is %q", or(names), kube.Printable(text, maxShown))
	case (text != "" || at.item >= 0) && is.ok != nil && !is.ok(text):
		d.found.add(at, "must be %s, is %q", is.want, kube.Printable(text, maxShown))
	default:
		out.SetString(text)
	}
}

// or joins names as a sentence does.
func or(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (d *decoder) number(text string, out reflect.Value, tag reflect.StructTag, at *place) {
	var least, most int64
	_, rangeErr := fmt.Sscanf(tag.Get("range"), "%d,%d", &least, &most)
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil || rangeErr != nil || i < least || i > most {
		d.found.add(at, "must be a whole number from %d to %d, is %s", least, most, kube.Printable(text, maxShown))
		return
	}
	out.SetInt(i)
}

// list reads a list into a slice.
func (d *decoder) list(y *yaml.Node, out reflect.Value, tag reflect.StructTag, at *place) {
	if n := len(y.Content); out.IsValid() && n > maxItems {
		d.found.add(at, "has %d items, at most %d are allowed", n, maxItems)
		out = reflect.Value{}
	} else if out.IsValid() {
		if out.Set(reflect.MakeSlice(out.Type(), n, n)); n == 0 && tag.Get("need") != "" {
			d.found.add(at, "is empty")
		}
	}
	d.json = append(d.json, '[')
	for i, item := range y.Content {
		if i > 0 {
			d.json = append(d.json, ',')
		}
		var into reflect.Value
		below := &place{in: at, item: i, depth: at.depth + 1, line: item.Line, has: true}
		if out.IsValid() {
			into = out.Index(i)
			d.places[into.Addr().Interface()] = below
		}
		d.value(item, into, itemTag(tag), below)
	}
	d.json = append(d.json, ']')
}

// itemTag is the part of a tag that counts for strings in a list or in an object, too.
func itemTag(tag reflect.StructTag) reflect.StructTag {
	return reflect.StructTag(`is:"` + tag.Get("is") + `"`)
}

// fields returns the fields of a struct for the kind of controller.
func (d *decoder) fields(out reflect.Value) (all []reflect.StructField, names []string) {
	if out.Kind() != reflect.Struct {
		return nil, nil
	}
	for _, f := range reflect.VisibleFields(out.Type()) {
		name, only := f.Tag.Get("yaml"), f.Tag.Get("only")
		if name != "" && (only == "" || only == d.kind) {
			all, names = append(all, f), append(names, name)
		}
	}
	return all, names
}

// object reads an object into a struct or a map.
func (d *decoder) object(y *yaml.Node, out reflect.Value, tag reflect.StructTag, at *place) {
	switch out.Kind() {
	case reflect.Pointer:
		out.Set(reflect.New(out.Type().Elem()))
		out = out.Elem()
	case reflect.Map:
		out.Set(reflect.MakeMap(out.Type()))
	}
	all, names := d.fields(out)
	seen := map[string]*place{}
	d.json = append(d.json, '{')
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, v := y.Content[i], y.Content[i+1]
		below := &place{in: at, name: key.Value, item: -1, depth: at.depth + 1, line: v.Line, has: !isNull(v)}
		switch n := slices.Index(names, key.Value); {
		case key.Kind != yaml.ScalarNode:
			d.found.add(at, "has a key that is not a string")
			continue
		case key.Tag == "!!merge":
			d.found.add(at, "has a merge key (<<), which is not supported: write its fields out")
			continue
		case seen[key.Value] != nil:
			below.line = key.Line
			d.found.add(below, "is there twice")
			continue
		case n >= 0:
			d.member(v, out.FieldByIndex(all[n].Index), all[n].Tag, below)
		case out.Kind() == reflect.Map:
			if names := formats[tag.Get("keys")]; names.ok != nil && !names.ok(key.Value) {
				d.found.add(below, "is %s", names.want)
			}
			into := reflect.New(out.Type().Elem()).Elem()
			d.member(v, into, itemTag(tag), below)
			out.SetMapIndex(reflect.ValueOf(key.Value), into) // of null: ""; a selector must not select more
		default:
			if out.Kind() == reflect.Struct && !slices.Contains(names, "*") {
				d.unknown(key.Value, names, below)
			}
			d.member(v, reflect.Value{}, "", below)
		}
		seen[key.Value] = below
	}
	for i, f := range all {
		below := seen[names[i]]
		if below == nil {
			below = &place{in: at, name: names[i], item: -1, line: at.line}
		}
		d.missing(out.FieldByIndex(f.Index), f.Tag, below)
	}
	d.json = append(d.json, '}')
}

// isNull says whether a member counts as missing.
func isNull(y *yaml.Node) bool {
	if y.Kind == yaml.AliasNode {
		y = y.Alias
	}
	return y.Kind == yaml.ScalarNode && y.ShortTag() == "!!null"
}

// member reads a member of an object, unless null or omitted.
func (d *decoder) member(y *yaml.Node, out reflect.Value, tag reflect.StructTag, at *place) {
	if at.has && (!out.IsValid() || out.Type() != reflect.TypeFor[omitted]()) {
		d.key(at.name)
		d.value(y, out, tag, at)
	}
}

func (d *decoder) key(name string) {
	if d.json[len(d.json)-1] != '{' {
		d.json = append(d.json, ',')
	}
	d.json = append(appendText(d.json, name), ':')
}

// missing keeps the place of a field, and sets the default if the field is missing.
func (d *decoder) missing(out reflect.Value, tag reflect.StructTag, at *place) {
	d.places[out.Addr().Interface()] = at
	if text := tag.Get("default"); at.has {
		return
	} else if text != "" {
		out.SetString(text)
		d.key(at.name)
		d.json = appendText(d.json, text)
	} else if need := tag.Get("need"); need != "" {
		d.found.add(at, "%s", need)
	}
}

func (d *decoder) unknown(name string, names []string, at *place) {
	hint := ""
	if !d.found.full() { // a hint takes time
		if ask := nearest.Ask(name, names, "", ""); ask != "" {
			hint = ", " + ask
		}
	}
	d.found.add(at, "is no field of this object%s", hint)
}

// has says whether the document has a field, given by pointer; an empty value is there, too.
func (d *decoder) has(field any) bool { return d.places[field].has }

// wrong adds a problem of a field, given by pointer.
func (d *decoder) wrong(field any, format string, args ...any) {
	d.found.add(d.places[field], format, args...)
}

// around adds a problem of the object around a field.
func (d *decoder) around(field any, format string, args ...any) {
	d.found.add(d.places[field].in, format, args...)
}

// fromJSON makes a document of an object of a server.
func fromJSON(raw kube.Raw) (*yaml.Node, error) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	left := 2 * maxValues // keys are counted, too
	y, err := nextJSON(d, &left, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the object")
	}
	return y, nil
}

// nextJSON reads the next value or key.
func nextJSON(d *json.Decoder, left *int, depth int) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if *left--; *left < 0 {
		return nil, fmt.Errorf("more than %d values", maxValues)
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	y := &yaml.Node{Kind: yaml.ScalarNode}
	switch t := token.(type) {
	case nil:
		y.Value = null
	default:
		y.Value = fmt.Sprint(t) // a number or a boolean, which is the same in YAML
	case string:
		y.Tag, y.Value = "!!str", t
	case json.Delim:
		y.Kind = yaml.SequenceNode
		if t == '{' {
			y.Kind = yaml.MappingNode
		}
		for d.More() {
			v, err := nextJSON(d, left, depth+1)
			if err != nil {
				return nil, err
			}
			y.Content = append(y.Content, v)
		}
		if _, err := d.Token(); err != nil {
			return nil, fmt.Errorf("is not JSON: %w", err)
		}
	}
	return y, nil
}
