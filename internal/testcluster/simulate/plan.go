package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

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
	claims []map[string]any // that the pods need
	create []map[string]any // pods
	remove []*setPod
	status map[string]any
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
func (p *plan) pod(w *workload, text kube.Raw) (meta, spec map[string]any) {
	var template struct {
		Metadata struct {
			Labels      map[string]any `json:"labels"`
			Annotations map[string]any `json:"annotations"`
			Finalizers  []any          `json:"finalizers"`
		} `json:"metadata"`
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(text, &template); err != nil {
		p.err = fmt.Errorf("read the pod template: %w", err)
	}
	m := template.Metadata
	body := map[string]any{"spec": template.Spec, "metadata": map[string]any{"generateName": w.Name + "-",
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
	p.again, p.status = again, map[string]any{"observedGeneration": w.Generation, "replicas": int64(len(pods)),
		"fullyLabeledReplicas": orNull(len(pods)), "readyReplicas": orNull(ready),
		"availableReplicas": orNull(available)}
	return p
}
