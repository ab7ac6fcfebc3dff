package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// Difference is what installing a definition would change.
type Difference struct {
	Name      string
	Missing   bool     // it is not installed
	Changed   []string // the paths of fields
	Removed   []string
	Truncated bool // there are more
}

// Diff returns what Install would change, as the server says in a dry run.
func Diff(ctx context.Context, c *kube.Client, all []Definition) ([]Difference, error) {
	var out []Difference
	for _, d := range all {
		if err := keepsStored(ctx, c, d); err != nil {
			return nil, fmt.Errorf("installing CRD %s would be refused: %w", d.Name, err)
		}
		difference, err := difference(ctx, c, d)
		if err != nil {
			return nil, fmt.Errorf("compare CRD: %w", err)
		}
		if difference.Missing || len(difference.Changed)+len(difference.Removed) > 0 {
			out = append(out, difference)
		}
	}
	return out, nil
}

func difference(ctx context.Context, c *kube.Client, d Definition) (Difference, error) {
	key, out := kube.Key{Name: d.Name}, Difference{Name: d.Name}
	var live, planned map[string]any
	if err := c.Get(ctx, Resource, key, &live); kube.IsNotFound(err) {
		out.Missing = true
		return out, nil
	} else if err != nil {
		return out, err
	}
	o := kube.WriteOptions{FieldManager: fieldManager, Force: true, DryRun: true}
	if err := c.Patch(ctx, Resource, key, kube.ApplyPatch, d.Object, &planned, o); err != nil {
		return out, err
	}
	changed, more, err := Differences(planned, live)
	if err != nil {
		return out, err
	}
	removed, less, err := Differences(live, planned)
	out.Truncated = more > len(changed) || less > len(removed)
	out.Changed = changed
	out.Removed = slices.DeleteFunc(removed, func(path string) bool { return slices.Contains(changed, path) })
	return out, err
}

// definitionNode matches versions by their names: others may serve more of them.
var definitionNode = &patch.Node{Fields: map[string]*patch.Node{"spec": {Fields: map[string]*patch.Node{
	"versions": {List: patch.ListMap, Keys: []string{"name"}}}}}}

// maxDifferences bounds the paths that are named of one definition.
const maxDifferences = 20

// Differences returns the fields of a definition that another has not, or has with another value: the paths of the
// first ones, and how many there are. What the server sets is left out.
func Differences(want, have map[string]any) (paths []string, count int, err error) {
	for _, object := range []*map[string]any{&want, &have} {
		body, err := json.Marshal(*object)
		if err != nil {
			return nil, 0, fmt.Errorf("encode a definition: %w", err)
		}
		value, err := patch.Decode(body) // into the form that it compares
		if err != nil {
			return nil, 0, fmt.Errorf("decode a definition: %w", err)
		}
		*object, _ = value.(map[string]any)
		declared(*object)
	}
	first, count := patch.Differences(definitionNode, want, have, maxDifferences)
	for _, one := range first {
		paths = append(paths, one.String())
	}
	return paths, count, nil
}

// declared leaves of a definition what is declared in it.
func declared(object map[string]any) {
	delete(object, "status")
	if m, ok := object["metadata"].(map[string]any); ok {
		for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"} {
			delete(m, field)
		}
	}
	spec, _ := object["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version, _ := v.(map[string]any)
		subresources, _ := version["subresources"].(map[string]any)
		for name, value := range subresources {
			if m, ok := value.(map[string]any); ok && len(m) == 0 {
				subresources[name] = true // an empty object says something here, and would be covered by none
			}
		}
	}
}
