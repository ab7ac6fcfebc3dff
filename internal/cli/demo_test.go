package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skiff/internal/kube"
)

func TestDemoComesTrueAndTellsWhy(t *testing.T) {
	r := skiff(t, "demo")
	r.want(t, exitDone)
	steps := demoSteps()
	for _, s := range steps {
		if !strings.Contains(r.stdout, s.title+"\n   you    "+s.you) || !strings.Contains(r.stdout, "   true   "+s.proof) {
			t.Errorf("the tour does not tell of %q", s.title)
		}
	}
	for _, text := range []string{
		"created Deployment default/web\n            because WebServer default/web ADDED",
		"applied Deployment default/web: spec.replicas",
		"created Service default/web-service\n            because Service default/web-service DELETED",
		"nothing is left",
		"All 7 steps came true",
	} {
		if !strings.Contains(r.stdout, text) {
			t.Errorf("the tour does not say %q", text)
		}
	}
	if r.stderr != "" {
		t.Errorf("stderr %q", r.stderr)
	}
	if t.Failed() {
		t.Log(r.stdout)
	}
}

func TestDemoFailsWithTheStepThatDoesNotComeTrue(t *testing.T) {
	nothing := func(context.Context, *kube.Client, world) error { return nil }
	var out lockedBuffer
	run := func(ctx context.Context, s step) error {
		return runDemo(ctx, &out, filepath.Join(t.TempDir(), "kubeconfig"), time.Second, []step{s})
	}
	isolate(t)

	err := run(t.Context(), step{title: "Wait", do: nothing, missing: func(_, _ world) string { return "the moon is not blue" }})
	if err == nil || !strings.Contains(err.Error(), "demo: step 1, Wait: not within 1s: the moon is not blue") {
		t.Errorf("error %v", err)
	}
	broken := errors.New("broken")
	err = run(t.Context(), step{title: "Break", do: func(context.Context, *kube.Client, world) error { return broken }})
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err = run(ctx, step{title: "Stop", do: nothing, missing: func(_, _ world) string {
		cancel(errors.New("interrupted"))
		return "more"
	}})
	if err == nil || !strings.Contains(err.Error(), "step 1, Stop: interrupted") {
		t.Errorf("error %v", err)
	}
}

func TestNoStepOfTheDemoIsTrueWithoutItsEffect(t *testing.T) {
	full := func() world {
		w := world{web: &webServerView{}, deployment: &deploymentView{}, service: &serviceView{}}
		w.web.UID, w.deployment.UID, w.service.UID = "w", "d", "s"
		w.service.Spec.Ports = append(w.service.Spec.Ports, struct {
			NodePort int `json:"nodePort"`
		}{demoPort})
		return w
	}
	steps := demoSteps()
	for i, s := range steps {
		if i < len(steps)-1 && s.missing(full(), world{}) == "" {
			t.Errorf("%s: true of an empty cluster", s.title)
		}
		if s.missing(full(), full()) == "" {
			t.Errorf("%s: true of a cluster in which nothing has happened", s.title)
		}
	}
}
