package cel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	fields "skiff/internal/testcluster/apiserver/schema"
)

// What the type check of one policy may take; the rest of its expressions gets no warnings. The real controller, which
// has no such limits, checks an expression in some milliseconds for each kind. An object with more bytes would not be
// stored.
const (
	maxCheckTime = 10 * time.Second
	maxWarnings  = 1 << 20
)

// typeCheck checks the expressions of a policy against the schemas of the kinds that it matches.
func typeCheck(text []byte, served []*kinds.Kind) []any {
	return typeCheckFor(maxCheckTime, text, served)
}

// typeCheckFor uses the checker of the real controller: TypeChecker.Check is this loop, without limits.
func typeCheckFor(limit time.Duration, text []byte, served []*kinds.Kind) (out []any) {
	p := &v1.ValidatingAdmissionPolicy{}
	if json.Unmarshal(text, &p.Spec) != nil {
		return nil // never: it was validated
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, k := range served {
		gv := schema.GroupVersion{Group: k.Group, Version: k.Version}
		singular := gv.WithResource(cmp.Or(k.Singular, strings.ToLower(k.Kind)))
		mapper.AddSpecific(gv.WithKind(k.Kind), gv.WithResource(k.Plural), singular, meta.RESTScopeRoot)
	}
	checker := validating.TypeChecker{SchemaResolver: schemas(served), RestMapper: mapper}
	about, size, end := checker.CreateContext(p), 0, time.Now().Add(limit)
	check := func(path *field.Path, expression string) {
		if expression == "" || size > maxWarnings || time.Now().After(end) {
			return
		}
		if results := checker.CheckExpression(about, expression); len(results) > 0 {
			warning := results.String()
			size += len(warning)
			out = append(out, map[string]any{"fieldRef": path.String(), "warning": warning})
		}
	}
	for i, v := range p.Spec.Validations {
		at := field.NewPath("spec", "validations").Index(i)
		check(at.Child("expression"), v.Expression)
		check(at.Child("messageExpression"), v.MessageExpression)
	}
	return out
}

// schemas finds the schema of a kind: as its Go type says, or its definition.
type schemas []*kinds.Kind

// ResolveSchema returns a schema without references.
func (s schemas) ResolveSchema(gvk schema.GroupVersionKind) (*spec.Schema, error) {
	for _, k := range s {
		if kindOf(k.Resource) == gvk {
			return resolve(k)
		}
	}
	return nil, fmt.Errorf("find the schema of %s: %w", gvk, resolver.ErrSchemaNotFound)
}

// resolve makes the schema of a kind from what the server describes in OpenAPI, with all fields of its metadata.
func resolve(k *kinds.Kind) (*spec.Schema, error) {
	described, metadata := map[string]any{}, fields.For("v1", "ConfigMap").Fields["metadata"].Type
	metadata.Schemas(described)
	root := "custom"
	if k.Type != nil {
		root = k.Type.SchemaName()
		k.Type.Schemas(described)
	} else {
		properties := obj.Shallow(obj.Map(k.OpenAPI, "properties"))
		properties["metadata"] = map[string]any{"$ref": refPrefix + metadata.SchemaName()}
		for _, name := range []string{"apiVersion", "kind"} {
			properties[name] = map[string]any{"type": "string"}
		}
		custom := obj.Shallow(k.OpenAPI)
		custom["type"], custom["properties"] = "object", properties
		described[root] = custom
	}
	text, err := json.Marshal(described)
	if err != nil {
		return nil, fmt.Errorf("encode the schema of %s: %w", k.Kind, err)
	}
	var all map[string]*spec.Schema
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("decode the schema of %s: %w", k.Kind, err)
	}
	return resolver.PopulateRefs(func(ref string) (*spec.Schema, bool) {
		s, ok := all[strings.TrimPrefix(ref, refPrefix)]
		return s, ok
	}, root)
}

const refPrefix = "#/components/schemas/"
