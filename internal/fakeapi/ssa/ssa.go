// Package ssa keeps metadata.managedFields as the API server does: who owns which field of an object, what a
// server-side apply changes and removes, and which of its fields conflict with other managers.
//
// Its job is ownership and the merge of an apply. Not its job: HTTP, defaulting, validation, pruning and storage,
// which fakeapi does around it, in the API server's order: decode, default, then [Write.Update] or [Write.Apply], then
// what the server allocates (clusterIP is owned by nobody for that reason), then validation.
//
// Place on the event path: in the fake API server's write handlers, in front of the watch that function 1 reads. It
// runs on the handler's goroutine, keeps no state and changes none of its arguments.
//
// Difference to the API server: one version per kind is assumed (entries of other versions are taken as if they were
// of this one).
package ssa

import (
	"fmt"
	"time"

	"skiff/internal/patch"
)

// Write describes a writing request, as far as ownership goes.
type Write struct {
	Schema      *patch.Node // of the kind; nil: objects are merged field by field, lists are atomic
	Manager     string      // the fieldManager parameter, else what stands before the "/" of the User-Agent
	APIVersion  string      // of the endpoint, such as apps/v1
	Subresource string      // "" or, for example, status
	// Reset are the fields that this endpoint ignores, so that nobody gets to own them through it: "status" where
	// there is a status subresource, "spec" and "metadata" of a custom resource's status endpoint, and so on.
	Reset []string
	Now   time.Time
}

// beforeFirstApply owns what an object had when it was first applied to without managedFields.
const beforeFirstApply = "before-first-apply"

// BadRequestError is an apply that the API server answers with 400.
type BadRequestError struct{ Message string }

func (e *BadRequestError) Error() string { return e.Message }

// TypeError is an applied object that does not fit the schema, such as a list that names a key twice; the API server
// answers 500.
type TypeError struct{ Message string }

func (e *TypeError) Error() string { return e.Message }

// Update returns new, what a POST, PUT or PATCH other than apply is about to store, with its managedFields. old is
// what is stored, nil for a POST. Managers lose the fields that new changes or removes; this one gets those that it
// adds or changes, as operation Update, next to what it owns as operation Apply.
//
// new may bring managedFields of its own: they count, and [{}] or [] strips them. An object without managedFields gets
// none here, only by an apply.
//
// Like an object that the API server serves, the result has the zero fields of its kind (patch.FillZero).
func (w Write) Update(old, new map[string]any) map[string]any {
	out := patch.FillZero(w.Schema, withoutManagedFields(new))
	w.owners(old, new, patch.FillZero(w.Schema, withoutManagedFields(old)), out).record(out)
	return out
}

// Managers returns the managedFields of what Update returns, nil for none. Both objects have the zero fields of their
// kind already.
func (w Write) Managers(old, new map[string]any) []any {
	bare := withoutManagedFields(old)
	if old == nil {
		bare = patch.FillZero(w.Schema, nil)
	}
	m := w.owners(old, new, bare, withoutManagedFields(new))
	if len(m) == 0 {
		return nil
	}
	return m.encode()
}

// owners are the managers after an update from old to new, which are bareOld and bareNew without their managedFields.
func (w Write) owners(old, new, bareOld, bareNew map[string]any) managers {
	m := w.managersOf(old, new)
	if len(m) > 0 || old == nil {
		w.update(m, bareOld, bareNew)
	}
	return m
}

// KeepTimes returns new, or new with old's managedFields if these and new's differ in nothing but times and the
// objects in nothing else: then the write was none. It belongs behind everything that still changes new, because a
// write that sent "0.5" for a stored "500m" turns out to be none only once the server has put it into its own form.
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

// managersOf returns the managers that an update starts from.
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
		return managers{} // as the API server: what cannot be read is dropped
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

// update changes m by what happens between old and new.
func (w Write) update(m managers, old, new map[string]any) {
	diff := compareObjects(w.Schema, old, new).without(w.reset())
	changed := diff.added.union(diff.modified)
	for id, entry := range m {
		if entry.fields = entry.fields.minus(changed).minus(diff.removed); entry.fields.empty() {
			delete(m, id)
		}
	}
	mine := changed.minus(neverOwned)
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

// Apply returns live, nil if there is none, with applied merged into it: what applied no longer has, this manager
// owned and nobody else owns is removed. Fields of other managers that would change are conflicts, and the error is a
// *ConflictError, unless force takes them over. Where nothing changes, the result is equal to live with its
// managedFields and their times. As with Update, the result has the zero fields of its kind.
func (w Write) Apply(live, applied map[string]any, force bool) (map[string]any, error) {
	if v, _ := applied["apiVersion"].(string); v != w.APIVersion {
		return nil,
			&BadRequestError{
				fmt.Sprintf("Incorrect version specified in apply patch. Specified patch version: %s, expected: %s", v,
					w.APIVersion)}
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
		// the server's words
		return nil, &TypeError{fmt.Sprintf("failed to create typed patch object (%s): %v", describe(applied), err)}
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
	merged = patch.FillZero(w.Schema, merged) // and a copy
	if err := w.keepLastApplied(merged, applied); err != nil {
		return nil, fmt.Errorf("write the annotation %s: %w", lastApplied, err)
	}
	m.record(merged)
	return merged, nil
}

// apply merges and prunes, and leaves the new owners in m.
func (w Write) apply(m managers, live, applied map[string]any, config set, force bool) (map[string]any, error) {
	id := managerID{name: w.Manager, operation: opApply, subresource: w.Subresource}
	var last set
	mine := &entry{apiVersion: w.APIVersion, fields: config}
	if before, ok := m[id]; ok {
		last, mine.time = before.fields, before.time
	}
	m[id] = mine
	merged := w.prune(mergeObjects(w.Schema, live, applied), last, m)

	diff := compareObjects(w.Schema, live, merged).without(w.reset())
	changed := diff.added.union(diff.modified)
	if conflicts := m.conflicts(id, changed.minus(w.clientSideApplied(live))); len(conflicts) > 0 && !force {
		return nil, newConflictError(conflicts)
	}
	for other, entry := range m {
		if other != id {
			entry.fields = entry.fields.minus(changed).minus(diff.removed)
		}
	}
	mine.fields = mine.fields.minus(neverOwned)
	for other, entry := range m {
		if entry.fields.empty() {
			delete(m, other)
		}
	}
	if !patch.Equal(live, merged) {
		mine.time = w.now()
	}
	return merged, nil
}

// prune takes out of merged what this manager applied last time and nobody, this apply included, owns now.
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
	// What is owned comes back, with all that it stands in.
	kept = mustFieldsOf(w.Schema, remove(w.Schema, merged, named(all).minus(named(kept).union(named(owned)))))
	// What nobody owns, and this manager did not either, comes back as well.
	return remove(w.Schema, merged, named(all).minus(named(kept)).intersect(lastNamed))
}

func (w Write) reset() set {
	s := set{}
	for _, path := range w.Reset {
		s.insertFields(path)
	}
	return s
}

// now has whole seconds, as managedFields have: entries are sorted by it. Entries of the scale subresource have no
// time: the API server loses it on the way from the Scale's managedFields to its parent's (ToParent in
// managedfields/scalehandler.go).
func (w Write) now() time.Time {
	if w.Subresource == "scale" {
		return time.Time{}
	}
	return w.Now.Truncate(time.Second)
}
