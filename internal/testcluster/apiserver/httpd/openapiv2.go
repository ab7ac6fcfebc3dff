package httpd

import (
	"strings"

	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// documentV2 returns the one document of OpenAPI v2, of all kinds.
func documentV2(all []*kinds.Kind) map[string]any {
	schemas, paths := describe(all)
	definitions := make(map[string]any, len(schemas))
	for name, s := range schemas {
		definitions[name] = schemaV2(s.(map[string]any))
	}
	for _, path := range paths {
		for _, operation := range path.(map[string]any) {
			operationV2(operation.(map[string]any))
		}
	}
	return map[string]any{"swagger": "2.0", "info": map[string]any{"title": "Kubernetes", "version": Version},
		"paths": paths, "definitions": definitions}
}

// operationV2 makes an operation one of v2, in place.
func operationV2(o map[string]any) {
	for _, p := range obj.Maps(o, "parameters") {
		p["type"], p["uniqueItems"] = obj.String(p, "schema", "type"), true
		delete(p, "schema")
	}
	for _, answer := range obj.Map(o, "responses") {
		answer := answer.(map[string]any)
		if s := obj.Map(answer, "content", "application/json", "schema"); s != nil {
			answer["schema"] = schemaV2(s)
		}
		delete(answer, "content")
	}
}

// schemaV2 returns a schema of v3 in the form of v2, which has no alternatives and no null, as a real server does.
func schemaV2(s map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range s {
		switch name {
		case "allOf", "anyOf", "oneOf", "not", "nullable":
		case "$ref":
			out[name] = strings.Replace(v.(string), refPrefix, "#/definitions/", 1)
		case "properties":
			properties := map[string]any{}
			for field, of := range obj.Map(s, name) {
				if of, ok := of.(map[string]any); ok {
					properties[field] = schemaV2(of)
				}
			}
			out[name] = properties
		case "items", "additionalProperties":
			if out[name] = v; obj.Map(s, name) != nil {
				out[name] = schemaV2(obj.Map(s, name))
			}
		default:
			out[name] = v
		}
	}
	if all := obj.Maps(s, "allOf"); len(all) == 1 && all[0]["$ref"] != nil {
		out["$ref"] = schemaV2(all[0])["$ref"]
	}
	if s["oneOf"] != nil && s["type"] == nil { // a quantity, or a number or string
		out["type"] = "string"
	}
	if obj.Bool(s, "nullable") { // which kubectl could not check
		for _, name := range []string{"type", "format", "items", "properties", "additionalProperties"} {
			delete(out, name)
		}
	}
	return out
}
