package kinds

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"skiff/internal/testcluster/apiserver/obj"
)

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
