package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"skiff/internal/cache"
	"skiff/internal/controller"
	"skiff/internal/events"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// RestartsAnnotation on a pod restarts its containers until they have restarted that many times in total.
const RestartsAnnotation = "simulate.skiff.dev/restarts"

// BrokenTag is an image tag that cannot be pulled: a container with such an image stays in ImagePullBackOff.
const BrokenTag = "broken"

// kubeletPod is the part of a Pod that the kubelet reads.
type kubeletPod struct {
	podMeta `json:"metadata"`
	Spec    struct {
		placement
		NodeName       string         `json:"nodeName"`
		InitContainers []podContainer `json:"initContainers"`
		Containers     []podContainer `json:"containers"`
	} `json:"spec"`
	Status kube.Raw `json:"status"`
}

type podMeta struct {
	kube.MetaAnnotated
	DeletionGracePeriodSeconds int64 `json:"deletionGracePeriodSeconds"`
}

type podContainer struct {
	Name      string `json:"name"`
	Image     string `json:"image"`
	Resources struct {
		Requests map[string]string `json:"requests"`
		Limits   map[string]string `json:"limits"`
	} `json:"resources"`
}

// kubelet is the scheduler and the kubelets of all nodes: it binds each pod to a node, and starts, restarts and stops
// its containers. No container runs: it writes the statuses that a kubelet would write, at the times when it would.
type kubelet struct {
	world
	mirror *cache.Store[*kubeletPod]
	nodes  *cache.Store[*node]

	started, scheduled recordFunc // Events of the kubelet and of the scheduler
	counted            sync.Once  // see countAll

	mu     sync.Mutex           // guards what follows
	boxes  map[kube.Key]sandbox // the state that a container runtime would have
	lastIP netip.Addr

	reserved map[kube.Key]reservation
	asked    map[string]requests // by nodes, the sums of reserved
}

// sandbox is the state of a pod on its node.
type sandbox struct {
	uid       string
	ip        string
	created   time.Time // when the pod was first seen on its node
	restarts  int       // of each of its containers
	restarted time.Time // when the last restart began
	ready     time.Time // when the containers are up, maybe in the future
	ended     bool      // its containers have ended by themselves
	stopped   time.Time // when they have stopped, maybe in the future; zero before the pod is deleted
}

// beforePodIPs is the address before that of the first pod. The range (10.128.0.0/9) is large enough that a process
// never gives an address twice, and it does not contain the cluster IPs of Services (10.96.0.0/12).
var beforePodIPs = netip.MustParseAddr("10.128.0.0")

func newKubelet(w world) runner {
	k := &kubelet{world: w, mirror: mirrorOf[*kubeletPod](w, podResource), nodes: mirrorOf[*node](w, nodeResource),
		boxes: map[kube.Key]sandbox{}, lastIP: beforePodIPs,
		reserved: map[kube.Key]reservation{}, asked: map[string]requests{},
		started: w.recorder("kubelet"), scheduled: w.recorder("default-scheduler")}
	return w.controller("kubelet", k.reconcile, controller.For(k.mirror),
		controller.Watches(k.nodes, func(*node) []kube.Key { return nil }))
}

func (c *kubelet) reconcile(ctx context.Context, k kube.Key) (controller.Outcome, error) {
	p, ok, err := c.mirror.Get(k)
	if err != nil {
		return controller.Done, err
	}
	if !ok {
		c.reserve(k, "", "", nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.boxes, k)
		return controller.Done, nil
	}
	var status map[string]any
	if err := readStatus(podResource, p, p.Status, &status); err != nil {
		return controller.Done, err
	}
	now := time.Now()
	switch phase := status["phase"]; {
	case p.Deleting():
		return c.stop(ctx, p, now)
	case phase == "Succeeded" || phase == "Failed": // final, whoever has set it
		c.reserve(k, "", "", nil)
		return controller.Done, nil
	case p.Spec.NodeName == "":
		return c.schedule(ctx, p, status)
	}
	return c.run(ctx, p, status, now)
}

