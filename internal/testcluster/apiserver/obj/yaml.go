package obj

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"skiff/internal/runtime/patch"
)

// DecodeLines decodes the objects of an embedded file, one in a line.
func DecodeLines(text []byte) (out []map[string]any) {
	for line := range bytes.Lines(text) {
		v, err := patch.Decode(line)
		if err != nil {
			panic(fmt.Sprintf("embedded objects: %v", err)) // a bug: a test reads all of them
		}
		out = append(out, v.(map[string]any))
	}
	return out
}

const (
	// MaxDepth is how deep a value may be nested, as in the real server's decoder of JSON.
	MaxDepth = 10_000
	// MaxMemory bounds the estimated memory of one decoded value. It is more than any body can take, which has 3 MiB:
	// small objects take sixty times their JSON. How many of these there are at a time the server bounds.
	MaxMemory = 256 << 20
)

// Decode is patch.DecodeReplacing for values as large and as deep as the server takes them.
func Decode(data []byte) (v any, duplicates []string, err error) {
	return patch.DecodeReplacing(data, MaxMemory, MaxDepth)
}

// DecodeYAML decodes one YAML document. Like Decode for JSON, it returns the duplicate keys, but in words: each with
// its line.
func DecodeYAML(data []byte) (value any, duplicates []string, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, nil, fmt.Errorf("decode YAML: %w", err)
	}
	if len(doc.Content) == 0 {
		return nil, nil, nil
	}
	var d yamlDecoder
	if value, err = d.value(doc.Content[0], 0); err != nil {
		return nil, nil, fmt.Errorf("decode YAML: %w", err)
	}
	return value, d.duplicates, nil
}

// maxAliased bounds what aliases repeat, in bytes of memory: some bytes of them can mean billions ("billion laughs").
const maxAliased = 8 << 20

// valueMemory is what a value takes beside its text: mostly an object with one member.
const valueMemory = 300

type yamlDecoder struct {
	duplicates []string
	within     []*yaml.Node // what the aliases mean that the value is in
	aliased    int          // what the values in aliases take
}

func (d *yamlDecoder) value(n *yaml.Node, depth int) (any, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("line %d: nested more than %d deep", n.Line, MaxDepth)
	}
	if len(d.within) > 0 {
		if d.aliased += valueMemory + len(n.Value); d.aliased > maxAliased {
			return nil, errors.New("yaml: document contains excessive aliasing")
		}
	}
	switch n.Kind {
	case yaml.AliasNode:
		if slices.Contains(d.within, n.Alias) {
			return nil, fmt.Errorf("yaml: anchor '%s' value contains itself", patch.Short(n.Value))
		}
		d.within = append(d.within, n.Alias)
		v, err := d.value(n.Alias, depth+1)
		d.within = d.within[:len(d.within)-1]
		return v, err
	case yaml.MappingNode:
		return d.mapping(n, depth+1)
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			v, err := d.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	return yamlScalar(n)
}

func (d *yamlDecoder) mapping(n *yaml.Node, depth int) (any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		v, err := d.value(n.Content[i+1], depth)
		if err != nil {
			return nil, err
		}
		if key.Tag == "!!merge" {
			if err := merge(m, v); err != nil {
				return nil, err
			}
			continue
		}
		name := key.Value
		if key.Kind == yaml.AliasNode {
			name = key.Alias.Value
		}
		if _, twice := m[name]; twice && len(d.duplicates) < patch.MaxDuplicates {
			d.duplicates = append(d.duplicates,
				fmt.Sprintf("line %d: key %q already set in map", key.Line, patch.Short(name)))
		}
		m[name] = v
	}
	return m, nil
}

// merge adds the members of from, a mapping or a list of these, that m does not have.
func merge(m map[string]any, from any) error {
	list, several := from.([]any)
	if !several {
		list = []any{from}
	}
	for _, item := range list {
		members, ok := item.(map[string]any)
		if !ok {
			return errors.New("yaml: map merge requires map or sequence of maps as the value")
		}
		for name, v := range members {
			if _, own := m[name]; !own {
				m[name] = v
			}
		}
	}
	return nil
}

func yamlScalar(n *yaml.Node) (any, error) {
	switch n.Tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		err := n.Decode(&b)
		return b, err
	case "!!int", "!!float":
		var i int64
		if n.Tag == "!!int" && n.Decode(&i) == nil {
			return i, nil
		}
		var f float64
		err := n.Decode(&f)
		if err == nil && (math.IsInf(f, 0) || math.IsNaN(f)) {
			err = fmt.Errorf("line %d: JSON has no number %s", n.Line, patch.Short(n.Value))
		}
		return f, err
	}
	if n.Tag == "!!str" && n.Style == 0 { // as in YAML 1.1, which the real server reads
		switch strings.ToLower(n.Value) {
		case "yes", "on", "y":
			return true, nil
		case "no", "off", "n":
			return false, nil
		}
	}
	return n.Value, nil // !!str, and !!timestamp, which JSON writes as a string
}
