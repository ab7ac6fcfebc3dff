package cel

import (
	"slices"
	"strings"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	registrationv1 "k8s.io/kubernetes/pkg/apis/admissionregistration/v1"
	"k8s.io/kubernetes/pkg/apis/admissionregistration/validation"

	"skiff/internal/testcluster/apiserver/obj"
)

// registrations has the types of the objects that configure admission, their defaults and conversions.
var registrations = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(admissionregistration.AddToScheme(s))
	utilruntime.Must(registrationv1.AddToScheme(s))
	return s
}()

// registration returns what completes and what validates the objects of a kind that configures admission, as the real
// server does. cur is nil for a new object.
func registration(kind string) (defaults func(map[string]any),
	validate func(next, cur map[string]any) []obj.Cause) {
	switch kind {
	case "ValidatingAdmissionPolicy":
		return registered(kind, validation.ValidateValidatingAdmissionPolicy,
			validation.ValidateValidatingAdmissionPolicyUpdate)
	case "ValidatingAdmissionPolicyBinding":
		return registered(kind, validation.ValidateValidatingAdmissionPolicyBinding,
			validation.ValidateValidatingAdmissionPolicyBindingUpdate)
	case "MutatingAdmissionPolicy":
		return registered(kind, validation.ValidateMutatingAdmissionPolicy,
			validation.ValidateMutatingAdmissionPolicyUpdate)
	case "MutatingAdmissionPolicyBinding":
		return registered(kind, validation.ValidateMutatingAdmissionPolicyBinding,
			validation.ValidateMutatingAdmissionPolicyBindingUpdate)
	case "ValidatingWebhookConfiguration":
		return registered(kind, validation.ValidateValidatingWebhookConfiguration,
			validation.ValidateValidatingWebhookConfigurationUpdate)
	case "MutatingWebhookConfiguration":
		return registered(kind, validation.ValidateMutatingWebhookConfiguration,
			validation.ValidateMutatingWebhookConfigurationUpdate)
	}
	return nil, nil
}

// registered is registration for one kind, of the internal type T.
func registered[T any](kind string, create func(*T) field.ErrorList, update func(next, cur *T) field.ErrorList) (
	func(map[string]any), func(next, cur map[string]any) []obj.Cause) {
	versioned := func(o map[string]any) (runtime.Object, error) {
		in, err := registrations.New(v1.SchemeGroupVersion.WithKind(kind))
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Clone(o), in)
		}
		if err == nil {
			registrations.Default(in)
		}
		return in, err
	}
	internal := func(o map[string]any) (*T, error) {
		in, err := versioned(o)
		if err != nil {
			return nil, err
		}
		out := new(T)
		return out, registrations.Convert(in, out, nil)
	}
	defaults := func(o map[string]any) {
		in, err := versioned(o)
		if err != nil {
			return // validate says why
		}
		out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(in)
		if err != nil {
			return
		}
		for _, name := range []string{"spec", "webhooks"} {
			if v, ok := out[name]; ok {
				o[name] = v
			}
		}
	}
	validate := func(next, cur map[string]any) []obj.Cause {
		if causes := tooMany(next); causes != nil {
			return causes
		}
		t, err := internal(next)
		if err != nil {
			return []obj.Cause{cause(field.InternalError(nil, err))}
		}
		if cur == nil {
			return besidesMetadata(create(t))
		}
		old, err := internal(cur)
		if err != nil {
			return []obj.Cause{cause(field.InternalError(nil, err))}
		}
		return besidesMetadata(update(t, old))
	}
	return defaults, validate
}

// besidesMetadata are the causes without those about metadata, which the server checks anyway.
func besidesMetadata(errs field.ErrorList) []obj.Cause {
	return causes(slices.DeleteFunc(errs, func(err *field.Error) bool {
		return strings.HasPrefix(err.Field, "metadata.")
	}))
}
