package restart

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/kube"
	"skiff/internal/simulate"
)

const (
	statusWrite = "PATCH restarttriggers/rt/status 200"
	readIt      = "GET deployments/predixy 200"
	restartIt   = "PATCH deployments/predixy 200"
)

// Rules: WRT-04, WRT-11, MGR-12
func TestStoryOfTheArticleWithTheWritesOfEachStep(t *testing.T) {
	story(t, func(w *world) {
		w.forget()
		w.trigger("rt", selectRedis+","+toPredixy)
		w.pass(time.Minute)
		w.wantRequests(readIt, statusWrite)
		w.wantCondition("rt", "Ready", "True/Armed")
		w.want("selector", w.status("rt", "selector"), "app=redis")
		w.want("targets", w.status("rt", "targetNames"), "deployment/predixy")
		w.wantRestarts(0)

		w.forget()
		w.replace("redis-1")
		w.wantWrites(statusWrite)
		w.wantCondition("rt", "Ready", "True/Armed")
		w.wantCondition("rt", "Progressing", "True/Pending")
		w.want("pod", w.status("rt", "pending", "pod"), "redis-1")
		w.wantRestarts(0)

		w.pass(time.Minute)
		w.wantWrites(statusWrite, statusWrite, restartIt, statusWrite, statusWrite)
		w.wantRestarts(1)
		w.wantCondition("rt", "Ready", "True/Armed")
		w.wantCondition("rt", "Progressing", "False/Armed")
		w.want("reason", w.status("rt", "lastRestart", "reason"), "NewPodRunning")
		w.want("pod", w.status("rt", "lastRestart", "pod"), "redis-1")
		w.want("time", w.status("rt", "lastRestart", "time"), w.restartedAt(deployments, "predixy"))
		w.want("count", w.status("rt", "restarts"), 1)
		w.want("Events of the target", w.notes("Deployment", "predixy"), []string{"Restarted: restarted by RestartTrigger rt: pod redis-1 replaced, new IP"})
		w.want("Events of the trigger", w.notes("RestartTrigger", "rt"), []string{"Restarted: restarted deployment/predixy: pod redis-1 replaced, new IP"})

		w.forget()
		w.pass(15 * time.Minute)
		w.wantRequests()
		w.stop()
		w.start()
		w.pass(15 * time.Minute)
		w.wantRequests(readIt)
		if slices.Contains(w.writes(), restartIt) {
			t.Error("pods of the first list restarted the target")
		}
	})
}

// One trigger for each reason, each with a target of its own.
func TestEachReasonRestartsTheTarget(t *testing.T) {
	acts := []struct {
		act  func(w *world)
		sets []Reason
	}{
		{func(w *world) { w.pod("redis-2") }, []Reason{NewPodRunning}},
		{func(w *world) {
			w.patch(pods, "redis-0", `{"metadata":{"annotations":{"`+simulate.RestartsAnnotation+`":"1"}}}`)
		}, []Reason{ContainerRestarted}},
		{func(w *world) { w.replace("redis-1") }, []Reason{NewPodRunning, PodReplaced, PodIPChanged, PodDeleted}},
		{func(w *world) { w.delete(pods, "redis-0") }, []Reason{PodDeleted}},
	}
	for name, down := range map[string]bool{"while the controller runs": false, "while it is down": true} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				want := map[Reason]int{}
				for _, r := range reasons {
					name := strings.ToLower(string(r))
					w.deploy(name, 1)
					w.trigger(name, fmt.Sprintf(`"source":{"selector":{"matchLabels":{"app":"redis"}},"reasons":[%q]},"targets":[{"kind":"Deployment","name":%q}]`, r, name))
				}
				w.pass(time.Minute)
				for i, a := range acts {
					if down {
						w.stop()
					}
					a.act(w)
					w.pass(10 * time.Second)
					if down {
						w.start()
					}
					w.pass(2 * time.Minute)
					for _, r := range a.sets {
						want[r]++
						w.want("reason", w.status(strings.ToLower(string(r)), "lastRestart", "reason"), string(r))
					}
					for _, r := range reasons {
						w.want(fmt.Sprintf("after act %d, the revision of the target for %s", i, r), w.revision(strings.ToLower(string(r))), fmt.Sprint(want[r]+1))
					}
				}
			})
		})
	}
}

