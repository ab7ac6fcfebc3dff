package reload

import (
	"time"

	"skiff/internal/runtime/kube"
)

// rollouts are the workloads of Argo Rollouts, where the cluster has them. A Rollout is restarted in one of two ways:
// by a new pod template, which goes through the steps of the Rollout's strategy, as a canary does, or by the field
// restartAt, for which the pods are made anew in place.
var rollouts = kube.Resource{Group: "argoproj.io", Version: "v1alpha1", Plural: "rollouts", Kind: "Rollout"}

const (
	// StrategyAnnotation of a Rollout is "template", as without the annotation, or "restart": by restartAt.
	StrategyAnnotation = "skiff.dev/reload-strategy"
	// theirStrategy is the same for Reloader, with "rollout" or "restart". In any other spelling, Reloader and skiff
	// take the template.
	theirStrategy = "reloader.stakater.com/rollout-strategy"
)

// rolloutFields are the fields kept of the spec of a Rollout alone.
type rolloutFields struct {
	RestartAt   string `json:"restartAt"`
	WorkloadRef struct {
		Name string `json:"name"`
	} `json:"workloadRef"` // the Deployment that has the pod template instead
}

// inPlace says whether a workload of a kind is restarted by restartAt.
func (r *reader) inPlace(kind string, w *target) bool {
	how, _ := w.Annotations.Get(StrategyAnnotation)
	switch {
	case kind != rollouts.Kind:
		return false
	case w.Spec.WorkloadRef.Name != "": // there is no template
		return true
	case how == "restart", how == "template":
		return how == "restart"
	}
	how, _ = w.Annotations.Get(theirStrategy)
	return r.reloader && how == "restart"
}

// strategy reads how a Rollout is restarted.
func (r *reader) strategy(w *target, out *wants) {
	out.inPlace = r.inPlace(rollouts.Kind, w)
	if how, ok := w.Annotations.Get(theirStrategy); r.reloader && ok && how != "rollout" && how != "restart" {
		out.fault(theirStrategy, "%.100q is neither rollout nor restart", how)
	}
	if how, ok := w.Annotations.Get(StrategyAnnotation); ok && how != "template" && how != "restart" {
		out.fault(StrategyAnnotation, "%.100q is neither template nor restart", how)
	}
	if auto, _ := r.ours(rollouts.Kind, w).Get(AutoAnnotation); auto == "auto" && w.Spec.WorkloadRef.Name != "" {
		out.fault(AutoAnnotation, "its pod template is that of Deployment %s, and refers to nothing here: name the "+
			"sources in %s and %s", w.Spec.WorkloadRef.Name, ConfigMapsAnnotation, SecretsAnnotation)
	}
}

// timeOf reads a time of the API; zero if there is none.
func timeOf(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}
