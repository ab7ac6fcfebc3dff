package reload

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/testcluster/operatortest"
)

const (
	recordIt  = "APPLY as skiff-reload deployments/web 200"
	restartIt = recordIt
)

func TestStoryOfAConfigMapWithTheWritesOfEachStep(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.configMap("a", "1")
		w.deploy("web", auto, envFrom("a"))
		w.Pass(time.Minute)
		w.wantWrites(recordIt)
		w.wantRestarts("web", 0)

		w.Forget()
		w.setConfigMap("a", "2")
		w.Pass(DefaultDebounce - time.Second)
		w.WantRequests()
		w.Pass(time.Minute)
		w.wantWrites(restartIt)
		w.wantRestarts("web", 1)
		w.Want("Events of the workload", w.notes("Deployment", "web"),
			[]string{"Restarted: restarted: configmap/a (key) changed"})
		w.Want("Events of the source", w.notes("ConfigMap", "a"),
			[]string{"Restarted: restarted deployment/web, the last of 1"})

		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()
		w.Stop()
		w.Start()
		w.Pass(15 * time.Minute)
		w.WantWrites()

		// Without skiff, or deleted and made anew: the content counts.
		w.Stop()
		w.setConfigMap("a", "3")
		w.Start()
		w.Pass(time.Minute)
		w.wantWrites(restartIt)
		w.wantRestarts("web", 2)
		w.Forget()
		w.Delete(configMaps, "a")
		w.Pass(time.Minute)
		w.configMap("a", "3")
		w.Pass(time.Minute)
		w.WantWrites()
		w.Delete(configMaps, "a")
		w.Pass(time.Minute)
		w.configMap("a", "4")
		w.Pass(time.Minute)
		w.wantWrites(restartIt)
		w.wantRestarts("web", 3)
	})
}

func TestTenChangesWithinTheDebounceAreOneRestart(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.configMap("a", "1")
		w.deploy("web", auto, envFrom("a"))
		w.Pass(time.Minute)
		for i := range 10 {
			w.setConfigMap("a", fmt.Sprint("n", i))
			w.Pass(2 * time.Second)
		}
		w.Pass(time.Minute)
		w.wantRestarts("web", 1)
		// A source that never becomes quiet is no reason to never restart.
		for i := range 60 {
			w.setConfigMap("a", fmt.Sprint("m", i))
			w.Pass(2 * time.Second)
		}
		w.Pass(2 * time.Minute)
		if n := w.revision("web"); n != "4" && n != "5" {
			t.Errorf("revision after two minutes of changes: %v", n)
		}
	})
}

