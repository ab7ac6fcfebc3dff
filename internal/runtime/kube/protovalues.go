package kube

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// protoString shares a text already known to the process, unless the text belongs to the object alone.
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

// protoText returns the text of a string. As in JSON, invalid UTF-8 becomes U+FFFD.
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

// maxList bounds the memory of a list besides its texts: an item of two bytes may take a hundred. A list of 1,000 has
// a tenth.
const maxList = 1 << 20

// protoList allocates the exact size at the first item.
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

// protoLabels is labelsPlan for protobuf. The plan reads all members of a map at the first.
func protoLabels(prefixes []string) protoPlan {
	return func(f protoField, rest []byte, v, was reflect.Value) error {
		var before Labels
		if was.IsValid() {
			before = *was.Addr().Interface().(*Labels)
		}
		var buf [8]Label // more than most objects have
		out := Labels(buf[:0])
		same := true // so far as before, which is sorted as what a server sends
		number, left := f.number, 1+count(rest, f.number)
		for {
			key, value, err := f.pair(wireBytes, wireBytes)
			if err != nil {
				return err
			}
			if n := len(out); keeps(prefixes, key.bytes) {
				same = same && n < len(before) && before[n].Key == string(key.bytes) &&
					before[n].Value == string(value.bytes)
				if same {
					out = append(out, before[n])
				} else {
					out = append(out, Label{protoText(key.bytes), protoText(value.bytes)})
				}
			}
			if left--; left == 0 {
				break
			}
			for f.number = 0; f.number != number; { // count has seen as many
				f, rest, _ = nextField(rest)
			}
		}
		labels := v.Addr().Interface().(*Labels)
		if *labels = before; !same || len(out) != len(before) {
			*labels = sharedLabels.of(out.sorted())
		}
		return nil
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

// digestOfNothing is the digest of a value that is not there.
var digestOfNothing = func() Digest {
	var d digester
	d.begin(false)
	sum, _ := d.end()
	return sum
}()

// protoDigests reads all entries of a map in a slim message at the first entry.
func protoDigests(f protoField, rest []byte, v, was reflect.Value) error {
	if v.Len() > 0 {
		return nil
	}
	var bad *misfit
	all := make([]NamedDigest, 0, 1+count(rest, f.number))
	for number := f.number; ; {
		if f.number == number {
			key, value, err := f.pair(wireBytes, wireBytes)
			sum := digestOfNothing
			if value.number != 0 {
				copy(sum[:], value.bytes)
			}
			all = append(all, NamedDigest{protoText(key.bytes), sum})
			if err != nil {
				bad, _ = keep(bad, err, "")
			}
		}
		if len(all) == cap(all) { // count has seen as many
			break
		}
		f, rest, _ = nextField(rest)
	}
	all = sortedDigests(all)
	if was.IsValid() && slices.Equal(was.Convert(reflect.TypeOf(all)).Interface().([]NamedDigest), all) {
		v.Set(was)
	} else {
		v.Set(reflect.ValueOf(all))
	}
	return bad.orNil()
}
