package restart

import (
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/operators/workload"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// The resources that this controller watches and writes.
var (
	resource = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "restarttriggers",
		Kind: "RestartTrigger"}
	pods = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	// namespaces say who may have their pods as a source.
	namespaces  = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}
	targetKinds = workload.Kinds
)

// RestartTrigger is the custom resource. crds/restarttrigger.yaml describes the fields.
type RestartTrigger = operator.Object[Spec, Status]

// Spec is what the user wants.
type Spec struct {
	Source   SourceSpec  `json:"source"`
	Targets  []TargetRef `json:"targets"`
	Debounce *string     `json:"debounce"` // nil: DefaultDebounce
	Cooldown *string     `json:"cooldown"` // nil: DefaultCooldown
	Budget   *BudgetSpec `json:"budget"`   // nil: no limit but the cooldown
	Suspend  bool        `json:"suspend"`
}

// SourceSpec says which pods, ConfigMaps and Secrets matter, and which changes of pods.
type SourceSpec struct {
	Selector   labels.Selector `json:"selector"`  // empty: no pods
	Namespace  string          `json:"namespace"` // of the pods; "": the trigger's
	Reasons    []Reason        `json:"reasons"`   // empty: NewPodRunning. Not "on", which YAML 1.1 reads as a boolean
	ConfigMaps []ConfigSource  `json:"configMaps"`
	Secrets    []ConfigSource  `json:"secrets"`
}

// ConfigSource is ConfigMaps or Secrets in the trigger's namespace, by either name or selector.
type ConfigSource struct {
	Name     string          `json:"name"`
	Selector labels.Selector `json:"selector"`
	Keys     []string        `json:"keys"` // empty: all
}

// TargetRef names what is restarted, in the trigger's namespace.
type TargetRef struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// BudgetSpec bounds the number of restarts in a window of time.
type BudgetSpec struct {
	Max int32  `json:"max"`
	Per string `json:"per"`
}

// Reason is what happened to a source.
type Reason string

// The reasons, in the order in which one is preferred where several apply.
const (
	PodReplaced        Reason = "PodReplaced"        // a pod of a known name runs, and it is another pod
	PodIPChanged       Reason = "PodIPChanged"       // a pod of a known name has another address
	ContainerRestarted Reason = "ContainerRestarted" // in a pod that goes on
	NewPodRunning      Reason = "NewPodRunning"      // a pod runs that did not before
	PodDeleted         Reason = "PodDeleted"         // a pod that ran is gone
	ConfigChanged      Reason = "ConfigChanged"      // of a ConfigMap or Secret; counts without being listed
)

var reasons = []Reason{PodReplaced, PodIPChanged, ContainerRestarted, NewPodRunning, PodDeleted, ConfigChanged}

// Status is the observations and the deeds. All fields are written, and null removes: so there is no omitempty.
type Status struct {
	operator.Common
	Selector        string     `json:"selector"`        // in kubectl's form; "": no pods are watched
	ConfigNames     string     `json:"configNames"`     // "configmap/app, secret/tls"; "": none are watched
	TargetNames     string     `json:"targetNames"`     // "deployment/predixy,statefulset/web"
	MatchingPods    int32      `json:"matchingPods"`    // source pods, running or not
	NextRestartTime *time.Time `json:"nextRestartTime"` // of Pending; nil: it waits for no time
	Cycle           []string   `json:"cycle"`           // of triggers that set off each other; this trigger first
	State
}

// State is the input of decisions, which has to survive the process. Times are whole seconds in UTC.
type State struct {
	LastRestart      *Restart       `json:"lastRestart"`
	Restarts         int64          `json:"restarts"`         // rounds begun, in all
	RestartsInWindow int32          `json:"restartsInWindow"` // of the budget, up to the last restart
	Suppressed       int64          `json:"suppressed"`       // changes that got no restart of their own
	Pending          *Pending       `json:"pending"`          // the restart whose time has not come
	Round            *Round         `json:"round"`            // the restart that is under way
	Targets          []TargetStatus `json:"targets"`
	Recent           []time.Time    `json:"recent"`      // when the latest rounds began, as many as the budget counts
	Seen             string         `json:"seen"`        // of the source pods: see digest
	SeenConfigs      string         `json:"seenConfigs"` // of ConfigMaps and Secrets: see configDigest
}

// Restart is a restart of a target.
type Restart struct {
	Time   time.Time `json:"time"`
	Reason Reason    `json:"reason"`
	Pod    string    `json:"pod"`
	Source string    `json:"source"` // as of a Change
	Target string    `json:"target"` // "deployment/predixy"
}

// Change is something that happened to a source: to a pod, or to a ConfigMap or Secret.
type Change struct {
	Reason Reason `json:"reason"`
	Pod    string `json:"pod"`    // "": not to a pod
	Source string `json:"source"` // "configmap/app"; "": to a pod
	Note   string `json:"note"`   // for people: "pod redis-2 replaced, new IP"
}

// subject names what a change happened to, for people.
func subject(pod, source string) string {
	if source != "" {
		return source
	}
	return "pod " + pod
}

// Pending is a restart whose time has not come.
type Pending struct {
	Change           // the first one
	First  time.Time `json:"first"` // when it was seen
	Last   time.Time `json:"last"`  // when the latest was
}

// Round is a restart of all targets, one after the other.
type Round struct {
	Time time.Time `json:"time"` // when it began, and the value of the restart annotation
	Change
}

// TargetStatus is how far a target is.
type TargetStatus struct {
	TargetRef
	UID         string     `json:"uid"`         // of the object that RestartedAt is about
	RestartedAt *time.Time `json:"restartedAt"` // the annotation that should be there; nil: none
	Through     *time.Time `json:"through"`     // the last round in which the target rolled out, or was absent
	PodLabels   string     `json:"podLabels"`   // of its pod template, "app=web,tier=front"; "": not known
}

// pod is a pod as cached: only the fields that a trigger can be about. Thousands of pods may matter to no trigger.
type pod struct {
	kube.Meta `json:"metadata"`
	Status    struct {
		Phase      string `json:"phase"`
		PodIP      string `json:"podIP"`
		Containers []struct {
			RestartCount int32 `json:"restartCount"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

func (p *pod) running() bool { return p.Status.Phase == "Running" && !p.Deleting() }

// restarts returns the number of restarts of all containers.
func (p *pod) restarts() (n int32) {
	for _, c := range p.Status.Containers {
		n += c.RestartCount
	}
	return n
}
