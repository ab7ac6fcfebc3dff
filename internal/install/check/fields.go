package check

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
)

// maxLacking bounds the names in one line.
const maxLacking = 10

// Lacking returns the fields of a definition that the server does not serve, as text; "" if there are none. It reads
// the OpenAPI document, which every user may.
func Lacking(ctx context.Context, c *kube.Client, definition map[string]any) (string, error) {
	var own crd
	if _, err := decode(definition, &own); err != nil {
		return "", err
	}
	fields, err := lackingFields(ctx, c, own)
	names := strings.Join(fields[:min(len(fields), maxLacking)], ", ")
	if more := len(fields) - maxLacking; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names, err
}

// lackingFields returns them sorted.
func lackingFields(ctx context.Context, c *kube.Client, own crd) ([]string, error) {
	var fields []string
	for _, version := range own.Spec.Versions {
		body, err := c.Raw(ctx, http.MethodGet, "/openapi/v3/apis/"+own.Spec.Group+"/"+version.Name, nil)
		if kube.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		var doc struct {
			Components struct {
				Schemas map[string]map[string]any `json:"schemas"`
			} `json:"components"`
		}
		if err := json.Unmarshal(body, &doc); err != nil {
			return nil, fmt.Errorf("decode the OpenAPI document: %w", err)
		}
		for _, have := range doc.Components.Schemas {
			if isKind(have, own.Spec.Group, own.Spec.Names.Kind) {
				fields = append(fields, lacking("", version.Schema.Fields, have)...)
			}
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields), nil
}

// isKind reports whether a schema of an OpenAPI document is that of a kind.
func isKind(schema map[string]any, group, kind string) bool {
	kinds, _ := schema["x-kubernetes-group-version-kind"].([]any)
	return slices.ContainsFunc(kinds, func(k any) bool {
		m, _ := k.(map[string]any)
		return m["group"] == group && m["kind"] == kind
	})
}

// lacking returns the fields of one schema that another does not have.
func lacking(at string, want, have map[string]any) []string {
	if have["x-kubernetes-preserve-unknown-fields"] == true {
		return nil
	}
	var out []string
	fields, _ := want["properties"].(map[string]any)
	served, _ := have["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if at == "" && name == "metadata" {
			continue // the server's own
		}
		path := strings.TrimPrefix(at+"."+name, ".")
		field, _ := fields[name].(map[string]any)
		if other, ok := served[name].(map[string]any); ok {
			out = append(out, lacking(path, field, other)...)
		} else {
			out = append(out, path)
		}
	}
	for _, word := range []string{"items", "additionalProperties"} {
		field, _ := want[word].(map[string]any)
		if other, ok := have[word].(map[string]any); ok && field != nil {
			out = append(out, lacking(at+"[*]", field, other)...)
		}
	}
	return out
}
