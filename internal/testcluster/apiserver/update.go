package apiserver

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/ssa"
	"skiff/internal/testcluster/apiserver/store"
)

func (s *Server) update(r *request) error {
	o, err := readObject(r)
	if err != nil {
		return err
	}
	meta := obj.Map(o, "metadata")
	if name := obj.String(meta, "name"); name == "" {
		return r.noName()
	} else if name != r.name {
		return r.otherName(name)
	}
	if err := r.checkName(); err != nil {
		return err
	}
	if ns := obj.String(meta, "namespace"); ns != "" && ns != r.namespace && !r.kind.ClusterScoped {
		return httpd.BadRequest(otherNamespace)
	}
	return s.answerWrite(&write{request: r,
		make: func(cur *store.Object) (map[string]any, error) {
			return r.replacement(r.body(o).(map[string]any), cur)
		}})
}

// replacement returns what a PUT of o makes of the stored object.
func (r *request) replacement(o map[string]any, cur *store.Object) (map[string]any, error) {
	if cur == nil {
		if !r.kind.CreateOnUpdate {
			return nil, httpd.NotFound(r.kind.Resource, r.name)
		}
		obj.Remove(o, "metadata", "resourceVersion")
		return o, nil
	}
	if err := sameUID(r.kind, obj.Map(o, "metadata"), obj.Map(cur.Value(), "metadata")); err != nil {
		return nil, err
	}
	if obj.String(o, "metadata", "resourceVersion") == "" && r.sent.NeedsVersion {
		return nil, httpd.Invalid(httpd.About(r.kind.Resource, r.name),
			obj.Invalid("metadata.resourceVersion", int64(0), "must be specified for an update"))
	}
	return r.stored(o, cur)
}

// stored returns the stored form of what was sent about an object: of the object itself, or of its scale.
func (r *request) stored(o map[string]any, cur *store.Object) (map[string]any, error) {
	if r.sub == "scale" {
		return withScale(r.kind, cur.Value(), o)
	}
	return r.kind.ToStore(o), nil
}

// prepareChange makes a sent object one that could replace the stored one, and notes who owns its fields.
func (s *Server) prepareChange(tx *store.Tx, w *write) error {
	old := w.cur.Value()
	if err := cmp.Or(s.checkGrant(tx, w.request, w.next, old),
		checkVersions(w.kind, obj.Map(w.next, "metadata"), obj.Map(old, "metadata"))); err != nil {
		return err
	}
	w.unsent = nil
	for _, f := range []string{"uid", "creationTimestamp", "resourceVersion", "generation"} {
		if w.verb == "update" && obj.Get(w.next, "metadata", f) == nil {
			w.unsent = append(w.unsent, f)
		}
	}
	if w.sub == "resize" {
		w.fillLimits(tx)
	}
	if err := w.revertImmutable(); err != nil {
		return err
	}
	if !w.applied {
		recordOwner(w.request, managerOf(w.request), w.next, old)
	}
	return nil
}

// revertImmutable reverts what the request may not change, and completes the rest.
func (w *write) revertImmutable() error {
	k, old := w.kind, w.cur.Value()
	meta, oldMeta := obj.Map(w.next, "metadata"), obj.Map(old, "metadata")
	for _, f := range []string{"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds",
		"generation", "resourceVersion"} {
		keep(meta, oldMeta, f)
	}
	delete(meta, "selfLink")
	w.next = splitStatus(k, w.sub, w.next, old)
	var causes []kinds.Cause
	if k.Approval && w.sub != "" {
		causes = kinds.Decide(w.sub, w.next, old)
	}
	about := httpd.AboutKind(k.Resource, w.name)
	if err := cmp.Or(httpd.Invalid(about, causes...), newFinalizers(k, w.next, old)); err != nil {
		return err
	}
	w.asIf = old
	reduce := map[string]func(_, _ kinds.Object) []kinds.Cause{"ephemeralcontainers": kinds.AddContainers,
		"resize": kinds.Resize}[w.sub]
	if reduce != nil {
		causes = reduce(w.next, old)
		w.asIf = obj.Shallow(old)
		w.asIf["spec"] = w.next["spec"]
	}
	complete(k, w.next, old)
	return httpd.Invalid(about, causes...)
}

