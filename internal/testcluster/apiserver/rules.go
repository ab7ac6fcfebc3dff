package apiserver

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/auth"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// maxObject is the largest request that etcd accepts. A real server sends built-in objects as protobuf, which is
// somewhat smaller than the JSON counted here.
const (
	maxObject       = 3 << 19
	requestTooLarge = "etcdserver: request is too large"
)

// maxSubresource is how long the subresource of a field manager may be.
const maxSubresource = 256

// metadataCauses validates an object's metadata (apimachinery's ValidateObjectMeta, and what pkg/apis/core/validation
// adds for the built-in kinds).
func metadataCauses(k *kinds.Kind, next map[string]any, created bool) []kinds.Cause {
	var out []kinds.Cause
	meta := obj.Map(next, "metadata")
	if created {
		out = nameCauses(k, meta)
	}
	out = append(out, obj.MetadataCauses("metadata", meta)...)
	for i, f := range obj.Texts(meta, "finalizers") {
		if !k.Custom && k.Resource != kinds.CRDs && !qualifiedFinalizer(f) {
			out = append(out, obj.Invalid(fmt.Sprintf("metadata.finalizers[%d]", i), f,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	for i, entry := range obj.Maps(meta, "managedFields") {
		at := fmt.Sprintf("metadata.managedFields[%d].", i)
		out = append(out, managerCauses(at+"manager", obj.String(entry, "manager"))...)
		if len(obj.String(entry, "subresource")) > maxSubresource {
			out = append(out, obj.TooLong(at+"subresource", maxSubresource))
		}
	}
	return out
}

// qualifiedFinalizer reports whether a finalizer has a domain, or is one of Kubernetes' own.
func qualifiedFinalizer(name string) bool {
	return strings.Contains(name, "/") || slices.Contains([]string{finalizerForeground, finalizerOrphan, "kubernetes"},
		name)
}

// newFinalizers refuses new finalizers on an object that is being deleted.
func newFinalizers(k *kinds.Kind, next, old map[string]any) error {
	if obj.String(old, "metadata", "deletionTimestamp") == "" {
		return nil
	}
	var added []string
	for _, f := range obj.Slice(next, "metadata", "finalizers") {
		if !slices.Contains(obj.Slice(old, "metadata", "finalizers"), f) {
			added = append(added, fmt.Sprint(f))
		}
	}
	if added == nil {
		return nil
	}
	return refused(k, obj.String(old, "metadata", "name"), obj.Forbidden("metadata.finalizers",
		fmt.Sprintf("no new finalizers can be added if the object is being deleted, found new finalizers %#v", added)))
}

// isRemovable reports whether an object is being deleted and nothing delays that any more.
func isRemovable(o map[string]any) bool {
	meta := obj.Map(o, "metadata")
	grace, _ := obj.Int(meta, "deletionGracePeriodSeconds")
	return obj.String(meta, "deletionTimestamp") != "" && len(obj.Slice(meta, "finalizers")) == 0 && grace == 0 &&
		len(obj.Slice(o, "spec", "finalizers")) == 0
}

// writeWarnings returns the warnings of a built-in kind, but for a subresource, or those about the names of finalizers
// that are added to a custom resource.
func writeWarnings(w *write, next, cur map[string]any) []string {
	if w.kind.Warn != nil && w.sub == "" {
		return w.kind.Warn(next, cur)
	}
	if !w.kind.Custom {
		return nil
	}
	var out []string
	for _, f := range obj.Texts(next, "metadata", "finalizers") {
		if slices.Contains(obj.Slice(cur, "metadata", "finalizers"), any(f)) {
			continue
		}
		path := ""
		if strings.Contains(f, ".") {
			path = " including a path (/)"
		}
		if !qualifiedFinalizer(f) {
			out = append(out, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name%s to "+
				"avoid accidental conflicts with other finalizer writers", f, path))
		}
	}
	return out
}

func nameCauses(k *kinds.Kind, meta map[string]any) []kinds.Cause {
	var out []kinds.Cause
	name := obj.String(meta, "name")
	check := k.Name
	if check == nil {
		check = obj.Subdomain
	}
	if base := obj.String(meta, "generateName"); base != "" {
		// A dash at the end is allowed, because characters follow it. The real server looks at no character before it.
		valid := base
		if strings.HasSuffix(base, "-") && len(base) > 1 {
			valid = base[:len(base)-2] + "a"
		}
		if why := check(valid); why != "" {
			out = append(out, obj.Invalid("metadata.generateName", base, why))
		}
	}
	if name == "" {
		out = append(out, obj.Required("metadata.name", "name or generateName is required"))
	} else if why := check(name); why != "" {
		out = append(out, obj.Invalid("metadata.name", name, why))
	}
	return out
}

// oneOfEach drops owner references that are repeated, and returns the warning about them. when is what the warning
// says of the time.
func oneOfEach(o map[string]any, when string) (warnings []string) {
	refs := obj.Slice(o, "metadata", "ownerReferences")
	var repeated []string
	byUID, kept := map[string][]any{}, refs[:0:0]
	for _, ref := range refs {
		one, _ := ref.(map[string]any)
		uid := obj.String(one, "uid")
		if slices.ContainsFunc(byUID[uid], func(other any) bool { return patch.Equal(ref, other) }) {
			repeated = append(repeated, uid)
			continue
		}
		byUID[uid], kept = append(byUID[uid], ref), append(kept, ref)
	}
	if repeated == nil {
		return nil
	}
	obj.Set(o, kept, "metadata", "ownerReferences")
	return []string{".metadata.ownerReferences contains duplicate entries" + when + "; API server dedups owner " +
		"references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate " +
		"UID(s) observed: " + strings.Join(repeated, ", ")}
}

// namespaces is the resource of namespaces.
var namespaces = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}

// permanent namespaces cannot be deleted.
var permanent = []string{"default", "kube-system", "kube-public"}

// namespaceOpen returns an error if nothing can be created in the request's namespace (the NamespaceLifecycle
// admission plugin), nor of a kind whose definition is being deleted.
func namespaceOpen(tx *store.Tx, r *request, name string) error {
	if r.kind.Custom {
		crd := tx.Get(kinds.CRDs.GroupResource(), store.Key{Name: r.kind.GroupResource()})
		if crd != nil && crd.Deleting {
			return httpd.Forbidden(r.kind.Group, r.kind.Plural, name,
				"create not allowed while custom resource definition is terminating")
		}
	}
	if r.kind.ClusterScoped {
		return nil
	}
	ns := tx.Get("namespaces", store.Key{Name: r.namespace})
	if ns == nil {
		return httpd.NotFound(namespaces, r.namespace)
	}
	if !ns.Deleting {
		return nil
	}
	why := fmt.Sprintf("unable to create new content in namespace %s because it is being terminated", r.namespace)
	refusal := httpd.Forbidden(r.kind.Group, r.kind.Plural, name, why)
	refusal.Details.Causes = []kube.StatusCause{{Reason: "NamespaceTerminating", Field: "metadata.namespace",
		Message: fmt.Sprintf("namespace %s is being terminated", r.namespace)}}
	return refusal
}

const (
	certificates = "certificates.k8s.io"
	clientSigner = "kubernetes.io/kube-apiserver-client"
)

// checkSigner refuses what a user may not do with a certificate signing request: approve it, or sign it. cur is nil
// for a new one; a client certificate cannot be asked for in the group of those who may do everything.
func (s *Server) checkSigner(tx *store.Tx, r *request, next, cur map[string]any) error {
	if r.kind.TableName() != "certificatesigningrequests."+certificates {
		return nil
	}
	name := obj.String(next, "metadata", "name")
	if cur == nil {
		if obj.String(next, "spec", "signerName") == clientSigner &&
			asksForMasters(obj.String(next, "spec", "request")) {
			return httpd.Forbidden(certificates, r.kind.Plural, name,
				"use of "+clientSigner+" signer with system:masters group is not allowed")
		}
		return nil
	}
	verb := map[string]string{"approval": "approve", "status": "sign"}[r.sub]
	if !s.opts.RBAC || verb == "" || verb == "sign" && patch.Equal(next["status"], cur["status"]) {
		return nil
	}
	signer := obj.String(cur, "spec", "signerName")
	domain, _, _ := strings.Cut(signer, "/")
	for _, of := range []string{signer, domain + "/*"} {
		a := auth.Action{Verb: verb, Group: certificates, Resource: "signers", Name: of}
		if ok, _ := rolesIn(tx).Allowed(r.user, a); ok {
			return nil
		}
	}
	return httpd.Forbidden(certificates, r.kind.Plural, name,
		fmt.Sprintf("user not permitted to %s requests with signerName %q", verb, signer))
}

// asksForMasters reports whether a certificate request, which was found valid, is for a member of system:masters.
func asksForMasters(request string) bool {
	text, err := base64.StdEncoding.DecodeString(request)
	block, _ := pem.Decode(text)
	if err != nil || block == nil {
		return false
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	return err == nil && slices.Contains(parsed.Subject.Organization, auth.Masters)
}
