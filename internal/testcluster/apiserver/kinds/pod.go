package kinds

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// requestsInLimits requires that no request of resources exceeds its limit.
func requestsInLimits(s scope) {
	for _, name := range obj.Keys(obj.Map(s.o, "requests")) {
		request, limit := obj.Get(s.o, "requests", name), obj.Get(s.o, "limits", name)
		if c, ok := compare(request, limit); ok && limit != nil && c > 0 {
			s.invalid(s.at+".requests", request,
				fmt.Sprintf("must be less than or equal to %s limit of %v", name, limit))
		}
	}
}

// selectsTemplate requires that a selector selects the pods of the template of the same spec.
func selectsTemplate(s scope, sel Object) {
	labels := obj.Map(s.o, "template", "metadata", "labels")
	parsed, err := obj.ParseLabels(FormatSelector(sel))
	if err != nil {
		s.invalid("spec.selector", sel, "invalid label selector")
	} else if sel == nil || !parsed.Matches(obj.Strings(labels)) {
		s.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
	}
}

// addTolerations gives a pod the tolerations that the default admission plugins add.
func addTolerations(s scope) {
	for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		tolerated := slices.ContainsFunc(obj.Maps(s.o, "tolerations"), func(t Object) bool {
			k, effect := obj.String(t, "key"), obj.String(t, "effect")
			return (k == key || k == "") && (effect == "" || effect == "NoExecute")
		})
		if !tolerated {
			s.o["tolerations"] = append(obj.Slice(s.o, "tolerations"),
				Object{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(300)})
		}
	}
}

// qosClass derives the QoS class from the resources of the pod or its containers (pkg/apis/core/helper/qos).
func qosClass(spec Object) string {
	guaranteed, any := true, false
	sized := obj.Maps(spec, "containers")
	if whole := obj.Map(spec, "resources"); len(whole) > 0 { // those of the pod decide alone
		sized = []Object{spec}
	}
	for _, c := range sized {
		limits, requests := obj.Map(c, "resources", "limits"), obj.Map(c, "resources", "requests")
		any = any || len(limits) > 0 || len(requests) > 0
		for _, r := range []string{"cpu", "memory"} {
			if limits[r] == nil || requests[r] != nil && !patch.Equal(limits[r], requests[r]) {
				guaranteed = false
			}
		}
	}
	switch {
	case !any:
		return "BestEffort"
	case guaranteed:
		return "Guaranteed"
	}
	return "Burstable"
}

// podGrace returns the grace period of a DELETE: 0 for a pod that is not on a node or has ended.
func podGrace(o Object, asked *int64) int64 {
	phase := obj.String(o, "status", "phase")
	if obj.String(o, "spec", "nodeName") == "" || phase == "Failed" || phase == "Succeeded" {
		return 0
	}
	if asked != nil {
		return max(*asked, 0)
	}
	if left, ok := obj.Int(o, "metadata", "deletionGracePeriodSeconds"); ok &&
		obj.String(o, "metadata", "deletionTimestamp") != "" {
		return left
	}
	grace, ok := obj.Int(o, "spec", "terminationGracePeriodSeconds")
	if !ok {
		return 30
	}
	return grace
}

