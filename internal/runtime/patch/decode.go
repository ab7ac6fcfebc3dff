package patch

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

const (
	// MaxDepth is how deep a value may be nested. The deepest Kubernetes type, a pod in a template in a template, has
	// 20 levels; a schema in a definition of custom resources some 60. All functions here follow values by recursion.
	MaxDepth = 100
	// maxMemory bounds the estimated memory of one decoded value. The largest object in an API server has 1.5 MiB of
	// JSON, mostly strings in real objects; small objects and lists in JSON grow to many times their size in memory,
	// and a reconcile has a few copies of an object.
	maxMemory = 8 << 20
	// MaxDuplicates is how many repeated fields are named; an API server has the same limit.
	MaxDuplicates = 100
)

// ErrTooComplex marks a value nested too deep or too large for memory.
var ErrTooComplex = errors.New("the object is too complex")

// tooDeep is the error of a value nested deeper than limit.
func tooDeep(limit int) error {
	return fmt.Errorf("%w: it is nested more than %d deep", ErrTooComplex, limit)
}

// Decode reads a JSON value (see the package comment for the form). Trailing data, invalid UTF-8, an object with a
// repeated field, and a too complex value are errors.
func Decode(data []byte) (any, error) {
	v, duplicates, err := DecodeLenient(data)
	if err != nil {
		return nil, err
	}
	if len(duplicates) > 0 {
		return nil, fmt.Errorf("decode JSON: duplicate field %q", duplicates[0])
	}
	return v, nil
}

// DecodeLenient is Decode for a server that only warns about a repeated field: the last value counts, and the paths of
// the first MaxDuplicates such fields are returned in order of appearance.
func DecodeLenient(data []byte) (v any, duplicates []string, err error) {
	return DecodeWithin(data, maxMemory, MaxDepth)
}

// DecodeWithin is DecodeLenient with other bounds for the estimated memory, and for how deep the value is nested.
func DecodeWithin(data []byte, memory, depth int) (v any, duplicates []string, err error) {
	return decodeBy(reader{data: data}, memory, depth)
}

// DecodeReplacing is DecodeWithin for a server that accepts strings with invalid UTF-8 or half of a surrogate pair:
// the invalid parts become the replacement character.
func DecodeReplacing(data []byte, memory, depth int) (v any, duplicates []string, err error) {
	return decodeBy(reader{data: data, replace: true}, memory, depth)
}

func decodeBy(r reader, memory, depth int) (v any, duplicates []string, err error) {
	r.seen = recently.Get().(*seen)
	d := decoder{reader: r, limit: memory, depth: depth}
	defer recently.Put(d.seen)
	if v, err = d.value(); err != nil {
		return nil, nil, fmt.Errorf("decode JSON: %w", err)
	}
	if d.peek() != 0 || d.pos < len(d.data) {
		return nil, nil, errors.New("decode JSON: data after the value")
	}
	return v, d.duplicates, nil
}

// DecodeStored reads an object written by Encode, without limits. The owners of fields in managedFields stay text.
// DecodeStored panics on any text not written by Encode.
func DecodeStored(data []byte) map[string]any {
	d := decoder{reader: reader{data: data, seen: recently.Get().(*seen)}, stored: true}
	defer recently.Put(d.seen)
	v, err := d.value()
	object, ok := v.(map[string]any)
	if err != nil || !ok {
		panic(fmt.Sprintf("decode a stored object: %v: %.100s", err, data))
	}
	return object
}

// Members calls f with the name of each member of the object at pos of a text written by Encode, and the position of
// the value; f returns the end of the value, or the same position to skip the value. Members returns the end of the
// object.
func Members(text []byte, pos int, f func(name string, at int) (end int, err error)) (end int, err error) {
	d := decoder{reader: reader{data: text, pos: pos}, stored: true}
	if d.peek() != '{' {
		return 0, d.unexpected("where an object should be")
	}
	d.pos++
	for first := true; ; first = false {
		name, ok, err := d.name(first)
		if err != nil || !ok {
			return d.pos, err
		}
		at := d.pos
		if d.pos, err = f(name, at); err == nil && d.pos == at {
			_, err = d.value()
		}
		if err != nil {
			return 0, err
		}
	}
}

// recently has strings for the next values to share.
var recently = sync.Pool{New: func() any { return new(seen) }}

type decoder struct {
	reader
	stored     bool   // the text is ours: no limits
	limit      int    // of memory
	depth      int    // the deepest allowed nesting
	at         []step // position in the value: the path is written only for a report
	memory     int    // estimate of the memory so far
	duplicates []string
}

// step is a field of an object or, with an index of 0 and more, an item of a list.
type step struct {
	field string
	index int
}

// uses counts memory.
func (d *decoder) uses(bytes int) error {
	if d.memory += bytes; d.memory > d.limit && !d.stored {
		return tooMuch(d.limit)
	}
	return nil
}

func (d *decoder) value() (any, error) {
	switch c := d.peek(); c {
	case '"':
		s, err := d.text()
		return s, cmp.Or(err, d.uses(textMemory+len(s)))
	case '{', '[':
		if len(d.at) == d.depth && !d.stored {
			return nil, tooDeep(d.depth)
		}
		d.pos++
		if c == '[' {
			return d.list()
		}
		return d.object()
	case 't':
		return true, d.word("true")
	case 'f':
		return false, d.word("false")
	case 'n':
		return nil, d.word("null")
	}
	return d.number()
}

func (d *decoder) list() (any, error) {
	list := []any{}
	d.at = append(d.at, step{})
	for {
		if ok, err := d.more(']', len(list) == 0); err != nil {
			return nil, err
		} else if !ok {
			break
		}
		d.at[len(d.at)-1].index = len(list)
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		if err := d.uses(itemMemory); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	d.at = d.at[:len(d.at)-1]
	return list, d.uses(listMemory)
}

// member reads the value of a field.
func (d *decoder) member() (any, error) {
	if d.stored && len(d.at) == 4 && d.at[3].field == "fieldsV1" && d.at[1].field == "managedFields" &&
		d.at[0].field == "metadata" && d.peek() == '{' {
		from := d.pos
		_, err := d.value()
		return NewText(string(d.data[from:d.pos])), err
	}
	return d.value()
}

func (d *decoder) object() (any, error) {
	object := map[string]any{}
	d.at = append(d.at, step{index: -1})
	for first := true; ; first = false {
		name, ok, err := d.name(first)
		if err != nil {
			return nil, err
		} else if !ok {
			break
		}
		d.at[len(d.at)-1].field = name
		if _, ok := object[name]; ok && len(d.duplicates) < MaxDuplicates {
			d.duplicates = append(d.duplicates, pathOf(d.at))
		}
		if object[name], err = d.member(); err != nil {
			return nil, err
		}
		if err := d.uses(memberUses(len(object), len(name))); err != nil {
			return nil, err
		}
	}
	d.at = d.at[:len(d.at)-1]
	return object, d.uses(objectMemory)
}

// maxStep is how much of one name goes into a path: names are as long as their author likes.
const maxStep = 200

func pathOf(at []step) string {
	path := ""
	for _, s := range at {
		if s.index >= 0 {
			path += "[" + strconv.Itoa(s.index) + "]"
		} else {
			path = Join(path, Short(s.field))
		}
	}
	return path
}

// Short cuts a name or value for a path.
func Short(s string) string {
	if len(s) <= maxStep {
		return s
	}
	return strings.ToValidUTF8(s[:maxStep], "") + "..."
}
