package operator

import (
	"maps"
	"slices"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// mountPatience is how long volumes and network of a pod may take on its node: a little less than quiet, because a pod
// gets its node after the last progress of the workload.
const mountPatience = quiet - 5*time.Second

// podNotMounted is the reason of a pod whose containers have no volumes or no network yet; `kubectl get pods` has the
// same word.
const podNotMounted = "ContainerCreating"

// mountingPod is a Pod together with the volumes. Mirrors hold a Pod, without the volumes.
type mountingPod struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		Volumes []volume `json:"volumes"`
	} `json:"spec"`
	Status PodStatus `json:"status"`
}

// volume has the objects that a volume of a pod is made from.
type volume struct {
	Secret struct {
		Name     string `json:"secretName"`
		Optional bool   `json:"optional"`
	} `json:"secret"`
	ConfigMap source `json:"configMap"`
	Projected struct {
		Sources []struct {
			Secret    source `json:"secret"`
			ConfigMap source `json:"configMap"`
		} `json:"sources"`
	} `json:"projected"`
}

// source names a Secret or a ConfigMap.
type source struct {
	Name     string `json:"name"`
	Optional bool   `json:"optional"`
}

// pod returns the fields that a mirror has, too.
func (p *mountingPod) pod() *Pod { return &Pod{Meta: p.Meta, Status: p.Status} }

// fault is FaultOf, and names the Secrets and ConfigMaps of volumes that are not mounted. The status of a pod does not
// say which of them is missing, and skiff has no right to read Secrets or Events.
func (p *mountingPod) fault(now time.Time) (reason, message string) {
	if reason, message, _ = FaultOf(p.pod(), now); reason != "" && reason != podNotReady || !p.unmounted(now) {
		return reason, message
	}
	names := p.mounts()
	if len(names) == 0 {
		return reason, message
	}
	return podNotMounted, "it waits for its volumes or its network; the volumes need " + health.Few(names)
}

// unmounted says whether the kubelet has had time to mount the volumes, and says that volumes or network are missing.
func (p *mountingPod) unmounted(now time.Time) bool {
	scheduled, prepared := p.pod().Condition("PodScheduled"), p.pod().Condition("PodReadyToStartContainers")
	if scheduled.Status != "True" || prepared.Status != "False" {
		return false
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting.Reason; w != podNotMounted && w != "PodInitializing" {
			return false
		}
	}
	return now.Sub(scheduled.LastTransitionTime) >= mountPatience &&
		now.Sub(prepared.LastTransitionTime) >= mountPatience
}

// rootCA is the ConfigMap that each namespace has from the control plane, and each pod in a volume of its own.
const rootCA = "kube-root-ca.crt"

// mounts names the Secrets and ConfigMaps without which the volumes cannot be mounted, in order.
func (p *mountingPod) mounts() []string {
	names := map[string]bool{}
	add := func(kind string, s source) {
		if s.Name != "" && s.Name != rootCA && !s.Optional {
			names[kind+" "+s.Name] = true
		}
	}
	for _, v := range p.Spec.Volumes {
		add("Secret", source(v.Secret))
		add("ConfigMap", v.ConfigMap)
		for _, s := range v.Projected.Sources {
			add("Secret", s.Secret)
			add("ConfigMap", s.ConfigMap)
		}
	}
	return slices.Sorted(maps.Keys(names))
}
