package cel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/apiserver/admission"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
)

// compiled are the policies of the last call of policies, by uid and resourceVersion, which are not compiled again.
type compiled struct {
	mu         sync.Mutex // guards what follows
	validating map[string]validating.Validator
	mutating   map[string]mutating.PolicyEvaluator
}

// policies returns the plugins that evaluate the stored policies, those that mutate first. stored returns all objects
// of a kind. A policy that nothing is bound to has no effect.
func (c *compiled) policies(stored func(plural string) []map[string]any, p apiserver.Params) []admission.Plugin {
	c.mu.Lock()
	defer c.mu.Unlock()
	mutatingHooks, err := c.mutatingHooks(stored)
	validatingHooks, err2 := c.validatingHooks(stored)
	if err = errors.Join(err, err2); err != nil { // never: the objects were validated. No write goes past a policy
		return []admission.Plugin{{Concerns: concerns,
			Validate: func(context.Context, *admission.Attributes) error { return err }}}
	}
	var out []admission.Plugin
	if len(mutatingHooks) > 0 {
		out = append(out, admission.Plugin{
			Concerns: func(a *admission.Attributes) bool {
				return a.Operation != admission.Delete && concerns(a)
			},
			Mutate: func(ctx context.Context, a *admission.Attributes) error {
				m := matching.NewMatcher(namespaces{a: a}, noClient{})
				d := mutating.NewDispatcher(access{a}, m, converters{p})
				return dispatch(ctx, a, d, withParams(mutatingHooks, p,
					func(h mutating.PolicyHook) *v1.ParamKind { return h.Policy.Spec.ParamKind }))
			}})
	}
	if len(validatingHooks) > 0 {
		out = append(out, admission.Plugin{Concerns: concerns,
			Validate: func(ctx context.Context, a *admission.Attributes) error {
				m := generic.NewPolicyMatcher(matching.NewMatcher(namespaces{a: a}, noClient{}))
				return dispatch(ctx, a, validating.NewDispatcher(access{a}, m), withParams(validatingHooks, p,
					func(h validating.PolicyHook) *v1.ParamKind { return h.Policy.Spec.ParamKind }))
			}})
	}
	return out
}

// concerns reports whether policies see a write: no review, because a mistake would lock everybody out.
func concerns(a *admission.Attributes) bool {
	return a.Kind.Group != "authentication.k8s.io" && a.Kind.Group != "authorization.k8s.io" ||
		a.Resource.Plural == "serviceaccounts"
}

// withParams returns the hooks with what their kinds of parameters are now.
func withParams[P, B runtime.Object, E any](hooks []generic.PolicyHook[P, B, E], p apiserver.Params,
	kind func(generic.PolicyHook[P, B, E]) *v1.ParamKind) []generic.PolicyHook[P, B, E] {
	out := slices.Clone(hooks)
	for i, h := range hooks {
		if h.ConfigurationError == nil {
			out[i].ParamInformer, out[i].ParamScope, out[i].ConfigurationError = paramsOf(kind(h), p)
		}
	}
	return out
}

// dispatch asks the policies about a write, and takes over what they made of its object.
func dispatch[H any](ctx context.Context, a *admission.Attributes, d generic.Dispatcher[H], hooks []H) error {
	attributes, object := attributesOf(a)
	ctx = warning.WithWarningRecorder(ctx, recorder(a.Warn))
	if err := d.Dispatch(ctx, attributes, formsOf(ctx, a), hooks); err != nil {
		return statusOf(err)
	}
	if object != nil {
		a.Object = object.Object
	}
	return nil
}

