package redis

import (
	"context"
	"fmt"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

// node is a scheduler, a kubelet and a garbage collector in one, as far as this controller can see them. It moves
// each pod one stage on each time that it looks.
type node struct {
	*operatortest.Cluster
	ips int
}

const (
	startDelay = time.Second // from the binding of a pod until it is ready
	stopDelay  = time.Second // from the deletion of a pod until it is gone
)

// What a test asks for by the image of the pod.
const (
	brokenImage = "redis:broken" // cannot be pulled
	slowImage   = "redis:slow"   // runs and never becomes ready
	// These end: what is rejected by its node before a container starts, what fails by its command (with
	// restartPolicy: Never).
	rejectedImage = "redis:rejected"
	failingImage  = "redis:failing"
)

func startNode(w *operatortest.Env) *node {
	n := &node{}
	n.Cluster = operatortest.NewCluster(w, n.step)
	return n
}

func (n *node) step(ctx context.Context, c *operatortest.Cluster) {
	for _, o := range c.API.List(pods, "") {
		n.wantOwner(operatortest.Convert[pod](c.Env, o))
	}
	c.Collect(ctx, services, pods)
	for _, o := range c.API.List(pods, "") {
		n.move(ctx, operatortest.Convert[pod](c.Env, o), o)
	}
}

// wantOwner checks that a Redis does not go before its pods.
func (n *node) wantOwner(p *pod) {
	uid := p.ControllerUID()
	if uid == "" {
		return
	}
	for _, o := range n.API.List(resource, p.Namespace) {
		if operatortest.At(o, "metadata", "uid") == uid {
			return
		}
	}
	if now := n.API.Get(pods, p.Key()); operatortest.At(now, "metadata", "uid") == p.UID {
		n.Errorf("pod %s of a Redis that is gone: %+v", p.Key(), p.Meta)
	}
}

func (n *node) move(ctx context.Context, p *pod, o map[string]any) {
	spec, _ := o["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	first, _ := containers[0].(map[string]any)
	image, _ := first["image"].(string)
	switch {
	case p.Deleting():
		if n.After(p.UID, "deleting", stopDelay) {
			n.Check(n.Client.Delete(ctx, pods, p.Key(), kube.DeleteOptions{UID: p.UID,
				GracePeriodSeconds: new(int64)}))
		}
	case p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded":
	case spec["nodeSelector"] != nil:
		if p.Condition("PodScheduled").Status == "" {
			n.status(ctx, p, `{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable",
				"message":"0/1 nodes are available"}]}`)
		}
	case spec["nodeName"] == nil:
		n.Check(n.Client.Create(ctx, pods, p.Namespace, n.JSON(fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q},
			"target":{"name":"node-1"}}`, p.Name, p.UID)), nil,
			kube.WriteOptions{Subresource: "binding"}))
	case strings.HasSuffix(image, ":rejected"):
		n.status(ctx, p, `{"phase":"Failed","reason":"OutOfcpu",
			"message":"Pod was rejected: Node didn't have enough resource: cpu"}`)
	case strings.HasSuffix(image, ":failing"):
		ended := n.ready("False", `"terminated":{"exitCode":1,"reason":"Error"}`)
		n.status(ctx, p, strings.Replace(ended, "{", `{"phase":"Failed",`, 1))
	case !n.After(p.UID, "bound", startDelay):
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
		n.status(ctx, p, strings.Replace(n.ready(state, `"running":{}`), "{", fmt.Sprintf(`{"phase":"Running",
			"podIP":"10.0.0.%d",`, n.ips), 1))
	}
}

// ready is a status with the condition Ready and the state of the container.
func (n *node) ready(status, state string) string {
	return fmt.Sprintf(`{"conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":%q,
		"lastTransitionTime":%q,"message":"containers with unready status: [redis]"}],
		"containerStatuses":[{"name":"redis","image":"x","imageID":"","ready":false,"restartCount":0,"state":{%s}}]}`,
		status, time.Now().UTC().Format(time.RFC3339), state)
}

func (n *node) status(ctx context.Context, p *pod, status string) {
	n.Patch(ctx, pods, &p.Meta, "status", n.JSON(`{"status":`+status+`}`))
}

// crash makes the pod of that name lose its readiness; fail ends it as an eviction does.
func (w *env) crash(name string) {
	w.Helper()
	w.PatchSub(pods, name, "status", fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"False",
		"lastTransitionTime":%q}],
		"containerStatuses":[{"name":"redis","image":"x","imageID":"","ready":false,"restartCount":1,
		"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 10s"}},
		"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}}`, time.Now().UTC().Format(time.RFC3339)))
}

func (w *env) fail(name string) {
	w.Helper()
	w.PatchSub(pods, name, "status", `{"status":{"phase":"Failed","reason":"Evicted",
		"message":"The node was low on resource: memory"}}`)
}
