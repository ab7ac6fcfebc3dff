package simulate

import (
	"testing"
	"time"
)

func podOf(images ...string) *kubeletPod {
	p := &kubeletPod{}
	p.Name, p.UID = "web-1", "u"
	p.Spec.NodeName = "node-1"
	for i, image := range images {
		p.Spec.Containers = append(p.Spec.Containers, podContainer{Name: string(rune('a' + i)), Image: image})
	}
	return p
}

// summary is what `kubectl get pods` makes of a pod's status.
type summary struct {
	phase    string
	ready    int
	waiting  string // reason of the first waiting container
	restarts int64
	hasIP    bool
	isReady  string
}

func summarise(status map[string]any) summary {
	s := summary{phase: status["phase"].(string)}
	_, s.hasIP = status["podIP"]
	for _, c := range status["containerStatuses"].([]any) {
		c := c.(map[string]any)
		if c["ready"].(bool) {
			s.ready++
		}
		s.restarts += c["restartCount"].(int64)
		if w, ok := c["state"].(map[string]any)["waiting"].(map[string]any); ok && s.waiting == "" {
			s.waiting = w["reason"].(string)
		}
	}
	for _, c := range status["conditions"].([]any) {
		if c := c.(map[string]any); c["type"] == "Ready" {
			s.isReady = c["status"].(string)
		}
	}
	return s
}

func TestPodStatusShowsEachStageOfAPod(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	box := sandbox{uid: "u", ip: "10.128.0.1", created: start, ready: start.Add(time.Second)}
	again := box
	again.restarts, again.restarted, again.ready = 2, start.Add(10*time.Second), start.Add(11*time.Second)
	for _, c := range []struct {
		name  string
		pod   *kubeletPod
		box   sandbox
		after time.Duration
		want  summary
	}{
		{"starting", podOf("nginx:1", "side:1"), box, 0,
			summary{"Pending", 0, "ContainerCreating", 0, false, "False"}},
		{"running", podOf("nginx:1", "side:1"), box, time.Second, summary{"Running", 2, "", 0, true, "True"}},
		{"no image yet", podOf("nginx:broken"), box, 0, summary{"Pending", 0, "ContainerCreating", 0, false, "False"}},
		{"no image", podOf("nginx:broken"), box, time.Minute,
			summary{"Pending", 0, "ImagePullBackOff", 0, false, "False"}},
		{"one of two images", podOf("nginx:1", "side:broken"), box, time.Minute,
			summary{"Pending", 1, "ImagePullBackOff", 0, false, "False"}},
		{"restarting", podOf("nginx:1"), again, 10 * time.Second,
			summary{"Running", 0, "CrashLoopBackOff", 2, true, "False"}},
		{"restarted", podOf("nginx:1"), again, 11 * time.Second, summary{"Running", 1, "", 2, true, "True"}},
	} {
		if got := summarise(podStatus(c.pod, c.box, "192.0.2.1", start.Add(c.after))); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
