package reload

import (
	"fmt"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// installRollouts makes the server serve Rollouts, with what the schema of Argo says about the fields of interest.
func (w *env) installRollouts() {
	w.Helper()
	crds := kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
		Kind: "CustomResourceDefinition", ClusterScoped: true}
	loose := `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`
	err := w.User.Create(w.Context(), crds, "", kube.Raw(`{"apiVersion":"apiextensions.k8s.io/v1",
		"kind":"CustomResourceDefinition","metadata":{"name":"rollouts.argoproj.io"},"spec":{"group":"argoproj.io",
		"scope":"Namespaced","names":{"kind":"Rollout","plural":"rollouts","listKind":"RolloutList","singular":"rollout"},
		"versions":[{"name":"v1alpha1","served":true,"storage":true,"subresources":{"status":{}},
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
			"restartAt":{"type":"string","format":"date-time"},"replicas":{"type":"integer"},"template":`+loose+`},
			"x-kubernetes-preserve-unknown-fields":true},"status":{"type":"object","properties":{
			"observedGeneration":{"type":"string"}},"x-kubernetes-preserve-unknown-fields":true}}}}}]}}`), nil,
		kube.WriteOptions{})
	if err != nil {
		w.Fatal(err)
	}
}

// rollout makes a Rollout that depends on ConfigMap a.
func (w *env) rollout(name, annotations, more string) {
	w.Helper()
	w.Post(rollouts, fmt.Sprintf(`{"apiVersion":"argoproj.io/v1alpha1","kind":"Rollout","metadata":{"name":%[1]q,
		"annotations":{%[2]s}},"spec":{"replicas":1,"selector":{"matchLabels":{"app":%[1]q}}%[3]s}}`, name,
		annotations, more))
}

const rolloutTemplate = `,"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"main",
	"image":"web:1","envFrom":[{"configMapRef":{"name":"a"}}]}]}}`

// heal has each Rollout be as Argo leaves it: all pods are of the present spec.
func (w *env) heal(names ...string) {
	w.Helper()
	for _, name := range names {
		o := w.API.Get(rollouts, in(name))
		restarted := at(o, "spec", "restartAt")
		if text, _ := restarted.(string); timeOf(text).After(time.Now()) {
			restarted = at(o, "status", "restartedAt") // planned for later
		}
		err := w.User.Patch(w.Context(), rollouts, in(name), kube.MergePatch, map[string]any{
			"status": map[string]any{"observedGeneration": fmt.Sprint(at(o, "metadata", "generation")),
				"phase": "Healthy", "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
				"restartedAt": restarted}}, nil, kube.WriteOptions{Subresource: "status"})
		if err != nil {
			w.Fatal(err)
		}
	}
}

// restarts returns the restarts of a Rollout by both ways.
func (w *env) restarts(name string) string {
	o := w.API.Get(rollouts, in(name))
	return fmt.Sprint("template ", at(o, "spec", "template", "metadata", "annotations", RestartAnnotation) != nil,
		", restartAt ", at(o, "spec", "restartAt") != nil)
}

func TestARolloutOfArgoIsRestartedAsItsAnnotationSays(t *testing.T) {
	story(t, Options{Reloader: true}, func(w *env) {
		w.Pass(time.Minute)
		w.installRollouts() // while skiff runs
		w.configMap("a", "1")
		want := map[string]string{}
		for name, c := range map[string]struct{ annotations, more, want string }{
			"steps":    {auto, rolloutTemplate, "template true, restartAt false"},
			"in-place": {auto + `,"skiff.dev/reload-strategy":"restart"`, rolloutTemplate, "template false, restartAt true"},
			"theirs": {`"reloader.stakater.com/auto":"true","reloader.stakater.com/rollout-strategy":"restart"`,
				rolloutTemplate, "template false, restartAt true"},
			"misspelt": {auto + `,"reloader.stakater.com/rollout-strategy":"Restart"`, rolloutTemplate,
				"template true, restartAt false"},
			"other": {`"skiff.dev/reload-configmaps":"a"`, `,"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"x"}`,
				"template false, restartAt true"},
			"out": {"", rolloutTemplate, "template false, restartAt false"},
		} {
			w.rollout(name, c.annotations, c.more)
			w.heal(name)
			want[name] = c.want
		}
		w.Pass(15 * time.Minute) // until the kind is noticed
		w.setConfigMap("a", "2")
		w.Pass(time.Minute)
		for name, way := range want {
			w.Want("restarts of "+name, w.restarts(name), way)
		}
	})
}

