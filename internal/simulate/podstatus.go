package simulate

import (
	"fmt"
	"strings"
	"time"
)

// podStatus returns the status that a kubelet reports for a pod, from the pod, its state on the node and the time.
func podStatus(p *kubeletPod, box sandbox, nodeIP string, now time.Time) map[string]any {
	up := !box.ready.After(now)
	pulled := true
	containers := make([]any, len(p.Spec.Containers))
	for i, c := range p.Spec.Containers {
		containers[i] = containerStatus(p.UID, c, box, up)
		pulled = pulled && !broken(c.Image)
	}
	phase := "Pending"
	if pulled && (up || box.restarts > 0) { // a pod stays Running while its containers restart
		phase = "Running"
	}
	status := map[string]any{
		"phase":             phase,
		"hostIP":            nodeIP,
		"hostIPs":           []any{map[string]any{"ip": nodeIP}},
		"startTime":         wireTime(box.created),
		"conditions":        podConditions(box, up && pulled),
		"containerStatuses": containers,
	}
	if phase == "Running" {
		status["podIP"] = box.ip
		status["podIPs"] = []any{map[string]any{"ip": box.ip}}
	}
	if box.ended {
		end(p, box, status, now)
	}
	if len(p.Spec.InitContainers) > 0 {
		status["initContainerStatuses"] = initStatuses(p, box)
	}
	return status
}

// end makes the status that of a pod whose containers have ended by themselves.
func end(p *kubeletPod, box sandbox, status map[string]any, now time.Time) {
	code, _ := p.exitCode()
	phase, reason := "Succeeded", "Completed"
	if code != 0 {
		phase, reason = "Failed", "Error"
	}
	status["phase"] = phase
	for _, c := range status["containerStatuses"].([]any) {
		s := c.(map[string]any)
		s["ready"], s["started"] = false, false
		s["state"] = map[string]any{"terminated": map[string]any{"exitCode": code, "reason": reason,
			"startedAt": wireTime(box.ready), "finishedAt": wireTime(now), "containerID": s["containerID"]}}
	}
	for _, c := range status["conditions"].([]any) {
		if s := c.(map[string]any); s["type"] == "Ready" || s["type"] == "ContainersReady" {
			s["status"], s["reason"], s["lastTransitionTime"] = "False", "PodCompleted", wireTime(now)
		}
	}
}

func broken(image string) bool { return strings.HasSuffix(image, ":"+BrokenTag) }

// podConditions returns the conditions in the order in which a kubelet sets them, each with the time of its last
// change.
func podConditions(box sandbox, ready bool) []any {
	condition := func(kind string, status bool, since time.Time) map[string]any {
		c := map[string]any{"type": kind, "status": "True", "lastTransitionTime": wireTime(since)}
		if !status {
			c["status"], c["reason"], c["message"] = "False", "ContainersNotReady", "containers are not ready"
		}
		return c
	}
	since := box.created
	switch {
	case ready:
		since = box.ready
	case box.restarts > 0:
		since = box.restarted
	}
	return []any{
		condition("PodScheduled", true, box.created),
		condition("Initialized", true, box.created),
		condition("PodReadyToStartContainers", true, box.created),
		condition("ContainersReady", ready, since),
		condition("Ready", ready, since),
	}
}

func containerStatus(podUID string, c podContainer, box sandbox, up bool) map[string]any {
	running := up && !broken(c.Image)
	s := map[string]any{
		"name": c.Name, "image": c.Image, "imageID": "", "ready": running, "started": running,
		"restartCount": int64(box.restarts), "lastState": map[string]any{},
	}
	if running { // what a kubelet must report for pods that are resized
		resources := map[string]any{}
		if asked := anyMap(c.Resources.Requests); len(asked) > 0 {
			s["allocatedResources"], resources["requests"] = asked, asked
		}
		if most := anyMap(c.Resources.Limits); len(most) > 0 {
			resources["limits"] = most
		}
		s["resources"] = resources
	}
	waiting := func(reason, message string) map[string]any {
		return map[string]any{"waiting": map[string]any{"reason": reason, "message": message}}
	}
	switch {
	case running:
		s["imageID"] = "simulated/" + c.Image
		s["containerID"] = containerID(podUID, c.Name, box.restarts)
		s["state"] = map[string]any{"running": map[string]any{"startedAt": wireTime(box.ready)}}
	case broken(c.Image) && up:
		s["state"] = waiting("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: no registry has the tag %q",
			c.Image, BrokenTag))
	case box.restarts > 0:
		s["state"] = waiting("CrashLoopBackOff", "back-off restarting failed container "+c.Name)
	default:
		s["state"] = map[string]any{"waiting": map[string]any{"reason": "ContainerCreating"}}
	}
	if box.restarts > 0 {
		s["lastState"] = map[string]any{"terminated": map[string]any{"exitCode": int64(1), "reason": "Error",
			"startedAt": wireTime(box.created), "finishedAt": wireTime(box.restarted),
			"containerID": containerID(podUID, c.Name, box.restarts-1)}}
	}
	return s
}

func containerID(podUID, name string, restarts int) string {
	return fmt.Sprintf("simulated://%s/%s/%d", podUID, name, restarts)
}

// initStatuses reports init containers as completed: they take no time here.
func initStatuses(p *kubeletPod, box sandbox) []any {
	out := make([]any, len(p.Spec.InitContainers))
	for i, c := range p.Spec.InitContainers {
		out[i] = map[string]any{
			"name": c.Name, "image": c.Image, "imageID": "simulated/" + c.Image, "ready": true, "started": false,
			"restartCount": int64(0),
			"lastState":    map[string]any{}, "containerID": containerID(p.UID, c.Name, 0),
			"state": map[string]any{"terminated": map[string]any{"exitCode": int64(0), "reason": "Completed",
				"startedAt": wireTime(box.created), "finishedAt": wireTime(box.created),
				"containerID": containerID(p.UID, c.Name, 0)}},
		}
	}
	return out
}
