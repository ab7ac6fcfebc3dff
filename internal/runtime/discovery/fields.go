package discovery

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
)

// schema is a part of an OpenAPI v3 document.
type schema struct {
	Ref        string             `json:"$ref"`
	AllOf      []*schema          `json:"allOf"`
	Items      *schema            `json:"items"`
	Properties map[string]*schema `json:"properties"`
	Kinds      []struct {
		Group   string `json:"group"`
		Version string `json:"version"`
		Kind    string `json:"kind"`
	} `json:"x-kubernetes-group-version-kind"`
}

// fieldStep is one step of a path: a field, or an item of a list.
var fieldStep = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// FieldNames returns the fields that an object of a resource has beside the one at a path, none where the server does
// not say: it is asked for a suggestion, and a suggestion is not worth an error.
func FieldNames(ctx context.Context, c *kube.Client, r kube.Resource, path string) []string {
	document := "/openapi/v3/apis/" + r.APIVersion()
	if r.Group == "" {
		document = "/openapi/v3/api/" + r.Version
	}
	body, err := c.Raw(ctx, http.MethodGet, document, nil)
	if err != nil {
		return nil
	}
	var doc struct {
		Components struct {
			Schemas map[string]*schema `json:"schemas"`
		} `json:"components"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return nil
	}
	all := doc.Components.Schemas
	var at *schema
	for _, s := range all {
		for _, k := range s.Kinds {
			if k.Group == r.Group && k.Version == r.Version && k.Kind == r.Kind && len(s.Properties) > 0 {
				at = s
			}
		}
	}
	steps := fieldStep.FindAllString(path, -1)
	for i, name := range steps {
		if at = at.resolved(all); at == nil {
			return nil
		}
		switch {
		case i == len(steps)-1:
			return slices.Sorted(maps.Keys(at.Properties))
		case strings.HasPrefix(name, "["):
			at = at.Items
		default:
			at = at.Properties[name]
		}
	}
	return nil
}

// maxRefs bounds the references that are followed for one step: a document is not the server's own where they go on.
const maxRefs = 10

// resolved follows references, nil if they lead nowhere.
func (s *schema) resolved(all map[string]*schema) *schema {
	for range maxRefs {
		switch {
		case s == nil:
			return nil
		case s.Ref != "":
			s = all[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
		case len(s.Properties) == 0 && s.Items == nil && len(s.AllOf) > 0:
			s = s.AllOf[0]
		default:
			return s
		}
	}
	return nil
}