func TestWrongStrategiesAreSaid(t *testing.T) {
	r := &reader{reloader: true}
	for annotation, value := range map[string]string{StrategyAnnotation: "rollout", theirStrategy: "Restart"} {
		w := workloadOf(t, map[string]string{AutoAnnotation: "auto", annotation: value}, `{}`)
		got := r.wants(rollouts.Kind, w)
		if got.inPlace || len(got.faults) != 1 || got.faults[0].annotation != annotation {
			t.Errorf("%s: in place %t, faults %v", annotation, got.inPlace, got.faults)
		}
	}
}

func TestAWaveWaitsForRolloutsOfArgo(t *testing.T) {
	story(t, Options{Share: Share{n: 1}}, func(w *env) {
		w.installRollouts()
		w.configMap("a", "1")
		names := []string{"one", "two", "three"}
		for _, name := range names {
			w.rollout(name, auto, rolloutTemplate)
		}
		w.heal(names...)
		w.Pass(15 * time.Minute)
		w.setConfigMap("a", "2")
		w.Pass(time.Minute)
		for round := 1; round <= 3; round++ {
			var done []string
			for _, name := range names {
				if w.restarts(name) == "template true, restartAt false" {
					done = append(done, name)
				}
			}
			if len(done) != round {
				t.Errorf("%s are restarted, want %d", done, round)
			}
			w.heal(done...)
			w.Pass(2 * time.Minute)
		}
	})
}

func TestProgressOfARollout(t *testing.T) {
	later := timeText(start.Add(20 * time.Hour))
	for name, c := range map[string]struct {
		phase, observed, restartAt, restartedAt string
		after                                   time.Duration
		inPlace, never, rolls, failed           bool
	}{
		"healthy":           {phase: "Healthy", observed: "2"},
		"not seen yet":      {phase: "Healthy", observed: "1", rolls: true},
		"steps":             {phase: "Progressing", observed: "2", rolls: true},
		"long steps":        {phase: "Progressing", observed: "2", after: 2 * slowest},
		"a step that waits": {phase: "Paused", observed: "2"},
		"failed":            {phase: "Degraded", observed: "2", failed: true},
		"to be made anew":   {phase: "Healthy", observed: "2", restartAt: timeText(start), inPlace: true, rolls: true},
		"made anew": {phase: "Healthy", observed: "2", restartAt: timeText(start), inPlace: true,
			restartedAt: timeText(start)},
		"made anew by somebody":             {phase: "Healthy", observed: "2", restartAt: timeText(start)},
		"made anew before, by its template": {phase: "Healthy", observed: "2", inPlace: true},
		"planned for later":                 {phase: "Progressing", observed: "2", restartAt: later, rolls: true},
		"planned for later, in place": {phase: "Progressing", observed: "2", restartAt: later, inPlace: true,
			rolls: true},
		"failed, and planned for later": {phase: "Degraded", observed: "2", restartAt: later, failed: true},
		"failed, and never restarted":   {phase: "Degraded", observed: "2", restartAt: timeText(start), never: true},
	} {
		w := workloadOf(t, nil, `{}`)
		w.Generation = 2
		if !c.never {
			w.Spec.Template.Metadata.Annotations = kube.Labels{{Key: RestartAnnotation, Value: timeText(start)}}
		}
		w.Status.Phase, w.Status.RestartedAt, w.Spec.RestartAt = c.phase, c.restartedAt, c.restartAt
		if err := w.Status.ObservedGeneration.UnmarshalJSON([]byte(`"` + c.observed + `"`)); err != nil {
			t.Fatal(err)
		}
		rolls, failed := w.progress("Rollout", c.inPlace, start.Add(time.Second+c.after))
		if rolls != c.rolls || failed != c.failed {
			t.Errorf("%s: rolls %t and has failed %t", name, rolls, failed)
		}
	}
}

func TestAPlannedRestartHidesNoRestart(t *testing.T) {
	story(t, Options{Share: Share{n: 1}}, func(w *env) {
		w.installRollouts()
		w.configMap("a", "1")
		names := []string{"one", "two", "three"}
		planned := timeText(time.Now().Add(20 * time.Hour))
		for _, name := range names {
			w.rollout(name, auto, rolloutTemplate+fmt.Sprintf(`,"restartAt":%q`, planned))
		}
		w.heal(names...)
		w.Pass(20 * time.Minute)
		w.setConfigMap("a", "2")
		w.Pass(5 * time.Minute)
		done := 0
		for _, name := range names {
			if w.restarts(name) == "template true, restartAt true" {
				done++
			}
			w.Want("restartAt of "+name, at(w.API.Get(rollouts, in(name)), "spec", "restartAt"), planned)
		}
		if done != 1 {
			t.Errorf("%d roll at a time, want 1", done)
		}
	})
}

