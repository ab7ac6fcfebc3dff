package ssa

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
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
	meta, _ := object["metadata"].(map[string]any)
	v, ok := meta["managedFields"]
	list, isList := v.([]any)
	return list, ok && isList
}

// withoutManagedFields returns a copy of object without managedFields, which shares all but the metadata.
func withoutManagedFields(object map[string]any) map[string]any {
	out := make(map[string]any, len(object))
	for k, v := range object {
		out[k] = v
	}
	if meta, ok := object["metadata"].(map[string]any); ok {
		bare := make(map[string]any, len(meta))
		for k, v := range meta {
			if k != "managedFields" {
				bare[k] = v
			}
		}
		out["metadata"] = bare
	}
	return out
}

func decodeManagers(list []any) (managers, error) {
	m := managers{}
	for i, v := range list {
		raw, _ := v.(map[string]any)
		text := func(name string) string { s, _ := raw[name].(string); return s }
		id := managerID{text("manager"), text("operation"), text("apiVersion"), text("subresource")}
		e := &entry{apiVersion: id.apiVersion}
		switch {
		case id.operation != opApply && id.operation != opUpdate:
			return nil, fmt.Errorf("entry %d: operation must be `Apply` or `Update`", i)
		case id.apiVersion == "":
			return nil, fmt.Errorf("entry %d: apiVersion must not be empty", i)
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

// record sets the managedFields of object, whose metadata must not be shared.
func (m managers) record(object map[string]any) {
	if len(m) == 0 {
		return
	}
	meta, ok := object["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		object["metadata"] = meta
	}
	meta["managedFields"] = m.encode()
}

func withoutTimes(list []any) any {
	out := map[string]any{} // by entry, because the order depends on times
	for _, v := range list {
		entry, ok := v.(map[string]any)
		if !ok {
			return list
		}
		bare := map[string]any{}
		for k, v := range entry {
			if k != "time" {
				bare[k] = v
			}
		}
		out[fmt.Sprint(entry["manager"], entry["operation"], entry["apiVersion"], entry["subresource"])] = bare
	}
	return out
}

// encode returns managedFields in the API server's order: Apply before Update, then by time, then by name.
func (m managers) encode() []any {
	ids := m.sorted(func(a, b managerID) int {
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

func (m managers) sorted(compare func(a, b managerID) int) []managerID {
	ids := make([]managerID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return compare(ids[i], ids[j]) < 0 })
	return ids
}

// limit merges the oldest entries of operation Update while there are more than the API server keeps.
func (m managers) limit() {
	oldest := m.sorted(func(a, b managerID) int {
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
	meta, _ := object["metadata"].(map[string]any)
	text := func(m map[string]any, name string) string { s, _ := m[name].(string); return s }
	version := text(object, "apiVersion")
	if !strings.Contains(version, "/") {
		version = "/" + version // the group, which is empty
	}
	return fmt.Sprintf("%s/%s; %s, Kind=%s", text(meta, "namespace"), text(meta, "name"),
		version, text(object, "kind"))
}
