package kube

import (
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"sync"
)

// A plan decodes the next value of a stream into a Go value of one type: structs, pointers, slices, strings, integers
// and booleans directly, with the results of encoding/json (FuzzDecodeAsStandard), except that the case of names
// counts; all else, such as maps and types with methods, through encoding/json.
//
// A value that does not fit is a *misfit. The scanner is then behind the value, and the rest has been decoded.
type plan func(s *scanner, v reflect.Value) error

// plans caches the plan of each type: reflection over the fields is done once.
var plans sync.Map // reflect.Type -> plan

func planOf(t reflect.Type) plan {
	if p, ok := plans.Load(t); ok {
		return p.(plan)
	}
	p, _ := plans.LoadOrStore(t, newPlan(t))
	return p.(plan)
}

func newPlan(t reflect.Type) plan {
	switch {
	case t == reflect.TypeFor[Skipped]():
		return func(s *scanner, _ reflect.Value) error { return s.skip() }
	case t == reflect.TypeFor[Labels]():
		return labelsPlan(nil)
	case isDigests(t):
		return digestsPlan(t == reflect.TypeFor[EncodedDigests]())
	case t.Kind() == reflect.Pointer:
		return pointerPlan(t)
	case ownMethods(t):
		return ofText(unmarshal)
	}
	switch t.Kind() {
	case reflect.String:
		return ofText(decodeString)
	case reflect.Bool:
		return ofText(decodeBool)
	case reflect.Int, reflect.Int32, reflect.Int64:
		return ofText(decodeInt)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // bytes are base64
			return slicePlan(t)
		}
	case reflect.Struct:
		if fields, rest, ok := fieldsOf(t, nil); ok {
			return structPlan(fields, rest)
		}
	}
	return ofText(unmarshal)
}

var methods = []reflect.Type{
	reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
}

// ownMethods reports whether a type has its own methods for decoding.
func ownMethods(t reflect.Type) bool {
	for _, m := range methods {
		if t.Implements(m) || reflect.PointerTo(t).Implements(m) {
			return true
		}
	}
	return false
}

// ofText is the plan of a value read in one piece.
func ofText(decode func(text []byte, v reflect.Value) error) plan {
	return func(s *scanner, v reflect.Value) error {
		text, err := s.value()
		if err != nil {
			return err
		}
		return decode(text, v)
	}
}

// unmarshal has the type or encoding/json decode the value.
func unmarshal(text []byte, v reflect.Value) (err error) {
	into := v.Addr().Interface()
	if own, ok := into.(json.Unmarshaler); ok && json.Valid(text) {
		err = own.UnmarshalJSON(text)
	} else {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return &misfit{err: err}
	}
	return nil
}

func decodeBool(text []byte, v reflect.Value) error {
	switch string(text) {
	case "true", "false":
		v.SetBool(text[0] == 't')
		return nil
	}
	return unmarshal(text, v)
}

func decodeInt(text []byte, v reflect.Value) error {
	if n, err := strconv.ParseInt(string(text), 10, v.Type().Bits()); err == nil && json.Valid(text) {
		v.SetInt(n)
		return nil
	}
	return unmarshal(text, v)
}

func decodeString(text []byte, v reflect.Value) error {
	if text[0] != '"' {
		return unmarshal(text, v)
	}
	b, err := unquote(text)
	if err != nil {
		return err
	}
	v.SetString(interned.of(b))
	return nil
}

// pointerPlan allocates the target, unless an earlier member of the same name did.
func pointerPlan(t reflect.Type) plan {
	null := ofText(unmarshal)
	elem := sync.OnceValue(func() plan { return planOf(t.Elem()) }) // late, because a type may contain itself
	return func(s *scanner, v reflect.Value) error {
		if c, err := s.peek(); err != nil {
			return err
		} else if c == 'n' {
			return null(s, v)
		}
		if v.IsNil() {
			v.Set(reflect.New(t.Elem()))
		}
		return elem()(s, v.Elem())
	}
}

func slicePlan(t reflect.Type) plan {
	elem := sync.OnceValue(func() plan { return planOf(t.Elem()) })
	size := int(t.Elem().Size())
	return func(s *scanner, v reflect.Value) error {
		ok, err := s.enterInto('[', v)
		if !ok {
			return err
		}
		var bad *misfit
		n := 0
		v.SetLen(0)
		for first := true; ; first = false {
			if ok, err := s.more(']', first); err != nil {
				return err
			} else if !ok {
				break
			}
			if !s.admits(size, 0) {
				if bad, err = keep(bad, cmp.Or(s.skip(), errLarge()), ""); err != nil {
					return err
				}
				continue
			}
			v.Grow(1)
			v.SetLen(n + 1)
			v.Index(n).SetZero() // may hold an element of an earlier member of the same name
			if err := elem()(s, v.Index(n)); err != nil {
				if bad, err = keep(bad, err, "["+strconv.Itoa(n)+"]"); err != nil {
					return err
				}
			}
			n++
		}
		if n == 0 || n < v.Cap() { // decoded slices are kept, and do not grow
			exact := reflect.MakeSlice(t, n, n)
			reflect.Copy(exact, v)
			v.Set(exact)
		}
		return bad.orNil()
	}
}

func structPlan(fields []field, rest []int) plan {
	return func(s *scanner, v reflect.Value) error {
		ok, err := s.enterInto('{', v)
		if !ok {
			return err
		}
		var bad *misfit
		for n := 0; ; n++ {
			name, ok, err := s.member(n == 0)
			if !ok {
				if err != nil {
					return err
				}
				break
			}
			atTop := s.top > 0 && s.top == len(s.open)
			switch f := named(fields, name); {
			case atTop && s.skimmed:
				from := s.offset()
				err = s.skip()
				if f != nil && isDigests(v.FieldByIndex(f.index).Type()) {
					s.hashed += int(s.offset() - from)
				}
			case err != nil:
				bad, err = keep(bad, cmp.Or(s.skip(), err), "")
			case f != nil:
				err = f.plan(s, v.FieldByIndex(f.index))
				if atTop && f.name == "metadata" {
					s.headed = err == nil
				}
				if err != nil {
					bad, err = keep(bad, err, "."+f.name)
				}
				if atTop && f.name == "metadata" {
					s.skim(v)
				}
			case rest != nil:
				if err = addMember(s, v.FieldByIndex(rest).Addr().Interface().(*Raw), n); err != nil {
					bad, err = keep(bad, err, "")
				}
			default:
				err = s.skip()
			}
			if err != nil {
				return err
			}
		}
		return bad.orNil()
	}
}

// skim asks the reader, once the metadata of an object is known, whether to decode the rest. Servers send the metadata
// ahead of the large fields.
func (s *scanner) skim(object reflect.Value) {
	if s.want.skim == nil {
		return
	}
	if obj, ok := object.Addr().Interface().(Object); ok {
		s.skimmed = s.want.skim(obj.ObjectMeta().Key())
	}
}

// named searches the few names of a struct; most differ in length already.
func named(fields []field, name []byte) *field {
	for i := range fields {
		if fields[i].name == string(name) {
			return &fields[i]
		}
	}
	return nil
}

// decodeInto decodes the next value into the target of into.
func decodeInto(s *scanner, into any) error {
	v := reflect.ValueOf(into).Elem()
	return planOf(v.Type())(s, v)
}
