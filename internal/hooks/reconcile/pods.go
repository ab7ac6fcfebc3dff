package reconcile

import (
	"context"
	"slices"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// maxPodLists bounds how many lists of pods a page of a parent costs: a parent has one workload, or a few.
const maxPodLists = 3

// podQuery says which pods belong to a parent, by way of a child.
type podQuery struct{ namespace, selector string }

// podsOf returns what reads the pods of a parent for the live page; nil: no pods are shown.
func podsOf(r *reconciler) func(ctx context.Context, parent kube.Object) (controller.Pods, error) {
	if r.Pods == nil {
		return nil
	}
	return func(ctx context.Context, parent kube.Object) (controller.Pods, error) {
		return readPods(ctx, r, parent)
	}
}

// readPods reads the pods of a parent's children: of Deployments, StatefulSets and other workloads of
// Kubernetes, and pods that are children themselves.
func readPods(ctx context.Context, r *reconciler, parent kube.Object) (out controller.Pods, err error) {
	queries := podQueries(r, parent)
	if len(queries) == 0 {
		return out, controller.ErrNoPods
	}
	out.More = len(queries) > maxPodLists
	seen := map[kube.Key]bool{}
	for _, q := range queries[:min(len(queries), maxPodLists)] {
		read, err := r.Pods(ctx, q.namespace, q.selector)
		if kube.IsForbidden(err) {
			return controller.Pods{Withheld: true}, nil
		}
		if err != nil {
			return out, err
		}
		out.More = out.More || read.More
		for _, pod := range read.List {
			if key := (kube.Key{Namespace: q.namespace, Name: pod.Name}); !seen[key] {
				seen[key] = true
				out.List = append(out.List, pod)
			}
		}
	}
	return out, nil
}

// podQueries returns the queries for the pods of a parent's children, each once.
func podQueries(r *reconciler, parent kube.Object) (out []podQuery) {
	for _, child := range r.engine.Children(parent) {
		i := slices.IndexFunc(r.kinds, func(k kind) bool { return k.Resource == child.Resource })
		if i < 0 || child.State == apply.Missing {
			continue
		}
		selector := podSelector(r, &r.kinds[i], parent, child.Key)
		if q := (podQuery{child.Key.Namespace, selector.String()}); len(selector) > 0 && !slices.Contains(out, q) {
			out = append(out, q)
		}
	}
	return out
}

// podSelector returns the selector of the pods of a child; empty: the child has no pods.
func podSelector(r *reconciler, k *kind, parent kube.Object, child kube.Key) (selector labels.Requirements) {
	switch {
	case k.Group == "" && k.Plural == "pods":
		if object, ok := parent.(*Object); ok {
			selector, _ = r.selectorOf(object) // the run says what is wrong
		}
	case k.Group == "apps", k.Group == "batch":
		if object, ok, err := k.mirror.Get(child); ok && err == nil {
			selector, _ = readSelector(object) // a CronJob has none
		}
	}
	return selector
}
