// Package ssa implements server-side apply and metadata.managedFields as the API server does: which manager owns which
// field, what an apply changes and removes, and which of its fields conflict with other managers.
//
// It does not do HTTP, defaulting, validation, pruning and storage. apiserver does these in the API server's order:
// decode, default, then [Write.Managers] or [Write.Apply], then allocation (so that no manager owns clusterIP), then
// validation.
//
// It is used by the API server's write handlers, before the watch at the start of the event path. It runs on the
// handler's goroutine, keeps no state and does not change its arguments.
//
// Unlike the API server it assumes one version per kind: entries of other versions are treated like those of this one.
package ssa

import (
	"fmt"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// Write describes a write request for the purpose of ownership.
type Write struct {
	Schema      *patch.Node // of the kind; nil: objects are merged field by field, lists are atomic
	Manager     string      // the fieldManager parameter, else the User-Agent up to the "/"
	APIVersion  string      // of the endpoint, such as apps/v1
	Subresource string      // "" or, for example, status
	// Reset are the fields that this endpoint ignores, so that no manager owns them through it: "status" if there is a
	// status subresource, "spec" and "metadata" on the status endpoint of a custom resource, and so on.
	Reset []string
	Now   time.Time
}

// beforeFirstApply owns the fields of an object that had no managedFields at its first apply.
const beforeFirstApply = "before-first-apply"

// BadRequestError is an apply that gets a 400.
type BadRequestError struct{ Message string }

func (e *BadRequestError) Error() string { return e.Message }

// Managers returns the managedFields of new, the object of a POST, PUT or PATCH other than apply, nil for none. old is
// the stored object, nil for a POST. Other managers lose the fields that new changes or removes. This manager gets the
// fields that it adds or changes, with operation Update, besides what it owns with operation Apply.
//
// If new has managedFields they are used, and [{}] or [] removes all. An object without managedFields gets none here,
// only by an apply.
//
// Both objects have the zero fields of their kind (patch.FillZero), as the objects that the API server serves do.
func (w Write) Managers(old, new map[string]any) []any {
	bare := withoutManagedFields(old)
	if old == nil {
		bare = patch.FillZero(w.Schema, nil)
	}
	m := w.managersOf(old, new)
	if len(m) > 0 || old == nil {
		w.update(m, bare, withoutManagedFields(new))
	}
	if len(m) == 0 {
		return nil
	}
	return m.encode()
}

// KeepTimes returns new, but with old's managedFields if the objects differ only in the times of managedFields: then
// the write changes nothing. It must come after all other changes to new: that "0.5" equals a stored "500m" shows only
// once the server has normalized it.
func KeepTimes(old, new map[string]any) map[string]any {
	before, ok := managedFieldsOf(old)
	after, ok2 := managedFieldsOf(new)
	if !ok || !ok2 || !patch.Equal(withoutTimes(before), withoutTimes(after)) {
		return new
	}
	out := withoutManagedFields(new)
	if !patch.Equal(withoutManagedFields(old), out) {
		return new
	}
	out["metadata"].(map[string]any)["managedFields"] = before
	return out
}

// managersOf returns the managers before an update.
func (w Write) managersOf(old, new map[string]any) managers {
	if w.Subresource == "" {
		list, ok := managedFieldsOf(new)
		if ok && isReset(list) {
			return managers{}
		}
		if m, err := decodeManagers(list); err == nil && len(m) > 0 {
			return m
		}
	}
	list, _ := managedFieldsOf(old)
	m, err := decodeManagers(list)
	if err != nil {
		return managers{} // invalid managedFields are dropped, as by the API server
	}
	return m
}

// isReset reports whether managedFields is [] or [{}].
func isReset(list []any) bool {
	if len(list) != 1 {
		return len(list) == 0
	}
	entry, ok := list[0].(map[string]any)
	return ok && len(entry) == 0
}

// update changes m for an update from old to new.
func (w Write) update(m managers, old, new map[string]any) {
	diff := compareObjects(w.Schema, old, new).without(w.reset())
	for id, entry := range m {
		if entry.fields = diff.keep(entry.fields); entry.fields.empty() {
			delete(m, id)
		}
	}
	mine := diff.changed.minus(neverOwned)
	if mine.empty() {
		return
	}
	id := managerID{name: w.Manager, operation: opUpdate, apiVersion: w.APIVersion, subresource: w.Subresource}
	if before, ok := m[id]; ok {
		mine = mine.union(before.fields)
	}
	m[id] = &entry{apiVersion: w.APIVersion, time: w.now(), fields: mine}
	m.limit()
}

// Apply merges applied into live (nil if the object does not exist) and returns the result. Fields that applied no
// longer has, that this manager owned and that no other manager owns are removed. Changed fields of other managers are
// conflicts: the error is a *ConflictError, unless force takes them over. If nothing changes the result equals live,
// with its managedFields and their times. The result has the zero fields of its kind (patch.FillZero).
func (w Write) Apply(live, applied map[string]any, force bool) (map[string]any, error) {
	if v := obj.String(applied, "apiVersion"); v != w.APIVersion {
		return nil, &BadRequestError{fmt.Sprintf("Incorrect version specified in apply patch. Specified patch "+
			"version: %s, expected: %s", v, w.APIVersion)}
	}
	if list, ok := managedFieldsOf(applied); ok && list != nil {
		return nil, &BadRequestError{"metadata.managedFields must be nil"}
	}
	list, _ := managedFieldsOf(live)
	m, err := decodeManagers(list)
	if err != nil {
		return nil, fmt.Errorf("decode managedFields: %w", err)
	}
	config, err := fieldsOf(w.Schema, applied)
	if err != nil {
		// in the server's words
		return nil, fmt.Errorf("failed to create typed patch object (%s): %w", describe(applied), err)
	}
	bare := patch.FillZero(w.Schema, withoutManagedFields(live))
	if live == nil {
		bare["apiVersion"], bare["kind"] = applied["apiVersion"], applied["kind"]
	} else if len(m) == 0 {
		first := w
		first.Manager = beforeFirstApply
		first.update(m, patch.FillZero(w.Schema, nil), bare)
	}
	merged, err := w.apply(m, bare, applied, config.without(w.reset()), force)
	if err != nil {
		return nil, err
	}
	merged = patch.FillZero(w.Schema, merged) // FillZero returns a copy
	if err := w.keepLastApplied(merged, applied); err != nil {
		return nil, fmt.Errorf("write the annotation %s: %w", lastApplied, err)
	}
	if len(m) > 0 {
		obj.Set(merged, m.encode(), "metadata", "managedFields")
	}
	return merged, nil
}

func (w Write) apply(m managers, live, applied map[string]any, config set, force bool) (map[string]any, error) {
	id := managerID{name: w.Manager, operation: opApply, subresource: w.Subresource}
	var last set
	mine := &entry{apiVersion: w.APIVersion, fields: config}
	if before, ok := m[id]; ok {
		last, mine.time = before.fields, before.time
	}
	m[id] = mine
	both, _ := merge(w.Schema, live, applied).(map[string]any)
	merged := w.prune(both, last, m)

	diff := compareObjects(w.Schema, live, merged).without(w.reset())
	conflicts := m.conflicts(id, diff.changed.minus(w.clientSideApplied(live)))
	if len(conflicts) > 0 && !force {
		return nil, newConflictError(conflicts)
	}
	mine.fields = mine.fields.minus(neverOwned)
	for other, entry := range m {
		if other != id {
			entry.fields = diff.keep(entry.fields)
		}
		if entry.fields.empty() {
			delete(m, other)
		}
	}
	if !patch.Equal(live, merged) {
		mine.time = w.now()
	}
	return merged, nil
}

// prune removes from merged the fields of this manager's last apply that no manager owns now.
func (w Write) prune(merged map[string]any, last set, m managers) map[string]any {
	if last.empty() {
		return merged
	}
	named := func(s set) set { return s.withParents(w.Schema) }
	all := mustFieldsOf(w.Schema, merged)
	lastNamed := named(last)
	kept := mustFieldsOf(w.Schema, remove(w.Schema, merged, lastNamed))
	owned := set{}
	for _, entry := range m {
		owned = owned.union(entry.fields)
	}
	// Fields that have an owner stay, with all their parents.
	kept = mustFieldsOf(w.Schema, remove(w.Schema, merged, named(all).minus(named(kept).union(named(owned)))))
	// Fields that have no owner and were not this manager's stay, too.
	return remove(w.Schema, merged, named(all).minus(named(kept)).intersect(lastNamed))
}

func (w Write) reset() set {
	s := set{}
	for _, path := range w.Reset {
		s.insertFields(path)
	}
	return s
}

// now returns the time in whole seconds, as in managedFields, because entries are sorted by it. Entries of the scale
// subresource have no time: the API server loses it when it converts a Scale's managedFields to those of its parent
// (ToParent in managedfields/scalehandler.go).
func (w Write) now() time.Time {
	if w.Subresource == "scale" {
		return time.Time{}
	}
	return w.Now.Truncate(time.Second)
}