// imageName is what the name of an image has to be for its tag to be known.
var imageName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?` +
		`[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*` +
		`(?::(\w[\w.-]{0,127}))?(@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$`)
})

// pullPolicy is Always for images with the tag "latest", with a digest or without one, and for those with neither a
// tag nor a digest.
func pullPolicy(image string) string {
	m := imageName().FindStringSubmatch(image)
	if m != nil && (m[1] == "latest" || m[1] == "" && m[2] == "") {
		return "Always"
	}
	return "IfNotPresent"
}

// tolerationsStay refuses changes of tolerations, besides new ones and other seconds.
func tolerationsStay(s scope) {
	for _, was := range obj.Maps(s.old, "tolerations") {
		if !slices.ContainsFunc(obj.Maps(s.o, "tolerations"),
			func(is Object) bool { return obj.EqualExcept(was, is, "tolerationSeconds") }) {
			s.add(obj.Forbidden("spec.tolerations",
				"existing toleration can not be modified except its tolerationSeconds"))
		}
	}
}

// podSummary has the columns of a pod in `kubectl get pods`.
type podSummary struct{ ready, status, restarts string }

// summarize derives the columns of a pod from its containers. Reasons take precedence in this order: deletion, failing
// init containers, the last failing container, the pod's phase.
func summarize(o Object, now time.Time) podSummary {
	p := &podReader{pod: o, total: len(obj.Maps(o, "spec", "containers"))}
	p.reason = cmp.Or(obj.String(o, "status", "reason"), obj.String(o, "status", "phase"))
	if Condition(o, "PodScheduled")["reason"] == "SchedulingGated" {
		p.reason = "SchedulingGated"
	}
	if !p.initContainers() || Holds(p.pod, "Initialized") {
		p.containers()
	}
	phase := obj.String(o, "status", "phase")
	if obj.String(o, "metadata", "deletionTimestamp") != "" {
		switch {
		case obj.String(o, "status", "reason") == "NodeLost":
			p.reason = "Unknown"
		case phase != "Succeeded" && phase != "Failed":
			p.reason = "Terminating"
		}
	}
	restarts := strconv.FormatInt(p.restarts.n, 10)
	if p.restarts.n != 0 && p.restarts.last != "" {
		restarts += " (" + Since(p.restarts.last, now) + " ago)"
	}
	return podSummary{ready: fmt.Sprintf("%d/%d", p.ready, p.total), status: p.reason, restarts: restarts}
}

type podReader struct {
	pod                Object
	total, ready       int
	reason             string
	restarts, sidecars restarts
}

// restarts are those of some containers.
type restarts struct {
	n    int64
	last string // in RFC 3339, so that strings compare like times
}

func (r *restarts) add(status Object) {
	r.n += obj.Number(status, "restartCount")
	r.last = max(r.last, obj.String(status, "lastState", "terminated", "finishedAt"))
}

// initContainers reports whether the pod is still initializing. Sidecars (init containers with restartPolicy Always)
// count as containers.
func (p *podReader) initContainers() (initializing bool) {
	sidecar := map[string]bool{}
	inits := obj.Maps(p.pod, "spec", "initContainers")
	for _, c := range inits {
		if obj.String(c, "restartPolicy") == "Always" {
			sidecar[obj.String(c, "name")] = true
			p.total++
		}
	}
	for i, c := range obj.Maps(p.pod, "status", "initContainerStatuses") {
		p.restarts.add(c)
		isSidecar := sidecar[obj.String(c, "name")]
		if isSidecar {
			p.sidecars.add(c)
		}
		ended, waiting := obj.Map(c, "state", "terminated"), obj.String(c, "state", "waiting", "reason")
		switch {
		case ended != nil && obj.Number(ended, "exitCode") == 0:
			continue
		case isSidecar && obj.Bool(c, "started"):
			if obj.Bool(c, "ready") {
				p.ready++
			}
			continue
		case ended != nil:
			p.reason = "Init:" + exitReason(ended)
		case waiting != "" && waiting != "PodInitializing":
			p.reason = "Init:" + waiting
		default:
			p.reason = fmt.Sprintf("Init:%d/%d", i, len(inits))
		}
		return true
	}
	return false
}

// exitReason returns why a container has terminated.
func exitReason(ended Object) string {
	if r := obj.String(ended, "reason"); r != "" {
		return r
	}
	if s := obj.Number(ended, "signal"); s != 0 {
		return fmt.Sprintf("Signal:%d", s)
	}
	return fmt.Sprintf("ExitCode:%d", obj.Number(ended, "exitCode"))
}

func (p *podReader) containers() {
	p.restarts = p.sidecars
	running, failed := false, ""
	states := obj.Maps(p.pod, "status", "containerStatuses")
	for i := len(states) - 1; i >= 0; i-- {
		c := states[i]
		p.restarts.add(c)
		ended, waiting := obj.Map(c, "state", "terminated"), obj.String(c, "state", "waiting", "reason")
		switch {
		case waiting != "":
			p.reason = waiting
		case ended != nil:
			p.reason = exitReason(ended)
			if obj.Number(ended, "exitCode") != 0 {
				failed = p.reason
			}
		case obj.Bool(c, "ready") && obj.Map(c, "state", "running") != nil:
			running = true
			p.ready++
		}
	}
	if p.reason != "Completed" {
		return
	}
	switch {
	case running && Holds(p.pod, "Ready"):
		p.reason = "Running"
	case failed != "":
		p.reason = failed
	case running:
		p.reason = "NotReady"
	}
}
