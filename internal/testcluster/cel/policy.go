package cel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/warning"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/apiserver/admission"
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
	bindings, err := decodeAll[v1.ValidatingAdmissionPolicyBinding](stored("validatingadmissionpolicybindings"))
	if err != nil {
		return nil, err
	}
	policies, err := decodeAll[v1.ValidatingAdmissionPolicy](stored("validatingadmissionpolicies"))
	if err != nil {
		return nil, err
	}
	known := c.validating
	c.validating = map[string]validating.Validator{}
	for _, p := range policies {
		hook := validating.PolicyHook{Policy: p}
		for _, b := range bindings {
			if b.Spec.PolicyName == p.Name {
				hook.Bindings = append(hook.Bindings, b)
			}
		}
		if len(hook.Bindings) == 0 {
			continue
		}
		version := string(p.UID) + "/" + p.ResourceVersion
		if hook.Evaluator = known[version]; hook.Evaluator == nil {
			hook.Evaluator = compileValidating(p.DeepCopy())
		}
		c.validating[version] = hook.Evaluator
		out = append(out, hook)
	}
	return out, nil
}

func (c *compiled) mutatingHooks(stored func(string) []map[string]any) (out []mutating.PolicyHook, err error) {
	bindings, err := decodeAll[v1.MutatingAdmissionPolicyBinding](stored("mutatingadmissionpolicybindings"))
	if err != nil {
		return nil, err
	}
	policies, err := decodeAll[v1.MutatingAdmissionPolicy](stored("mutatingadmissionpolicies"))
	if err != nil {
		return nil, err
	}
	known := c.mutating
	c.mutating = map[string]mutating.PolicyEvaluator{}
	for _, p := range policies {
		hook := mutating.PolicyHook{Policy: p}
		for _, b := range bindings {
			if b.Spec.PolicyName == p.Name {
				hook.Bindings = append(hook.Bindings, b)
			}
		}
		if len(hook.Bindings) == 0 {
			continue
		}
		version, ok := string(p.UID)+"/"+p.ResourceVersion, false
		if hook.Evaluator, ok = known[version]; !ok {
			hook.Evaluator = compileMutating(p.DeepCopy())
		}
		c.mutating[version] = hook.Evaluator
		hook.ConfigurationError = hook.Evaluator.Error
		out = append(out, hook)
	}
	return out, nil
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
