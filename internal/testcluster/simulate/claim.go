package simulate

import (
	"context"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// orphans is the index of objects without a controller.
const orphans = "orphans"

func indexOrphans[T kube.Object](mirror *cache.Store[T]) {
	mirror.Index(orphans, func(o T) []string {
		if o.ObjectMeta().ControllerUID() == "" {
			return []string{orphans}
		}
		return nil
	})
}

// adopters has all workloads that select a child without a controller look at the child.
func adopters[C kube.Object](children *cache.Store[C], mirror *cache.Store[*workload]) controller.Source {
	return controller.Watches(children, func(child C) (keys []kube.Key) {
		m := child.ObjectMeta()
		if m.ControllerUID() != "" {
			return nil
		}
		all, err := mirror.List(m.Namespace)
		if err != nil {
			return nil // not synced yet: all will be reconciled then
		}
		for _, o := range all {
			if o.matches(m.Labels) {
				keys = append(keys, o.ObjectMeta().Key())
			}
		}
		return keys
	})
}

// claim returns the children that a workload controls, releases children not selected any more, and adopts selected
// children without a controller, if adoptable and the workload is not about to go.
func claim[C kube.Object](ctx context.Context, c *controllerOf[*workload], owner *workload, children *cache.Store[C],
	r kube.Resource, adoptable func(C) bool) ([]C, error) {
	owned, err := children.ByOwner(owner.Namespace, owner.UID)
	if err != nil {
		return nil, err
	}
	var out []C
	for _, child := range owned {
		switch m := child.ObjectMeta(); {
		case m.ControllerUID() != owner.UID:
		case owner.Deleting() || m.Deleting() || owner.matches(m.Labels):
			out = append(out, child)
		default:
			if err := c.setOwner(ctx, r, child, object{"uid": owner.UID, "$patch": "delete"}); err != nil {
				return nil, err
			}
		}
	}
	free, err := children.ByIndex(orphans, owner.Namespace, orphans)
	if err != nil || owner.Deleting() {
		return out, err
	}
	for _, child := range free {
		if !adoptable(child) || !owner.matches(child.ObjectMeta().Labels) {
			continue
		}
		if ok, err := c.alive(ctx, owner); err != nil || !ok {
			return out, err
		}
		if err := c.setOwner(ctx, r, child, controllerRef(c.resource, &owner.Meta)); err != nil {
			return out, err
		}
		out = append(out, child)
	}
	return out, nil
}

// lives reports whether an object is not about to go.
func lives[T kube.Object](o T) bool { return !o.ObjectMeta().Deleting() }

func (c *controllerOf[T]) setOwner(ctx context.Context, r kube.Resource, o kube.Object, ref object) error {
	return c.patch(ctx, kube.StrategicMergePatch, r, o, "", object{"metadata": object{"ownerReferences": []any{ref}}})
}
