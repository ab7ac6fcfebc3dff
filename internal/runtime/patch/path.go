package patch

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Path is the place of a value in an object: a field, or an item of a list, below up. Nil is the object itself.
type Path struct {
	up     *Path
	isItem bool
	name   string         // of the field, or by which people know the item; "": an item without a name
	key    map[string]any // the merge key of an item, nil if there is none
	index  int            // of an item with neither name nor key
}

// below returns the place of a field.
func (p *Path) below(field string) *Path { return &Path{up: p, name: field} }

// item returns the place of an item.
func (p *Path) item(key map[string]any, name string, index int) *Path {
	return &Path{up: p, isItem: true, name: name, key: key, index: index}
}

// String writes a path as the API server does: spec.containers[name="a"].image.
func (p *Path) String() string {
	switch {
	case p == nil:
		return ""
	case !p.isItem:
		return Join(p.up.String(), Short(p.name))
	case p.key != nil:
		return p.up.String() + Short(KeyString(p.key))
	case p.name != "":
		return p.up.String() + "[" + Short(p.name) + "]"
	}
	return fmt.Sprintf("%s[%d]", p.up.String(), p.index)
}

// Brief writes a path with the names of items: spec.containers[a].image, metadata.annotations["a.b/c"].
func (p *Path) Brief() string {
	switch {
	case p == nil:
		return ""
	case p.isItem:
		return p.up.Brief() + "[" + cmp.Or(p.name, strconv.Itoa(p.index)) + "]"
	case !isPlain(p.name):
		return p.up.Brief() + "[" + strconv.Quote(p.name) + "]"
	}
	return Join(p.up.Brief(), p.name)
}

// isPlain says whether a name can stand between dots.
func isPlain(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '$'
	})
}

// Names returns the names of the fields and items from the object down to the place.
func (p *Path) Names() []string {
	if p == nil {
		return nil
	}
	return append(p.up.Names(), p.name)
}

// Field returns the name of the field, "" for an item.
func (p *Path) Field() string {
	if p == nil || p.isItem {
		return ""
	}
	return p.name
}

// Item returns the item whose field the place is, nil if the place is no such field.
func (p *Path) Item() *Path {
	if p == nil || p.up == nil || !p.up.isItem {
		return nil
	}
	return p.up
}

// IsIn says whether a place is below another found by the same call of Changes: the places are compared by pointer.
func (p *Path) IsIn(around *Path) bool {
	return p != nil && (p.up == around || p.up.IsIn(around))
}

// Name returns the name of an item or field, "" for none.
func (p *Path) Name() string {
	if p == nil {
		return ""
	}
	return p.name
}

// IsKey says whether the field is a part of the merge key of the item around.
func (p *Path) IsKey() bool {
	item := p.Item()
	if item == nil {
		return false
	}
	_, isKey := item.key[p.name]
	return isKey
}

// KeyString writes the key of an item as the API server does in paths: [containerPort=80,protocol="TCP"].
func KeyString(key map[string]any) string {
	parts := make([]string, 0, len(key))
	for _, k := range sortedKeys(key) {
		if s, ok := key[k].(string); ok {
			parts = append(parts, fmt.Sprintf("%s=%q", k, s))
		} else {
			parts = append(parts, fmt.Sprintf("%s=%v", k, key[k]))
		}
	}
	return "[" + strings.Join(parts, ",") + "]"
}
