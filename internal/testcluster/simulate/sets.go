package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/runtime/kube"
)

// planDaemonSet keeps a pod on each node that the template fits, and replaces pods of old revisions, maxUnavailable at
// a time. No scheduler is asked: the pods are created on the nodes.
func planDaemonSet(w *workload, pods []*setPod, in facts) (p plan) {
	var template struct{ Spec placement }
	if err := json.Unmarshal(w.Spec.Template, &template); err != nil {
		p.err = fmt.Errorf("read the pod template: %w", err)
	}
	on := map[string]*setPod{}
	for _, pod := range pods {
		if pod.ended() && !pod.Deleting() {
			p.remove = append(p.remove, pod)
		}
		if was := on[pod.Spec.NodeName]; was == nil || was.Deleting() {
			on[pod.Spec.NodeName] = pod
		}
	}
	var here []*setPod
	desired, updated := 0, 0
	for _, n := range in.nodes {
		if template.Spec.misfit(n, true) != "" {
			continue
		}
		pod := on[n.Name]
		delete(on, n.Name)
		desired++
		if pod == nil {
			meta, spec := p.pod(w, w.Spec.Template)
			member(meta, "labels")[revisionLabel], spec["nodeName"] = in.update, n.Name
			continue
		}
		if here = append(here, pod); revisionOf(pod) == in.update {
			updated++
		}
	}
	misplaced := len(on) // on nodes that are gone, or do not fit any more
	for _, pod := range on {
		if pod.active() {
			p.remove = append(p.remove, pod)
		}
	}
	here = slices.DeleteFunc(here, func(pod *setPod) bool { return !pod.active() })
	ready, available, again := readiness(here, w.Spec.MinReadySeconds, in.now)
	p.again = again
	p.status = object{"observedGeneration": w.Generation, "currentNumberScheduled": int64(desired - len(p.create)),
		"desiredNumberScheduled": int64(desired), "numberReady": int64(ready), "numberAvailable": orNull(available),
		"numberUnavailable": orNull(desired - available), "numberMisscheduled": int64(misplaced),
		"updatedNumberScheduled": orNull(updated)}
	if w.Spec.UpdateStrategy.Type != "OnDelete" {
		p.replaceDaemons(w, here, in.update, desired, available)
	}
	return p
}

// replaceDaemons removes pods of old revisions: all that are not ready, and as many ready pods as may be missing.
func (p *plan) replaceDaemons(w *workload, pods []*setPod, update string, desired, available int) {
	most, err := intOrPercent(w.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, desired, true)
	if err != nil {
		p.err = fmt.Errorf("maxUnavailable: %w", err)
		return
	}
	room := max(most, 1) - (desired - available)
	slices.SortFunc(pods, leastWorth)
	for _, pod := range pods {
		if revisionOf(pod) == update || pod.ready() && room <= 0 {
			continue
		}
		p.remove = append(p.remove, pod)
		if pod.ready() {
			room--
		}
	}
}

// planStatefulSet keeps a pod for each ordinal, created in order unless the policy is Parallel, and replaces pods of
// old revisions from the highest ordinal down to the partition.
func planStatefulSet(w *workload, pods []*setPod, in facts) (p plan) {
	slots := map[int]*setPod{} // by ordinals
	var surplus []*setPod
	for _, pod := range pods {
		i, err := strconv.Atoi(strings.TrimPrefix(pod.Name, w.Name+"-"))
		if i -= w.Spec.Ordinals.Start; err != nil || i < 0 || i >= w.replicas() {
			surplus = append(surplus, pod)
		} else {
			slots[i] = pod
		}
	}
	current := p.describeSet(w, pods, w.replicas(), in)
	parallel, whole := w.Spec.PodManagementPolicy == "Parallel", true
	for i := range w.replicas() {
		pod := slots[i]
		switch {
		case pod == nil && p.room(w) <= 0:
			return p
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
		p.replaceOld(w, slots, in.update)
	}
	return p
}

// replaceOld removes the highest pod of an old revision, once all pods above are ready.
func (p *plan) replaceOld(w *workload, slots map[int]*setPod, update string) {
	for i := w.replicas() - 1; i >= w.Spec.UpdateStrategy.RollingUpdate.Partition; i-- {
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

// describeSet sets the status, and returns the revision of the pods below the partition.
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
	p.status = object{"observedGeneration": w.Generation, "replicas": int64(len(pods)), "readyReplicas": orNull(ready),
		"availableReplicas": int64(available), "updatedReplicas": orNull(updated), "currentReplicas": orNull(old),
		"currentRevision": current, "updateRevision": in.update, "collisionCount": int64(0)}
	if current == in.update || updated == len(pods) && ready == len(pods) && updated == wanted {
		p.status["currentRevision"], p.status["currentReplicas"] = in.update, orNull(updated)
	}
	return current
}

// addOrdinal plans the pod of an ordinal, with the claims.
func (p *plan) addOrdinal(w *workload, ordinal int, revision string, template kube.Raw) {
	meta, spec := p.pod(w, template)
	name := fmt.Sprintf("%s-%d", w.Name, ordinal)
	delete(meta, "generateName")
	meta["name"] = name
	maps.Copy(member(meta, "labels"), object{"statefulset.kubernetes.io/pod-name": name,
		indexLabel: strconv.Itoa(ordinal), revisionLabel: revision})
	spec["hostname"], spec["subdomain"] = name, w.Spec.ServiceName
	var claims []object
	if err := readStatus(statefulSetResource, w, w.Spec.VolumeClaimTemplates, &claims); err != nil {
		p.err = err
	}
	volumes, _ := spec["volumes"].([]any)
	for _, claim := range claims {
		m, _ := claim["metadata"].(object)
		volume := fmt.Sprint(m["name"])
		claimName := volume + "-" + name
		volumes = slices.DeleteFunc(volumes, func(v any) bool { return v.(object)["name"] == volume })
		volumes = append(volumes, object{"name": volume, "persistentVolumeClaim": object{"claimName": claimName}})
		p.claims = append(p.claims, object{"spec": claim["spec"], "metadata": object{
			"name": claimName, "labels": w.Spec.Selector.MatchLabels, "annotations": m["annotations"]}})
	}
	if spec["volumes"] = volumes; volumes == nil {
		delete(spec, "volumes")
	}
}
