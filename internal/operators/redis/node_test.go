package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"skiff/internal/kube"
)

// node is a scheduler, a kubelet and a garbage collector in one, as far as this controller can see them. It looks at all
// pods each tick and moves each of them one stage on.
type node struct {
	w      *world
	client *kube.Client
	stop   func()

	mu     sync.Mutex           // guards what follows
	since  map[string]time.Time // when a pod's stage began, by uid and stage
	ips    int
	frozen bool  // keeps the pods as they are
	seen   int64 // the revision at the last turn
	due    bool  // a stage was not over then
}

const (
	tick       = 500 * time.Millisecond
	startDelay = time.Second // from the binding of a pod until it is ready
	stopDelay  = time.Second // from the deletion of a pod until it is gone
)

// What a test asks for by the image of the pod.
const (
	brokenImage = "redis:broken" // cannot be pulled
	slowImage   = "redis:slow"   // runs and never becomes ready
)

func (w *world) startNode() *node {
	n := &node{w: w, client: w.connect("node", w.pipe.Dial), since: map[string]time.Time{}}
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				n.turn(ctx)
			}
		}
	})
	n.stop = func() {
		cancel()
		running.Wait()
		n.client.Close()
	}
	return n
}

func (n *node) freeze(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frozen, n.due = on, true
}

func (n *node) turn(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	revision := n.w.api.Revision()
	if revision == n.seen && !n.due {
		return
	}
	n.seen, n.due = revision, false
	owners := map[string]bool{}
	for _, o := range n.w.api.List(resource, "") {
		meta, _ := o["metadata"].(map[string]any)
		uid, _ := meta["uid"].(string)
		owners[uid] = true
	}
	for _, o := range n.w.api.List(services, "") {
		if s := convert[service](n.w, o); s.ControllerUID() != "" && !owners[s.ControllerUID()] {
			n.check(n.client.Delete(ctx, services, s.Key(), kube.DeleteOptions{UID: s.UID}))
		}
	}
	for _, o := range n.w.api.List(pods, "") {
		p := convert[pod](n.w, o)
		if uid := p.ControllerUID(); uid != "" && !owners[uid] && !p.Deleting() {
			n.check(n.client.Delete(ctx, pods, p.Key(), kube.DeleteOptions{UID: p.UID}))
			continue
		}
		if !n.frozen {
			n.move(ctx, p, o)
		}
	}
}

// check fails the test on anything but what a race with the others explains.
func (n *node) check(err error) {
	if err != nil && !kube.IsNotFound(err) && !kube.IsConflict(err) && n.w.Context().Err() == nil {
		n.w.Errorf("node: %v", err)
	}
}

// after says whether a stage of a pod has lasted for d.
func (n *node) after(p *pod, stage string, d time.Duration) bool {
	key := p.UID + "/" + stage
	if n.since[key].IsZero() {
		n.since[key] = time.Now()
	}
	over := time.Since(n.since[key]) >= d
	n.due = n.due || !over
	return over
}

func (n *node) move(ctx context.Context, p *pod, o map[string]any) {
	spec, _ := o["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	first, _ := containers[0].(map[string]any)
	image, _ := first["image"].(string)
	switch {
	case p.Deleting():
		if n.after(p, "deleting", stopDelay) {
			var none int64
			n.check(n.client.Delete(ctx, pods, p.Key(), kube.DeleteOptions{UID: p.UID, GracePeriodSeconds: &none}))
		}
	case p.ended():
	case spec["nodeSelector"] != nil:
		if p.condition("PodScheduled").Status == "" {
			n.status(ctx, p, `{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes are available"}]}`)
		}
	case spec["nodeName"] == nil:
		n.patch(ctx, p, "", `{"spec":{"nodeName":"node-1"}}`)
	case !n.after(p, "bound", startDelay):
	case strings.HasSuffix(image, ":broken"):
		if len(p.Status.ContainerStatuses) == 0 {
			n.status(ctx, p, n.ready("False", `"waiting":{"reason":"ImagePullBackOff","message":"no such tag"}`))
		}
	case p.Status.Phase == "Pending":
		n.ips++
		state := "True"
		if strings.HasSuffix(image, ":slow") {
			state = "False"
		}
		n.status(ctx, p, strings.Replace(n.ready(state, `"running":{}`), "{", fmt.Sprintf(`{"phase":"Running","podIP":"10.0.0.%d",`, n.ips), 1))
	}
}

// ready is a status with the condition Ready and the state of the container.
func (n *node) ready(status, state string) string {
	return fmt.Sprintf(`{"conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":%q,"lastTransitionTime":%q,"message":"containers with unready status: [redis]"}],
		"containerStatuses":[{"name":"redis","image":"x","imageID":"","ready":false,"restartCount":0,"state":{%s}}]}`, status, time.Now().UTC().Format(time.RFC3339), state)
}

func (n *node) status(ctx context.Context, p *pod, status string) {
	n.patch(ctx, p, "status", `{"status":`+status+`}`)
}

func (n *node) patch(ctx context.Context, p *pod, subresource, text string) {
	body := n.w.json(text)
	body["metadata"] = map[string]any{"uid": p.UID}
	n.check(n.client.Patch(ctx, pods, p.Key(), kube.MergePatch, body, nil, kube.WriteOptions{FieldManager: "node", Subresource: subresource}))
}

// crash makes the pod of that name lose its readiness; fail ends it as an eviction does.
func (w *world) crash(name string) {
	w.Helper()
	w.podStatus(name, fmt.Sprintf(`{"conditions":[{"type":"Ready","status":"False","lastTransitionTime":%q}],"containerStatuses":[{"name":"redis","image":"x","imageID":"","ready":false,"restartCount":1,
		"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 10s"}},"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}`, time.Now().UTC().Format(time.RFC3339)))
}

func (w *world) fail(name string) {
	w.Helper()
	w.podStatus(name, `{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory"}`)
}

func (w *world) podStatus(name, status string) {
	w.Helper()
	if err := w.user.Patch(w.Context(), pods, named(name), kube.MergePatch, w.json(`{"status":`+status+`}`), nil,
		kube.WriteOptions{FieldManager: "node", Subresource: "status"}); err != nil {
		w.Fatal(err)
	}
	w.settle()
}
