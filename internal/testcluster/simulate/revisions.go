package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"skiff/internal/runtime/kube"
)

// templateRevision is a ControllerRevision: a template that a StatefulSet or DaemonSet has or had. `kubectl rollout
// undo` goes back to one.
type templateRevision struct {
	kube.Meta `json:"metadata"`
	Revision  int64 `json:"revision"`
	Data      struct {
		Spec struct {
			Template kube.Raw `json:"template"`
		} `json:"spec"`
	} `json:"data"`
}

// revise sees to it that the present template has the newest revision, and deletes old ones that no pod has.
func (c *workloads) revise(ctx context.Context, w *workload, pods []*setPod, in *facts) error {
	hash, err := templateHash(w.Spec.Template)
	if err != nil {
		return fmt.Errorf("hash pod template of %s %s: %w", c.resource.Kind, w.Key(), err)
	}
	all, err := c.revisions.ByOwner(w.Namespace, w.UID)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b *templateRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	in.update, in.templates = w.Name+"-"+hash, map[string]kube.Raw{w.Name + "-" + hash: w.Spec.Template}
	used := map[string]bool{in.update: true}
	for _, p := range pods {
		name, _ := p.Labels.Get(revisionLabel)
		used[name], used[w.Name+"-"+name] = true, true
	}
	var current *templateRevision
	last := int64(0)
	for _, r := range all {
		in.templates[r.Name], last = r.Data.Spec.Template, r.Revision
		if r.Name == in.update {
			current = r
		}
	}
	if w.Deleting() {
		return nil
	}
	switch {
	case current == nil:
		return c.createRevision(ctx, w, in.update, hash, last+1)
	case current.Revision < last: // rolled back to
		return c.change(ctx, revisionResource, current, true, "", map[string]any{"revision": last + 1})
	}
	old := slices.DeleteFunc(all, func(r *templateRevision) bool { return used[r.Name] || r.Deleting() })
	for _, r := range old[:max(0, len(old)-valueOr(w.Spec.RevisionHistoryLimit, defaultHistoryLimit))] {
		if err := c.remove(ctx, revisionResource, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *workloads) createRevision(ctx context.Context, w *workload, name, hash string, number int64) error {
	if ok, err := c.alive(ctx, w); err != nil || !ok {
		return err
	}
	var template map[string]any
	if err := json.Unmarshal(w.Spec.Template, &template); err != nil {
		return fmt.Errorf("read pod template of %s %s: %w", c.resource.Kind, w.Key(), err)
	}
	labels := maps.Clone(member(member(template, "metadata"), "labels"))
	labels[revisionLabel] = hash
	template["$patch"] = "replace" // the revision is a strategic merge patch of the workload
	return c.create(ctx, revisionResource, w.Namespace, map[string]any{"revision": number,
		"metadata": map[string]any{"name": name, "labels": labels,
			"ownerReferences": []any{controllerRef(c.resource, &w.Meta)}},
		"data": map[string]any{"spec": map[string]any{"template": template}}})
}
