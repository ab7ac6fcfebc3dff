package simulate

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPodStatusShowsEachStageOfAPod(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	box := sandbox{uid: "u", ip: "10.128.0.1", created: start, ready: start.Add(time.Second)}
	again := box
	again.restarts, again.restarted, again.ready = 2, start.Add(10*time.Second), start.Add(11*time.Second)
	for _, c := range []struct {
		images string
		box    sandbox
		after  time.Duration
		want   string // phase, ready containers, why the last waits, restarts, address, Ready
	}{
		{"nginx:1 side:1", box, 0, "Pending 0 ContainerCreating 0  False"},
		{"nginx:1 side:1", box, time.Second, "Running 2  0 10.128.0.1 True"},
		{"nginx:broken", box, 0, "Pending 0 ContainerCreating 0  False"},
		{"nginx:broken", box, time.Minute, "Pending 0 ImagePullBackOff 0  False"},
		{"NGINX", box, time.Minute, "Pending 0 InvalidImageName 0  False"},
		{"a.b:5000/c/d__e@sha256:0000000000000000000000000000000000000000000000000000000000000000", box, time.Second,
			"Running 1  0 10.128.0.1 True"},
		{"nginx:1 side:broken", box, time.Minute, "Pending 1 ImagePullBackOff 0  False"},
		{"nginx:1", again, 10 * time.Second, "Running 0 CrashLoopBackOff 2 10.128.0.1 False"},
		{"nginx:1", again, 11 * time.Second, "Running 1  2 10.128.0.1 True"},
	} {
		p := &kubeletPod{}
		for i, image := range strings.Fields(c.images) {
			p.Spec.Containers = append(p.Spec.Containers, podContainer{Name: fmt.Sprint("c", i), Image: image})
		}
		s := podStatus(p, c.box, "192.0.2.1", start.Add(c.after))
		ready, last := 0, ""
		for i := range length(s, "containerStatuses") {
			if last = fmt.Sprint("containerStatuses ", i, " "); at(s, last+"ready") == true {
				ready++
			}
		}
		if have := fmt.Sprintf("%s %d %s %s %s %s", s["phase"], ready, str(s, last+"state waiting reason"),
			str(s, last+"restartCount"), str(s, "podIP"), str(s, "conditions Ready status")); have != c.want {
			t.Errorf("%s after %s: %s, want %s", c.images, c.after, have, c.want)
		}
	}
}
