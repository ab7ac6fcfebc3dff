package kinds

import (
	"fmt"
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/schema"
	"skiff/internal/fakeapi/selector"
	"skiff/internal/patch"
)

// crdDefaults sets the names that derive from the kind.
func crdDefaults(o Object) {
	spec := specOf(o)
	kind := obj.String(spec, "names", "kind")
	if kind != "" {
		obj.Default(spec, strings.ToLower(kind), "names", "singular")
		obj.Default(spec, kind+"List", "names", "listKind")
	}
	obj.Default(spec, "None", "conversion", "strategy")
}

// crdRules applies the validation rules of apiextensions that authors commonly meet.
func crdRules(next, cur Object) []Cause {
	var out []Cause
	spec := obj.Map(next, "spec")
	group, plural := obj.String(spec, "group"), obj.String(spec, "names", "plural")
	if group == "" {
		out = append(out, Required("spec.group", ""))
	} else if why := selector.Subdomain(group); why != "" {
		out = append(out, Invalid("spec.group", group, why))
	}
	for _, f := range []string{"plural", "kind"} {
		name := obj.String(spec, "names", f)
		if name == "" {
			out = append(out, Required("spec.names."+f, ""))
		} else if why := selector.Label1035(strings.ToLower(name)); why != "" {
			out = append(out, Invalid("spec.names."+f, name, why))
		}
	}
	if name := obj.String(next, "metadata", "name"); name != plural+"."+group {
		out = append(out, Invalid("metadata.name", name, `must be spec.names.plural+"."+spec.group`))
	}
	switch scope := obj.String(spec, "scope"); scope {
	case "Namespaced", "Cluster":
	case "":
		out = append(out, Required("spec.scope", ""))
	default:
		out = append(out, NotSupported("spec.scope", scope, "Cluster", "Namespaced"))
	}
	if obj.String(spec, "conversion", "strategy") == "Webhook" {
		out = append(out, Forbidden("spec.conversion.strategy",
			"conversion webhooks are not called by this server, which would serve all versions unconverted"))
	}
	out = append(out, versionRules(spec)...)
	if cur != nil {
		for _, f := range []string{"scope", "group"} {
			if spec[f] != obj.Get(cur, "spec", f) {
				out = append(out, Invalid("spec."+f, spec[f], "field is immutable"))
			}
		}
	}
	return out
}

func versionRules(spec Object) []Cause {
	var out []Cause
	versions := obj.Maps(spec, "versions")
	if len(versions) == 0 {
		return []Cause{Required("spec.versions", "must have at least one version")}
	}
	stored, shared := 0, true
	names := map[string]bool{}
	for i, v := range versions {
		if obj.Bool(v, "storage") {
			stored++
		}
		name := obj.String(v, "name")
		if why := selector.Label1035(name); why != "" {
			out = append(out, Invalid(fmt.Sprintf("spec.versions[%d].name", i), name, why))
		}
		if names[name] {
			out = append(out, Invalid("spec.versions", versions[i], "must contain unique version names"))
		}
		names[name] = true
		shared = shared && patch.Equal(v["schema"], versions[0]["schema"])
	}
	if stored != 1 {
		out = append(out, Invalid("spec.versions", spec["versions"],
			"must have exactly one version marked as storage version"))
	}
	for i, v := range versions {
		path := "spec.validation.openAPIV3Schema"
		if !shared {
			path = fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", i)
		}
		s := obj.Get(v, "schema", "openAPIV3Schema")
		if s == nil {
			out = append(out, Required(fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", i),
				"schemas are required"))
			continue
		}
		_, causes := schema.Parse(s, path)
		for _, c := range causes {
			out = append(out, Cause(c))
		}
		if shared {
			break
		}
	}
	return out
}
