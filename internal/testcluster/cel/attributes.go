package cel

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	plugin "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	listersv1 "k8s.io/client-go/listers/core/v1"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/admission"
	"skiff/internal/testcluster/apiserver/auth"
	"skiff/internal/testcluster/apiserver/kinds"
)

// attributesOf describes a write as the packages of the real server do. They replace what is in object.
func attributesOf(a *admission.Attributes) (plugin.Attributes, *unstructured.Unstructured) {
	u := &user.DefaultInfo{Name: a.User.Name, UID: a.User.UID, Groups: a.User.Groups, Extra: a.User.Extra}
	object := untyped(a.Object)
	var next, old, options runtime.Object // no nil pointers in them
	if object != nil {
		next = object
	}
	if o := untyped(a.OldObject); o != nil {
		old = o
	}
	if o := untyped(a.Options); o != nil {
		options = o
	}
	return plugin.NewAttributesRecord(next, old, kindOf(a.Kind), a.Namespace, a.Name, resourceOf(a.Resource),
		a.Subresource, plugin.Operation(a.Operation), options, a.DryRun, u), object
}

func untyped(o map[string]any) *unstructured.Unstructured {
	if o == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: o}
}

func kindOf(r kube.Resource) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

func resourceOf(r kube.Resource) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Plural}
}

// recorder passes warnings on.
type recorder func(text string)

func (r recorder) AddWarning(_, text string) { r(text) }

// forms are the forms that the object of a write has: the plugins' ObjectInterfaces. All objects are unstructured.
type forms struct {
	a       *admission.Attributes
	convert func(o map[string]any, to kube.Resource) (map[string]any, error)
}

// formsOf is for one write, whose context it is.
func formsOf(ctx context.Context, a *admission.Attributes) forms {
	return forms{a, func(o map[string]any, to kube.Resource) (map[string]any, error) { return a.Convert(ctx, o, to) }}
}

func (f forms) GetObjectCreater() runtime.ObjectCreater {
	return unstructuredscheme.NewUnstructuredCreator()
}
func (f forms) GetObjectTyper() runtime.ObjectTyper {
	return unstructuredscheme.NewUnstructuredObjectTyper()
}
func (f forms) GetObjectDefaulter() runtime.ObjectDefaulter { return f }
func (f forms) GetObjectConvertor() runtime.ObjectConvertor { return f }

func (f forms) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper { return f }

// EquivalentResourcesFor returns the other resources under which the object is served.
func (f forms) EquivalentResourcesFor(schema.GroupVersionResource, string) (out []schema.GroupVersionResource) {
	for _, r := range f.a.Equivalents {
		out = append(out, resourceOf(r))
	}
	return out
}

// KindFor returns the kind of such a resource.
func (f forms) KindFor(r schema.GroupVersionResource, _ string) schema.GroupVersionKind {
	for _, e := range append(f.a.Equivalents, f.a.Resource) {
		if resourceOf(e) == r {
			return kindOf(e)
		}
	}
	return schema.GroupVersionKind{}
}

// Default makes an object complete after a change. An object that cannot be completed is left as it is: its
// validation says why.
func (f forms) Default(in runtime.Object) {
	if u, ok := in.(*unstructured.Unstructured); ok {
		if o, err := f.a.Complete(u.Object); err == nil {
			u.Object = o
		}
	}
}

// Convert puts an object, in the form that another one asks for, into that.
func (f forms) Convert(in, out, _ any) error {
	from, ok := in.(*unstructured.Unstructured)
	into, ok2 := out.(*unstructured.Unstructured)
	if !ok || !ok2 {
		return fmt.Errorf("convert a %T to a %T: not an object", in, out)
	}
	gvk := into.GroupVersionKind()
	if from.GroupVersionKind() == gvk {
		into.Object = from.Object
		return nil
	}
	for _, r := range append(f.a.Equivalents, f.a.Kind) {
		if kindOf(r) == gvk && f.a.Convert != nil {
			o, err := f.convert(from.Object, r)
			into.Object = o
			return err
		}
	}
	return fmt.Errorf("convert a %s to a %s: no such conversion", from.GroupVersionKind(), gvk)
}

// ConvertToVersion is for typed objects, of which there are none.
func (f forms) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// ConvertFieldLabel is for selectors, of which there are none.
func (f forms) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// namespaces finds the namespace of a write.
type namespaces struct {
	listersv1.NamespaceLister // not called: policies are about one write
	a                         *admission.Attributes
}

// Get returns the namespace of the write.
func (n namespaces) Get(name string) (*corev1.Namespace, error) {
	if n.a.NamespaceObject == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	ns := &corev1.Namespace{}
	o := (&unstructured.Unstructured{Object: n.a.NamespaceObject}).DeepCopy().Object
	return ns, runtime.DefaultUnstructuredConverter.FromUnstructured(o, ns)
}

// noClient finds no namespace that namespaces does not find.
type noClient struct{ kubernetes.Interface }

func (noClient) CoreV1() typedv1.CoreV1Interface { return noCore{} }

type noCore struct{ typedv1.CoreV1Interface }

func (noCore) Namespaces() typedv1.NamespaceInterface { return noNamespaces{} }

type noNamespaces struct{ typedv1.NamespaceInterface }

func (noNamespaces) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name)
}

// access decides by the stored roles what a user may do: what `authorizer` is in an expression.
type access struct{ a *admission.Attributes }

// Authorize is called with the attributes of what an expression asks about.
func (s access) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	u := kinds.User{}
	if info := a.GetUser(); info != nil {
		u = kinds.User{Name: info.GetName(), UID: info.GetUID(), Groups: info.GetGroups(), Extra: info.GetExtra()}
	}
	action := auth.Action{Verb: a.GetVerb(), Path: a.GetPath()}
	if a.IsResourceRequest() {
		action = auth.Action{Verb: a.GetVerb(), Group: a.GetAPIGroup(), Resource: a.GetResource(),
			Subresource: a.GetSubresource(), Namespace: a.GetNamespace(), Name: a.GetName()}
	}
	ok, why := s.a.Allowed(u, action)
	if !ok {
		return authorizer.DecisionNoOpinion, why, nil
	}
	return authorizer.DecisionAllow, why, nil
}
