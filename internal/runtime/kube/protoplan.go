package kube

import (
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

// A protoPlan decodes one field of a message into a Go value; rest is the message behind the field, and was the value
// in an earlier version of the object: what has not changed is taken from there. What does not fit comes back as a
// *misfit.
type protoPlan func(f protoField, rest []byte, v, was reflect.Value) error

// protoStruct decodes a message into a struct: the fields that are declared, by their numbers. Like a plan it is made
// once for a type; what is decoded is what the plan makes of the same object in JSON (FuzzBothEncodings in
// internal/tools/e2e).
type protoStruct struct {
	fields []protoMember // by number; with a nil plan what is not declared
}

type protoMember struct {
	name  string
	index []int
	wire  byte // any other is a misfit
	plan  protoPlan
}

// protoTypes has the plan of each type and message that was asked for, nil for those that are read from JSON.
var protoTypes sync.Map // protoType -> *protoStruct

type protoType struct {
	reflect.Type
	message string
}

// protoPlanOf returns how T is read from the messages of a resource. It is nil where only JSON will do: the table of
// numbers does not have all that is declared, or that is raw JSON.
func protoPlanOf[T Object](r Resource) *protoStruct {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer {
		return nil
	}
	return protoStructOf(t.Elem(), r.APIVersion()+" "+r.Kind)
}

func protoStructOf(t reflect.Type, message string) *protoStruct {
	key := protoType{t, message}
	if p, ok := protoTypes.Load(key); ok {
		return p.(*protoStruct)
	}
	p, _ := protoTypes.LoadOrStore(key, newProtoStruct(t, message))
	return p.(*protoStruct)
}

func newProtoStruct(t reflect.Type, message string) *protoStruct {
	numbers := numbersOf(message)
	if len(numbers) == 0 || t.Kind() != reflect.Struct || ownMethods(t) {
		return nil
	}
	fields, rest, ok := fieldsOf(t, nil)
	if !ok || rest != nil {
		return nil
	}
	p := &protoStruct{}
	for _, f := range fields {
		ft := t.FieldByIndex(f.index).Type
		if ft == reflect.TypeFor[Skipped]() {
			continue
		}
		n, known := numbers[f.name]
		plan := newProtoPlan(ft, n)
		if !known || plan == nil || f.prefix != "" {
			return nil
		}
		if need := int(n.number) + 1 - len(p.fields); need > 0 {
			p.fields = append(p.fields, make([]protoMember, need)...)
		}
		wire := byte(wireBytes)
		if n.kind == "bool" || n.kind == "int" {
			wire = wireVarint
		}
		p.fields[n.number] = protoMember{"." + f.name, f.index, wire, plan}
	}
	return p
}

// newProtoPlan returns the plan of a field for a Go type, nil where they do not go together.
func newProtoPlan(t reflect.Type, n protoNumber) protoPlan {
	own := ownMethods(t)
	switch {
	case t.Kind() == reflect.Pointer:
		if n.pointer && !n.list { // of any other, JSON leaves out the zero value, and protobuf does not
			n.pointer = false
			return protoPointer(t, newProtoPlan(t.Elem(), n))
		}
	case n.list:
		if n.list = false; t.Kind() == reflect.Slice && !own && t.Elem().Kind() != reflect.Pointer {
			return protoList(newProtoPlan(t.Elem(), n))
		}
	case n.kind == "map":
		if t == reflect.TypeFor[Labels]() {
			return protoLabels
		}
		if t == reflect.TypeFor[map[string]string]() {
			return protoMap
		}
	case n.kind == "time", n.kind == "microtime":
		if t == reflect.TypeFor[time.Time]() {
			return protoTime(n.kind == "microtime")
		}
	case own:
	case n.kind == "string", n.kind == "own":
		if t.Kind() == reflect.String {
			return protoString(n.kind == "own")
		}
	case n.kind == "bool":
		if t.Kind() == reflect.Bool {
			return protoBool
		}
	case n.kind == "int":
		if t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64 {
			return protoInt
		}
	default:
		if p := protoStructOf(t, n.kind); p != nil {
			return func(f protoField, _ []byte, v, was reflect.Value) error { return p.decode(f.bytes, v, was) }
		}
	}
	return nil
}

// decodeInto decodes a message into the struct that into points at.
func (p *protoStruct) decodeInto(m []byte, into any) error {
	return p.decode(m, reflect.ValueOf(into).Elem(), reflect.Value{})
}

// decode decodes a message into a struct; was is that of an earlier version, if there is one. It goes on behind what
// does not fit, so that the object has a name in the error.
func (p *protoStruct) decode(m []byte, v, was reflect.Value) error {
	var bad *misfit
	for len(m) > 0 {
		f, rest, err := nextField(m)
		if err != nil {
			bad, _ = keep(bad, &misfit{err: err}, "")
			break
		}
		if m = rest; f.number >= uint64(len(p.fields)) || p.fields[f.number].plan == nil {
			continue
		}
		member := &p.fields[f.number]
		var before reflect.Value
		if was.IsValid() {
			before = was.FieldByIndex(member.index)
		}
		err = f.is(member.wire)
		if err == nil {
			err = member.plan(f, rest, v.FieldByIndex(member.index), before)
		}
		if err != nil {
			bad, _ = keep(bad, err, member.name) // a plan fails with misfits only
		}
	}
	return bad.orNil()
}

// is fails for a field of another wire type.
func (f protoField) is(wire byte) error {
	if f.wire != wire {
		return &misfit{err: fmt.Errorf("the field has the wire type %d, want %d", f.wire, wire)}
	}
	return nil
}

// protoString looks for a text that the process has already, unless it is of the object's own.
func protoString(own bool) protoPlan {
	return func(f protoField, _ []byte, v, was reflect.Value) error {
		switch {
		case was.IsValid() && was.String() == string(f.bytes):
			v.SetString(was.String())
		case own && utf8.Valid(f.bytes):
			v.SetString(string(f.bytes))
		default:
			v.SetString(protoText(f.bytes))
		}
		return nil
	}
}

// protoText returns what a string means. As in JSON, a part that is not UTF-8 becomes U+FFFD.
func protoText(b []byte) string {
	if utf8.Valid(b) {
		return interned.of(b)
	}
	return string([]rune(string(b)))
}

func protoBool(f protoField, _ []byte, v, _ reflect.Value) error {
	v.SetBool(f.value != 0)
	return nil
}

func protoInt(f protoField, _ []byte, v, _ reflect.Value) error {
	if v.OverflowInt(int64(f.value)) {
		return &misfit{err: fmt.Errorf("%d is out of range", int64(f.value))}
	}
	v.SetInt(int64(f.value))
	return nil
}

// protoTime reads seconds and nanoseconds since 1970; no bytes are the zero time. metav1.Time is of whole seconds,
// MicroTime of whole microseconds.
func protoTime(micro bool) protoPlan {
	return func(f protoField, _ []byte, v, _ reflect.Value) error {
		first, second, err := f.pair(wireVarint, wireVarint)
		if err != nil {
			return err
		}
		at := time.Time{}
		if len(f.bytes) > 0 {
			nanoseconds := int64(0)
			if micro {
				nanoseconds = int64(int32(second.value)) / 1000 * 1000
			}
			at = time.Unix(int64(first.value), nanoseconds).UTC()
		}
		*v.Addr().Interface().(*time.Time) = at
		return nil
	}
}

// pair returns fields 1 and 2 of a message that has no others.
func (f protoField) pair(wire1, wire2 byte) (first, second protoField, err error) {
	for m := f.bytes; len(m) > 0; {
		var part protoField
		if part, m, err = nextField(m); err != nil {
			return first, second, &misfit{err: err}
		}
		switch part.number {
		case 1:
			first, err = part, part.is(wire1)
		case 2:
			second, err = part, part.is(wire2)
		}
		if err != nil {
			return first, second, err
		}
	}
	return first, second, nil
}

func protoPointer(t reflect.Type, elem protoPlan) protoPlan {
	if elem == nil {
		return nil
	}
	return func(f protoField, rest []byte, v, was reflect.Value) error {
		if len(f.bytes) == 0 && t.Elem() == reflect.TypeFor[time.Time]() {
			return nil // the zero time, which is null in JSON
		}
		if v.IsNil() { // a message may come in several parts
			v.Set(reflect.New(t.Elem()))
		}
		if was.IsValid() {
			was = was.Elem() // invalid if it is nil
		}
		return elem(f, rest, v.Elem(), was)
	}
}

// maxList is how many bytes the items of a list may take besides their texts: an item of two bytes may take a hundred.
// A list of 1,000 has a tenth of it.
const maxList = 1 << 20

// protoList makes a list of the exact size when its first item comes.
func protoList(elem protoPlan) protoPlan {
	if elem == nil {
		return nil
	}
	return func(f protoField, rest []byte, v, was reflect.Value) error {
		n := v.Len()
		most := maxList / int(v.Type().Elem().Size())
		if n >= most {
			return errLarge()
		}
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, min(1+count(rest, f.number), most)))
		}
		v.Grow(1)
		v.SetLen(n + 1)
		if was.IsValid() && n < was.Len() {
			was = was.Index(n)
		} else {
			was = reflect.Value{}
		}
		if err := elem(f, nil, v.Index(n), was); err != nil {
			bad, _ := keep(nil, err, "["+strconv.Itoa(n)+"]")
			return bad
		}
		return nil
	}
}

