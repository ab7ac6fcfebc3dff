package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"skiff/internal/runtime/kube"
)

// templateRevision is a ControllerRevision: a present or former template of a StatefulSet or DaemonSet, to which
// `kubectl rollout undo` can go back.
type templateRevision struct {
	kube.Meta `json:"metadata"`
	Revision  int64 `json:"revision"`
	Data      struct {
		Spec struct {
			Template kube.Raw `json:"template"`
		} `json:"spec"`
	} `json:"data"`
}

// revise gives the present template the newest revision, and deletes old revisions that no pod has.
func (c *workloads) revise(ctx context.Context, w *workload, pods []*setPod, in *facts) error {
	hash, err := templateHash(w.Spec.Template)
	if err != nil {
		return fmt.Errorf("hash pod template of %s %s: %w", c.resource.Kind, w.Key(), err)
	}
	all, err := c.claimRevisions(ctx, w)
	if err != nil {
		return err
	}
	name := w.Name + "-" + hash
	in.update, in.templates = name, map[string]kube.Raw{}
	if c.onNodes {
		in.update = hash
	}
	var current, old []*templateRevision // another cluster's controller has given the present revision another name
	last := int64(0)
	for _, r := range all {
		made, err := templateHash(r.Data.Spec.Template)
		if err != nil {
			return fmt.Errorf("hash pod template of ControllerRevision %s: %w", r.Key(), err)
		}
		in.templates[c.podLabel(r)] = r.Data.Spec.Template
		if made == hash {
			current, in.update = append(current, r), c.podLabel(r)
		} else {
			old, last = append(old, r), r.Revision
		}
	}
	in.templates[in.update] = w.Spec.Template
	if w.Deleting() {
		return nil
	}
	if len(current) == 0 {
		return c.createRevision(ctx, w, name, hash, last+1)
	}
	newest := current[len(current)-1]
	if c.onNodes && len(current) > 1 {
		return c.mergeRevisions(ctx, pods, in.update, current[:len(current)-1])
	}
	if newest.Revision <= last { // rolled back to
		return c.change(ctx, revisionResource, newest, true, "", object{"revision": last + 1})
	}
	return c.pruneRevisions(ctx, w, pods, old)
}

// podLabel returns the label of a revision on pods: the name for StatefulSets, the hash for DaemonSets.
func (c *workloads) podLabel(r *templateRevision) string {
	hash, ok := r.Labels.Get(revisionLabel)
	if c.onNodes && ok {
		return hash
	}
	return r.Name
}

// claimRevisions returns the revisions of w from old to new.
func (c *workloads) claimRevisions(ctx context.Context, w *workload) ([]*templateRevision, error) {
	all, err := claim(ctx, &c.controllerOf, w, c.revisions, revisionResource, lives)
	slices.SortFunc(all, func(a, b *templateRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp))
	})
	return all, err
}

// mergeRevisions deletes revisions with the present template. As by the real controller of DaemonSets, all pods get
// the label of the remaining revision. The error is errMerged, so that no pod is replaced before the mirror has the
// new label.
func (c *workloads) mergeRevisions(ctx context.Context, pods []*setPod, label string, same []*templateRevision) error {
	for _, p := range pods {
		if revisionOf(p) == label {
			continue
		}
		err := c.change(ctx, podResource, p, false, "", object{"metadata": object{"labels": object{
			revisionLabel: label}}})
		if err != nil {
			return err
		}
	}
	for _, r := range same {
		if err := c.remove(ctx, revisionResource, r); err != nil {
			return err
		}
	}
	return errMerged
}

var errMerged = errors.New("revisions were merged")

// pruneRevisions deletes the oldest revisions beyond the limit. Revisions of pods count for DaemonSets only.
func (c *workloads) pruneRevisions(ctx context.Context, w *workload, pods []*setPod, old []*templateRevision) error {
	used := func(r *templateRevision) bool {
		return slices.ContainsFunc(pods, func(p *setPod) bool { return revisionOf(p) == c.podLabel(r) })
	}
	surplus := len(old) - valueOr(w.Spec.RevisionHistoryLimit, defaultHistoryLimit)
	old = slices.DeleteFunc(old, func(r *templateRevision) bool {
		keep := used(r) || r.Deleting()
		if keep && !c.onNodes {
			surplus--
		}
		return keep
	})
	for _, r := range old[:min(max(0, surplus), len(old))] {
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
	var template object
	if err := json.Unmarshal(w.Spec.Template, &template); err != nil {
		return fmt.Errorf("read pod template of %s %s: %w", c.resource.Kind, w.Key(), err)
	}
	labels := maps.Clone(member(member(template, "metadata"), "labels"))
	labels[revisionLabel] = hash
	template["$patch"] = "replace" // the revision is a strategic merge patch of the workload
	return c.create(ctx, revisionResource, w.Namespace, object{"revision": number, "metadata": object{"name": name,
		"labels": labels, "ownerReferences": []any{controllerRef(c.resource, &w.Meta)}},
		"data": object{"spec": object{"template": template}}})
}