func TestWhatDoesNotCountIsNotEvenWritten(t *testing.T) {
	story(t, func(w *world) {
		w.trigger("rt", selectRedis+","+toPredixy)
		w.pod("other")
		w.patch(pods, "other", `{"metadata":{"labels":{"app":"other"}}}`)
		w.pass(time.Minute)
		w.forget()
		w.delete(pods, "redis-1")
		w.patch(pods, "redis-0", `{"metadata":{"annotations":{"`+simulate.RestartsAnnotation+`":"3"}}}`)
		w.delete(pods, "other")
		w.patch(deployments, "predixy", `{"spec":{"replicas":3}}`)
		w.pass(15 * time.Minute)
		w.wantWrites()
		w.wantRestarts(0)
	})
}

func TestManyChangesMakeOneRestartAfterTheLast(t *testing.T) {
	story(t, func(w *world) {
		w.trigger("rt", selectRedis+","+toPredixy+`,"debounce":"20s"`)
		w.pass(time.Second)
		for range 4 {
			w.replace("redis-0") // takes four seconds
			w.pass(6 * time.Second)
			w.wantRestarts(0)
		}
		w.stop() // the wait survives a restart of the process
		w.start()
		w.pass(10 * time.Second)
		w.wantRestarts(0)
		w.pass(5 * time.Second)
		w.wantRestarts(1)
		w.want("suppressed", w.status("rt", "suppressed"), 3)
	})
}

func TestASourceThatNeverRestsIsWaitedForTenTimesAsLong(t *testing.T) {
	story(t, func(w *world) {
		w.trigger("rt", selectRedis+","+toPredixy+`,"debounce":"5s"`)
		w.pass(time.Second)
		for range 12 { // 48 s
			w.replace("redis-0")
		}
		w.wantRestarts(0)
		w.replace("redis-0")
		w.replace("redis-0")
		w.wantRestarts(1)
	})
}

func TestCooldownAndBudgetSurviveARestartOfTheController(t *testing.T) {
	story(t, func(w *world) {
		w.trigger("rt", selectRedis+","+toPredixy+`,"debounce":"0s","cooldown":"5m","budget":{"max":2,"per":"1h"}`)
		w.pass(time.Second)
		w.replace("redis-0")
		w.pass(10 * time.Second)
		w.wantRestarts(1)
		w.replace("redis-0")
		w.stop()
		w.start()
		next, _ := w.status("rt", "nextRestartTime").(string)
		due, err := time.Parse(time.RFC3339, next)
		if err != nil || time.Until(due) < 4*time.Minute || time.Until(due) > 5*time.Minute {
			t.Errorf("next restart at %s, in %s (%v)", next, time.Until(due), err)
		}
		w.pass(4 * time.Minute)
		w.wantRestarts(1)
		w.pass(time.Minute)
		w.wantRestarts(2)
		w.want("restarts in the window", w.status("rt", "restartsInWindow"), 2)
		w.replace("redis-0")
		w.stop()
		w.start()
		w.pass(50 * time.Minute)
		w.wantRestarts(2)
		w.wantCondition("rt", "Progressing", "True/Pending")
		w.pass(10 * time.Minute)
		w.wantRestarts(3)
		w.want("next", w.status("rt", "nextRestartTime"), nil)
	})
}

