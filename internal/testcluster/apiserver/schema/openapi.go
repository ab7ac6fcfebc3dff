package schema

import (
	"slices"
	"strings"

	"skiff/internal/testcluster/apiserver/obj"
)

// The OpenAPI documents of the built-in kinds are made of the table of fields, which has no prose.

const (
	machinery = "io.k8s.apimachinery.pkg."
	// RefPrefix is before the names of schemas in references.
	RefPrefix = "#/components/schemas/"
	// ListMetaName is the name of the metadata of lists in OpenAPI documents.
	ListMetaName = machinery + "apis.meta.v1.ListMeta"
)

// namedForms are the types of Go with a JSON form of their own, which documents refer to by name.
var namedForms = map[Form]string{Quantity: machinery + "api.resource.Quantity",
	IntOrString: machinery + "util.intstr.IntOrString", Time: machinery + "apis.meta.v1.Time",
	MicroTime: machinery + "apis.meta.v1.MicroTime"}

// special says how fields that are no lists are owned and merged, and which keys of lists have defaults: the table of
// fields does not.
var special = map[string][2]string{
	"core.v1.ContainerPort.protocol":                                {keyDefault, "TCP"},
	"core.v1.ServicePort.protocol":                                  {keyDefault, "TCP"},
	"apps.v1.DeploymentSpec.strategy":                               {patchStrategy, "retainKeys"},
	"policy.v1.PodDisruptionBudgetSpec.selector":                    {patchStrategy, "replace"},
	"core.v1.PodSpec.nodeSelector":                                  {mapType, "atomic"},
	"core.v1.ReplicationControllerSpec.selector":                    {mapType, "atomic"},
	"core.v1.ServiceSpec.selector":                                  {mapType, "atomic"},
	"node.v1.Scheduling.nodeSelector":                               {mapType, "atomic"},
	"core.v1.PersistentVolumeSpec.claimRef":                         {mapType, "granular"},
	"core.v1.PersistentVolumeClaimStatus.allocatedResourceStatuses": {mapType, "granular"},
}

const (
	patchStrategy = "x-kubernetes-patch-strategy"
	mapType       = "x-kubernetes-map-type"
	keyDefault    = "default"
)

// SchemaName is the name of the type in OpenAPI documents.
func (t *Type) SchemaName() string {
	switch group, rest, _ := strings.Cut(t.Name, "."); group {
	case "meta":
		return machinery + "apis.meta." + rest
	case "apiextensions":
		return "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions." + rest
	case "apiregistration":
		return "io.k8s.kube-aggregator.pkg.apis.apiregistration." + rest
	default:
		return "io.k8s.api." + group + "." + rest
	}
}

// Schemas adds the OpenAPI schema of the type and of all types that it is made of to schemas, by name.
func (t *Type) Schemas(schemas map[string]any) {
	if schemas[t.SchemaName()] != nil {
		return
	}
	properties, out := map[string]any{}, map[string]any{} // out is referred to before it is complete
	schemas[t.SchemaName()] = out
	var required []string
	for name, f := range t.Fields {
		field := f.schema(schemas)
		switch {
		case f.Form == Any && f.Type == nil:
			field = t.free(name, schemas)
		case f.Form == List && f.Elem.Form == Any:
			field["items"] = t.free(name, schemas)
		}
		if how := special[t.Name+"."+name]; how[0] != "" {
			field[how[0]] = how[1]
		}
		if properties[name] = field; f.Required {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	out["type"], out["required"], out["properties"] = "object", obj.Anys(required), properties
	if obj.OmitEmpty(out); t.Atomic {
		out[mapType] = "atomic"
	}
}

// free returns the schema of a field of free JSON, for which Go has several types.
func (t *Type) free(field string, schemas map[string]any) map[string]any {
	name, of := machinery+"runtime.RawExtension", map[string]any{"type": "object"}
	switch {
	case field == "fieldsV1":
		name = machinery + "apis.meta.v1.FieldsV1"
	case strings.HasPrefix(t.Name, "apiextensions."): // a value of any type
		name, of = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", map[string]any{}
	}
	schemas[name] = of
	return RefTo(name)
}

func (f *Value) schema(schemas map[string]any) map[string]any {
	switch {
	case f.Form == List:
		out := map[string]any{"type": "array", "items": f.Elem.schema(schemas)}
		f.describeList(out)
		return out
	case f.Form == Map:
		return map[string]any{"type": "object", "additionalProperties": f.Elem.schema(schemas)}
	case f.Form == Struct:
		f.Type.Schemas(schemas)
		return RefTo(f.Type.SchemaName())
	case f.Form == Any && f.Type != nil: // any of several forms
		schemas[f.Type.SchemaName()] = map[string]any{}
		return RefTo(f.Type.SchemaName())
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
	if name := namedForms[f.Form]; name != "" {
		schemas[name] = out
		return RefTo(name)
	}
	return out
}

// RefTo is a schema that refers to another.
func RefTo(name string) map[string]any {
	return map[string]any{"allOf": []any{map[string]any{"$ref": RefPrefix + name}}}
}

// describeList says how the list is owned and merged.
func (f *Value) describeList(out map[string]any) {
	apply, merge, _ := strings.Cut(f.List, ";")
	if kind, keys, _ := strings.Cut(apply, ":"); kind != "" {
		if out["x-kubernetes-list-type"] = kind; kind == "map" {
			out["x-kubernetes-list-map-keys"] = obj.Anys(strings.Split(keys, ","))
		}
	}
	if strategy, key, _ := strings.Cut(merge, ":"); strategy != "" {
		if out[patchStrategy] = strategy; key != "" {
			out["x-kubernetes-patch-merge-key"] = key
		}
	}
}
