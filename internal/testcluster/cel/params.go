package cel

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/apiserver/kinds"
)

// paramsOf returns where the parameters of a policy are found, and their scope; nil if it has none. The error is about
// a kind that is not served.
func paramsOf(p *v1.ParamKind, from apiserver.Params) (informers.GenericInformer, meta.RESTScope, error) {
	if p == nil {
		return nil, nil, nil
	}
	gvk := schema.FromAPIVersionAndKind(p.APIVersion, p.Kind)
	k := from.Kind(gvk.Group, gvk.Version, gvk.Kind)
	switch {
	case k == nil:
		return nil, nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
	case k.ClusterScoped:
		return params{k: k, from: from}, meta.RESTScopeRoot, nil
	}
	return params{k: k, from: from}, meta.RESTScopeNamespace, nil
}

// params are the stored objects of a kind, or of that in a namespace. They are read when a write is evaluated.
type params struct {
	cache.SharedIndexInformer // only HasSynced is called
	k                         *kinds.Kind
	from                      apiserver.Params
	namespace                 string
}

func (p params) Informer() cache.SharedIndexInformer { return p }
func (p params) HasSynced() bool                     { return true }
func (p params) Lister() cache.GenericLister         { return p }

// ByNamespace returns those in a namespace.
func (p params) ByNamespace(namespace string) cache.GenericNamespaceLister {
	p.namespace = namespace
	return p
}

// List returns the selected objects.
func (p params) List(selector labels.Selector) (out []runtime.Object, err error) {
	for _, o := range p.from.List(p.k, p.namespace) {
		if u := untyped(o); selector.Matches(labels.Set(u.GetLabels())) {
			out = append(out, u)
		}
	}
	return out, nil
}

// Get returns the object with a name.
func (p params) Get(name string) (runtime.Object, error) {
	for _, o := range p.from.List(p.k, p.namespace) {
		if u := untyped(o); u.GetName() == name {
			return u, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceOf(p.k.Resource).GroupResource(), name)
}

// converters know how to merge the objects of each kind.
type converters struct{ from apiserver.Params }

var builtin = applyconfigurations.NewTypeConverter(scheme.Scheme)

// GetTypeConverter returns that of a kind: as its Go type says, or the schema of its definition.
func (c converters) GetTypeConverter(gvk schema.GroupVersionKind) managedfields.TypeConverter {
	if scheme.Scheme.Recognizes(gvk) {
		return builtin
	}
	k := c.from.Kind(gvk.Group, gvk.Version, gvk.Kind)
	if k == nil || k.OpenAPI == nil {
		return managedfields.NewDeducedTypeConverter()
	}
	text, err := json.Marshal(k.OpenAPI)
	if err != nil {
		return nil
	}
	var s spec.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil
	}
	s.AddExtension("x-kubernetes-group-version-kind",
		[]any{map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}})
	for name, schema := range map[string]*spec.Schema{"apiVersion": spec.StringProperty(),
		"kind": spec.StringProperty(), "metadata": spec.MapProperty(nil)} {
		s.SetProperty(name, *schema)
	}
	converter, err := managedfields.NewTypeConverter(map[string]*spec.Schema{"object": &s}, true)
	if err != nil {
		return nil
	}
	return converter
}

// Run would fetch the schemas.
func (converters) Run(context.Context) {}