func TestSuspendedAndPausedTriggersRestartLater(t *testing.T) {
	for name, on := range map[string]string{"Suspended": `{"spec":{"suspend":true}}`, "Annotated": `{"metadata":{"annotations":{"skiff.dev/paused":"true"}}}`} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				w.trigger("rt", selectRedis+","+toPredixy)
				w.patch(resource, "rt", on)
				w.wantCondition("rt", "Paused", "True/"+name)
				w.wantCondition("rt", "Ready", "False/"+name)
				w.replace("redis-0")
				w.replace("redis-1")
				w.stop()
				w.start()
				w.pass(15 * time.Minute)
				w.wantRestarts(0)
				w.want("pending", w.status("rt", "pending", "pod"), "redis-0")
				w.patch(resource, "rt", `{"spec":{"suspend":false},"metadata":{"annotations":null}}`)
				w.pass(10 * time.Second)
				w.wantRestarts(1)
				w.wantCondition("rt", "Paused", "False/NotAnnotated")
				w.wantCondition("rt", "Ready", "True/Armed")
			})
		})
	}
}

// rolled writes the status of a StatefulSet or DaemonSet that has rolled out: nobody here plays their controllers.
func (w *world) rolled(r kube.Resource, name string) {
	w.Helper()
	g := at(w.api.Get(r, in(name)), "metadata", "generation")
	w.patchStatus(r, name, fmt.Sprintf(`{"status":{"observedGeneration":%v,"replicas":1,"updatedReplicas":1,"readyReplicas":1,
		"currentRevision":"r%[1]v","updateRevision":"r%[1]v","desiredNumberScheduled":1,"updatedNumberScheduled":1,"numberAvailable":1}}`, g))
}

func TestTargetsOfAllKindsAreRestartedInOrder(t *testing.T) {
	story(t, func(w *world) {
		for _, kind := range []string{"StatefulSet", "DaemonSet"} {
			w.post(targetKinds[kind], workloadBody(kind, "third", 1))
			w.rolled(targetKinds[kind], "third")
		}
		w.trigger("rt", selectRedis+`,"debounce":"0s","targets":[{"kind":"Deployment","name":"predixy"},{"kind":"StatefulSet","name":"third"},{"kind":"DaemonSet","name":"third"}]`)
		w.pass(time.Second)
		w.forget()
		w.replace("redis-0")
		if w.restartedAt(deployments, "predixy") == "" || w.restartedAt(statefulSets, "third") != "" {
			t.Errorf("the first target was restarted at %q, the second at %q", w.restartedAt(deployments, "predixy"), w.restartedAt(statefulSets, "third"))
		}
		w.pass(time.Minute)
		if w.restartedAt(statefulSets, "third") == "" || w.restartedAt(daemonSets, "third") != "" {
			t.Errorf("the second target was restarted at %q, the third at %q", w.restartedAt(statefulSets, "third"), w.restartedAt(daemonSets, "third"))
		}
		w.wantCondition("rt", "Progressing", "True/Restarting")
		w.stop() // in the middle
		w.pass(15 * time.Minute)
		w.start()
		w.pass(time.Minute)
		w.want("third target", w.restartedAt(daemonSets, "third"), "")
		w.wantCondition("rt", "Degraded", "True/RollingOut") // for a quarter of an hour
		w.rolled(statefulSets, "third")
		w.pass(time.Minute)
		w.want("third target", w.restartedAt(daemonSets, "third"), w.restartedAt(deployments, "predixy"))
		w.rolled(daemonSets, "third")
		w.pass(time.Minute)
		w.wantCondition("rt", "Ready", "True/Armed")
		w.want("count", w.status("rt", "restarts"), 1)
		w.wantRestarts(1)
	})
}

func TestATargetThatIsPausedOrUnavailableIsRestartedLater(t *testing.T) {
	for reason, change := range map[string][2]string{
		targetPaused: {`{"spec":{"paused":true}}`, `{"spec":{"paused":false}}`},
		unavailable:  {`{"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"main","image":"x:broken"}]}}}}`, `{"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"main","image":"x"}]}}}}`},
	} {
		t.Run(reason, func(t *testing.T) {
			story(t, func(w *world) {
				w.trigger("rt", selectRedis+","+toPredixy)
				w.patch(deployments, "predixy", change[0])
				w.pass(time.Minute)
				w.replace("redis-0")
				w.pass(12 * time.Minute)
				w.want("restart", w.restartedAt(deployments, "predixy"), "")
				if c := w.condition("rt", "Degraded"); c != "True/"+reason && c != "True/"+rollingOut {
					t.Errorf("Degraded is %s: %s", c, w.message("rt", "Degraded"))
				}
				w.forget()
				w.pass(10 * time.Minute)
				if n := len(w.requests()); n > 25 {
					t.Errorf("%d requests in ten minutes", n)
				}
				w.patch(deployments, "predixy", change[1])
				w.pass(2 * time.Minute)
				if w.restartedAt(deployments, "predixy") == "" {
					t.Error("not restarted when it was possible again")
				}
				w.wantCondition("rt", "Degraded", "False/AsExpected")
			})
		})
	}
}

