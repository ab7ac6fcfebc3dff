package ssa

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

const (
	opApply  = "Apply"
	opUpdate = "Update"
)

// maxUpdateManagers is the API server's limit for entries of operation Update, of which each client name makes one.
// Older ones are merged into one entry per version.
const maxUpdateManagers = 10

const ancientChanges = "ancient-changes"

// managerID identifies an entry of managedFields. An applier has one entry for all versions.
type managerID struct{ name, operation, apiVersion, subresource string }

type entry struct {
	apiVersion string
	time       time.Time // zero: none
	fields     set
}

type managers map[managerID]*entry

func managedFieldsOf(object map[string]any) (list []any, ok bool) {
	list, ok = obj.Get(object, "metadata", "managedFields").([]any)
	return list, ok
}

// withoutManagedFields returns a copy of object without managedFields, which shares all but the metadata.
func withoutManagedFields(object map[string]any) map[string]any {
	out := obj.Shallow(object)
	if meta := obj.Map(object, "metadata"); meta != nil {
		out["metadata"] = without(meta, "managedFields")
	}
	return out
}

func without(object map[string]any, name string) map[string]any {
	out := obj.Shallow(object)
	delete(out, name)
	return out
}

// CheckManagers returns what is wrong with the managedFields of an object, in the words of the API server.
func CheckManagers(object map[string]any) error {
	list, _ := managedFieldsOf(object)
	_, err := decodeManagers(list)
	return err
}

func decodeManagers(list []any) (managers, error) {
	m := managers{}
	for i, v := range list {
		raw, _ := v.(map[string]any)
		text := func(name string) string { return obj.String(raw, name) }
		id := managerID{text("manager"), text("operation"), text("apiVersion"), text("subresource")}
		e := &entry{apiVersion: id.apiVersion}
		switch {
		case id.operation != opApply && id.operation != opUpdate:
			return nil, errors.New("operation must be `Apply` or `Update`")
		case id.apiVersion == "":
			return nil, errors.New("apiVersion must not be empty")
		case text("fieldsType") != "FieldsV1":
			return nil, fmt.Errorf("entry %d: invalid fieldsType %q", i, text("fieldsType"))
		case id.operation == opApply:
			id.apiVersion = ""
		}
		if t := text("time"); t != "" {
			var err error
			if e.time, err = time.Parse(time.RFC3339, t); err != nil {
				return nil, fmt.Errorf("entry %d: time: %w", i, err)
			}
		}
		var err error
		if e.fields, err = decodeSet(raw["fieldsV1"]); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		m[id] = e
	}
	return m, nil
}

func withoutTimes(list []any) any {
	out := map[string]any{} // by entry, because the order depends on times
	for _, v := range list {
		entry, ok := v.(map[string]any)
		if !ok {
			return list
		}
		id := fmt.Sprint(entry["manager"], entry["operation"], entry["apiVersion"], entry["subresource"])
		out[id] = without(entry, "time")
	}
	return out
}

// encode returns managedFields in the API server's order: Apply before Update, then by time, then by name.
func (m managers) encode() []any {
	ids := slices.SortedFunc(maps.Keys(m), func(a, b managerID) int {
		return cmp.Or(strings.Compare(a.operation, b.operation), m[a].time.Compare(m[b].time),
			strings.Compare(a.name, b.name),
			strings.Compare(m[a].apiVersion, m[b].apiVersion), strings.Compare(a.subresource, b.subresource))
	})
	list := make([]any, 0, len(ids))
	for _, id := range ids {
		e := m[id]
		out := obj.OmitEmpty(map[string]any{"manager": id.name, "operation": id.operation, "apiVersion": e.apiVersion,
			"fieldsType": "FieldsV1", "fieldsV1": e.fields.encode(), "subresource": id.subresource})
		if !e.time.IsZero() {
			out["time"] = e.time.UTC().Format(time.RFC3339)
		}
		list = append(list, out)
	}
	return list
}

