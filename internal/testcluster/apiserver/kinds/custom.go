package kinds

import (
	"cmp"
	"skiff/internal/testcluster/apiserver/obj"
	"strconv"
	"strings"
	"time"
)

// CustomColumns returns the additionalPrinterColumns of a version of a definition. Without any it is the age, as on
// the real server.
func CustomColumns(version Object) []Column {
	var out []Column
	for _, c := range obj.Maps(version, "additionalPrinterColumns") {
		path, kind := obj.String(c, "jsonPath"), obj.String(c, "type")
		out = append(out, Column{Name: obj.String(c, "name"), Type: kind, Format: obj.String(c, "format"),
			Description: cmp.Or(obj.String(c, "description"),
				"Custom resource definition column (in JSONPath format): "+path),
			Priority: int(obj.Number(c, "priority")), Cell: customCell(path, kind)})
	}
	if out == nil {
		out = append(out, Column{Name: "Age", Type: "date",
			Description: "CreationTimestamp is a timestamp representing the server time when this object was created.",
			Cell:        customCell(".metadata.creationTimestamp", "date")})
	}
	return out
}

// customCell formats the value at a path. A missing value, or one that is not of the column's type, gives an empty
// cell.
func customCell(text, kind string) func(Object, time.Time) any {
	p, ok := parseJSONPath(text)
	return func(o Object, now time.Time) any {
		if !ok {
			return nil
		}
		v := p.get(o)
		switch kind {
		case "integer":
			if n, ok := integer(v); ok {
				return n
			}
		case "number":
			switch v.(type) {
			case int64, float64:
				return v
			}
		case "boolean":
			if b, ok := v.(bool); ok {
				return b
			}
		case "date":
			if s, ok := v.(string); ok {
				if _, err := time.Parse(time.RFC3339, s); err != nil {
					return "<invalid>"
				}
				return Since(s, now)
			}
		case "string":
			switch v.(type) {
			case nil:
			case Object, []any:
				return obj.Show(v)
			default:
				return shown(v)
			}
		}
		return nil
	}
}

// parseJSONPath parses the subset of JSONPath that printer columns use: .a.b, ['a.b'], [0], [*] and
// [?(@.type=="Ready")]. ok is false for another path.
func parseJSONPath(text string) (p path, ok bool) {
	for text != "" {
		var s step
		if rest, bracket := strings.CutPrefix(text, "["); bracket {
			inside, after, closed := strings.Cut(rest, "]")
			if s, ok = bracketStep(inside); !ok || !closed {
				return p, false
			}
			text = after
		} else if rest, dot := strings.CutPrefix(text, "."); dot {
			end := strings.IndexAny(rest+".", ".[")
			s.key, text = rest[:end], rest[end:]
			if s.key == "" {
				continue
			}
		} else {
			return p, false
		}
		p.steps = append(p.steps, s)
	}
	return p, true
}

// bracketStep parses what is in the brackets of a JSONPath.
func bracketStep(text string) (s step, ok bool) {
	filter, isFilter := strings.CutPrefix(text, "?(@.")
	filter, closed := strings.CutSuffix(filter, ")")
	field, literal, compares := strings.Cut(filter, "==")
	_, notIndex := strconv.Atoi(text)
	switch {
	case text == "*":
		return step{each: '['}, true
	case isFilter && closed && compares:
		return step{each: '[', field: strings.Split(strings.TrimSpace(field), "."),
			is: strings.Trim(strings.TrimSpace(literal), `"'`)}, true
	case len(text) > 2 && (text[0] == '\'' || text[0] == '"'):
		return step{key: strings.ReplaceAll(text[1:len(text)-1], `\.`, "."), dots: true}, true
	}
	return step{key: text, dots: true}, notIndex == nil
}