// statusOf returns the error of a policy as that of this server.
func statusOf(err error) error {
	var st *apierrors.StatusError
	if !errors.As(err, &st) {
		return err
	}
	s := st.ErrStatus
	out := &kube.Status{Status: s.Status, Code: int(s.Code), Reason: string(s.Reason), Message: s.Message}
	if d := s.Details; d != nil {
		out.Details = kube.StatusDetails{Name: d.Name, Group: d.Group, Kind: d.Kind, UID: string(d.UID)}
		for _, c := range d.Causes {
			out.Details.Causes = append(out.Details.Causes,
				kube.StatusCause{Reason: string(c.Type), Message: c.Message, Field: c.Field})
		}
	}
	return out
}

func (c *compiled) validatingHooks(stored func(string) []map[string]any) (out []validating.PolicyHook, err error) {
	policies, err := decodeAll[v1.ValidatingAdmissionPolicy](stored("validatingadmissionpolicies"))
	bindings, err2 := decodeAll[v1.ValidatingAdmissionPolicyBinding](stored("validatingadmissionpolicybindings"))
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	out, c.validating = hooksOf(policies, bindings,
		func(b *v1.ValidatingAdmissionPolicyBinding) string { return b.Spec.PolicyName }, c.validating,
		func(p *v1.ValidatingAdmissionPolicy) validating.Validator { return compileValidating(p.DeepCopy()) })
	return out, nil
}

func (c *compiled) mutatingHooks(stored func(string) []map[string]any) (out []mutating.PolicyHook, err error) {
	policies, err := decodeAll[v1.MutatingAdmissionPolicy](stored("mutatingadmissionpolicies"))
	bindings, err2 := decodeAll[v1.MutatingAdmissionPolicyBinding](stored("mutatingadmissionpolicybindings"))
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	out, c.mutating = hooksOf(policies, bindings,
		func(b *v1.MutatingAdmissionPolicyBinding) string { return b.Spec.PolicyName }, c.mutating,
		func(p *v1.MutatingAdmissionPolicy) mutating.PolicyEvaluator { return compileMutating(p.DeepCopy()) })
	for i := range out {
		out[i].ConfigurationError = out[i].Evaluator.Error
	}
	return out, nil
}

// object is a policy or a binding.
type object interface {
	runtime.Object
	metav1.Object
}

// hooksOf returns the policies that bindings name, with those bindings and what the expressions were compiled to: what
// known has for that uid and resourceVersion, or else what compile makes now. It also returns what is known then.
func hooksOf[P, B object, E any](policies []P, bindings []B, policyOf func(B) string, known map[string]E,
	compile func(P) E) (hooks []generic.PolicyHook[P, B, E], compiled map[string]E) {
	compiled = map[string]E{}
	for _, p := range policies {
		hook := generic.PolicyHook[P, B, E]{Policy: p}
		for _, b := range bindings {
			if policyOf(b) == p.GetName() {
				hook.Bindings = append(hook.Bindings, b)
			}
		}
		if len(hook.Bindings) == 0 {
			continue
		}
		version, ok := string(p.GetUID())+"/"+p.GetResourceVersion(), false
		if hook.Evaluator, ok = known[version]; !ok {
			hook.Evaluator = compile(p)
		}
		compiled[version] = hook.Evaluator
		hooks = append(hooks, hook)
	}
	return hooks, compiled
}

// decodeAll decodes stored objects, which were validated.
func decodeAll[T any](objects []map[string]any) ([]*T, error) {
	out := make([]*T, len(objects))
	for i, o := range objects {
		out[i] = new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Clone(o), out[i]); err != nil {
			return nil, fmt.Errorf("decode %s %s: %w", obj.String(o, "kind"), obj.String(o, "metadata", "name"), err)
		}
	}
	return out, nil
}

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

// builtin is that of the kinds that have a Go type. Reading all of their schemas takes 80 ms, which a start does not
// have: most clusters have no policy that applies anything.
var builtin = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(scheme.Scheme)
})

// GetTypeConverter returns that of a kind: as its Go type says, or the schema of its definition.
func (c converters) GetTypeConverter(gvk schema.GroupVersionKind) managedfields.TypeConverter {
	if scheme.Scheme.Recognizes(gvk) {
		return builtin()
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