// protoLabels reads all members of a map when the first one comes.
func protoLabels(f protoField, rest []byte, v, was reflect.Value) error {
	labels := v.Addr().Interface().(*Labels)
	if *labels != nil {
		return nil
	}
	var before Labels
	if was.IsValid() {
		before = *was.Addr().Interface().(*Labels)
	}
	var buf [8]Label // more than most objects have
	out := Labels(buf[:0])
	same := true // so far as before, which is sorted as what a server sends
	left := 1 + count(rest, f.number)
	for number := f.number; ; {
		if f.number == number {
			key, value, err := f.pair(wireBytes, wireBytes)
			if err != nil {
				return err
			}
			n := len(out)
			same = same && n < len(before) && before[n].Key == string(key.bytes) &&
				before[n].Value == string(value.bytes)
			if same {
				out = append(out, before[n])
			} else {
				out = append(out, Label{protoText(key.bytes), protoText(value.bytes)})
			}
		}
		if len(out) == left && same && left == len(before) {
			*labels = before
			return nil
		}
		if len(out) == left {
			*labels = sharedLabels.of(out.sorted())
			return nil
		}
		f, rest, _ = nextField(rest) // count has seen as many
	}
}

func protoMap(f protoField, _ []byte, v, _ reflect.Value) error {
	key, value, err := f.pair(wireBytes, wireBytes)
	if err != nil {
		return err
	}
	m := v.Addr().Interface().(*map[string]string)
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[protoText(key.bytes)] = protoText(value.bytes)
	return nil
}
