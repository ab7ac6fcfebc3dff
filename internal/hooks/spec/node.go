package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"gopkg.in/yaml.v3"

	"skiff/internal/runtime/kube"
)

// Bounds of a document. The most deeply nested object that anyone writes has some 20 levels, and the largest that a
// cluster stores has fewer than 100,000 values; an alias may repeat what an anchor names that often and no more.
const (
	maxDepth  = 100
	maxValues = 100_000
)

// kind is what a node is.
type kind int

const (
	absent kind = iota // also null, which a server drops
	boolean
	number
	text
	list
	object
)

func (k kind) String() string {
	return []string{"nothing", "a boolean", "a number", "a string", "a list", "an object"}[k]
}

// node is a value of a document, from YAML or JSON. It is a tree: what an alias repeats is copied.
type node struct {
	kind   kind
	line   int            // in its file; 0 for JSON from a server
	text   string         // of a scalar; of a number as JSON has it
	keys   []string       // of an object
	values []*node        // of an object, in the order of its keys; of a list
	index  map[string]int // of each key: objects of 100,000 keys are read, too
}

// get returns a member, nil if there is none.
func (n *node) get(key string) *node {
	if i, ok := n.index[key]; ok {
		return n.values[i]
	}
	return nil
}

// set replaces a member, or adds it behind the others.
func (n *node) set(key string, value *node) {
	if i, ok := n.index[key]; ok {
		n.values[i] = value
		return
	}
	if n.index == nil {
		n.index = map[string]int{}
	}
	n.index[key] = len(n.keys)
	n.keys, n.values = append(n.keys, key), append(n.values, value)
}

// json appends the value as JSON, without members that are null.
func (n *node) json(b []byte) []byte {
	switch n.kind {
	case text:
		return appendText(b, n.text)
	case boolean, number:
		return append(b, n.text...)
	case list:
		b = append(b, '[')
		for i, v := range n.values {
			if i > 0 {
				b = append(b, ',')
			}
			b = v.json(b)
		}
		return append(b, ']')
	case object:
		b = append(b, '{')
		first := true
		for i, v := range n.values {
			if v.kind == absent {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = v.json(append(appendText(b, n.keys[i]), ':'))
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

func appendText(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("spec: encode a string: %v", err)) // encoding/json replaces what is not UTF-8
	}
	return append(b, quoted...)
}

// parser makes nodes of a document.
type parser struct {
	values int       // how many there are
	found  *Problems // such as keys that are there twice, which do not end it
	path   string    // of the value that is being read
}

// errTooLarge ends a document with more values than maxValues.
var errTooLarge = fmt.Errorf("more than %d values, with what aliases repeat", maxValues)

// enter counts a value, and bounds it.
func (p *parser) enter(depth int) error {
	if p.values++; p.values > maxValues {
		return errTooLarge
	}
	if depth > maxDepth {
		return fmt.Errorf("nested more than %d deep", maxDepth)
	}
	return nil
}

// in calls f with the path of a member, or of an item.
func (p *parser) in(path string, f func() (*node, error)) (*node, error) {
	before := p.path
	p.path = path
	n, err := f()
	if err == nil {
		p.path = before
	}
	return n, err
}

// add adds a member to an object that is being read.
func (p *parser) add(n *node, key string, line int, read func() (*node, error)) error {
	v, err := p.in(join(p.path, key), read)
	if err != nil {
		return err
	}
	if n.get(key) != nil {
		p.found.add(line, join(p.path, key), "is there twice")
		return nil
	}
	n.set(key, v)
	return nil
}

// item adds an item to a list that is being read.
func (p *parser) item(n *node, read func() (*node, error)) error {
	v, err := p.in(fmt.Sprintf("%s[%d]", p.path, len(n.values)), read)
	n.values = append(n.values, v)
	return err
}

// yaml makes a node of one of YAML. Its error is about p.path.
func (p *parser) yaml(y *yaml.Node, depth int) (*node, error) {
	if err := p.enter(depth); err != nil {
		return nil, err
	}
	n := &node{line: y.Line}
	switch y.Kind {
	case yaml.AliasNode:
		return p.yaml(y.Alias, depth+1) // an alias within its own anchor ends at maxDepth
	case yaml.MappingNode:
		n.kind = object
		for i := 0; i+1 < len(y.Content); i += 2 {
			key, value := y.Content[i], y.Content[i+1]
			if key.Kind != yaml.ScalarNode {
				return n, errors.New("has a key that is not a string")
			}
			if key.Tag == "!!merge" {
				return n, errors.New("has a merge key (<<), which is not supported: write its fields out")
			}
			read := func() (*node, error) { return p.yaml(value, depth+1) }
			if err := p.add(n, key.Value, key.Line, read); err != nil {
				return n, err
			}
		}
	case yaml.SequenceNode:
		n.kind = list
		for _, value := range y.Content {
			if err := p.item(n, func() (*node, error) { return p.yaml(value, depth+1) }); err != nil {
				return n, err
			}
		}
	default:
		return n, n.scalar(y)
	}
	return n, nil
}

// scalar reads a scalar of YAML.
func (n *node) scalar(y *yaml.Node) error {
	n.text = y.Value
	switch y.Tag {
	case "!!str", "!!timestamp": // JSON has no other form of a date than what is written
		n.kind = text
	case "!!null":
	case "!!bool":
		var b bool
		if err := y.Decode(&b); err != nil {
			return fmt.Errorf("is no boolean: %.100q", y.Value)
		}
		n.kind, n.text = boolean, strconv.FormatBool(b)
	case "!!int", "!!float":
		var i int64
		var f float64
		if y.Tag == "!!int" && y.Decode(&i) == nil {
			n.kind, n.text = number, strconv.FormatInt(i, 10)
			return nil
		}
		err := y.Decode(&f)
		digits, encodeErr := json.Marshal(f) // JSON has no infinity, and no NaN
		if err != nil || encodeErr != nil {
			return fmt.Errorf("is no number that JSON has: %.100q", y.Value)
		}
		n.kind, n.text = number, string(digits)
	default:
		return fmt.Errorf("has the tag %.100q, which JSON has no form for", y.Tag)
	}
	return nil
}

// fromJSON reads an object that has come from a server. Its error is about p.path.
func (p *parser) fromJSON(raw kube.Raw) (*node, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	n, err := p.json(d, 0)
	if err != nil {
		return n, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return n, errors.New("there is more behind the object")
	}
	return n, nil
}

// json reads the value that is next.
func (p *parser) json(d *json.Decoder, depth int) (*node, error) {
	if err := p.enter(depth); err != nil {
		return nil, err
	}
	token, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	n := &node{}
	read := func() (*node, error) { return p.json(d, depth+1) }
	switch t := token.(type) {
	case bool:
		n.kind, n.text = boolean, strconv.FormatBool(t)
	case json.Number:
		n.kind, n.text = number, t.String()
	case string:
		n.kind, n.text = text, t
	case json.Delim:
		n.kind = list
		if t == '{' {
			n.kind = object
		}
		for d.More() {
			if n.kind == list {
				err = p.item(n, read)
			} else if token, err = d.Token(); err == nil {
				key, _ := token.(string)
				err = p.add(n, key, 0, read)
			}
			if err != nil {
				return n, err
			}
		}
		if _, err := d.Token(); err != nil {
			return n, fmt.Errorf("is not JSON: %w", err)
		}
	}
	return n, nil
}
