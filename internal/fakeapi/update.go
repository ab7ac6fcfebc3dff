package fakeapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"skiff/internal/fakeapi/answer"
	"skiff/internal/fakeapi/kinds"
	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/ssa"
	"skiff/internal/fakeapi/store"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// origin is who writes. An applied object brings its managedFields; for other writes they are computed.
type origin struct {
	manager string
	applied bool
}

// errSame means that a write changes nothing: the resourceVersion stays, and there is no event (FS-04).
var errSame = errors.New("nothing changes")

// update answers PUT.
func (s *Server) update(w http.ResponseWriter, r *request) error {
	a, o, err := s.readWrite(w, r)
	if err != nil {
		return err
	}
	meta := obj.Map(o, "metadata")
	if name := obj.String(meta, "name"); name != "" && name != r.name {
		return answer.BadRequest("the name of the object (%s) does not match the name on the URL (%s)", name, r.name)
	} else if name == "" {
		return answer.BadRequest("the name of the object (%s based on URL) was undeterminable: name must be provided",
			r.name)
	}
	if ns := obj.String(meta, "namespace"); ns != "" && ns != r.namespace && !r.kind.ClusterScoped {
		return answer.BadRequest("the namespace of the provided object does not match the namespace sent on the " +
			"request")
	}
	u := origin{manager: managerOf(r)}
	stored, created, err := s.change(r, u, func(tx *store.Tx, cur *store.Object) (map[string]any, error) {
		if cur == nil {
			if !r.kind.CreateOnUpdate {
				return nil, answer.NotFound(r.kind.Resource, r.name)
			}
			obj.Remove(o, "metadata", "resourceVersion")
			return o, nil
		}
		if err := sameUID(r.kind, obj.Map(o, "metadata"), obj.Map(cur.Value(), "metadata")); err != nil {
			return nil, err
		}
		if obj.String(o, "metadata", "resourceVersion") == "" && r.kind.NeedsVersion {
			return nil, answer.Invalid(answer.About(r.kind.Resource, r.name),
				[]kinds.Cause{kinds.Invalid("metadata.resourceVersion", int64(0), "must be specified for an update")})
		}
		if r.kind.Store != nil {
			return r.kind.Store(o), nil
		}
		return o, nil
	})
	if err != nil {
		return err
	}
	return s.respond(w, r, a, written(created), stored)
}

