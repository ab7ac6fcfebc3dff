package simulate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// workload is the part of a ReplicaSet, StatefulSet, DaemonSet or Job that its controller reads; each kind has some of
// the fields.
type workload struct {
	kube.MetaAnnotated `json:"metadata"`
	Spec               workloadSpec `json:"spec"`
	Status             kube.Raw     `json:"status"`
}

type workloadSpec struct {
	Replicas             *int            `json:"replicas"`
	Selector             labels.Selector `json:"selector"`
	Template             kube.Raw        `json:"template"`
	MinReadySeconds      int             `json:"minReadySeconds"`
	RevisionHistoryLimit *int            `json:"revisionHistoryLimit"`
	UpdateStrategy       struct {
		Type          string `json:"type"`
		RollingUpdate struct {
			Partition      int      `json:"partition"`
			MaxUnavailable kube.Raw `json:"maxUnavailable"`
		} `json:"rollingUpdate"`
	} `json:"updateStrategy"`

	// of StatefulSets
	PodManagementPolicy  string   `json:"podManagementPolicy"`
	ServiceName          string   `json:"serviceName"`
	VolumeClaimTemplates kube.Raw `json:"volumeClaimTemplates"`
	Ordinals             struct {
		Start int `json:"start"`
	} `json:"ordinals"`

	// of Jobs
	Completions             *int   `json:"completions"`
	Parallelism             *int   `json:"parallelism"`
	BackoffLimit            *int   `json:"backoffLimit"`
	ActiveDeadlineSeconds   *int   `json:"activeDeadlineSeconds"`
	TTLSecondsAfterFinished *int   `json:"ttlSecondsAfterFinished"`
	CompletionMode          string `json:"completionMode"`
	Suspend                 bool   `json:"suspend"`
}

// workloadKind is what is different between the controllers of pods: all else is done by workloads.
type workloadKind struct {
	part       Part
	of         kube.Resource
	source     string // of its Events
	revisioned bool   // it keeps its templates as ControllerRevisions
	onNodes    bool   // it looks at nodes
	// says what has to be done; it changes nothing
	plan func(w *workload, pods []*setPod, in facts) plan
}

var workloadKinds = []workloadKind{
	{Deployments, replicaSetResource, "replicaset-controller", false, false, planReplicaSet},
	{StatefulSets, statefulSetResource, "statefulset-controller", true, false, planStatefulSet},
	{DaemonSets, daemonSetResource, "daemonset-controller", true, true, planDaemonSet},
	{Jobs, jobResource, "job-controller", false, false, planJob},
}

// facts are what a plan is made from, besides the workload and its pods.
type facts struct {
	now       time.Time
	nodes     []*node
	update    string              // the name of the revision of the present template
	templates map[string]kube.Raw // by names of revisions
}

// plan is what has to be done now.
type plan struct {
	claims []object // that the pods need
	create []object // pods
	remove []*setPod
	status object
	again  time.Duration // when to plan again without an event; 0: not at all
	event  *notice       // about the workload as a whole
	over   bool          // the workload has outlived itself and is deleted
	err    error         // why nothing can be done
}

type notice struct {
	kind         events.Type
	reason, text string
}

const (
	revisionLabel = "controller-revision-hash"
	indexLabel    = "apps.kubernetes.io/pod-index"
)

// pod plans a pod made from a template, with a generated name, and returns its metadata and spec.
func (p *plan) pod(w *workload, text kube.Raw) (meta, spec object) {
	var template struct {
		Metadata struct {
			Labels      object `json:"labels"`
			Annotations object `json:"annotations"`
			Finalizers  []any  `json:"finalizers"`
		} `json:"metadata"`
		Spec object `json:"spec"`
	}
	if err := json.Unmarshal(text, &template); err != nil {
		p.err = fmt.Errorf("read the pod template: %w", err)
	}
	m := template.Metadata
	body := object{"spec": template.Spec, "metadata": object{"generateName": w.Name + "-",
		"labels": m.Labels, "annotations": m.Annotations, "finalizers": m.Finalizers}}
	p.create = append(p.create, body)
	return member(body, "metadata"), member(body, "spec")
}

// planReplicaSet keeps the number of pods.
func planReplicaSet(w *workload, pods []*setPod, in facts) (p plan) {
	pods = slices.DeleteFunc(pods, func(p *setPod) bool { return !p.active() })
	missing := valueOr(w.Spec.Replicas, defaultReplicas) - len(pods)
	for range missing {
		p.pod(w, w.Spec.Template)
	}
	slices.SortStableFunc(pods, leastWorth)
	p.remove = pods[:max(0, -missing)]
	ready, available, again := readiness(pods, w.Spec.MinReadySeconds, in.now)
	p.again, p.status = again, object{"observedGeneration": w.Generation, "replicas": int64(len(pods)),
		"fullyLabeledReplicas": orNull(len(pods)), "readyReplicas": orNull(ready),
		"availableReplicas": orNull(available)}
	return p
}

// replicaFailure is the condition of ReplicaSets, ReplicationControllers and Deployments whose pods cannot be created.
const replicaFailure = "ReplicaFailure"

// reportFailure adds the condition ReplicaFailure to the status, if the pods could not be created or deleted.
func (p *plan) reportFailure(w *workload, err error) error {
	var was struct {
		Conditions conditions `json:"conditions"`
	}
	p.status["conditions"] = nil
	if err == nil {
		return nil
	}
	if unread := readStatus(replicaSetResource, w, w.Status, &was); unread != nil {
		return errors.Join(err, unread)
	}
	reason := "FailedCreate"
	if len(p.remove) > 0 {
		reason = "FailedDelete"
	}
	p.status["conditions"] = []any{was.Conditions.next(replicaFailure, "True", reason, refusal(err))}
	return err
}

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
	RestartPolicy string `json:"restartPolicy"` // of an init container; "Always" makes it a sidecar
	Ports         []struct {
		Name          string `json:"name"`
		Protocol      string `json:"protocol"`
		ContainerPort int    `json:"containerPort"`
	} `json:"ports"`
}

// port returns the number of a named port, 0 if no container has it.
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

// active reports whether the pod counts as a replica: it runs or will run.
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

// readiness counts the ready pods and those that have been ready for minSeconds, and returns when the next one will
// be.
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

// include reports whether an object with these labels has the wanted ones.
func include(labels kube.Labels, wanted map[string]string) bool {
	for key, want := range wanted {
		if have, ok := labels.Get(key); !ok || have != want {
			return false
		}
	}
	return true
}

// selects reports whether the selector of w matches a pod; one without terms matches nothing.
func (w *workload) selects(p *setPod) bool {
	terms := w.Spec.Selector.Requirements()
	return len(terms) > 0 && terms.Match(p.Labels)
}

// selecting returns a function that returns the objects of a mirror that select a pod.
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

// leastWorth orders pods for deletion: first those without a node, then those that are not ready, then the newer ones.
// The order depends only on the pods, so that a reconcile before the events of the deletions chooses the same pods.
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
