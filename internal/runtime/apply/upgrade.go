package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// errChanged says that an object no longer is as the request assumed.
var errChanged = errors.New("changed meanwhile")

// managed is the part of a child read by prepare.
type managed struct {
	Metadata struct {
		kube.MetaAnnotated
		ManagedFields []kube.ManagedFields `json:"managedFields"`
	} `json:"metadata"`
	Spec kube.Raw `json:"spec"`
}

// prepare makes sure that an apply removes exactly the undeclared fields. The cost is a read of a child in the life of
// the process, and another when a field of Child.Keep stops being declared.
func (c *child) prepare(ctx context.Context, live *kube.Meta) error {
	declares := c.declaredOf(c.want.keep)
	if c.mem.prepared == live.UID && len(without(c.mem.kept, declares)) == 0 {
		return nil
	}
	if c.managed == nil || c.managed.Metadata.ResourceVersion != live.ResourceVersion {
		if _, err := c.get(ctx); err != nil {
			return err
		}
	}
	m := c.managed
	if m.Metadata.UID != live.UID {
		return errChanged
	}
	owned, ops, err := upgrade(m, c.options.Manager)
	if err != nil {
		return fmt.Errorf("read managedFields of %s: %w", c, err)
	}
	if len(ops) > 0 {
		err := c.client.Patch(ctx, c.kind.resource, c.key, kube.JSONPatch, ops, nil,
			kube.WriteOptions{FieldManager: c.options.Manager})
		if kube.IsTestFailed(err) {
			return errChanged
		}
		if err != nil {
			return err
		}
	}
	ours := ownedOf(owned, c.want.keep)
	if err := c.handOver(ctx, m, without(ours, declares)); err != nil {
		return err
	}
	c.mem.prepared, c.mem.kept = live.UID, ours // until an apply succeeds, possibly with other fields
	return nil
}

// declaredOf returns the declared fields among some fields of spec.
func (c *child) declaredOf(fields []string) []string {
	var out []string
	for _, f := range fields {
		if _, ok := c.want.spec[f]; ok {
			out = append(out, f)
		}
	}
	return out
}

// ownedOf returns the fields owned by a manager among some fields of spec.
func ownedOf(owned patch.FieldSet, fields []string) []string {
	spec, _ := owned.Field("spec")
	return slices.DeleteFunc(slices.Clone(fields), func(f string) bool { _, ok := spec.Field(f); return !ok })
}

// handOver gives fields of spec to another manager with their present value, so that they keep the value when we stop
// declaring them. The apply is not forced: where another manager has changed the value since the read, the field has a
// new owner and nothing is left to hand over.
func (c *child) handOver(ctx context.Context, m *managed, fields []string) error {
	if len(fields) == 0 {
		return nil
	}
	keep := map[string]any{}
	err := kube.Members(m.Spec, func(name []byte, value kube.Raw) (err error) {
		if f := string(name); slices.Contains(fields, f) {
			keep[f], err = patch.Decode(value)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read spec of %s: %w", c, err)
	}
	body := map[string]any{
		"apiVersion": c.kind.apiVersion,
		"kind":       c.kind.resource.Kind,
		"metadata": map[string]any{"name": c.key.Name, "namespace": c.key.Namespace,
			"uid": m.Metadata.UID},
		"spec": keep,
	}
	return c.client.Patch(ctx, c.kind.resource, c.key, kube.ApplyPatch, body, nil,
		kube.WriteOptions{FieldManager: c.options.keeper()})
}

// without returns the members of list missing in other.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

// patchOperation is an operation of a JSON patch (RFC 6902).
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitzero"`
}

// upgrade returns the fields we own, and the JSON patch that makes the server count them as applied. After a POST the
// server lists them as an Update. Several entries of ours become one, with the fields of all. No operations: nothing
// to change.
func upgrade(m *managed, manager string) (owned patch.FieldSet, ops []patchOperation, err error) {
	owned = patch.FieldSet{}
	ops = []patchOperation{{"test", "/metadata/resourceVersion", m.Metadata.ResourceVersion}}
	var ours []int
	upToDate := true
	for i, e := range m.Metadata.ManagedFields {
		if e.Manager != manager || e.Subresource != "" {
			continue
		}
		set, err := patch.ReadFieldSet(e.FieldsV1)
		if err != nil {
			return nil, nil, err
		}
		owned.Unite(set)
		ours = append(ours, i)
		upToDate = upToDate && e.Operation == "Apply"
		ops = append(ops, patchOperation{"test", entry(i) + "/operation", e.Operation})
	}
	if upToDate {
		return owned, nil, nil
	}
	first := entry(ours[0])
	ops = append(ops, patchOperation{"replace", first + "/operation", "Apply"})
	if len(ours) > 1 {
		ops = append(ops, patchOperation{"replace", first + "/fieldsV1", owned})
	}
	for _, i := range slices.Backward(ours[1:]) { // from the end, so that the earlier indexes stay right
		ops = append(ops, patchOperation{Op: "remove", Path: entry(i)})
	}
	return owned, ops, nil
}

func entry(i int) string { return fmt.Sprintf("/metadata/managedFields/%d", i) }

// maxRival bounds the name of another field manager, which any client chooses.
const maxRival = 100

// rival says which other field manager last changed one of the differing fields of a child. Each fight costs one
// request: the cache keeps no managedFields.
func (c *child) rival(ctx context.Context, in differences) string {
	fight := &c.mem.trouble().contest
	if fight.rival != "" {
		return fight.rival
	}
	fight.rival = "another field manager"
	if _, err := c.get(ctx); err != nil {
		fight.rival += " (the object could not be read to find its name)"
	} else if name := rivalOf(c.managed.Metadata.ManagedFields, c.options.Manager, in.first); name != "" {
		fight.rival = fmt.Sprintf("field manager %q", kube.Printable(name, maxRival))
	}
	return fight.rival
}

// rivalOf returns the manager, other than ours, that owns one of the fields; or, if the fields were removed and have
// no owner, the manager that wrote last.
func rivalOf(all []kube.ManagedFields, ours string, in []patch.Difference) string {
	var owner, last kube.ManagedFields
	for _, m := range all {
		if m.Manager == ours || m.Subresource != "" {
			continue
		}
		if m.Time >= last.Time {
			last = m
		}
		owned, err := patch.ReadFieldSet(m.FieldsV1)
		if err != nil || m.Time < owner.Time {
			continue
		}
		if slices.ContainsFunc(in, func(d patch.Difference) bool { return owned.Owns(d.At) }) {
			owner = m
		}
	}
	if owner.Manager != "" {
		return owner.Manager
	}
	return last.Manager
}