// written is the HTTP status of a write that may have created the object.
func written(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// change calls mutate with the stored object (nil if there is none) and stores the result in the same transaction,
// which the real server achieves by retrying on conflicts. The result must not share memory with the stored object,
// which other requests read.
func (s *Server) change(r *request, u origin, mutate func(tx *store.Tx, cur *store.Object) (map[string]any, error)) (
	stored *store.Object, created bool, err error) {
	err = s.store.Update(func(tx *store.Tx) error {
		key := store.Key(r.key())
		cur := tx.Get(r.kind.TableName(), key)
		if cur == nil {
			next, err := mutate(tx, nil)
			if err == nil {
				err = s.mayCreate(tx, r)
			}
			if err != nil {
				return err
			}
			stored, err = s.insert(tx, r, next, u)
			created = err == nil
			return err
		}
		next, err := mutate(tx, cur)
		if err == nil {
			stored, err = s.replace(tx, r, next, cur, u)
		}
		if errors.Is(err, errSame) {
			stored, err = cur, nil
		}
		return err
	})
	if err == nil {
		s.wakeHousekeeper()
	}
	return stored, created, err
}

// replace stores next as the new version of cur. It returns errSame if they are equal.
func (s *Server) replace(tx *store.Tx, r *request, next map[string]any, cur *store.Object,
	u origin) (*store.Object, error) {
	k, old := r.kind, cur.Value()
	if err := s.checkGrant(tx, r, next, old); err != nil {
		return nil, err
	}
	meta, oldMeta := obj.Map(next, "metadata"), obj.Map(old, "metadata")
	if err := checkVersions(k, meta, oldMeta); err != nil {
		return nil, err
	}
	for _, f := range []string{"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds",
		"generation", "resourceVersion"} {
		keep(meta, oldMeta, f)
	}
	delete(meta, "selfLink")
	next = splitStatus(k, r.sub, next, old)
	if err := newFinalizers(k, next, old); err != nil {
		return nil, err
	}
	asIf := old // what the rules compare with
	if r.sub == "ephemeralcontainers" {
		if causes := kinds.AddContainers(next, old); len(causes) > 0 {
			return nil, answer.Invalid(answer.AboutKind(k.Resource, r.name), causes)
		}
		asIf = obj.Shallow(old)
		asIf["spec"] = next["spec"]
	}
	complete(k, next, old)
	if !u.applied {
		recordOwner(r, u.manager, next, old)
	}
	finalizers := obj.Slice(next, "spec", "finalizers")
	if k.Prepare != nil {
		k.Prepare(next, old)
	}
	if r.sub == "finalize" { // only this subresource may change the finalizers of a namespace's spec
		if obj.Remove(next, "spec", "finalizers"); len(finalizers) > 0 {
			obj.Set(next, finalizers, "spec", "finalizers")
		}
	}
	if err := s.admit(tx, k, next, asIf); err != nil {
		return nil, err
	}
	r.warnings = writeWarnings(k, next, old)
	if r.sub != "status" && k.Generation != nil && k.Generation(next, old) {
		n, _ := obj.Int(oldMeta, "generation")
		obj.Set(next, n+1, "metadata", "generation")
	}
	if next = ssa.KeepTimes(old, next); patch.Equal(next, old) {
		return nil, errSame
	}
	if r.dryRun() {
		return store.NewObject(cur.Key, cur.Revision, next, k.Shape), nil
	}
	if exceedsEtcd(next) {
		return nil, answer.PlainError(requestTooLarge)
	}
	if isRemovable(next) {
		// The removal is a single step: watchers get the state stored before, the client gets what it wrote, with the
		// version before (FS-09).
		tx.Delete(k.TableName(), cur.Key, nil)
		return store.NewObject(cur.Key, cur.Revision, next, k.Shape), nil
	}
	return tx.Put(k.TableName(), cur.Key, next, k.Shape), nil
}

// checkVersions checks the resourceVersion, if the client sent one, and refuses changes to fields that only the server
// sets.
func checkVersions(k *kinds.Kind, meta, old map[string]any) error {
	name := obj.String(old, "name")
	if v := obj.String(meta, "resourceVersion"); v != "" && v != obj.String(old, "resourceVersion") {
		if _, err := strconv.ParseUint(v, 10, 64); err != nil {
			return answer.PlainError("strconv.ParseUint: parsing %q: invalid syntax", v)
		}
		if v != "0" {
			return answer.Conflict(answer.About(k.Resource, name), answer.Modified)
		}
	}
	var causes []kinds.Cause
	// a different creationTimestamp is ignored
	immutable := []string{"uid", "deletionTimestamp", "deletionGracePeriodSeconds"}
	if obj.String(old, "deletionTimestamp") != "" {
		immutable = immutable[:1] // nor are fields that cannot be changed any more
	}
	for _, f := range immutable {
		if v := meta[f]; v != nil && v != "" && !patch.Equal(v, old[f]) {
			causes = append(causes, kinds.Invalid("metadata."+f, v, "field is immutable"))
		}
	}
	return refused(k, name, causes)
}

// refused returns the 422 for causes in metadata, nil for none. The real server validates metadata twice and lists
// them twice.
func refused(k *kinds.Kind, name string, causes []kinds.Cause) error {
	if len(causes) == 0 {
		return nil
	}
	return answer.Invalid(answer.AboutKind(k.Resource, name), append(causes, causes...))
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
	return answer.Conflict(answer.About(k.Resource, name), fmt.Sprintf("StorageError: invalid object, Code: 4, Key: "+
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

// splitStatus reverts the changes that the endpoint ignores: those to the status, or on /status those to all else
// (FS-22).
func splitStatus(k *kinds.Kind, sub string, next, old map[string]any) map[string]any {
	switch {
	case !k.Status:
		return next
	case sub == "ephemeralcontainers":
		revert(next, old, "metadata", "spec")
		revert(obj.Map(next, "metadata"), obj.Map(old, "metadata"), "managedFields")
		return next
	case sub != "status" && !(sub == "approval" && k.Approval):
		keep(next, old, "status")
		return next
	}
	revert(next, old, "status", "metadata")
	change := []string{"managedFields"}
	if !k.Custom {
		// On built-in kinds, /status may change annotations, and on pods and nodes labels, too.
		change = append(change, "annotations")
		if k.Plural == "pods" || k.Plural == "nodes" {
			change = append(change, "labels")
		}
	}
	revert(obj.Map(next, "metadata"), obj.Map(old, "metadata"), change...)
	if sub == "approval" {
		kinds.Approve(next, old)
	}
	return next
}

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
