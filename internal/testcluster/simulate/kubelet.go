package simulate

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// RestartsAnnotation on a pod is how many times in total the containers restart.
const RestartsAnnotation = "simulate.skiff.dev/restarts"

// BrokenTag is a tag of images that cannot be pulled: a container with such an image stays in ImagePullBackOff.
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

// ended says whether the containers of a pod have ended for good: the requested resources are free again.
func (p *kubeletPod) ended() bool {
	var status struct {
		Phase string `json:"phase"`
	}
	err := readStatus(podResource, p, p.Status, &status)
	return err == nil && (status.Phase == "Succeeded" || status.Phase == "Failed")
}

type podContainer struct {
	Name      string `json:"name"`
	Image     string `json:"image"`
	Resources struct {
		Requests map[string]string `json:"requests"`
		Limits   map[string]string `json:"limits"`
	} `json:"resources"`
}

// kubelet is the scheduler and the kubelets of all nodes: each pod is bound to a node, and the containers started,
// restarted and stopped. No container runs: only the statuses of a kubelet are written, at the same times.
type kubelet struct {
	controllerOf[*kubeletPod]
	nodes     *cache.Store[*node]
	scheduled recordFunc // records Events of the scheduler
	evicting  recordFunc // and of the controller for the eviction of pods from nodes with taints

	mu     sync.Mutex           // guards the rest
	boxes  map[kube.Key]sandbox // the state that a container runtime would have
	lastIP netip.Addr

	reserved map[kube.Key]reservation
	asked    map[string]requests // by nodes, the sums of reserved
	unfit    map[kube.Key]bool   // pods without a node: they are looked at again when a node or a reservation changes
}

// sandbox is the state of a pod on its node.
type sandbox struct {
	uid       string
	ip        string
	created   time.Time // when the pod was first seen on the node
	restarts  int       // of each container
	restarted time.Time // when the last restart began
	ready     time.Time // when the containers are up, maybe in the future
	ended     bool      // the containers have ended, and were not stopped
	stopped   time.Time // when they have stopped, maybe in the future; zero before the pod is deleted
	tainted   time.Time // since when the node has taints that the pod tolerates for a time
}

// beforePodIPs is the address before the first pod's. The range is large enough for a process never to give an address
// twice, and does not contain the cluster IPs of Services (10.96.0.0/12).
var (
	beforePodIPs = podIPs.Addr()
	podIPs       = netip.MustParsePrefix("10.128.0.0/9")
)

func newKubelet(s *shared) runner {
	k := &kubelet{controllerOf: newController[*kubeletPod](s, podResource, "kubelet"), nodes: mirrorOf[*node](s,
		nodeResource), scheduled: s.recorder("default-scheduler"), boxes: map[kube.Key]sandbox{}, lastIP: beforePodIPs,
		reserved: map[kube.Key]reservation{}, asked: map[string]requests{}, unfit: map[kube.Key]bool{}}
	k.evicting = s.recorder("taint-eviction-controller")
	k.gone = func(_ context.Context, key kube.Key) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.boxes, key)
		delete(k.unfit, key)
		return nil
	}
	k.mirror.OnChange(func(c cache.Change[*kubeletPod]) {
		k.skipIP(c.Object())
		if p := c.Object(); c.Type == cache.Gone || p.ended() {
			k.reserve(p, "")
		} else if p.Spec.NodeName != "" {
			k.reserve(p, p.Spec.NodeName)
		}
	})
	return k.forEach("kubelet", k.sync, controller.Watches(k.nodes, k.onNode), controller.Watches(k.mirror, k.onFreed))
}

func (c *kubelet) sync(ctx context.Context, p *kubeletPod) (time.Duration, error) {
	var status object
	if err := readStatus(podResource, p, p.Status, &status); err != nil {
		return 0, err
	}
	now := time.Now()
	switch phase := status["phase"]; {
	case p.Deleting() && p.Spec.NodeName == "":
		return 0, nil // no kubelet has the pod: the API server deletes the pod
	case p.Deleting():
		return c.stop(ctx, p, status, now)
	case phase == "Succeeded" || phase == "Failed": // final, also if a user has set it
		return 0, nil
	case p.Spec.NodeName == "":
		return 0, c.schedule(ctx, p, status)
	}
	wait, evicted := c.untilEvicted(p, now)
	switch {
	case evicted:
		return 0, c.evict(ctx, p)
	case c.Copied.Pods[p.UID]:
		return wait, nil
	}
	again, err := c.run(ctx, p, status, now)
	if wait > 0 && (again == 0 || wait < again) {
		again = wait
	}
	return again, err
}

