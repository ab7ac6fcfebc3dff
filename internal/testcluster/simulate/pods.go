package simulate

import (
	"cmp"
	"slices"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

// setPod is the part of a Pod that the controllers of workloads read.
type setPod struct {
	kube.MetaAnnotated `json:"metadata"`
	Spec               struct {
		NodeName       string            `json:"nodeName"`
		Hostname       string            `json:"hostname"`
		Subdomain      string            `json:"subdomain"`
		Containers     []portedContainer `json:"containers"`
		InitContainers []portedContainer `json:"initContainers"`
		Volumes        []struct {
			Claim struct {
				Name string `json:"claimName"`
			} `json:"persistentVolumeClaim"`
		} `json:"volumes"`
	} `json:"spec"`
	Status struct {
		Phase      string         `json:"phase"`
		PodIP      string         `json:"podIP"`
		Conditions []podCondition `json:"conditions"`
	} `json:"status"`
}

// portedContainer is the part of a container that Services refer to.
type portedContainer struct {
	RestartPolicy string `json:"restartPolicy"` // of an init container; "Always" for a sidecar
	Ports         []struct {
		Name          string `json:"name"`
		Protocol      string `json:"protocol"`
		ContainerPort int    `json:"containerPort"`
	} `json:"ports"`
}

// port returns the number of a named port, 0 if no container has the port.
func (p *setPod) port(name, protocol string) int {
	for i, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		for _, port := range c.Ports {
			if port.Name == name && port.Protocol == protocol &&
				(i < len(p.Spec.Containers) || c.RestartPolicy == "Always") {
				return port.ContainerPort
			}
		}
	}
	return 0
}

type podCondition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// active reports whether the pod counts as a replica: runs or will run.
func (p *setPod) active() bool { return !p.Deleting() && !p.ended() }

func (p *setPod) ended() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// readySince returns when the pod became ready, false if it is not ready.
func (p *setPod) readySince() (time.Time, bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			return c.LastTransitionTime, true
		}
	}
	return time.Time{}, false
}

func (p *setPod) ready() bool { _, ok := p.readySince(); return ok }

// readiness counts the ready pods and the pods that have been ready for minSeconds, and returns when the next pod will
// have been.
func readiness(pods []*setPod, minSeconds int, now time.Time) (ready, available int, again time.Duration) {
	for _, p := range pods {
		since, ok := p.readySince()
		if !ok {
			continue
		}
		ready++
		wait := since.Add(time.Duration(minSeconds) * time.Second).Sub(now)
		if minSeconds > 0 && wait > 0 {
			again = cmp.Or(min(again, wait), wait)
		} else {
			available++
		}
	}
	return ready, available, again
}

// include reports whether labels include the wanted labels.
func include(labels kube.Labels, wanted map[string]string) bool {
	for key, want := range wanted {
		if have, ok := labels.Get(key); !ok || have != want {
			return false
		}
	}
	return true
}

// matches reports whether the selector of w selects labels. An empty selector selects nothing.
func (w *workload) matches(labels kube.Labels) bool {
	terms := w.Spec.Selector.Requirements()
	return len(terms) > 0 && terms.Match(labels)
}

// selecting returns a function from a pod to the objects of a mirror that select the pod.
func selecting[T interface {
	kube.Object
	selects(*setPod) bool
}](mirror *cache.Store[T]) func(*setPod) []kube.Key {
	return func(p *setPod) (keys []kube.Key) {
		all, err := mirror.List(p.Namespace)
		if err != nil {
			return nil // not synced yet: all will be reconciled then
		}
		for _, o := range all {
			if o.selects(p) {
				keys = append(keys, o.ObjectMeta().Key())
			}
		}
		return keys
	}
}

// leastWorth orders pods for deletion: first pods without a node, then pods not ready, then the newer pods. The order
// depends only on the pods, so that a reconcile before the events of the deletions chooses the same pods.
func leastWorth(a, b *setPod) int {
	rank := func(p *setPod) int {
		switch {
		case p.Spec.NodeName == "":
			return 0
		case !p.ready():
			return 1
		}
		return 2
	}
	return cmp.Or(rank(a)-rank(b), b.CreationTimestamp.Compare(a.CreationTimestamp), cmp.Compare(a.Name, b.Name))
}
