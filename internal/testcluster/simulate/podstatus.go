package simulate

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"time"
)

// podStatus returns the status that a kubelet reports for a pod, from the pod, the state on the node and the time.
func podStatus(p *kubeletPod, box sandbox, nodeIP string, now time.Time) object {
	up, pulled := !box.ready.After(now), true
	containers := make([]any, len(p.Spec.Containers))
	for i, c := range p.Spec.Containers {
		containers[i] = containerStatus(p, c, box, up, now)
		pulled = pulled && !broken(c.Image)
	}
	phase := "Pending"
	switch code, _ := p.exitCode(); {
	case box.ended && code == 0:
		phase = "Succeeded"
	case box.ended:
		phase = "Failed"
	case pulled && (up || box.restarts > 0): // a pod stays Running while containers restart
		phase = "Running"
	}
	status := object{
		"phase":             phase,
		"hostIP":            nodeIP,
		"hostIPs":           []any{object{"ip": nodeIP}},
		"startTime":         wireTime(box.created),
		"conditions":        podConditions(box, up && pulled && !box.ended, now),
		"containerStatuses": containers,
	}
	if phase != "Pending" {
		status["podIP"] = box.ip
		status["podIPs"] = []any{object{"ip": box.ip}}
	}
	if len(p.Spec.InitContainers) > 0 {
		status["initContainerStatuses"] = initStatuses(p, box)
	}
	return status
}

func broken(image string) bool { return strings.HasSuffix(image, ":"+BrokenTag) || invalidImage(image) }

// imageReference matches the name of an image for a container runtime: host, path, tag and digest.
var imageReference = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(([a-zA-Z0-9.-]+|\[[a-fA-F0-9:]+\])(:[0-9]+)?/)?[a-z0-9]+((\.|_|__|-+|/)[a-z0-9]+)*` +
		`(:\w[\w.-]{0,127})?(@[a-zA-Z][a-zA-Z0-9+._-]*:[0-9a-fA-F]{32,})?$`)
})

func invalidImage(image string) bool { return image != "" && !imageReference().MatchString(image) }

// podConditions returns the conditions in the order of a kubelet, each with the time of the last change.
func podConditions(box sandbox, ready bool, now time.Time) []any {
	since, reason := box.created, object{"reason": "ContainersNotReady", "message": "containers are not ready"}
	switch {
	case box.ended:
		since, reason = now, object{"reason": "PodCompleted"}
	case ready:
		since = box.ready
	case box.restarts > 0:
		since = box.restarted
	}
	condition := func(kind string, status bool, since time.Time) object {
		c := object{"type": kind, "status": "True", "lastTransitionTime": wireTime(since)}
		if !status {
			c["status"] = "False"
			maps.Copy(c, reason)
		}
		return c
	}
	return []any{
		condition("PodScheduled", true, box.created),
		condition("Initialized", true, box.created),
		condition("PodReadyToStartContainers", true, box.created),
		condition("ContainersReady", ready, since),
		condition("Ready", ready, since),
	}
}

func containerStatus(p *kubeletPod, c podContainer, box sandbox, up bool, now time.Time) object {
	started := up && !broken(c.Image)
	s := object{
		"name": c.Name, "image": c.Image, "imageID": "", "ready": started && !box.ended,
		"started": started && !box.ended, "restartCount": int64(box.restarts), "lastState": object{},
	}
	id := containerID(p.UID, c.Name, box.restarts)
	if started { // a kubelet must report resources, for pods that are resized
		resources := object{}
		if asked := anyMap(c.Resources.Requests); len(asked) > 0 {
			s["allocatedResources"], resources["requests"] = asked, asked
		}
		if most := anyMap(c.Resources.Limits); len(most) > 0 {
			resources["limits"] = most
		}
		s["resources"], s["imageID"], s["containerID"] = resources, "simulated/"+c.Image, id
	}
	waiting := func(reason, message string) object {
		return object{"waiting": object{"reason": reason, "message": message}}
	}
	switch code, _ := p.exitCode(); {
	case box.ended:
		s["state"] = terminated(code, box.ready, now, id)
	case started:
		s["state"] = object{"running": object{"startedAt": wireTime(box.ready)}}
	case up && invalidImage(c.Image):
		s["state"] = waiting("InvalidImageName", fmt.Sprintf("Failed to apply default image tag %q: couldn't parse "+
			"image name %q: invalid reference format", c.Image, c.Image))
	case up:
		s["state"] = waiting("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: no registry has the tag %q",
			c.Image, BrokenTag))
	case box.restarts > 0:
		s["state"] = waiting("CrashLoopBackOff", "back-off restarting failed container "+c.Name)
	default:
		s["state"] = object{"waiting": object{"reason": "ContainerCreating"}}
	}
	if box.restarts > 0 {
		s["lastState"] = terminated(1, box.created, box.restarted, containerID(p.UID, c.Name, box.restarts-1))
	}
	return s
}

// terminated is the state of a container that has ended.
func terminated(code int64, began, ended time.Time, id string) object {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	return object{"terminated": object{"exitCode": code, "reason": reason,
		"startedAt": wireTime(began), "finishedAt": wireTime(ended), "containerID": id}}
}

func containerID(podUID, name string, restarts int) string {
	return fmt.Sprintf("simulated://%s/%s/%d", podUID, name, restarts)
}

// initStatuses reports init containers as completed: they take no time here.
func initStatuses(p *kubeletPod, box sandbox) []any {
	out := make([]any, len(p.Spec.InitContainers))
	for i, c := range p.Spec.InitContainers {
		id := containerID(p.UID, c.Name, 0)
		out[i] = object{"name": c.Name, "image": c.Image, "imageID": "simulated/" + c.Image, "ready": true,
			"started": false, "restartCount": int64(0), "lastState": object{}, "containerID": id,
			"state": terminated(0, box.created, box.created, id)}
	}
	return out
}
