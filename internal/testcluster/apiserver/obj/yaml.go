package obj

import (
	"bytes"
	"fmt"
	"math"
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

// DecodeYAML decodes one YAML document. Like patch.DecodeLenient for JSON, it returns the duplicate keys, but in
// words: each with its line.
func DecodeYAML(data []byte) (value any, duplicates []string, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, nil, fmt.Errorf("decode YAML: %w", err)
	}
	if len(doc.Content) == 0 {
		return nil, nil, nil
	}
	value, err = yamlValue(doc.Content[0], "", &duplicates, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("decode YAML: %w", err)
	}
	return value, duplicates, nil
}

func yamlValue(n *yaml.Node, path string, duplicates *[]string, depth int) (any, error) {
	if depth > patch.MaxDepth {
		return nil, fmt.Errorf("line %d: nested more than %d deep", n.Line, patch.MaxDepth)
	}
	switch n.Kind {
	case yaml.AliasNode:
		// Refused, because an anchor may repeat a large value many times (a "billion laughs" body).
		return nil, fmt.Errorf("line %d: YAML aliases are not supported", n.Line)
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := n.Content[i].Value
			at := patch.Short(name)
			if path != "" {
				at = path + "." + at
			}
			v, err := yamlValue(n.Content[i+1], at, duplicates, depth+1)
			if err != nil {
				return nil, err
			}
			if _, twice := m[name]; twice && len(*duplicates) < patch.MaxDuplicates {
				*duplicates = append(*duplicates,
					fmt.Sprintf("line %d: key %q already set in map", n.Content[i].Line, patch.Short(name)))
			}
			m[name] = v
		}
		return m, nil
	case yaml.SequenceNode:
		list := []any{}
		for i, item := range n.Content {
			v, err := yamlValue(item, fmt.Sprintf("%s[%d]", path, i), duplicates, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	return yamlScalar(n)
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
