package schema

import "strings"

// SchemaName is the name of the type in OpenAPI documents.
func (t *Type) SchemaName() string {
	switch group, rest, _ := strings.Cut(t.Name, "."); group {
	case "meta":
		return "io.k8s.apimachinery.pkg.apis.meta." + rest
	case "apiextensions":
		return "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions." + rest
	default:
		return "io.k8s.api." + group + "." + rest
	}
}

// Schemas adds the OpenAPI schema of the type and of all types that it is made of to schemas, by name. They have no
// prose.
func (t *Type) Schemas(schemas map[string]any) {
	if schemas[t.SchemaName()] != nil {
		return
	}
	properties := map[string]any{}
	schemas[t.SchemaName()] = map[string]any{"type": "object", "properties": properties}
	for name, f := range t.Fields {
		properties[name] = f.schema(schemas)
	}
}

func (f *Value) schema(schemas map[string]any) map[string]any {
	switch f.Form {
	case List:
		return map[string]any{"type": "array", "items": f.Elem.schema(schemas)}
	case Map:
		return map[string]any{"type": "object", "additionalProperties": f.Elem.schema(schemas)}
	case Struct:
		f.Type.Schemas(schemas)
		return map[string]any{"allOf": []any{map[string]any{"$ref": "#/components/schemas/" + f.Type.SchemaName()}}}
	}
	form, out := forms[f.Form], map[string]any{}
	if form.format != "" {
		out["format"] = form.format
	}
	if one, other, several := strings.Cut(form.openAPI, "|"); several {
		out["oneOf"] = []any{map[string]any{"type": one}, map[string]any{"type": other}}
	} else {
		out["type"] = one
	}
	return out
}
