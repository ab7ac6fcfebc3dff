package cli

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
)

// Place is where an object was read.
type Place struct {
	File string
	Node *yaml.Node // nil: its lines are not known
}

// At returns FILE:LINE of the field at a path, or of the last part of the path that is there.
func (p Place) At(path string) string {
	if p.Node == nil {
		return p.File
	}
	_, line := follow(p.Node, path)
	return fmt.Sprintf("%s:%d", p.File, line)
}

// NodeAt returns what is at a path, nil if there is nothing.
func NodeAt(node *yaml.Node, path string) *yaml.Node {
	found, _ := follow(node, path)
	return found
}

// follow returns what is at a path, nil if there is nothing, and the line of the last part of the path that is there.
func follow(node *yaml.Node, path string) (found *yaml.Node, line int) {
	line = node.Line
	for _, step := range pathStep.FindAllString(path, -1) {
		var at int
		if node, at = below(node, step); node == nil {
			break
		}
		line = at
	}
	return node, line
}

// pathStep is one step of a path: a field, or an item by index or name.
var pathStep = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// below returns a member or an item, nil if there is none, and its line: that of a member's name.
func below(node *yaml.Node, step string) (found *yaml.Node, line int) {
	for node.Kind == yaml.AliasNode || node.Kind == yaml.DocumentNode {
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		} else if node = node.Content[0]; node == nil {
			return nil, 0
		}
	}
	name := strings.Trim(step, "[]")
	switch {
	case node.Kind == yaml.SequenceNode:
		for i, item := range node.Content {
			if strconv.Itoa(i) == name {
				return item, item.Line
			}
			if its, _ := member(item, "name"); its != nil && its.Value == name {
				return item, item.Line
			}
		}
		return nil, 0
	default:
		return member(node, name)
	}
}

// member returns the value of an object's member, and the line of its name.
func member(node *yaml.Node, name string) (value *yaml.Node, line int) {
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1], node.Content[i].Line
		}
	}
	return nil, 0
}

// FieldErrors says, one text each, which fields of an object read from a file the server has refused, with names from
// the schema. None: err is about something else.
func FieldErrors(ctx context.Context, c *kube.Client, r kube.Resource, p Place, err error) (texts []string) {
	for _, e := range kube.FieldErrors(err) {
		text := e.String()
		if e.Unknown {
			text = e.Instead(discovery.FieldNames(ctx, c, r, e.Path))
		}
		texts = append(texts, p.At(e.Path)+": "+text)
	}
	return texts
}
