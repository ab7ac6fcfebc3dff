package reconcile

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
	"skiff/internal/runtime/patch"
)

// The labels of a ControllerRevision, beside those of its parent's children.
const (
	groupLabel    = spec.Group + "/apiGroup"
	resourceLabel = spec.Group + "/resource"
)

// revision is one state of a parent, and the children that are in it.
type revision struct {
	name   string
	patch  map[string]any // the fields of the parent that make it
	parent *Object        // with these fields
	claims map[claim]bool
	round
}

// claim names a child of a revision.
type claim struct{ group, kind, name string }

func claimOf(c *wire.Child, r kube.Resource) claim { return claim{r.Group, r.Kind, c.Key.Name} }

// revisionsOf returns the revisions of a parent, the latest first.
func (r *reconciler) revisionsOf(ctx context.Context, parent *Object, owner apply.Owner,
	selector labels.Requirements) ([]*revision, error) {
	body, err := bodyOf(parent)
	if err != nil {
		return nil, err
	}
	latest := &revision{patch: extract(body, r.Rule.FieldPaths), parent: parent, claims: map[claim]bool{}}
	if latest.name, err = r.revisionName(parent, latest.patch); err != nil {
		return nil, err
	}
	if !parent.Deleting() {
		if err := r.adoptRevisions(ctx, owner, selector); err != nil {
			return nil, err
		}
	}
	stored, err := r.revisions.Owned(ctx, owner)
	if err != nil {
		return nil, err
	}
	all := []*revision{latest}
	for _, s := range stored {
		live, ok := s.Live.(*Object)
		if !ok || s.Deleting {
			continue
		}
		v, err := readRevision(live)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read ControllerRevision %s: %w; delete it, and what is in it follows the latest "+
				"state at once", s.Key, err)
		case reflect.DeepEqual(v.patch, latest.patch):
			maps.Copy(latest.claims, v.claims)
			latest.name = v.name
			continue
		}
		if v.parent, err = withPatch(parent, v.patch, r.Rule.FieldPaths); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// adoptRevisions makes ControllerRevisions that have no controller and fit the selector of a parent its own, as its
// children are.
func (r *reconciler) adoptRevisions(ctx context.Context, owner apply.Owner, selector labels.Requirements) error {
	of := labels.Selector{MatchLabels: kube.Labels{{Key: groupLabel, Value: r.Parent.Group},
		{Key: resourceLabel, Value: r.Parent.Plural}}}
	orphans, err := r.stored.orphans(owner.Namespace, append(slices.Clip(selector), of.Requirements()...))
	if err != nil {
		return err
	}
	_, err = r.revisions.Adopt(ctx, owner, spec.Revisions, orphans)
	return err
}

// revisionName returns the name of the ControllerRevision of a state: the one that metacontroller gives it, which
// identifies it by SHA-1. Nothing is protected by that.
func (r *reconciler) revisionName(parent *Object, fields map[string]any) (string, error) {
	text, err := encodeValue(fields)
	if err != nil {
		return "", err
	}
	sum := sha1.Sum(append([]byte(parent.UID), text...))
	group := r.Parent.Group
	if group == "" {
		group = "core"
	}
	prefix := r.Parent.Plural + "." + group
	const longest = 253 - 1 - 2*sha1.Size // of a name, less a separator and the hash
	return prefix[:min(len(prefix), longest)] + "-" + hex.EncodeToString(sum[:]), nil
}

// readRevision reads a ControllerRevision.
func readRevision(live *Object) (*revision, error) {
	var body struct {
		ParentPatch kube.Raw `json:"parentPatch"`
		Children    []struct {
			APIGroup string   `json:"apiGroup"`
			Kind     string   `json:"kind"`
			Names    []string `json:"names"`
		} `json:"children"`
	}
	if err := kube.Unmarshal(live.Body, &body); err != nil {
		return nil, err
	}
	v := &revision{name: live.Name, claims: map[claim]bool{}}
	fields, err := patch.Decode(body.ParentPatch)
	if err != nil {
		return nil, fmt.Errorf("parentPatch: %w", err)
	}
	v.patch, _ = fields.(map[string]any)
	for _, of := range body.Children {
		for _, name := range of.Names {
			v.claims[claim{of.APIGroup, of.Kind, name}] = true
		}
	}
	return v, nil
}

// revisionBody is the ControllerRevision of a state.
func (r *reconciler) revisionBody(v *revision, owner apply.Owner) map[string]any {
	set := map[string]any{groupLabel: r.Parent.Group, resourceLabel: r.Parent.Plural}
	if r.Spec.GenerateSelector {
		set[uidLabel] = owner.UID
	} else if body, err := bodyOf(v.parent); err == nil {
		if template, ok := valueAt(body, []string{"spec", "template", "metadata", "labels"}); ok {
			of, _ := template.(map[string]any)
			maps.Copy(set, of)
		}
		// So that the selector finds it also where the template has no labels.
		if match, ok := valueAt(body, []string{"spec", "selector", "matchLabels"}); ok {
			of, _ := match.(map[string]any)
			maps.Copy(set, of)
		}
	}
	var children []any
	for _, c := range slices.SortedFunc(maps.Keys(v.claims), func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	}) {
		last, _ := tail(children).(map[string]any)
		if last == nil || last["apiGroup"] != c.group || last["kind"] != c.kind {
			last = map[string]any{"apiGroup": c.group, "kind": c.kind, "names": []any{}}
			children = append(children, last)
		}
		names, _ := last["names"].([]any)
		last["names"] = append(names, c.name)
	}
	return map[string]any{"apiVersion": spec.Revisions.APIVersion(), "kind": spec.Revisions.Kind,
		"metadata": map[string]any{"name": v.name, "namespace": owner.Namespace, "labels": set,
			"ownerReferences": []any{owner.Reference()}},
		"parentPatch": v.patch, "children": children}
}

// storeRevisions makes the ControllerRevisions those that have children, before the children themselves are written.
func (r *reconciler) storeRevisions(ctx context.Context, owner apply.Owner, all []*revision) error {
	var want []apply.Child
	for _, v := range all {
		if len(v.claims) > 0 {
			want = append(want, apply.Child{Body: r.revisionBody(v, owner)})
		}
	}
	report := r.revisions.Apply(ctx, owner, want, false)
	err := report.Err
	for _, result := range report.All() {
		err = errors.Join(err, result.Err)
		if result.Outcome == apply.Foreign || result.Outcome == apply.Contested || result.Outcome == apply.Conflict {
			err = errors.Join(err, result.Why())
		}
	}
	return err
}

// encodeValue encodes a value with the keys in order, as encoding/json does.
func encodeValue(v any) ([]byte, error) { return json.Marshal(v) }

func tail(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}