// ExitAnnotation on a pod is the exit code of the containers, which end a moment after the start. In the pods of Jobs
// the containers end without the annotation, too, with 0.
const ExitAnnotation = "simulate.skiff.dev/exit-code"

// terminatedCode is the exit code of a process ended by SIGTERM.
const terminatedCode = 143

// exitCode returns the exit code of the containers of a pod, false if they run on.
func (p *kubeletPod) exitCode() (code int64, ends bool) {
	if p.Deleting() {
		return terminatedCode, true
	}
	text, ok := p.Annotations.Get(ExitAnnotation)
	code, err := strconv.ParseInt(text, 10, 32)
	owner, _ := p.Controller()
	return code, ok && err == nil || owner.Kind == jobResource.Kind
}

// stop deletes a terminating pod once the containers have had time to stop. Where finalizers keep the pod, the status
// says that the containers have stopped.
func (c *kubelet) stop(ctx context.Context, p *kubeletPod, status object, now time.Time) (time.Duration, error) {
	box := c.stopping(p, now)
	if wait := box.stopped.Sub(now); wait > 0 {
		return wait, nil
	}
	ended := status["phase"] == "Succeeded" || status["phase"] == "Failed"
	if len(p.Finalizers) > 0 && !box.created.IsZero() && !ended {
		box.ended = true
		err := c.patch(ctx, kube.StrategicMergePatch, podResource, p, "status",
			object{"status": podStatus(p, box, c.nodeIP(p.Spec.NodeName), now)})
		if err != nil {
			return 0, err
		}
	}
	var none int64
	return 0, c.client.Delete(ctx, podResource, p.Key(), kube.DeleteOptions{UID: p.UID, GracePeriodSeconds: &none})
}

// stopping returns the state of a pod on the node with the time when the containers have stopped. The pod itself has
// only the deadline, in whole seconds.
func (c *kubelet) stopping(p *kubeletPod, now time.Time) sandbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	box := c.boxes[p.Key()]
	switch {
	case box.uid == p.UID:
	case c.Copied.Pods[p.UID]:
		box = sandbox{uid: p.UID}
	default:
		return sandbox{stopped: now} // never on a node
	}
	if box.stopped.IsZero() {
		box.stopped = now.Add(min(c.PodStopDelay, time.Duration(p.DeletionGracePeriodSeconds)*time.Second))
		c.boxes[p.Key()] = box
	}
	return box
}

// run updates the status of a pod, and requeues the pod for the time when the containers are up.
func (c *kubelet) run(ctx context.Context, p *kubeletPod, status object,
	now time.Time) (time.Duration, error) {
	box, err := c.sandboxOf(p, now)
	if err != nil {
		return 0, err
	}
	desired := podStatus(p, box, c.nodeIP(p.Spec.NodeName), now)
	if covered, _ := patch.Covered(nil, desired, status); !covered {
		if desired["phase"] == "Running" && status["phase"] == "Pending" {
			c.record(p, events.Normal, "Started", "Container started")
		}
		// A strategic merge patch keeps conditions of other types.
		err := c.patch(ctx, kube.StrategicMergePatch, podResource, p, "status", object{"status": desired})
		if err != nil {
			return 0, err
		}
	}
	wait := box.ready.Sub(now)
	if _, ends := p.exitCode(); wait <= 0 && ends && !box.ended {
		wait += c.PodStartDelay
	}
	return max(wait, 0), nil
}

// sandboxOf returns the state of a pod on the node, updated for the passed time.
func (c *kubelet) sandboxOf(p *kubeletPod, now time.Time) (sandbox, error) {
	text, set := p.Annotations.Get(RestartsAnnotation)
	restarts, err := strconv.Atoi(text) // 0 without the annotation
	if set && (err != nil || restarts < 0) {
		return sandbox{}, controller.Terminal(fmt.Errorf("pod %s: annotation %s: want a number of restarts, have %q",
			p.Key(), RestartsAnnotation, text))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	box := c.boxes[p.Key()]
	if box.uid != p.UID {
		box = resumed(p, c.PodStartDelay)
	}
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

// skipIP keeps the address of a pod, which may be of an earlier process, from being given to another pod.
func (c *kubelet) skipIP(p *kubeletPod) {
	var s ranStatus
	if readStatus(podResource, p, p.Status, &s) != nil {
		return
	}
	ip, err := netip.ParseAddr(s.PodIP)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && podIPs.Contains(ip) && c.lastIP.Less(ip) {
		c.lastIP = ip
	}
}