func TestAMissingTargetIsSaidAndPickedUp(t *testing.T) {
	story(t, func(w *world) {
		w.trigger("rt", selectRedis+`,"targets":[{"kind":"Deployment","name":"later"},{"kind":"Deployment","name":"predixy"}]`)
		w.wantCondition("rt", "Ready", "False/TargetMissing")
		w.replace("redis-0")
		w.pass(time.Minute)
		w.wantRestarts(1) // the other one does not suffer
		w.forget()
		w.pass(10 * time.Minute)
		if n := len(w.requests()); n > 20 {
			t.Errorf("%d requests in ten minutes: %v", n, w.requests())
		}
		w.deploy("later", 1)
		w.pass(5 * time.Second) // its pods tell
		w.wantCondition("rt", "Ready", "True/Armed")
		w.pass(time.Minute)
		w.want("restart of a target that came later", w.restartedAt(deployments, "later"), "")
		w.replace("redis-0")
		w.pass(2 * time.Minute)
		if w.restartedAt(deployments, "later") == "" {
			t.Error("not restarted")
		}
		w.deploy("none", 0)
		w.trigger("two", selectRedis+`,"targets":[{"kind":"Deployment","name":"empty"}]`)
		w.deploy("empty", 0) // no pods that could tell
		w.pass(61 * time.Second)
		w.wantCondition("two", "Ready", "True/Armed")
	})
}

func TestAnAnnotationThatIsTakenBackStopsTheTrigger(t *testing.T) {
	story(t, func(w *world) {
		w.trigger("rt", selectRedis+","+toPredixy)
		w.pass(time.Second)
		w.replace("redis-0")
		w.pass(10 * time.Minute)
		w.wantRestarts(1)
		w.patch(deployments, "predixy", `{"spec":{"template":{"metadata":{"annotations":null}}}}`)
		w.pass(time.Minute)
		w.wantCondition("rt", "Stalled", "True/Reverted")
		w.wantCondition("rt", "Ready", "False/Reverted")
		if n := w.notes("RestartTrigger", "rt"); len(n) != 2 || !strings.HasPrefix(n[1], "Reverted: something took the annotation") {
			t.Errorf("Events: %q", n)
		}
		for range 3 {
			w.replace("redis-0")
			w.pass(10 * time.Minute)
		}
		w.stop()
		w.start()
		w.pass(15 * time.Minute)
		w.want("restart", w.restartedAt(deployments, "predixy"), "")
		w.patch(resource, "rt", `{"spec":{"debounce":"1s"}}`)
		w.pass(time.Minute)
		if w.restartedAt(deployments, "predixy") == "" {
			t.Error("a change of the spec does not make it go on")
		}
		w.wantCondition("rt", "Ready", "True/Armed")
	})
}

func TestARestartByHandIsNoReversal(t *testing.T) {
	story(t, func(w *world) {
		w.trigger("rt", selectRedis+","+toPredixy)
		w.pass(time.Second)
		w.replace("redis-0")
		w.pass(10 * time.Minute)
		w.patch(deployments, "predixy", `{"spec":{"template":{"metadata":{"annotations":{"`+restartedAt+`":"`+time.Now().Format(time.RFC3339)+`"}}}}}`)
		w.pass(time.Minute)
		w.wantCondition("rt", "Ready", "True/Armed")
		w.delete(deployments, "predixy")
		w.deploy("predixy", 1)
		w.pass(time.Minute)
		w.wantCondition("rt", "Ready", "True/Armed")
	})
}
