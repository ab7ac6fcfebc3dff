package apiserver

import (
	"cmp"
	"context"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/admission"
	"skiff/internal/testcluster/apiserver/auth"
	"skiff/internal/testcluster/apiserver/forms"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// registration is the group of the objects that configure admission. Changes of its own objects are not admitted: a
// mistake in one could not be undone.
const registration = "admissionregistration.k8s.io"

// chainTables are the tables of the objects from which Server.makePlugins makes the chain.
var chainTables = []string{"mutatingwebhookconfigurations." + registration,
	"validatingwebhookconfigurations." + registration, "validatingadmissionpolicies." + registration,
	"validatingadmissionpolicybindings." + registration, "mutatingadmissionpolicies." + registration,
	"mutatingadmissionpolicybindings." + registration}

// plugins returns the chain that the stored configurations make. It is empty where there are none, and then admission
// costs a write nothing.
func (s *Server) plugins(tx *store.Tx) admission.Chain {
	at := tx.Last(chainTables...)
	if at == s.chainAt {
		return s.chain
	}
	s.chain, s.chainAt = nil, at
	for _, make := range s.makePlugins {
		s.chain = append(s.chain, make(tx)...)
	}
	return s.chain
}

// concerned returns the plugins that may have a say in a write, and the namespace as they see it.
func (s *Server) concerned(tx *store.Tx, r *request, operation string) (admission.Chain, map[string]any) {
	chain := s.plugins(tx)
	if len(chain) == 0 || r.kind.Group == registration {
		return nil, nil
	}
	return chain.Concerning(s.describe(r, operation)), namespaceObject(tx, r)
}

// describe returns the attributes of a request, without objects.
func (s *Server) describe(r *request, operation string) *admission.Attributes {
	a := &admission.Attributes{Operation: operation, Kind: r.sent.Resource, Resource: r.kind.Resource,
		Subresource: r.sub, Namespace: r.namespace, Name: r.name, User: r.user, DryRun: r.dryRun(),
		Options: writeOptions(r, operation)}
	if r.warner == nil {
		r.warner = httpd.NewWarner(r.writer)
	}
	a.Warn = r.warner.Warn
	a.Allowed = func(u User, action auth.Action) (bool, string) {
		if !s.opts.RBAC {
			return true, ""
		}
		return rolesIn(s.store).Allowed(u, action)
	}
	a.Complete = func(o map[string]any) (map[string]any, error) { return completed(r.sent, o) }
	if r.sent != r.kind {
		return a
	}
	for _, k := range s.registry.all() {
		if k.TableName() == r.kind.TableName() && k.Resource != r.kind.Resource {
			a.Equivalents = append(a.Equivalents, k.Resource)
		}
	}
	a.Convert = s.convert
	return a
}

// convert returns an object of one version in another, which is served from the same table.
func (s *Server) convert(ctx context.Context, o map[string]any, to kube.Resource) (map[string]any, error) {
	group, version, grouped := strings.Cut(obj.String(o, "apiVersion"), "/")
	if !grouped {
		group, version = "", group
	}
	from, into := s.registry.find(group, version, to.Plural), s.registry.find(to.Group, to.Version, to.Plural)
	if from == nil || into == nil {
		return nil, httpd.InternalError("no kind of %s is served", to.Plural)
	}
	if sh := convertedKind(into); sh != nil {
		values, err := sh.webhook.Convert(ctx, []map[string]any{o}, into.Resource)
		if err != nil {
			return nil, err
		}
		return forms.Typed(into, sh.pruned(values[0])), nil
	}
	return forms.Typed(into, into.ToServe(from.ToStore(forms.Untyped(obj.Clone(o))))), nil
}

// completed returns a served object that a plugin has changed, as the real server reads it.
func completed(k *kinds.Kind, o map[string]any) (map[string]any, error) {
	out := forms.Untyped(obj.Clone(o))
	if err := checkFieldTypes(k, out); err != nil {
		return nil, httpd.InternalError("%v", err)
	}
	prune(k, out)
	if k.Defaults != nil {
		out = k.ToStore(out)
		k.Defaults(out)
		out = k.ToServe(out)
	}
	return forms.Typed(k, out), nil
}

// writeOptions are the options of a request as an object, other than those of a DELETE. A PATCH has those of what it
// does.
func writeOptions(r *request, operation string) map[string]any {
	return obj.OmitEmpty(map[string]any{"kind": optionKinds[strings.ToLower(operation)],
		"apiVersion": "meta.k8s.io/v1", "dryRun": obj.Anys(r.query["dryRun"]),
		"fieldManager": r.query.Get("fieldManager"), "fieldValidation": r.query.Get("fieldValidation")})
}

func (w *write) operation() string {
	if w.cur == nil {
		return admission.Create
	}
	return admission.Update
}

// namespaceObject returns the namespace of a request, nil for one of a cluster-scoped kind.
func namespaceObject(tx *store.Tx, r *request) map[string]any {
	if ns := tx.Get("namespaces", store.Key{Name: r.namespace}); ns != nil {
		return forms.Decoded(obj.Clone(forms.Typed(&kinds.Kind{Resource: namespaces}, ns.Value())))
	}
	return nil
}

// attributesOf describes a write, with its object as it is now.
func (s *Server) attributesOf(w *write) (*admission.Attributes, error) {
	a := s.describe(w.request, w.operation())
	a.NamespaceObject = w.namespaceObject
	var err error
	if a.Object, err = formOf(w.request, w.next); err == nil && w.cur != nil {
		a.OldObject, err = formOf(w.request, w.cur.Value())
	}
	a.Name = cmp.Or(a.Name, obj.String(w.next, "metadata", "name"))
	if a.Resource == namespaces {
		a.Namespace = a.Name
	}
	return a, err
}

// formOf returns a copy of a stored object in the form that the request is about: its scale for that subresource.
func formOf(r *request, o map[string]any) (map[string]any, error) {
	if r.sub == "scale" {
		return scaleOf(r.kind, o)
	}
	return forms.Decoded(obj.Clone(forms.Typed(r.kind, r.kind.ToServe(o)))), nil
}

// admitPosted returns an object that is posted but not stored (an Eviction, a Binding, a review) as plugins change it.
func (s *Server) admitPosted(r *request, o map[string]any) (map[string]any, error) {
	var plugins admission.Chain
	var namespace map[string]any
	s.store.Update(func(tx *store.Tx) error {
		plugins, namespace = s.concerned(tx, r, admission.Create)
		return nil
	})
	if len(plugins) == 0 {
		return o, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	a := s.describe(r, admission.Create)
	a.NamespaceObject, a.Object = namespace, forms.Typed(&kinds.Kind{Resource: a.Kind}, obj.Clone(o))
	if r.namespace != "" {
		obj.Set(a.Object, r.namespace, "metadata", "namespace")
	}
	if err := plugins.Admit(ctx, a); err != nil {
		return nil, err
	}
	return forms.Untyped(obj.Shallow(a.Object)), nil
}

// admitDelete asks the plugins about the deletion of an object.
func (s *Server) admitDelete(ctx context.Context, r *request, plugins admission.Chain, cur *store.Object,
	o deleteOptions, namespace map[string]any) error {
	a := s.describe(r, admission.Delete)
	a.DryRun, a.Options, a.NamespaceObject = o.dryRun, o.object(), namespace
	seen, err := s.convertedOne(ctx, r.kind, cur)
	if err != nil {
		return err
	}
	if a.OldObject, err = formOf(r, seen.Value()); err != nil {
		return err
	}
	if a.Resource == namespaces {
		a.Namespace = cur.Name
	}
	if r.verb == "deletecollection" {
		a.Name = "" // as on the real server
	}
	return plugins.Admit(ctx, a)
}