// finish completes the new state of an object and checks it.
func (s *Server) finish(tx *store.Tx, w *write) error {
	k, next := w.kind, w.next
	w.warnings = append(w.warnings, oneOfEach(next, " after mutating admission happens")...)
	var old map[string]any
	if w.cur != nil {
		old = w.cur.Value()
	}
	finalizers := obj.Slice(next, "spec", "finalizers")
	if k.Prepare != nil {
		k.Prepare(next, old)
	}
	if w.sub == "finalize" { // only this subresource may change the finalizers of a namespace's spec
		if obj.Remove(next, "spec", "finalizers"); len(finalizers) > 0 {
			obj.Set(next, finalizers, "spec", "finalizers")
		}
	}
	if err := s.validate(tx, k, next, w.asIf); err != nil {
		return err
	}
	if err := cmp.Or(w.checkLimits(tx), s.checkSigner(tx, w.request, next, old)); err != nil {
		return err
	}
	if old == nil {
		w.warnings = append(w.warnings, writeWarnings(w, next, nil)...)
		w.changed = true
		if v := obj.String(next, "metadata", "resourceVersion"); v != "" && v != "0" && !w.dryRun() {
			return httpd.PlainError("resourceVersion should not be set on objects to be created")
		}
		return s.checkSecurity(tx, w)
	}
	if w.sub != "status" && k.Generation != nil && k.Generation(next, old) {
		n, _ := obj.Int(old, "metadata", "generation")
		obj.Set(next, n+1, "metadata", "generation")
	}
	w.warnings = append(w.warnings, writeWarnings(w, next, old)...)
	w.next = ssa.KeepTimes(old, next)
	w.changed = !patch.Equal(w.next, old)
	return s.checkSecurity(tx, w)
}

// checkVersions checks the resourceVersion, if the client sent one, and refuses changes to fields that only the server
// sets.
func checkVersions(k *kinds.Kind, meta, old map[string]any) error {
	name := obj.String(meta, "name")
	if v := obj.String(meta, "resourceVersion"); v != "" && v != obj.String(old, "resourceVersion") {
		if _, err := strconv.ParseUint(v, 10, 64); err != nil {
			return httpd.PlainError("strconv.ParseUint: parsing %q: invalid syntax", v)
		}
		if v != "0" {
			return httpd.Conflict(httpd.About(k.Resource, name), httpd.Modified)
		}
	}
	var causes []kinds.Cause
	// a different creationTimestamp is ignored
	immutable := []string{"name", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"}
	if obj.String(old, "deletionTimestamp") != "" {
		immutable = immutable[:2] // nor are fields that cannot be changed any more
	}
	for _, f := range immutable {
		if v := meta[f]; v != nil && v != "" && !patch.Equal(v, old[f]) {
			causes = append(causes, obj.Invalid("metadata."+f, v, "field is immutable"))
		}
	}
	return refused(k, name, causes...)
}

// refused returns the 422 for causes in metadata, nil for none. The real server validates metadata twice and lists
// them twice.
func refused(k *kinds.Kind, name string, causes ...kinds.Cause) error {
	return httpd.Invalid(httpd.AboutKind(k.Resource, name), append(causes, causes...)...)
}

// sameUID refuses a PUT whose uid is that of a different object with the same name.
func sameUID(k *kinds.Kind, meta, old map[string]any) error {
	uid, name := obj.String(meta, "uid"), obj.String(old, "name")
	if uid == "" || uid == obj.String(old, "uid") {
		return nil
	}
	table := k.Plural
	if k.Custom {
		table = k.Group + "/" + k.Plural
	}
	return httpd.Conflict(httpd.About(k.Resource, name), fmt.Sprintf("StorageError: invalid object, Code: 4, Key: "+
		"/registry/%s/%s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID "+
		"in object meta: %s",
		table, kube.Key{Namespace: obj.String(old, "namespace"), Name: name}, uid, obj.String(old, "uid")))
}

func keep(meta, old map[string]any, field string) {
	if v, ok := old[field]; ok {
		meta[field] = patch.Copy(v) // old is stored, and other requests read it
	} else {
		delete(meta, field)
	}
}

// splitStatus reverts the changes that the endpoint ignores: those to the status, or on /status those to all else.
func splitStatus(k *kinds.Kind, sub string, next, old map[string]any) map[string]any {
	switch {
	case !k.Status:
		return next
	case sub == "ephemeralcontainers" || sub == "resize":
		revert(next, old, "metadata", "spec")
		revert(obj.Map(next, "metadata"), obj.Map(old, "metadata"), "managedFields")
		return next
	case sub != "status" && !(sub == "approval" && k.Approval):
		keep(next, old, "status")
		return next
	}
	revert(next, old, "status", "metadata")
	// On most built-in kinds, /status may change labels, annotations and the like, too.
	if meta, oldMeta := obj.Map(next, "metadata"), obj.Map(old, "metadata"); k.Custom || k.Isolated {
		revert(meta, oldMeta, "managedFields")
	} else if f := besidesStatus[k.Plural]; f != "" {
		keep(meta, oldMeta, f)
	}
	return next
}

// besidesStatus is the field of the metadata that /status of a built-in resource cannot change.
var besidesStatus = map[string]string{"deployments": "labels", "pods": "ownerReferences"}

// revert reverts all changes except those to the named members.
func revert(next, old map[string]any, except ...string) {
	for _, list := range []map[string]any{next, old} {
		for name := range list {
			if !slices.Contains(except, name) && !patch.Equal(next[name], old[name]) {
				keep(next, old, name)
			}
		}
	}
}
