package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// planDaemonSet keeps a pod on each node that the template fits, and replaces those of old revisions, maxUnavailable
// at a time. It asks no scheduler: the pods are created on their nodes.
func planDaemonSet(w *workload, pods []*setPod, in facts) (p plan) {
	var template struct{ Spec placement }
	if err := json.Unmarshal(w.Spec.Template, &template); err != nil {
		p.err = fmt.Errorf("read the pod template: %w", err)
	}
	hash := strings.TrimPrefix(in.update, w.Name+"-")
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
			member(meta, "labels")[revisionLabel], spec["nodeName"] = hash, n.Name
			continue
		}
		if here = append(here, pod); revisionOf(pod) == hash {
			updated++
		}
	}
	misplaced := len(on) // on nodes that are gone, or that they do not fit any more
	for _, pod := range on {
		if pod.active() {
			p.remove = append(p.remove, pod)
		}
	}
	here = slices.DeleteFunc(here, func(pod *setPod) bool { return !pod.active() })
	ready, available, again := readiness(here, w.Spec.MinReadySeconds, in.now)
	p.again = again
	p.status = map[string]any{"observedGeneration": w.Generation,
		"currentNumberScheduled": int64(desired - len(p.create)), "desiredNumberScheduled": int64(desired),
		"numberReady": int64(ready), "numberAvailable": orNull(available),
		"numberUnavailable": orNull(desired - available), "numberMisscheduled": int64(misplaced),
		"updatedNumberScheduled": orNull(updated)}
	if w.Spec.UpdateStrategy.Type != "OnDelete" {
		p.replaceDaemons(w, here, hash, desired, available)
	}
	return p
}

// replaceDaemons removes pods of old revisions: those that are not ready, and of the others as many as may be missing.
func (p *plan) replaceDaemons(w *workload, pods []*setPod, hash string, desired, available int) {
	most, err := intOrPercent(w.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, desired, true)
	if err != nil {
		p.err = fmt.Errorf("maxUnavailable: %w", err)
		return
	}
	room := max(most, 1) - (desired - available)
	slices.SortFunc(pods, leastWorth)
	for _, pod := range pods {
		if revisionOf(pod) == hash || pod.ready() && room <= 0 {
			continue
		}
		p.remove = append(p.remove, pod)
		if pod.ready() {
			room--
		}
	}
}
