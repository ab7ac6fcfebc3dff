package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// workload is the part of a ReplicaSet, Deployment, Job or the like that the controllers read; each kind has some of
// the fields.
type workload struct {
	kube.MetaAnnotated `json:"metadata"`
	Spec               workloadSpec `json:"spec"`
	Status             kube.Raw     `json:"status"`
}

type workloadSpec struct {
	Replicas             *int        `json:"replicas"`
	Selector             podSelector `json:"selector"`
	Template             kube.Raw    `json:"template"`
	MinReadySeconds      int         `json:"minReadySeconds"`
	RevisionHistoryLimit *int        `json:"revisionHistoryLimit"`
	UpdateStrategy       strategy    `json:"updateStrategy"`

	// of Deployments
	Strategy                strategy `json:"strategy"`
	ProgressDeadlineSeconds *int     `json:"progressDeadlineSeconds"`
	Paused                  bool     `json:"paused"`

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
	SuccessPolicy           struct {
		Rules []successRule `json:"rules"`
	} `json:"successPolicy"`
	Suspend bool `json:"suspend"` // and of CronJobs

	// of CronJobs
	Schedule                   string   `json:"schedule"`
	TimeZone                   string   `json:"timeZone"`
	ConcurrencyPolicy          string   `json:"concurrencyPolicy"`
	StartingDeadlineSeconds    *int     `json:"startingDeadlineSeconds"`
	SuccessfulJobsHistoryLimit *int     `json:"successfulJobsHistoryLimit"`
	FailedJobsHistoryLimit     *int     `json:"failedJobsHistoryLimit"`
	JobTemplate                kube.Raw `json:"jobTemplate"`
}

// strategy is how the pods of an old template are replaced.
type strategy struct {
	Type          string `json:"type"` // Recreate and OnDelete; anything else is RollingUpdate
	RollingUpdate struct {
		Partition      int      `json:"partition"`
		MaxSurge       kube.Raw `json:"maxSurge"` // a number or a percentage
		MaxUnavailable kube.Raw `json:"maxUnavailable"`
	} `json:"rollingUpdate"`
}

// podSelector is the selector of a workload, for a ReplicationController a map of labels.
type podSelector struct {
	labels.Selector
	text kube.Raw
}

func (s *podSelector) UnmarshalJSON(text []byte) error {
	s.text = slices.Clone(text)
	if json.Unmarshal(text, &s.MatchLabels) == nil {
		return nil
	}
	s.MatchLabels = nil
	return json.Unmarshal(text, &s.Selector)
}

// workloadKind has the differences between the controllers of pods: all else is done by workloads.
type workloadKind struct {
	part       Part
	of         kube.Resource
	source     string // of the Events
	revisioned bool   // keeps templates as ControllerRevisions
	onNodes    bool   // looks at nodes
	// plan decides, and changes nothing
	plan func(w *workload, pods []*setPod, in facts) plan
}

var workloadKinds = []workloadKind{
	{Deployments, replicaSetResource, "replicaset-controller", false, false, planReplicaSet},
	{ReplicationControllers, replicationResource, "replication-controller", false, false, planReplicas},
	{StatefulSets, statefulSetResource, "statefulset-controller", true, false, planStatefulSet},
	{DaemonSets, daemonSetResource, "daemonset-controller", true, true, planDaemonSet},
	{Jobs, jobResource, "job-controller", false, false, planJob},
}

// facts are the input of a plan, besides the workload and the pods.
type facts struct {
	now       time.Time
	nodes     []*node
	update    string              // the label of the revision of the present template on pods
	templates map[string]kube.Raw // by such labels
}

// plan is the work to be done now.
type plan struct {
	claims []object // of the pods
	create []object // pods
	remove []*setPod
	status object
	again  time.Duration // when to plan again without an event; 0: not at all
	event  *notice       // about the workload as a whole
	over   bool          // the workload has outlived itself and is deleted
	// the status gets a condition if pods cannot be created or deleted
	saysFailure bool
	err         error // why nothing can be done
}

