package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
)

// Schema is a part of an OpenAPI v3 document, or of a CustomResourceDefinition.
type Schema struct {
	Ref         string             `json:"$ref"`
	AllOf       []*Schema          `json:"allOf"`
	AnyOf       []*Schema          `json:"anyOf"`
	OneOf       []*Schema          `json:"oneOf"`
	Type        string             `json:"type"`
	Items       *Schema            `json:"items"`
	Properties  map[string]*Schema `json:"properties"`
	Values      Values             `json:"additionalProperties"`
	Enum        []any              `json:"enum"`
	Required    []string           `json:"required"`
	Default     any                `json:"default"`
	IntOrString bool               `json:"x-kubernetes-int-or-string"`
	Kinds       []struct {
		Group   string `json:"group"`
		Version string `json:"version"`
		Kind    string `json:"kind"`
	} `json:"x-kubernetes-group-version-kind"`
}

// Values is the schema of the values of a map, nil where a document says true or false instead.
type Values struct{ *Schema }

// UnmarshalJSON implements json.Unmarshaler.
func (v *Values) UnmarshalJSON(text []byte) error {
	if len(text) == 0 || text[0] != '{' {
		return nil
	}
	v.Schema = new(Schema)
	return json.Unmarshal(text, v.Schema)
}

// Schemas are the schemas of an OpenAPI v3 document by their names.
type Schemas map[string]*Schema

// ReadSchemas reads the schemas of the group and version of a resource.
func ReadSchemas(ctx context.Context, c *kube.Client, r kube.Resource) (Schemas, error) {
	document := "/openapi/v3/apis/" + r.APIVersion()
	if r.Group == "" {
		document = "/openapi/v3/api/" + r.Version
	}
	body, err := c.Raw(ctx, http.MethodGet, document, nil)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Components struct {
			Schemas Schemas `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("decode %s: %w", document, err)
	}
	return doc.Components.Schemas, nil
}

// Kind returns the schema of a kind, nil if there is none.
func (all Schemas) Kind(r kube.Resource) *Schema {
	for _, s := range all {
		for _, k := range s.Kinds {
			if k.Group == r.Group && k.Version == r.Version && k.Kind == r.Kind && len(s.Properties) > 0 {
				return s
			}
		}
	}
	return nil
}

// fieldStep is one step of a path: a field, or an item of a list.
var fieldStep = regexp.MustCompile(`[^.\[\]]+|\[[^\]]*\]`)

// FieldNames returns the fields that an object of a resource has beside the one at a path, none where the server does
// not say: it is asked for a suggestion, and a suggestion is not worth an error.
func FieldNames(ctx context.Context, c *kube.Client, r kube.Resource, path string) []string {
	all, err := ReadSchemas(ctx, c, r)
	if err != nil {
		return nil
	}
	at := all.Kind(r)
	steps := fieldStep.FindAllString(path, -1)
	for i, name := range steps {
		if at = all.Resolve(at); at == nil {
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

// Resolve follows references, nil if they lead nowhere.
func (all Schemas) Resolve(s *Schema) *Schema {
	for range maxRefs {
		switch {
		case s == nil:
			return nil
		case s.Ref != "":
			s = all[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
		case s.Type == "" && len(s.Properties) == 0 && s.Items == nil && len(s.AllOf) > 0:
			s = s.AllOf[0]
		default:
			return s
		}
	}
	return nil
}