func TestAKeyThatNoContainerSeesIsNoReason(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.Post(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"seen":"1","other":"1"}}`)
		w.deploy("web", auto, `,"env":[{"name":"X","valueFrom":{"configMapKeyRef":{"name":"a","key":"seen"}}}]`)
		w.Pass(time.Minute)
		w.Patch(configMaps, "a", `{"data":{"other":"2"},"metadata":{"labels":{"x":"y"}}}`)
		w.Pass(time.Minute)
		w.wantRestarts("web", 0)
		w.Patch(configMaps, "a", `{"data":{"seen":"2"}}`)
		w.Pass(time.Minute)
		w.wantRestarts("web", 1)
	})
}

func TestAWorkloadThatHasNotOptedInIsLeftAlone(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.configMap("a", "1")
		w.deploy("web", ``, envFrom("a"))
		w.Pass(time.Minute)
		w.setConfigMap("a", "2")
		w.Pass(time.Hour)
		w.WantWrites()
	})
}

func TestAWaveHasABoundedNumberOfWorkloadsRolling(t *testing.T) {
	story(t, Options{Share: Share{n: 3}}, func(w *env) {
		w.configMap("a", "1")
		const n = 12
		for i := range n {
			w.deploy(fmt.Sprintf("web-%02d", i), auto, envFrom("a"))
		}
		w.Pass(time.Minute)
		w.setConfigMap("a", "2")
		most, done := 0, 0
		for range 600 {
			w.Pass(100 * time.Millisecond)
			rolling := 0
			done = 0
			for i := range n {
				d := w.API.Get(deployments, in(fmt.Sprintf("web-%02d", i)))
				if at(d, "spec", "template", "metadata", "annotations", RestartAnnotation) == nil {
					continue
				}
				done++
				if at(d, "status", "availableReplicas") != at(d, "status", "replicas") ||
					fmt.Sprint(at(d, "status", "observedGeneration")) != fmt.Sprint(at(d, "metadata", "generation")) {
					rolling++
				}
			}
			most = max(most, rolling)
		}
		if most > 3 || most < 2 || done != n {
			t.Errorf("%d of %d were restarted, at most %d at a time", done, n, most)
		}
	})
}

func TestTheOrderIsKept(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.configMap("a", "1")
		w.deploy("db", auto, envFrom("a"))
		w.deploy("web", auto+`,"skiff.dev/reload-after":"deployment/db"`, envFrom("a"))
		w.Pass(time.Minute)
		w.setConfigMap("a", "2")
		w.Pass(time.Minute)
		w.wantRestarts("db", 1)
		w.wantRestarts("web", 1)
		when := func(name string) time.Time {
			at, err := time.Parse(time.RFC3339, w.reloadedAt(name))
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		if !when("web").After(when("db")) {
			t.Errorf("web was restarted at %s, db at %s", when("web"), when("db"))
		}
	})
}

func TestARolloutThatFailsStopsTheWaveUntilItIsResumed(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.configMap("a", "1")
		w.Post(deployments, strings.Replace(deployment("bad", auto, envFrom("a")), "web:1", "web:broken", 1))
		w.deploy("good", auto, envFrom("a"))
		w.Pass(time.Minute)
		pause := func(value string) {
			w.Patch(deployments, "good", `{"metadata":{"annotations":{"skiff.dev/paused":`+value+`}}}`)
		}
		pause(`"true"`)
		w.setConfigMap("a", "2")
		w.Pass(15 * time.Minute)
		w.wantRestarts("bad", 1)
		pause("null")
		w.Pass(time.Hour)
		w.wantRestarts("good", 0)

		w.Patch(configMaps, "a", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, ResumeAnnotation, w.reloadedAt("bad")))
		w.Pass(time.Minute)
		w.wantRestarts("good", 1)

		// New content may be what mends it: all are restarted.
		w.setConfigMap("a", "3")
		w.Pass(2 * time.Minute)
		w.wantRestarts("bad", 2)
		w.wantRestarts("good", 2)
	})
}

func TestOfTwoProcessesOneRestarts(t *testing.T) {
	story(t, Options{}, func(w *env) {
		second := w.Connect("second")
		for _, c := range New(controller.Setup{Client: second, Log: w.Log}, nil, Options{}) {
			w.Background(c.Run)
		}
		w.configMap("a", "1")
		for i := range 5 {
			w.deploy(fmt.Sprint("web-", i), auto, envFrom("a"))
		}
		w.Pass(time.Minute)
		for i := range 4 {
			w.setConfigMap("a", fmt.Sprint("n", i))
			w.Pass(2 * time.Minute)
		}
		for i := range 5 {
			w.wantRestarts(fmt.Sprint("web-", i), 4)
		}
		w.Background(func(context.Context) error { second.Close(); return nil })
	})
}

// Rules: PL-12
func TestAProcessThatIsKilledAtAnyRequestRestartsOnce(t *testing.T) {
	o := options
	o.Quiet = true
	operatortest.KillAtAnyRequest(t, o, func(w *operatortest.Env, start func(), pass func(time.Duration)) {
		e := inCluster(w)
		e.configMap("a", "1")
		e.deploy("web", auto, envFrom("a"))
		start()
		pass(time.Minute)
		e.setConfigMap("a", "2")
		pass(5 * time.Minute)
		e.wantRestarts("web", 1)
	})
}

func TestWhatIsWrongWithAnnotationsIsSaid(t *testing.T) {
	var cs []*controller.Controller
	o := options
	o.Quiet = true
	o.NewAll = func(s controller.Setup, r *events.Recorder) []*controller.Controller {
		cs = New(s, r, Options{})
		return cs
	}
	operatortest.Run(t, o, func(w *operatortest.Env) {
		e := inCluster(w)
		w.Start()
		e.configMap("a", "1")
		e.deploy("web", auto+`,"skiff.dev/reload-secrets":"NO"`, envFrom("a"))
		e.deploy("front", auto+`,"skiff.dev/reload-after":"deployment/back"`, envFrom("a"))
		e.deploy("back", auto+`,"skiff.dev/reload-after":"deployment/front"`, envFrom("a"))
		w.Pass(time.Minute)
		for _, name := range []string{"web", "front", "back"} {
			if o, ok := cs[0].Owner(in(name)); !ok || o.Problem.Reason != invalid {
				t.Errorf("%s: %+v", name, o.Problem)
			} else if c, _ := conditions.Get(o.Conditions, conditions.Stalled); c.Status != conditions.True {
				t.Errorf("%s is shown with %+v", name, o.Conditions)
			}
		}
		e.setConfigMap("a", "2")
		w.Pass(5 * time.Minute)
		for _, name := range []string{"web", "front", "back"} {
			e.wantRestarts(name, 1)
		}
		w.Patch(deployments, "web", `{"metadata":{"annotations":{"skiff.dev/reload-secrets":null}}}`)
		w.Pass(time.Minute)
		o, _ := cs[0].Owner(in("web"))
		if c, _ := conditions.Get(o.Conditions, conditions.Ready); c.Status != conditions.True || o.Foreign {
			t.Errorf("what is mended is shown with %+v", o)
		}
	})
}

func TestAnOrderCountsForCommonSourcesAlone(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.configMap("a", "1")
		w.configMap("b", "1")
		w.deploy("db", auto+`,"skiff.dev/paused":"true"`, envFrom("b"))
		w.deploy("web", auto+`,"skiff.dev/reload-after":"deployment/db"`, envFrom("a"))
		w.deploy("both", auto+`,"skiff.dev/reload-after":"deployment/db"`,
			`,"envFrom":[{"configMapRef":{"name":"a"}},{"configMapRef":{"name":"b"}}]`)
		w.Pass(time.Minute)
		w.setConfigMap("b", "2")
		w.setConfigMap("a", "2")
		w.Pass(time.Hour)
		w.wantRestarts("web", 1)
		w.wantRestarts("both", 0)
	})
}

func TestADebounceBeginsAnewAfterAPause(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.configMap("a", "1")
		w.configMap("b", "1")
		w.deploy("web", auto+`,"skiff.dev/paused":"true"`,
			`,"envFrom":[{"configMapRef":{"name":"a"}},{"configMapRef":{"name":"b"}}]`)
		w.Pass(time.Minute)
		w.setConfigMap("a", "3")
		w.Pass(time.Hour)
		w.setConfigMap("a", "4")
		w.Patch(deployments, "web", `{"metadata":{"annotations":{"skiff.dev/paused":null}}}`)
		w.Pass(2 * time.Second)
		w.setConfigMap("b", "2")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 1)
	})
}

func TestATimeThatAnotherHasWrittenStaysAsItIs(t *testing.T) {
	story(t, Options{}, func(w *env) {
		w.configMap("a", "1")
		w.Post(deployments, strings.Replace(deployment("web", auto, envFrom("a")), `"metadata":{"labels"`,
			`"metadata":{"annotations":{"skiff.dev/reloaded-at":"1999-12-31T12:00:00+01:00"},"labels"`, 1))
		w.Pass(time.Minute)
		w.wantRestarts("web", 0)
	})
}

// A release of Helm changes a ConfigMap and the template of a Deployment: its rollout is enough.
func TestARolloutOfSomebodyElseIsARestart(t *testing.T) {
	story(t, Options{}, func(w *env) {
		roll := func(image string) {
			w.Patch(deployments, "web", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"`+image+`"`+
				envFrom("a")+`}]}}}}`)
		}
		w.configMap("a", "1")
		w.deploy("web", auto, envFrom("a"))
		w.Pass(time.Minute)
		w.setConfigMap("a", "2")
		w.Pass(time.Second)
		roll("web:2")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 1)
		if at := w.reloadedAt("web"); at != "" {
			t.Errorf("restarted as well, at %s", at)
		}

		// A rollout from before the change is not enough, nor is an undone rollout.
		roll("web:3")
		w.Pass(time.Second)
		w.setConfigMap("a", "3")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 3)
		w.setConfigMap("a", "4")
		w.Pass(time.Second)
		roll("web:broken")
		w.Pass(5 * time.Minute)
		w.wantRestarts("web", 4)
		roll("web:3")
		w.Pass(5 * time.Minute)
		if at := w.reloadedAt("web"); at == "" {
			t.Error("not restarted after a rollout that was undone")
		}
	})
}
