package patch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxDepth is how deep a value may be nested. The deepest Kubernetes type, a pod in a template in a template, has
	// 20 levels; a schema in a definition of custom resources some 60. All functions here follow values by recursion.
	MaxDepth = 100
	// maxMemory bounds the estimated memory of one decoded value. The largest object that an API server stores has
	// 1.5 MiB of JSON, and most of what is large in real objects is strings; small objects and lists in JSON grow to
	// many times that in memory, and a reconcile has a few copies of it.
	maxMemory = 8 << 20
	// MaxDuplicates is how many repeated fields are named; an API server has the same limit.
	MaxDuplicates = 100
)

// ErrTooComplex marks a value that is nested too deep or would take too much memory.
var ErrTooComplex = errors.New("the object is too complex")

// Decode reads one JSON value (see the package comment for its form). Trailing data, invalid UTF-8 and an object with
// a repeated field are errors, and so is a value that is too complex.
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

// DecodeLenient is Decode for a server that only warns about a repeated field: the last value counts, and the paths
// of the first MaxDuplicates such fields are returned in the order in which they were met.
func DecodeLenient(data []byte) (v any, duplicates []string, err error) {
	d := decoder{in: jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))}
	if v, err = d.value(); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, nil, fmt.Errorf("decode JSON: %w", err)
	}
	if _, err = d.in.ReadToken(); err == nil {
		return nil, nil, errors.New("decode JSON: data after the value")
	} else if err != io.EOF {
		return nil, nil, fmt.Errorf("decode JSON: data after the value: %w", err)
	}
	return v, d.duplicates, nil
}

// DecodeStored reads an object that Encode wrote, whatever it takes. The owners of fields in its managedFields stay
// text. It panics when the text is not what Encode wrote.
func DecodeStored(data []byte) map[string]any {
	d := decoder{in: jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true)), stored: true}
	v, err := d.value()
	object, ok := v.(map[string]any)
	if err != nil || !ok {
		panic(fmt.Sprintf("decode a stored object: %v: %.100s", err, data))
	}
	return object
}

type decoder struct {
	stored     bool // the text is ours: no limits
	in         *jsontext.Decoder
	at         []step // where in the value it is: its text is made only where there is something to report
	memory     int    // estimate of what has been made so far
	duplicates []string
}

// step is a field of an object or, with an index of 0 and more, an item of a list.
type step struct {
	field string
	index int
}

// uses counts memory.
func (d *decoder) uses(bytes int) error {
	if d.memory += bytes; d.memory > maxMemory && !d.stored {
		return fmt.Errorf("%w: it would take more than %d MiB of memory", ErrTooComplex, maxMemory>>20)
	}
	return nil
}

func (d *decoder) value() (any, error) {
	tok, err := d.in.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return tok.Bool(), nil
	case '"':
		s := tok.String()
		return s, d.uses(16 + len(s))
	case '0':
		return number(tok.String())
	}
	if len(d.at) == MaxDepth && !d.stored {
		return nil, fmt.Errorf("%w: it is nested more than %d deep", ErrTooComplex, MaxDepth)
	}
	if tok.Kind() == '[' {
		return d.list()
	}
	return d.object() // '{': the decoder has refused everything else
}

func (d *decoder) list() (any, error) {
	list := []any{}
	d.at = append(d.at, step{})
	for d.in.PeekKind() != ']' {
		d.at[len(d.at)-1].index = len(list)
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		if err := d.uses(2 * 16); err != nil { // an interface value, and as much again while the list grows
			return nil, err
		}
		list = append(list, v)
	}
	d.at = d.at[:len(d.at)-1]
	_, err := d.in.ReadToken()
	return list, cmp.Or(err, d.uses(24))
}

// member reads the value of a field.
func (d *decoder) member() (any, error) {
	if d.stored && len(d.at) == 4 && d.at[3].field == "fieldsV1" && d.at[1].field == "managedFields" &&
		d.at[0].field == "metadata" && d.in.PeekKind() == '{' {
		text, err := d.in.ReadValue()
		return NewText(string(text)), err
	}
	return d.value()
}

// mapMemory is what a map takes with up to eight small members.
const mapMemory = 48 + 8*(16+16) + 8

func (d *decoder) object() (any, error) {
	object := map[string]any{}
	d.at = append(d.at, step{index: -1})
	for d.in.PeekKind() != '}' {
		tok, err := d.in.ReadToken()
		if err != nil {
			return nil, err
		}
		name := tok.String()
		d.at[len(d.at)-1].field = name
		if _, ok := object[name]; ok && len(d.duplicates) < MaxDuplicates {
			d.duplicates = append(d.duplicates, pathOf(d.at))
		}
		if object[name], err = d.member(); err != nil {
			return nil, err
		}
		more := 2 * (16 + 16 + 1)
		if len(object) <= 8 {
			more = 0
		}
		if len(object) == 1 {
			more = mapMemory
		}
		if err := d.uses(more + len(name)); err != nil {
			return nil, err
		}
	}
	d.at = d.at[:len(d.at)-1]
	_, err := d.in.ReadToken()
	return object, cmp.Or(err, d.uses(48))
}

// maxStep is how much of one name goes into a path: names are as long as their author likes.
const maxStep = 200

func pathOf(at []step) string {
	path := ""
	for _, s := range at {
		if s.index >= 0 {
			path += "[" + strconv.Itoa(s.index) + "]"
		} else {
			path = join(path, Short(s.field))
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

func number(text string) (any, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("number %.40q: out of range", text)
	}
	return f, nil
}
