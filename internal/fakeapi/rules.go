package fakeapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/selector"
	"skiff/internal/fakeapi/store"
	"skiff/internal/kube"
)

// maxAnnotations is the limit of all annotations of an object together.
const maxAnnotations = 256 << 10

// metadataCauses holds the rules that every object's metadata has to keep (apimachinery's ValidateObjectMeta).
func metadataCauses(k *kinds.Kind, next map[string]any) []kinds.Cause {
	var out []kinds.Cause
	meta := obj.Map(next, "metadata")
	name := obj.String(meta, "name")
	check := k.Name
	if check == nil {
		check = selector.Subdomain
	}
	if base := obj.String(meta, "generateName"); base != "" {
		// A dash at the end is fine, as something follows it.
		if why := check(strings.TrimSuffix(base, "-") + strings.Repeat("a", len(base)-len(strings.TrimSuffix(base, "-")))); why != "" {
			out = append(out, kinds.Invalid("metadata.generateName", base, why))
		}
	}
	if name == "" {
		out = append(out, kinds.Required("metadata.name", "name or generateName is required"))
	} else if why := check(name); why != "" {
		out = append(out, kinds.Invalid("metadata.name", name, why))
	}
	for _, key := range sortedKeys(obj.Map(meta, "labels")) {
		if why := selector.QualifiedName(key); why != "" {
			out = append(out, kinds.Invalid("metadata.labels", key, why))
		}
		if v := obj.String(meta, "labels", key); selector.LabelValue(v) != "" {
			out = append(out, kinds.Invalid("metadata.labels", v, selector.LabelValue(v)))
		}
	}
	total := 0
	for _, key := range sortedKeys(obj.Map(meta, "annotations")) {
		if why := selector.QualifiedName(key); why != "" {
			out = append(out, kinds.Invalid("metadata.annotations", key, why))
		}
		total += len(key) + len(obj.String(meta, "annotations", key))
	}
	if total > maxAnnotations {
		out = append(out, kinds.Cause{Reason: "FieldValueTooLong", Message: fmt.Sprintf("Too long: may not be more than %d bytes", maxAnnotations), Field: "metadata.annotations"})
	}
	out = append(out, ownerCauses(meta)...)
	for _, f := range obj.Slice(meta, "finalizers") {
		text := fmt.Sprint(f)
		if why := selector.QualifiedName(text); why != "" {
			out = append(out, kinds.Invalid("metadata.finalizers", text, why))
		}
	}
	return out
}

func ownerCauses(meta map[string]any) []kinds.Cause {
	var out []kinds.Cause
	const field = "metadata.ownerReferences"
	controllers := 0
	for _, ref := range obj.Maps(meta, "ownerReferences") {
		for _, f := range []string{"apiVersion", "kind", "name", "uid"} {
			if obj.String(ref, f) == "" {
				out = append(out, kinds.Invalid(field+"."+f, "", "must not be empty"))
			}
		}
		if obj.Bool(ref, "controller") {
			controllers++
		}
	}
	if controllers > 1 {
		out = append(out, kinds.Invalid(field, obj.Slice(meta, "ownerReferences"), "Only one reference can have Controller set to true."))
	}
	return out
}

func sortedKeys(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// namespaces is the resource that objects live in.
var namespaces = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}

// permanent namespaces cannot be deleted.
var permanent = []string{"default", "kube-system", "kube-public"}

// namespaceOpen says why nothing can be created in the request's namespace (the NamespaceLifecycle admission plugin).
func namespaceOpen(tx *store.Tx, r *request, name string) error {
	if r.kind.ClusterScoped {
		return nil
	}
	ns := tx.Get("namespaces", store.Key{Name: r.namespace})
	if ns == nil {
		return notFound(namespaces, r.namespace)
	}
	if obj.String(ns.Value, "metadata", "deletionTimestamp") == "" {
		return nil
	}
	d := about(r.kind.Resource, name)
	d.Causes = []kinds.Cause{{Reason: "NamespaceTerminating", Message: fmt.Sprintf("namespace %s is being terminated", r.namespace), Field: "metadata.namespace"}}
	return failure(http.StatusForbidden, "Forbidden",
		fmt.Sprintf("%s %q is forbidden: unable to create new content in namespace %s because it is being terminated", qualify(d), name, r.namespace), d)
}
