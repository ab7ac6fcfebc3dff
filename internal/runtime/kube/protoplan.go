package kube

import (
	"reflect"
	"strings"
	"sync"
	"time"
)

// A protoPlan decodes one field of a message into a Go value; rest is the message behind the field, and was the value
// in an earlier version of the object, from which unchanged parts are taken. A value that does not fit is a *misfit.
type protoPlan func(f protoField, rest []byte, v, was reflect.Value) error

// protoStruct decodes the declared fields of a message, by number, into a struct. A protoStruct is made once for a
// type; the result is the result of the plan for the same object in JSON (FuzzBothEncodings in internal/tools/e2e).
type protoStruct struct {
	fields  []protoMember // by number; a nil plan skips an undeclared field
	digests bool          // fields has digests
}

type protoMember struct {
	name  string
	index []int
	wire  byte // any other is a misfit
	plan  protoPlan
	// digests: the field is of Digests or EncodedDigests; text: the values are texts; once: the plan reads all members
	// of a map at the first.
	digests, text, once bool
}

// protoTypes caches the plan of each type and message, nil for JSON only.
var protoTypes sync.Map // protoType -> *protoStruct

type protoType struct {
	into    reflect.Type // not embedded: a method MethodByName has the linker keep all methods of all types
	message string
}

// protoPlanOf returns the plan of T for the messages of a resource, nil where only JSON will do: the table of numbers
// lacks a declared field, or a field is raw JSON.
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
		plan, once := newProtoPlan(ft, n), n.kind == "map" && ft == reflect.TypeFor[Labels]()
		if once {
			plan = protoLabels(f.prefixes)
		}
		if !known || plan == nil || isDigests(ft) && !strings.Contains(message, " ") || once && n.number >= 64 {
			return nil // slimMessage knows of digests at the top of an object alone, and decode of 64 maps
		}
		if need := int(n.number) + 1 - len(p.fields); need > 0 {
			p.fields = append(p.fields, make([]protoMember, need)...)
		}
		wire := byte(wireBytes)
		if n.kind == "bool" || n.kind == "int" {
			wire = wireVarint
		}
		p.fields[n.number] = protoMember{"." + f.name, f.index, wire, plan, isDigests(ft), n.kind == "map", once}
		p.digests = p.digests || isDigests(ft)
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
		if t == reflect.TypeFor[map[string]string]() {
			return protoMap
		}
		if t == reflect.TypeFor[Digests]() {
			return protoDigests
		}
	case n.kind == "bytes":
		if t == reflect.TypeFor[EncodedDigests]() {
			return protoDigests
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

// decodeInto decodes a message into the struct at into.
func (p *protoStruct) decodeInto(m []byte, into any) error {
	return p.decode(m, reflect.ValueOf(into).Elem(), reflect.Value{})
}

// decode decodes a message into a struct; was is the struct of an earlier version, if any. A misfit does not end the
// decoding, so that the error has the name of the object.
func (p *protoStruct) decode(m []byte, v, was reflect.Value) error {
	var bad *misfit
	var done uint64 // a bit for each map that has been read
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
		if member.once && err == nil {
			bit := uint64(1) << f.number
			if done&bit != 0 {
				continue
			}
			done |= bit
		}
		if err == nil {
			err = member.plan(f, rest, v.FieldByIndex(member.index), before)
		}
		if err != nil {
			bad, _ = keep(bad, err, member.name) // a plan fails with misfits only
		}
	}
	return bad.orNil()
}