// ended reports whether a pod has ended, by its status.
func ended(status kube.Raw) bool {
	var s struct {
		Phase string `json:"phase"`
	}
	return json.Unmarshal(status, &s) == nil && (s.Phase == "Succeeded" || s.Phase == "Failed")
}

// ExitAnnotation on a pod ends its containers with that exit code, a moment after they have started. Those of the pods
// of Jobs end without it, with 0.
const ExitAnnotation = "simulate.skiff.dev/exit-code"

// exitCode returns the code that the containers of a pod end with, false if they run on.
func (p *kubeletPod) exitCode() (code int64, ends bool) {
	text, ok := p.Annotations.Get(ExitAnnotation)
	code, err := strconv.ParseInt(text, 10, 32)
	owner, _ := p.Controller()
	return code, ok && err == nil || owner.Kind == jobResource.Kind
}

// stop deletes a pod that is terminating once its containers have had time to stop.
func (c *kubelet) stop(ctx context.Context, p *kubeletPod, now time.Time) (controller.Outcome, error) {
	if wait := c.stopTime(p, now).Sub(now); wait > 0 {
		return controller.After(wait), nil
	}
	var none int64
	err := c.client.Delete(ctx, podResource, p.Key(), kube.DeleteOptions{UID: p.UID, GracePeriodSeconds: &none})
	return controller.Done, err
}

// stopTime returns when the containers of p have stopped. The pod itself has only the deadline, in whole seconds.
func (c *kubelet) stopTime(p *kubeletPod, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	box := c.boxes[p.Key()]
	if box.uid != p.UID {
		return now // it was never on a node
	}
	if box.stopped.IsZero() {
		box.stopped = now.Add(min(c.PodStopDelay, time.Duration(p.DeletionGracePeriodSeconds)*time.Second))
		c.boxes[p.Key()] = box
	}
	return box.stopped
}

// run updates the status of a pod, and requeues it for the time when its containers are up.
func (c *kubelet) run(ctx context.Context, p *kubeletPod, status map[string]any,
	now time.Time) (controller.Outcome, error) {
	c.reserve(p.Key(), p.UID, p.Spec.NodeName, requestsOf(p))
	box, err := c.sandboxOf(p, now)
	if err != nil {
		return controller.Done, err
	}
	desired := podStatus(p, box, c.nodeIP(p.Spec.NodeName), now)
	if covered, _ := patch.Covered(nil, desired, status); !covered {
		if desired["phase"] == "Running" && status["phase"] == "Pending" {
			c.started(podResource, p, events.Normal, "Started", "Container started")
		}
		// A strategic merge patch keeps conditions of other types.
		err := c.patch(ctx, kube.StrategicMergePatch, podResource, p, "status", map[string]any{"status": desired})
		if err != nil {
			return controller.Done, err
		}
	}
	wait := box.ready.Sub(now)
	if _, ends := p.exitCode(); wait <= 0 && ends && !box.ended {
		wait += c.PodStartDelay
	}
	return controller.Wait(max(wait, 0)), nil
}

// sandboxOf returns the state of a pod on its node, updated for the time that has passed.
func (c *kubelet) sandboxOf(p *kubeletPod, now time.Time) (sandbox, error) {
	restarts := 0
	if text, ok := p.Annotations.Get(RestartsAnnotation); ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return sandbox{},
				controller.Terminal(fmt.Errorf("pod %s: annotation %s: want a number of restarts, have %q",
					p.Key(), RestartsAnnotation, text))
		}
		restarts = n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	box := c.boxes[p.Key()]
	if box.uid != p.UID {
		c.lastIP = c.lastIP.Next()
		box = sandbox{uid: p.UID, ip: c.lastIP.String(), created: now, ready: now.Add(c.PodStartDelay)}
	}
	if box.restarts < restarts && !box.ready.After(now) {
		box.restarts, box.restarted, box.ready = restarts, now, now.Add(c.PodStartDelay)
	}
	_, ends := p.exitCode()
	box.ended = ends && !box.ready.Add(c.PodStartDelay).After(now) && !slices.ContainsFunc(p.Spec.Containers,
		func(container podContainer) bool { return broken(container.Image) })
	c.boxes[p.Key()] = box
	return box, nil
}
