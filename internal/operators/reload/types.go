package reload

import (
	"time"

	"skiff/internal/operators/sources"
	"skiff/internal/operators/workload"
	"skiff/internal/runtime/kube"
)

// Kinds are the kinds of workloads, in the order of their controllers. The other watched resources are those of
// package sources.
var Kinds = []kube.Resource{workload.Kinds["Deployment"], workload.Kinds["StatefulSet"], workload.Kinds["DaemonSet"],
	rollouts}

// short are the short names of the kinds in kubectl.
var short = map[string]string{"Deployment": "deploy", "StatefulSet": "sts", "DaemonSet": "ds",
	"Rollout": "ro"}

// Annotated has the annotations kept of workloads and pod templates: skiff's own, Reloader's as far as they
// count (theirs.go), and the cluster's about the revision of a template. Any other may be large, or have a Secret's
// values. (Exported names are for package kube, which decodes into the fields.)
type Annotated struct {
	Annotations kube.Labels `json:"annotations" prefix:"skiff.dev/ *reloader.stakater.com/ deployment.kubernetes.io/revision deprecated.daemonset.template.generation rollout.argoproj.io/revision"`
}

// Meta is the metadata of workloads, as far as kept.
type Meta struct {
	kube.Meta
	Annotated
}

// content is a source as seen by a workload.
type content struct {
	uid    string             // of the ConfigMap or Secret
	values []kube.NamedDigest // in order
	resume time.Time          // see ResumeAnnotation; zero: not set
}

func contentOf(o sources.Object) *content {
	m := o.SourceMeta()
	c := &content{uid: m.UID, values: o.Values()}
	text, _ := m.Annotations.Get(ResumeAnnotation)
	c.resume = timeOf(text)
	return c
}

