package restart

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/controller"
	"skiff/internal/events"
	"skiff/internal/fakeapi"
	"skiff/internal/kube"
)

// alone runs f in a world where `skiff restart` runs in place of the controller.
func alone(t *testing.T, o StandaloneOptions, f func(w *world)) { aloneLater(t, o, 0, f) }

// aloneLater is alone with processes each of which acts a little later than the one before.
func aloneLater(t *testing.T, o StandaloneOptions, later time.Duration, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fakeapi.Options{}, logTo(t))
		defer w.close()
		w.deploy("predixy", 2)
		w.pass(5 * time.Second)
		o.Namespace, o.Selector, o.Log = "default", "app=redis", w.log
		if o.Targets == nil {
			o.Targets = []TargetRef{{"Deployment", "predixy"}}
		}
		w.make = func(c *kube.Client, _ *events.Recorder) *controller.Controller {
			s, err := NewStandalone(c, o)
			if err != nil {
				t.Fatal(err)
			}
			o.Debounce += later
			return s
		}
		f(w)
	})
}

func TestStandaloneRestartsWithThreeKindsOfRequests(t *testing.T) {
	alone(t, StandaloneOptions{Debounce: 10 * time.Second, Cooldown: time.Minute}, func(w *world) {
		w.pod("redis-0")
		w.pass(5 * time.Second)
		w.forget()
		w.start()
		w.pass(15 * time.Minute)
		w.wantRestarts(0)
		w.wantRequests(readIt, restartIt) // the first state, without a restart
		w.forget()
		w.replace("redis-0")
		w.wantRequests()
		w.pass(time.Minute)
		w.wantRestarts(1)
		w.wantWrites(restartIt)
		for _, r := range w.api.Requests() {
			if r.UserAgent == agent && strings.HasSuffix(r.Path, "/pods") && r.Query.Get("labelSelector") != "app=redis" {
				t.Errorf("pods are asked for with %s", r.Query)
			}
		}
		w.forget()
		w.pass(15 * time.Minute)
		w.wantRequests()
	})
}

func TestStandaloneNoticesWhatHappenedWhileItWasDown(t *testing.T) {
	for _, when := range []string{"nothing was running", "the restart was pending"} {
		t.Run(when, func(t *testing.T) {
			alone(t, StandaloneOptions{Debounce: 10 * time.Second, Cooldown: time.Minute}, func(w *world) {
				w.pod("redis-0")
				w.start()
				w.pass(5 * time.Second)
				if when == "nothing was running" {
					w.stop()
				}
				w.replace("redis-0")
				w.stop()
				w.start()
				w.pass(time.Minute)
				w.wantRestarts(1)
				w.stop()
				w.start()
				w.pass(15 * time.Minute)
				w.wantRestarts(1)
			})
		})
	}
}

func TestStandaloneKeepsTheCooldownAcrossItsOwnRestart(t *testing.T) {
	alone(t, StandaloneOptions{Cooldown: 10 * time.Minute}, func(w *world) {
		w.start()
		w.pod("redis-0")
		w.pass(time.Minute)
		w.wantRestarts(1)
		w.stop()
		w.start()
		w.replace("redis-0")
		w.pass(5 * time.Minute)
		w.wantRestarts(1)
		w.pass(5 * time.Minute)
		w.wantRestarts(2)
	})
}

// Each pod of a proxy has a `skiff restart` beside it, and all of them see the same.
func TestSeveralSidecarsRestartTheTargetOnce(t *testing.T) {
	aloneLater(t, StandaloneOptions{Debounce: 5 * time.Second, Cooldown: time.Minute}, time.Second, func(w *world) {
		w.pod("redis-0")
		w.pass(5 * time.Second)
		var stops []func()
		for range 5 {
			w.start()
			stops = append(stops, w.stop)
		}
		w.stop = func() {
			for _, stop := range stops {
				stop()
			}
		}
		w.pass(10 * time.Second)
		for round := range 3 {
			if round == 2 { // the first one's restart is slow, and comes when another one's has been made at a later time
				w.api.Inject(fakeapi.Fault{UserAgent: agent, Verb: "patch", Resource: "deployments", Times: 1, Delay: 4 * time.Second})
			}
			w.replace("redis-0")
			w.pass(2 * time.Minute)
			w.wantRestarts(round + 1)
		}
		w.forget()
		w.pass(15 * time.Minute)
		w.wantRequests()
	})
}

func TestStandaloneRestartsSeveralTargetsInOrder(t *testing.T) {
	alone(t, StandaloneOptions{Targets: []TargetRef{{"Deployment", "predixy"}, {"Deployment", "second"}}, Cooldown: time.Minute}, func(w *world) {
		w.deploy("second", 1)
		w.start()
		w.pass(10 * time.Second)
		w.forget()
		w.pod("redis-0")
		w.pass(1500 * time.Millisecond)
		w.stop() // between the two, as a sidecar of the first target would be
		w.wantWrites(restartIt)
		w.start()
		w.pass(time.Minute)
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
		o := StandaloneOptions{Namespace: "default", Selector: selector, Targets: []TargetRef{{"Deployment", "predixy"}}}
		if _, err := NewStandalone(nil, o); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("selector %q: %v, want %q", selector, err, text)
		}
	}
	alone(t, StandaloneOptions{}, func(w *world) {
		w.make = func(c *kube.Client, _ *events.Recorder) *controller.Controller {
			s, err := NewStandalone(c, StandaloneOptions{Namespace: "default", Selector: "app=predixy",
				Targets: []TargetRef{{"Deployment", "predixy"}}, Log: w.log})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		w.start()
		w.delete(pods, at(w.api.List(pods, "default")[0], "metadata", "name").(string))
		w.pass(15 * time.Minute)
		w.wantRestarts(0)
	})
}
