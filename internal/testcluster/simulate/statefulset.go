package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/runtime/kube"
)

// planStatefulSet keeps a pod for each ordinal, unless the policy is Parallel one after the other, and replaces those
// of old revisions from the highest ordinal down to the partition.
func planStatefulSet(w *workload, pods []*setPod, in facts) (p plan) {
	slots := make([]*setPod, valueOr(w.Spec.Replicas, defaultReplicas)) // by ordinals
	var surplus []*setPod
	for _, pod := range pods {
		i, err := strconv.Atoi(strings.TrimPrefix(pod.Name, w.Name+"-"))
		if i -= w.Spec.Ordinals.Start; err != nil || i < 0 || i >= len(slots) {
			surplus = append(surplus, pod)
		} else {
			slots[i] = pod
		}
	}
	current := p.describeSet(w, pods, len(slots), in)
	parallel, whole := w.Spec.PodManagementPolicy == "Parallel", true
	for i, pod := range slots {
		switch {
		case pod == nil:
			revision := in.update
			if i < w.Spec.UpdateStrategy.RollingUpdate.Partition {
				revision = current
			}
			p.addOrdinal(w, w.Spec.Ordinals.Start+i, revision, in.templates[revision])
		case pod.ended() && !pod.Deleting():
			p.remove = append(p.remove, pod)
		}
		if whole = whole && pod != nil && pod.active() && pod.ready(); !whole && !parallel {
			return p
		}
	}
	slices.SortFunc(surplus, func(a, b *setPod) int {
		return cmp.Or(len(b.Name)-len(a.Name), cmp.Compare(b.Name, a.Name)) // the highest ordinal first
	})
	for _, pod := range surplus {
		if !pod.Deleting() {
			p.remove = append(p.remove, pod)
		}
		if !parallel {
			return p
		}
	}
	if w.Spec.UpdateStrategy.Type != "OnDelete" {
		p.replaceOld(slots, w.Spec.UpdateStrategy.RollingUpdate.Partition, in.update)
	}
	return p
}

// replaceOld removes the highest pod of an old revision, once those above it are ready.
func (p *plan) replaceOld(slots []*setPod, partition int, update string) {
	for i := len(slots) - 1; i >= partition; i-- {
		pod := slots[i]
		if pod == nil || pod.Deleting() {
			return
		}
		if revisionOf(pod) != update {
			p.remove = append(p.remove, pod)
			return
		}
		if !pod.ready() {
			return
		}
	}
}

func revisionOf(p *setPod) string {
	name, _ := p.Labels.Get(revisionLabel)
	return name
}

// describeSet sets the status, and returns the revision that the pods below the partition have.
func (p *plan) describeSet(w *workload, pods []*setPod, wanted int, in facts) (current string) {
	var was struct {
		CurrentRevision string `json:"currentRevision"`
	}
	p.err = readStatus(statefulSetResource, w, w.Status, &was)
	if current = was.CurrentRevision; in.templates[current] == nil {
		current = in.update
	}
	updated, old := 0, 0
	for _, pod := range pods {
		switch revisionOf(pod) {
		case in.update:
			updated++
		case current:
			old++
		}
	}
	ready, available, again := readiness(pods, w.Spec.MinReadySeconds, in.now)
	p.again = again
	p.status = map[string]any{"observedGeneration": w.Generation, "replicas": int64(len(pods)),
		"readyReplicas": orNull(ready), "availableReplicas": int64(available), "updatedReplicas": orNull(updated),
		"currentReplicas": orNull(old), "currentRevision": current, "updateRevision": in.update,
		"collisionCount": int64(0)}
	if current == in.update || updated == len(pods) && ready == len(pods) && updated == wanted {
		p.status["currentRevision"], p.status["currentReplicas"] = in.update, orNull(updated)
	}
	return current
}

// addOrdinal plans the pod of an ordinal, with its claims.
func (p *plan) addOrdinal(w *workload, ordinal int, revision string, template kube.Raw) {
	meta, spec := p.pod(w, template)
	name := fmt.Sprintf("%s-%d", w.Name, ordinal)
	delete(meta, "generateName")
	meta["name"] = name
	maps.Copy(member(meta, "labels"), map[string]any{"statefulset.kubernetes.io/pod-name": name,
		indexLabel: strconv.Itoa(ordinal), revisionLabel: revision})
	spec["hostname"], spec["subdomain"] = name, w.Spec.ServiceName
	var claims []map[string]any
	if err := readStatus(statefulSetResource, w, w.Spec.VolumeClaimTemplates, &claims); err != nil {
		p.err = err
	}
	volumes, _ := spec["volumes"].([]any)
	for _, claim := range claims {
		m, _ := claim["metadata"].(map[string]any)
		volume := fmt.Sprint(m["name"])
		claimName := volume + "-" + name
		volumes = slices.DeleteFunc(volumes, func(v any) bool { return v.(map[string]any)["name"] == volume })
		volumes = append(volumes, map[string]any{"name": volume,
			"persistentVolumeClaim": map[string]any{"claimName": claimName}})
		p.claims = append(p.claims, map[string]any{"spec": claim["spec"], "metadata": map[string]any{
			"name": claimName, "labels": w.Spec.Selector.MatchLabels, "annotations": m["annotations"]}})
	}
	if spec["volumes"] = volumes; volumes == nil {
		delete(spec, "volumes")
	}
}