// limit merges the oldest entries of operation Update while there are more than the API server keeps.
func (m managers) limit() {
	oldest := slices.SortedFunc(maps.Keys(m), func(a, b managerID) int {
		return cmp.Or(m[a].time.Compare(m[b].time), strings.Compare(a.name, b.name),
			strings.Compare(a.apiVersion, b.apiVersion), strings.Compare(a.subresource, b.subresource))
	})
	oldest = slices.DeleteFunc(oldest, func(id managerID) bool { return id.operation == opApply })
	first := map[string]managerID{} // per version: the oldest entry stays separate until there is a second
	for over := len(oldest) - maxUpdateManagers; over > 0 && len(oldest) > 0; oldest = oldest[1:] {
		id := oldest[0]
		before, ok := first[id.apiVersion]
		if !ok {
			first[id.apiVersion] = id
			continue
		}
		bucket := managerID{name: ancientChanges, operation: opUpdate, apiVersion: id.apiVersion}
		if m[bucket] == nil {
			m[bucket] = m[before]
			delete(m, before)
		}
		m[bucket].fields = m[bucket].fields.union(m[id].fields)
		m[bucket].time = m[id].time // the newer of both
		delete(m, id)
		over--
	}
}

// describe formats an object as the API server does in type errors.
func describe(object map[string]any) string {
	version := obj.String(object, "apiVersion")
	if !strings.Contains(version, "/") {
		version = "/" + version // the group, which is empty
	}
	return fmt.Sprintf("%s/%s; %s, Kind=%s", obj.String(object, "metadata", "namespace"),
		obj.String(object, "metadata", "name"), version, obj.String(object, "kind"))
}

// ConflictError is an apply that would change fields of other managers; the API server answers 409 Conflict with
// Message and the details Causes.
type ConflictError struct {
	Message string
	Causes  []obj.Cause // one for each field of another manager
}

func (e *ConflictError) Error() string { return e.Message }

// conflicts returns the changed fields that managers other than id own, sorted by manager and field.
func (m managers) conflicts(id managerID, changed set) []obj.Cause {
	var out []obj.Cause
	for other, entry := range m {
		if other == id {
			continue
		}
		entry.fields.intersect(changed).paths(nil, func(path []string) {
			out = append(out, obj.Cause{Reason: "FieldManagerConflict", Message: "conflict with " + other.describe(),
				Field: pathString(path)})
		})
	}
	slices.SortFunc(out, func(a, b obj.Cause) int {
		return cmp.Or(strings.Compare(a.Message, b.Message), strings.Compare(a.Field, b.Field))
	})
	return out
}

func (id managerID) describe() string {
	s := fmt.Sprintf("%q", id.name)
	if id.subresource != "" {
		s += fmt.Sprintf(" with subresource %q", id.subresource)
	}
	if id.operation == opUpdate {
		s += " using " + id.apiVersion
	}
	return s
}

func newConflictError(conflicts []obj.Cause) *ConflictError {
	e := &ConflictError{Causes: conflicts}
	if len(conflicts) == 1 {
		e.Message = "Apply failed with 1 conflict: " + conflicts[0].Message + ": " + conflicts[0].Field
		return e
	}
	var lines []string
	for i, c := range conflicts {
		if i == 0 || conflicts[i-1].Message != c.Message {
			lines = append(lines, strings.Replace(c.Message, "conflict", "conflicts", 1)+":")
		}
		lines = append(lines, "- "+c.Field)
	}
	e.Message = fmt.Sprintf("Apply failed with %d conflicts: %s", len(conflicts), strings.Join(lines, "\n"))
	return e
}

// kubectl migrates from client-side to server-side apply without conflicts, because the API server knows both managers
// by name (managedfields/lastappliedmanager.go and lastappliedupdater.go).
const (
	kubectl     = "kubectl"
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// clientSideApplied returns the fields of live that kubectl has set by client-side apply and that have not changed
// since: an apply by kubectl may take them over.
func (w Write) clientSideApplied(live map[string]any) set {
	text := annotation(live)
	if w.Manager != kubectl || text == "" {
		return nil
	}
	v, err := patch.Decode([]byte(text))
	config, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil // not a configuration
	}
	fields, err := fieldsOf(w.Schema, config)
	if err != nil {
		return nil
	}
	return compareObjects(w.Schema, config, live).keep(fields)
}

// keepLastApplied updates the annotation of client-side apply, if the object has one, with the configuration that
// kubectl applied, so that both kinds of apply can be mixed.
func (w Write) keepLastApplied(merged, applied map[string]any) error {
	if w.Manager != kubectl || annotation(merged) == "" {
		return nil
	}
	config := obj.Clone(applied)
	obj.Remove(config, "metadata", "annotations", lastApplied)
	text, err := patch.Encode(config)
	if err != nil {
		return err
	}
	obj.Set(merged, string(text)+"\n", "metadata", "annotations", lastApplied)
	return nil
}

func annotation(object map[string]any) string {
	return obj.String(object, "metadata", "annotations", lastApplied)
}
