package restart

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/labels"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
)

// every is the spec of a `skiff restart` with these times.
func every(debounce, cooldown string, targets ...TargetRef) Spec {
	return Spec{Debounce: &debounce, Cooldown: &cooldown, Targets: targets}
}

func selecting(t *testing.T, text string) labels.Selector {
	t.Helper()
	l, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// alone runs f in an environment where `skiff restart` runs in place of the controller.
func alone(t *testing.T, spec Spec, f func(w *env)) { aloneLater(t, spec, 0, f) }

// aloneLater is alone with processes each of which acts a little later than the one before.
func aloneLater(t *testing.T, spec Spec, later time.Duration, f func(w *env)) {
	storyWith(t, options, func(w *env) {
		w.deploy("predixy", 2)
		w.Pass(5 * time.Second)
		spec.Source.Selector, w.Setup.Namespaces = selecting(t, "app=redis"), []string{"default"}
		if spec.Targets == nil {
			spec.Targets = []TargetRef{{"Deployment", "predixy"}}
		}
		w.New = func(s controller.Setup, _ *events.Recorder) *controller.Controller {
			c, err := NewStandalone(s, spec, Floors{})
			if err != nil {
				t.Fatal(err)
			}
			d, err := time.ParseDuration(*spec.Debounce)
			if err != nil {
				t.Fatal(err)
			}
			spec.Debounce = new((d + later).String())
			return c
		}
		f(w)
	})
}

func TestStandaloneRestartsWithThreeKindsOfRequests(t *testing.T) {
	alone(t, every("10s", "1m"), func(w *env) {
		w.pod("redis-0")
		w.Pass(5 * time.Second)
		w.Forget()
		w.Start()
		w.Pass(15 * time.Minute)
		w.wantRestarts(0)
		w.WantRequests(readIt, restartIt) // the first state, without a restart
		w.Forget()
		w.replace("redis-0")
		w.WantRequests()
		w.Pass(time.Minute)
		w.wantRestarts(1)
		w.WantWrites(restartIt)
		for _, r := range w.API.Requests() {
			if r.UserAgent == operatortest.Agent && strings.HasSuffix(r.Path, "/pods") &&
				// the probe before a watch
				r.Query.Get("labelSelector") != "app=redis" && r.Query.Encode() != "limit=1" {
				t.Errorf("pods are asked for with %s", r.Query)
			}
		}
		w.Forget()
		w.Pass(15 * time.Minute)
		w.WantRequests()
	})
}

func TestStandaloneNoticesWhatHappenedWhileItWasDown(t *testing.T) {
	for _, when := range []string{"nothing was running", "the restart was pending"} {
		t.Run(when, func(t *testing.T) {
			alone(t, every("10s", "1m"), func(w *env) {
				w.pod("redis-0")
				w.Start()
				w.Pass(5 * time.Second)
				if when == "nothing was running" {
					w.Stop()
				}
				w.replace("redis-0")
				w.Stop()
				w.Start()
				w.Pass(time.Minute)
				w.wantRestarts(1)
				w.Stop()
				w.Start()
				w.Pass(15 * time.Minute)
				w.wantRestarts(1)
			})
		})
	}
}

func TestStandaloneKeepsTheCooldownAcrossItsOwnRestart(t *testing.T) {
	alone(t, every("0s", "10m"), func(w *env) {
		w.Start()
		w.pod("redis-0")
		w.Pass(time.Minute)
		w.wantRestarts(1)
		w.Stop()
		w.Start()
		w.replace("redis-0")
		w.Pass(5 * time.Minute)
		w.wantRestarts(1)
		w.Pass(5 * time.Minute)
		w.wantRestarts(2)
	})
}

// Each pod of a proxy has a `skiff restart` beside it, and all of them see the same.
func TestSeveralSidecarsRestartTheTargetOnce(t *testing.T) {
	aloneLater(t, every("5s", "1m"), time.Second, func(w *env) {
		w.pod("redis-0")
		w.Pass(5 * time.Second)
		var stops []func()
		for range 5 {
			w.Start()
			stops = append(stops, w.Stop)
		}
		w.Stop = func() {
			for _, stop := range stops {
				stop()
			}
		}
		w.Pass(10 * time.Second)
		for round := range 3 {
			// the first one's restart is slow, and comes when another one's has been made at a later time
			if round == 2 {
				w.API.Inject(apiserver.Fault{UserAgent: operatortest.Agent, Verb: "patch", Resource: "deployments",
					Times: 1, Delay: 4 * time.Second})
			}
			w.replace("redis-0")
			w.Pass(2 * time.Minute)
			w.wantRestarts(round + 1)
		}
		w.Forget()
		w.Pass(15 * time.Minute)
		w.WantRequests()
	})
}

func TestStandaloneRestartsSeveralTargetsInOrder(t *testing.T) {
	alone(t, every("0s", "1m", TargetRef{"Deployment", "predixy"}, TargetRef{"Deployment", "second"}), func(w *env) {
		w.deploy("second", 1)
		w.Start()
		w.Pass(10 * time.Second)
		w.Forget()
		w.pod("redis-0")
		w.Pass(1500 * time.Millisecond)
		w.Stop() // between the two, as a sidecar of the first target would be
		w.WantWrites(restartIt)
		w.Start()
		w.Pass(time.Minute)
		first, second := w.restartedAt(deployments, "predixy"), w.restartedAt(deployments, "second")
		if first == "" || first != second {
			t.Errorf("restarted at %q and %q", first, second)
		}
		w.wantRestarts(1)
	})
}

func TestStandaloneRefusesWhatWouldNeverEnd(t *testing.T) {
	for selector, text := range map[string]string{
		"":        "must not be empty",
		"!x":      "would match every pod",
		"a=b,":    "cannot read",
		"a in b":  "cannot read",
		"a in (b": "cannot read",
		"a=b=c":   "cannot read",
	} {
		spec := every("0s", "0s", TargetRef{"Deployment", "predixy"})
		var err error
		if spec.Source.Selector, err = labels.Parse(selector); err == nil {
			err = spec.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("selector %q: %v, want %q", selector, err, text)
		}
	}
	logged := 0
	log := funcr.New(func(_, line string) {
		if strings.Contains(line, "the selector matches the pods of a target") {
			logged++
		}
	}, funcr.Options{})
	alone(t, every("0s", "0s"), func(w *env) {
		w.Log = log
		w.New = func(s controller.Setup, _ *events.Recorder) *controller.Controller {
			spec := every("0s", "0s", TargetRef{"Deployment", "predixy"})
			spec.Source.Selector = selecting(t, "app=predixy")
			c, err := NewStandalone(s, spec, Floors{})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		w.Start()
		w.Delete(pods, at(w.API.List(pods, "default")[0], "metadata", "name").(string))
		w.Pass(15 * time.Minute)
		w.wantRestarts(0)
		w.Want("how often the log says why", logged, 1)
	})
}