func TestAnAbortedReleaseIsNotReleasedBySkiff(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.installRollouts()
		w.configMap("a", "1")
		w.rollout("one", auto, rolloutTemplate)
		w.heal("one")
		w.Pass(20 * time.Minute)
		abort := func(phase string, aborted bool) {
			status := map[string]any{"status": map[string]any{"phase": phase, "abort": aborted}}
			err := w.User.Patch(w.Context(), rollouts, in("one"), kube.MergePatch, status, nil,
				kube.WriteOptions{Subresource: "status"})
			if err != nil {
				t.Fatal(err)
			}
		}
		abort("Degraded", true)
		w.setConfigMap("a", "2")
		w.Pass(24 * time.Hour)
		w.Want("restarts", w.restarts("one"), "template false, restartAt false")
		abort("Progressing", false)
		w.Pass(time.Minute)
		w.Want("restarts after a retry", w.restarts("one"), "template true, restartAt false")
	})
}

// applyRollout applies a Rollout as a GitOps tool does.
func (w *env) applyRollout(name, spec string) error {
	return w.User.Patch(w.Context(), rollouts, in(name), kube.ApplyPatch, kube.Raw(fmt.Sprintf(
		`{"apiVersion":"argoproj.io/v1alpha1","kind":"Rollout","metadata":{"name":%q,"namespace":"default",
		"annotations":{"skiff.dev/reload-configmaps":"a"}},"spec":{"replicas":1,
		"selector":{"matchLabels":{"app":"x"}}%s}}`, name, spec)), nil,
		kube.WriteOptions{FieldManager: "gitops"})
}

func TestARestartAtOfAnotherManagerIsLeftToIt(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.installRollouts()
		w.configMap("a", "1")
		const first, second = `,"restartAt":"1999-12-01T00:00:00Z"`, `,"restartAt":"1999-12-02T00:00:00Z"`
		if err := w.applyRollout("one", rolloutTemplate+first); err != nil {
			t.Fatal(err)
		}
		w.heal("one")
		w.Pass(20 * time.Minute)
		w.setConfigMap("a", "2")
		w.Pass(5 * time.Minute)
		w.Want("restarts", w.restarts("one"), "template true, restartAt true")
		if err := w.applyRollout("one", rolloutTemplate+second); err != nil {
			t.Errorf("its manager changes restartAt: %s", err)
		}
	})
}

const toRef = `,"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"x"}`

// Argo takes a Rollout for wrong that has a workloadRef and a template with an annotation.
func TestARolloutThatMovesToADeploymentKeepsNoTemplate(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.installRollouts()
		w.configMap("a", "1")
		if err := w.applyRollout("one", rolloutTemplate); err != nil {
			t.Fatal(err)
		}
		w.heal("one")
		w.Pass(20 * time.Minute)
		w.setConfigMap("a", "2")
		w.Pass(5 * time.Minute)
		w.Want("restarts", w.restarts("one"), "template true, restartAt false")
		w.heal("one")
		w.Pass(5 * time.Minute)
		if err := w.applyRollout("one", toRef); err != nil {
			t.Fatal(err)
		}
		w.heal("one")
		w.Pass(time.Minute)
		w.Want("restarts", w.restarts("one"), "template false, restartAt false")
		w.setConfigMap("a", "3")
		w.Pass(5 * time.Minute)
		w.Want("restarts", w.restarts("one"), "template false, restartAt true")
	})
}

// The annotation may be in the user's own manifest: then Argo says so, and skiff asks for nothing again and again.
func TestATemplateOfAnotherManagerIsClearedOnce(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.installRollouts()
		w.configMap("a", "1")
		if err := w.applyRollout("one", toRef+`,"template":{"metadata":{"annotations":{"skiff.dev/reloaded-at":
			"2000-01-01T00:00:00Z"}}}`); err != nil {
			t.Fatal(err)
		}
		w.heal("one")
		w.Pass(20 * time.Minute)
		w.Forget()
		for i := range 10 {
			w.Patch(rollouts, "one", fmt.Sprintf(`{"metadata":{"labels":{"x":"%d"}}}`, i))
			w.Pass(time.Minute)
		}
		w.wantWrites()
	})
}