type notice struct {
	kind         events.Type
	reason, text string
}

const (
	revisionLabel = "controller-revision-hash"
	indexLabel    = "apps.kubernetes.io/pod-index"
)

// podTemplate is a template as copied to pods.
type podTemplate struct {
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Finalizers  []any             `json:"finalizers"`
	} `json:"metadata"`
	Spec object `json:"spec"`
}

func (p *plan) template(text kube.Raw) (t podTemplate) {
	if err := json.Unmarshal(text, &t); err != nil {
		p.err = fmt.Errorf("read the pod template: %w", err)
	}
	return t
}

// A workload may ask for billions of pods, and a plan is held in memory until carried out. The events of the created
// pods lead to the next plan.
const (
	burst      = 500      // pods that a plan creates at most, as in the real controllers
	burstBytes = 16 << 20 // of the templates; decoded they take about eight times as much
)

// room returns how many more pods the plan may create.
func (p *plan) room(w *workload) int {
	return min(burst, max(1, burstBytes/max(1, len(w.Spec.Template)))) - len(p.create)
}

// pod plans a pod made from a template, with a generated name, and returns the metadata and the spec.
func (p *plan) pod(w *workload, text kube.Raw) (meta, spec object) {
	t := p.template(text)
	m := t.Metadata
	body := object{"spec": t.Spec, "metadata": object{"generateName": w.Name + "-", "labels": anyMap(m.Labels),
		"annotations": anyMap(m.Annotations), "finalizers": m.Finalizers}}
	p.create = append(p.create, body)
	return member(body, "metadata"), member(body, "spec")
}

// planReplicaSet keeps the number of pods, and counts the terminating pods.
func planReplicaSet(w *workload, pods []*setPod, in facts) plan {
	leaving := 0
	for _, p := range pods {
		if p.Deleting() && !p.ended() {
			leaving++
		}
	}
	p := planReplicas(w, pods, in)
	p.status["terminatingReplicas"] = int64(leaving)
	return p
}

// planReplicas keeps the number of pods.
func planReplicas(w *workload, pods []*setPod, in facts) (p plan) {
	pods = slices.DeleteFunc(pods, func(p *setPod) bool { return !p.active() })
	missing := w.replicas() - len(pods)
	for range min(missing, p.room(w)) {
		p.pod(w, w.Spec.Template)
	}
	slices.SortStableFunc(pods, leastWorth)
	p.remove = pods[:max(0, -missing)]
	ready, available, again := readiness(pods, w.Spec.MinReadySeconds, in.now)
	labeled, template := 0, p.template(w.Spec.Template)
	for _, pod := range pods {
		if include(pod.Labels, template.Metadata.Labels) {
			labeled++
		}
	}
	p.again, p.saysFailure, p.status = again, true, object{"observedGeneration": w.Generation,
		"replicas": int64(len(pods)), "fullyLabeledReplicas": orNull(labeled), "readyReplicas": orNull(ready),
		"availableReplicas": orNull(available)}
	return p
}

// replicaFailure is the condition of ReplicaSets, ReplicationControllers and Deployments whose pods cannot be created.
const replicaFailure = "ReplicaFailure"

// reportFailure adds the condition ReplicaFailure to the status, if the pods could not be created or deleted.
func (p *plan) reportFailure(r kube.Resource, w *workload, err error) error {
	var was struct {
		Conditions conditions `json:"conditions"`
	}
	p.status["conditions"] = nil
	if err == nil {
		return nil
	}
	if unread := readStatus(r, w, w.Status, &was); unread != nil {
		return errors.Join(err, unread)
	}
	reason := "FailedCreate"
	if len(p.remove) > 0 {
		reason = "FailedDelete"
	}
	failure := was.Conditions.of(replicaFailure) // the first error stays: each names another pod
	if failure == nil {
		failure = was.Conditions.next(replicaFailure, "True", reason, refusal(err))
	}
	p.status["conditions"] = []any{failure}
	return err
}