// target has the fields kept of a workload of any kind.
type target struct {
	Meta `json:"metadata"`
	Spec struct {
		workload.Spec
		rolloutFields
		Template struct {
			Metadata Annotated `json:"metadata"`
			Spec     podSpec   `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		workload.Status
		Phase       string `json:"phase"`       // of a Rollout
		RestartedAt string `json:"restartedAt"` // likewise: restartAt as carried out
		Abort       bool   `json:"abort"`       // likewise: only the stable pods stay, until a user retries
		Conditions  []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
			Reason string `json:"reason"`
		} `json:"conditions"`
	} `json:"status"`
}

// podSpec is the part of a pod template that names ConfigMaps and Secrets whose content the containers see.
type podSpec struct {
	Containers     []container `json:"containers"`
	InitContainers []container `json:"initContainers"`
	Volumes        []volume    `json:"volumes"`
}

type container struct {
	Image string `json:"image"`
	Env   []struct {
		From struct {
			ConfigMap keyOf `json:"configMapKeyRef"`
			Secret    keyOf `json:"secretKeyRef"`
		} `json:"valueFrom"`
	} `json:"env"`
	EnvFrom []struct {
		ConfigMap whole `json:"configMapRef"`
		Secret    whole `json:"secretRef"`
	} `json:"envFrom"`
	Mounts []mount `json:"volumeMounts"`
}

// mount names a volume.
type mount struct {
	Volume string `json:"name"`
}

// keyOf names a key of a source; an empty name names none.
type keyOf struct {
	Name     string `json:"name"`
	Key      string `json:"key"`
	Optional bool   `json:"optional"`
}

// whole names a source, of which a volume may have certain keys alone.
type whole struct {
	Name     string `json:"name"`
	Items    []item `json:"items"`
	Optional bool   `json:"optional"`
}

type item struct {
	Key string `json:"key"`
}

type volume struct {
	Name      string `json:"name"`
	ConfigMap whole  `json:"configMap"`
	Secret    struct {
		Name     string `json:"secretName"`
		Items    []item `json:"items"`
		Optional bool   `json:"optional"`
	} `json:"secret"`
	Projected struct {
		Sources []struct {
			ConfigMap whole `json:"configMap"`
			Secret    whole `json:"secret"`
		} `json:"sources"`
	} `json:"projected"`
}

// revision names the template of a workload of a kind, going by the cluster: another template has another revision.
func (w *target) revision(kind string) (revision string) {
	switch kind {
	case "Deployment":
		revision, _ = w.Annotations.Get("deployment.kubernetes.io/revision")
	case "DaemonSet":
		revision, _ = w.Annotations.Get("deprecated.daemonset.template.generation")
	case rollouts.Kind:
		revision, _ = w.Annotations.Get("rollout.argoproj.io/revision")
	default:
		revision = w.Status.UpdateRevision
	}
	return revision
}

// reloadedAt returns when reload last restarted the workload; zero: never. A restart of a Rollout in place counts
// whoever asked for it, where reload restarts in place as well; a restart planned for later is none.
func (w *target) reloadedAt(inPlace bool, now time.Time) time.Time {
	text, _ := w.Spec.Template.Metadata.Annotations.Get(RestartAnnotation)
	at := timeOf(text)
	if !inPlace {
		return at
	}
	if restart := timeOf(w.Spec.RestartAt); restart.After(at) && !restart.After(now.Add(skew)) {
		return restart
	}
	return at
}

// leftover says whether the workload's pods come from a Deployment, and the time of a restart is left in the template
// here: Argo takes a Rollout with both for wrong.
func (w *target) leftover() bool {
	_, left := w.Spec.Template.Metadata.Annotations.Get(RestartAnnotation)
	return left && w.Spec.WorkloadRef.Name != ""
}

// failedAfter is when an endless rollout counts as failed, for kinds whose controller does not say so: the
// API's default of progressDeadlineSeconds of a Deployment.
const failedAfter = 10 * time.Minute

// slowest is the same for a Deployment whose controller reports progress, and which has a deadline in the spec.
const slowest = 6 * failedAfter

// progress says whether the restart of a workload is still rolling out, and whether the rollout has failed. Neither is
// true of a rollout waiting for a user, or complete once: pods missing later say nothing about the rollout.
func (w *target) progress(kind string, inPlace bool, now time.Time) (rolling, failed bool) {
	if kind == rollouts.Kind {
		return w.rolloutProgress(inPlace, now)
	}
	stage := workload.StageOf(kind, w.Generation, &w.Spec.Spec, &w.Status.Status)
	if stage == workload.RolledOut { // most are, and the time takes the longest to read
		return false, false
	}
	at := w.reloadedAt(inPlace, now)
	switch {
	case at.IsZero(), at.After(now.Add(skew)), w.Spec.Paused, w.Spec.Strategy.Type == "OnDelete":
		return false, false
	case stage == workload.Unseen: // the conditions are of an older rollout
		return now.Sub(at) <= failedAfter, false
	case kind == "StatefulSet" && w.Status.UpdateRevision != "" && w.Status.CurrentRevision == w.Status.UpdateRevision:
		return false, false
	}
	limit := failedAfter
	for _, c := range w.Status.Conditions {
		switch {
		case c.Type != "Progressing":
		case c.Reason == "ProgressDeadlineExceeded":
			return false, true
		case c.Reason == "NewReplicaSetAvailable" && w.Status.UpdatedReplicas == w.Status.Replicas:
			return false, false
		case c.Status == "True":
			limit = slowest
		}
	}
	if now.Sub(at) <= limit {
		return true, false
	}
	// Where all pods are of the new template and some are available, the others lack something else than its content.
	_, _, _, available := workload.Counts(kind, &w.Spec.Spec, &w.Status.Status)
	return false, stage == workload.Rolling || available == 0
}

// rolloutProgress is progress of a Rollout, whose controller says how far the Rollout is, and whether a deadline is
// over. Long steps are no failure; a wave does not wait for their end.
func (w *target) rolloutProgress(inPlace bool, now time.Time) (rolling, failed bool) {
	at := w.reloadedAt(inPlace, now)
	waited := now.Sub(at)
	switch {
	case at.IsZero(), at.After(now.Add(skew)), w.Spec.Paused:
		return false, false
	case int64(w.Status.ObservedGeneration) < w.Generation, // the phase is of an older rollout
		inPlace && at.Equal(timeOf(w.Spec.RestartAt)) && timeOf(w.Status.RestartedAt).Before(at),
		w.Status.Phase == "Progressing":
		return waited <= slowest, false
	case w.Status.Phase == "Degraded":
		return false, true
	}
	return false, false // Healthy; or Paused, between two steps, perhaps until a user goes on
}

// rolledOut says whether all pods are of the present template.
func (w *target) rolledOut(kind string) bool {
	if kind == rollouts.Kind && w.Status.Phase != "Healthy" {
		return false
	}
	return workload.StageOf(kind, w.Generation, &w.Spec.Spec, &w.Status.Status) == workload.RolledOut
}
