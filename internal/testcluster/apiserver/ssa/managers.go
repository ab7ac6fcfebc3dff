package ssa

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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

// without returns a shallow copy of an object without a member.
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
		out := map[string]any{"manager": id.name, "operation": id.operation, "apiVersion": e.apiVersion,
			"fieldsType": "FieldsV1", "fieldsV1": e.fields.encode()}
		if id.subresource != "" {
			out["subresource"] = id.subresource
		}
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
