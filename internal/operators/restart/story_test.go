package restart

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/simulate"
)

const (
	statusWrite = "PATCH restarttriggers/rt/status 200"
	readIt      = "GET deployments/predixy 200"
	restartIt   = "PATCH deployments/predixy 200"
)

// Rules: WRT-04, WRT-11, MGR-12
func TestStoryOfTheArticleWithTheWritesOfEachStep(t *testing.T) {
	story(t, func(w *env) {
		w.Forget()
		w.trigger("rt", selectRedis+","+toPredixy)
		w.Pass(time.Minute)
		w.WantRequests(readIt, statusWrite)
		w.WantCondition("rt", "Ready", "True/Armed")
		w.Want("selector", w.status("rt", "selector"), "app=redis")
		w.Want("targets", w.status("rt", "targetNames"), "deployment/predixy")
		w.wantRestarts(0)

		w.Forget()
		w.replace("redis-1")
		w.WantWrites(statusWrite)
		w.WantCondition("rt", "Ready", "True/Armed")
		w.WantCondition("rt", "Progressing", "True/Pending")
		w.Want("pod", w.status("rt", "pending", "pod"), "redis-1")
		w.wantRestarts(0)

		w.Pass(time.Minute)
		w.WantWrites(statusWrite, statusWrite, restartIt, statusWrite, statusWrite)
		w.wantRestarts(1)
		w.WantCondition("rt", "Ready", "True/Armed")
		w.WantCondition("rt", "Progressing", "False/Armed")
		w.Want("reason", w.status("rt", "lastRestart", "reason"), "NewPodRunning")
		w.Want("pod", w.status("rt", "lastRestart", "pod"), "redis-1")
		w.Want("time", w.status("rt", "lastRestart", "time"), w.restartedAt(deployments, "predixy"))
		w.Want("count", w.status("rt", "restarts"), 1)
		w.Want("Events of the target", w.notes("Deployment", "predixy"),
			[]string{"Restarted: restarted by RestartTrigger rt: pod redis-1 replaced, new IP"})
		w.Want("Events of the trigger", w.notes("RestartTrigger", "rt"),
			[]string{"Restarted: restarted deployment/predixy: pod redis-1 replaced, new IP"})

		w.Forget()
		w.Pass(15 * time.Minute)
		w.WantRequests()
		w.Stop()
		w.Start()
		w.Pass(15 * time.Minute)
		w.WantRequests(readIt)
		if slices.Contains(w.Writes(), restartIt) {
			t.Error("pods of the first list restarted the target")
		}
	})
}

// One trigger for each reason, each with a target of its own.
func TestEachReasonRestartsTheTarget(t *testing.T) {
	acts := []struct {
		act  func(w *env)
		sets []Reason
	}{
		{func(w *env) { w.pod("redis-2") }, []Reason{NewPodRunning}},
		{func(w *env) {
			w.Patch(pods, "redis-0", `{"metadata":{"annotations":{"`+simulate.RestartsAnnotation+`":"1"}}}`)
		}, []Reason{ContainerRestarted}},
		{func(w *env) { w.replace("redis-1") }, []Reason{NewPodRunning, PodReplaced, PodIPChanged, PodDeleted}},
		{func(w *env) { w.Delete(pods, "redis-0") }, []Reason{PodDeleted}},
	}
	for name, down := range map[string]bool{"while the controller runs": false, "while it is down": true} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *env) {
				want := map[Reason]int{}
				for _, r := range reasons {
					name := strings.ToLower(string(r))
					w.deploy(name, 1)
					w.trigger(name, fmt.Sprintf(`"source":{"selector":{"matchLabels":{"app":"redis"}},"reasons":[%q]},"targets":[{"kind":"Deployment","name":%q}]`, r, name))
				}
				w.Pass(time.Minute)
				for i, a := range acts {
					if down {
						w.Stop()
					}
					a.act(w)
					w.Pass(10 * time.Second)
					if down {
						w.Start()
					}
					w.Pass(2 * time.Minute)
					for _, r := range a.sets {
						want[r]++
						w.Want("reason", w.status(strings.ToLower(string(r)), "lastRestart", "reason"), string(r))
					}
					for _, r := range reasons {
						w.Want(fmt.Sprintf("after act %d, the revision of the target for %s", i, r),
							w.revision(strings.ToLower(string(r))), fmt.Sprint(want[r]+1))
					}
				}
			})
		})
	}
}

func TestWhatDoesNotCountIsNotEvenWritten(t *testing.T) {
	story(t, func(w *env) {
		w.trigger("rt", selectRedis+","+toPredixy)
		w.pod("other")
		w.Patch(pods, "other", `{"metadata":{"labels":{"app":"other"}}}`)
		w.Pass(time.Minute)
		w.Forget()
		w.Delete(pods, "redis-1")
		w.Patch(pods, "redis-0", `{"metadata":{"annotations":{"`+simulate.RestartsAnnotation+`":"3"}}}`)
		w.Delete(pods, "other")
		w.Patch(deployments, "predixy", `{"spec":{"replicas":3}}`)
		w.Pass(30 * time.Second)
		w.WantWrites()
		w.Pass(15 * time.Minute)
		w.WantWrites(statusWrite) // that one pod matches now
		w.wantRestarts(0)
	})
}

func TestAPendingRestartSurvivesASpecThatIsInvalidForAWhile(t *testing.T) {
	story(t, func(w *env) {
		w.trigger("rt", selectRedis+","+toPredixy+`,"debounce":"1m"`)
		w.Pass(time.Second)
		w.replace("redis-0")
		w.Patch(resource, "rt", `{"spec":{"cooldown":"1000h"}}`)
		w.Pass(2 * time.Minute)
		w.WantCondition("rt", "Stalled", "True/InvalidSpec", "is too long; at most 24h")
		w.wantRestarts(0)
		w.Patch(resource, "rt", `{"spec":{"cooldown":"1m"}}`)
		w.Pass(time.Minute)
		w.wantRestarts(1)
	})
}

func TestCooldownAndBudgetSurviveARestartOfTheController(t *testing.T) {
	story(t, func(w *env) {
		w.trigger("rt", selectRedis+","+toPredixy+`,"debounce":"0s","cooldown":"5m","budget":{"max":2,"per":"1h"}`)
		w.Pass(time.Second)
		w.replace("redis-0")
		w.Pass(10 * time.Second)
		w.wantRestarts(1)
		w.replace("redis-0")
		w.Stop()
		w.Start()
		next, _ := w.status("rt", "nextRestartTime").(string)
		due, err := time.Parse(time.RFC3339, next)
		if err != nil || time.Until(due) < 4*time.Minute || time.Until(due) > 5*time.Minute {
			t.Errorf("next restart at %s, in %s (%v)", next, time.Until(due), err)
		}
		w.Pass(4 * time.Minute)
		w.wantRestarts(1)
		w.Pass(time.Minute)
		w.wantRestarts(2)
		w.Want("restarts in the window", w.status("rt", "restartsInWindow"), 2)
		w.replace("redis-0")
		w.Stop()
		w.Start()
		w.Pass(50 * time.Minute)
		w.wantRestarts(2)
		w.WantCondition("rt", "Progressing", "True/Pending")
		w.Pass(10 * time.Minute)
		w.wantRestarts(3)
		w.Want("next", w.status("rt", "nextRestartTime"), nil)
	})
}

func TestSuspendedAndPausedTriggersRestartLater(t *testing.T) {
	for name, on := range map[string]string{"Suspended": `{"spec":{"suspend":true}}`, "Annotated": `{"metadata":{"annotations":{"skiff.dev/paused":"true"}}}`} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *env) {
				w.trigger("rt", selectRedis+","+toPredixy)
				w.Patch(resource, "rt", on)
				w.WantCondition("rt", "Paused", "True/"+name)
				w.WantCondition("rt", "Ready", "False/"+name)
				w.replace("redis-0")
				w.replace("redis-1")
				w.Stop()
				w.Start()
				w.Pass(15 * time.Minute)
				w.wantRestarts(0)
				w.Want("pending", w.status("rt", "pending", "pod"), "redis-0")
				w.Patch(resource, "rt", `{"spec":{"suspend":false},"metadata":{"annotations":null}}`)
				w.Pass(10 * time.Second)
				w.wantRestarts(1)
				w.WantCondition("rt", "Paused", "False/NotAnnotated")
				w.WantCondition("rt", "Ready", "True/Armed")
			})
		})
	}
}

// rolled writes the status of a StatefulSet or DaemonSet that has rolled out, as their controllers would.
func (w *env) rolled(r kube.Resource, name string) {
	w.Helper()
	g := at(w.API.Get(r, in(name)), "metadata", "generation")
	w.PatchSub(r, name, "status", fmt.Sprintf(`{"status":{"observedGeneration":%v,"replicas":1,"updatedReplicas":1,"readyReplicas":1,
		"currentRevision":"r%[1]v","updateRevision":"r%[1]v","desiredNumberScheduled":1,"updatedNumberScheduled":1,"numberAvailable":1}}`, g))
}

func TestTargetsOfAllKindsAreRestartedInOrder(t *testing.T) {
	story(t, func(w *env) {
		for _, kind := range []string{"StatefulSet", "DaemonSet"} {
			w.Post(targetKinds[kind], workloadBody(kind, "third", 1))
			w.rolled(targetKinds[kind], "third")
		}
		w.trigger("rt", selectRedis+`,"debounce":"0s","targets":[{"kind":"Deployment","name":"predixy"},{"kind":"StatefulSet","name":"third"},{"kind":"DaemonSet","name":"third"}]`)
		w.Pass(time.Second)
		w.Forget()
		w.replace("redis-0")
		if w.restartedAt(deployments, "predixy") == "" || w.restartedAt(statefulSets, "third") != "" {
			t.Errorf("the first target was restarted at %q, the second at %q", w.restartedAt(deployments, "predixy"),
				w.restartedAt(statefulSets, "third"))
		}
		w.Pass(time.Minute)
		if w.restartedAt(statefulSets, "third") == "" || w.restartedAt(daemonSets, "third") != "" {
			t.Errorf("the second target was restarted at %q, the third at %q", w.restartedAt(statefulSets, "third"),
				w.restartedAt(daemonSets, "third"))
		}
		w.WantCondition("rt", "Progressing", "True/Restarting")
		w.Stop() // in the middle
		w.Pass(15 * time.Minute)
		w.Start()
		w.Pass(time.Minute)
		w.Want("third target", w.restartedAt(daemonSets, "third"), "")
		w.WantCondition("rt", "Degraded", "True/RollingOut") // for a quarter of an hour
		w.rolled(statefulSets, "third")
		w.Pass(time.Minute)
		w.Want("third target", w.restartedAt(daemonSets, "third"), w.restartedAt(deployments, "predixy"))
		w.rolled(daemonSets, "third")
		w.Pass(time.Minute)
		w.WantCondition("rt", "Ready", "True/Armed")
		w.Want("count", w.status("rt", "restarts"), 1)
		w.wantRestarts(1)
	})
}

func TestATargetThatIsPausedOrUnavailableIsRestartedLater(t *testing.T) {
	for reason, change := range map[string][2]string{
		targetPaused: {`{"spec":{"paused":true}}`, `{"spec":{"paused":false}}`},
		unavailable:  {`{"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"main","image":"x:broken"}]}}}}`, `{"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"main","image":"x"}]}}}}`},
	} {
		t.Run(reason, func(t *testing.T) {
			story(t, func(w *env) {
				w.trigger("rt", selectRedis+","+toPredixy)
				w.Patch(deployments, "predixy", change[0])
				w.Pass(time.Minute)
				w.replace("redis-0")
				w.Pass(2 * time.Minute)
				const waits = "the restart waits: deployment/predixy"
				if m := w.Message("rt", "Progressing"); !strings.HasPrefix(m, waits) {
					t.Errorf("Progressing says %q", m)
				}
				if c := w.Condition("rt", "Ready"); strings.HasPrefix(c, "True/") && c != "True/WaitsForTarget" {
					t.Errorf("Ready is %s: %s", c, w.Message("rt", "Ready"))
				}
				w.Pass(10 * time.Minute)
				w.Want("restart", w.restartedAt(deployments, "predixy"), "")
				if c := w.Condition("rt", "Degraded"); c != "True/"+reason && c != "True/"+rollingOut {
					t.Errorf("Degraded is %s: %s", c, w.Message("rt", "Degraded"))
				}
				w.Forget()
				w.Pass(10 * time.Minute)
				if n := len(w.Requests()); n > 25 {
					t.Errorf("%d requests in ten minutes", n)
				}
				w.Patch(deployments, "predixy", change[1])
				w.Pass(2 * time.Minute)
				if w.restartedAt(deployments, "predixy") == "" {
					t.Error("not restarted when it was possible again")
				}
				w.WantCondition("rt", "Degraded", "False/AsExpected")
			})
		})
	}
}

// Only a user ends a pause, or deletes the pods of a target with OnDelete, and that may be never.
func TestATargetThatOnlyAUserRollsOutHoldsBackNoOther(t *testing.T) {
	for reason, first := range map[string]struct{ kind, halt, release string }{
		targetPaused: {"Deployment", `{"spec":{"paused":true}}`, `{"spec":{"paused":false}}`},
		onDelete: {"DaemonSet", `{"spec":{"updateStrategy":{"type":"OnDelete"}}}`,
			`{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}`},
	} {
		t.Run(reason, func(t *testing.T) {
			story(t, func(w *env) {
				halted := targetKinds[first.kind]
				w.Post(daemonSets, workloadBody("DaemonSet", "predixy", 1))
				w.rolled(daemonSets, "predixy")
				w.Post(statefulSets, workloadBody("StatefulSet", "third", 1))
				w.rolled(statefulSets, "third")
				w.trigger("rt", selectRedis+`,"debounce":"0s","cooldown":"10s","targets":[{"kind":"`+first.kind+
					`","name":"predixy"},{"kind":"StatefulSet","name":"third"}]`)
				w.Patch(halted, "predixy", first.halt)
				w.Pass(time.Minute)
				var last string
				for range 3 { // the round that waits for the first target is no reason to miss what follows
					w.replace("redis-0")
					w.Pass(2 * time.Minute)
					at := w.restartedAt(statefulSets, "third")
					if at == last || at == "" {
						t.Errorf("the second target was restarted at %q, before at %q", at, last)
					}
					last = at
					w.rolled(statefulSets, "third")
					w.Pass(time.Minute)
				}
				w.Want("the first target", w.restartedAt(halted, "predixy"), "")
				w.WantCondition("rt", "Degraded", "True/"+reason)
				w.Patch(halted, "predixy", first.release)
				if halted == daemonSets {
					w.rolled(daemonSets, "predixy")
				}
				w.Pass(2 * time.Minute)
				if w.restartedAt(halted, "predixy") == "" {
					t.Error("the first target was not restarted when it went on")
				}
				if halted == daemonSets {
					w.rolled(daemonSets, "predixy")
				}
				w.Pass(2 * time.Minute)
				w.WantCondition("rt", "Degraded", "False/AsExpected")
			})
		})
	}
}

func TestAPartitionIsSaid(t *testing.T) {
	story(t, func(w *env) {
		w.Post(statefulSets, strings.Replace(workloadBody("StatefulSet", "part", 3), `"spec":{`,
			`"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":2}},`, 1))
		w.rolled(statefulSets, "part")
		w.trigger("rt", selectRedis+`,"targets":[{"kind":"StatefulSet","name":"part"}]`)
		w.Pass(time.Minute)
		w.WantCondition("rt", "Ready", "True/Armed")
		w.WantCondition("rt", "Degraded", "True/Partitioned",
			"a restart of statefulset/part replaces 1 of 3 pods: spec.updateStrategy.rollingUpdate.partition is 2")
		w.Patch(statefulSets, "part", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
		w.Pass(6 * time.Minute)
		w.WantCondition("rt", "Degraded", "False/AsExpected")
	})
}

func TestAMissingTargetIsSaidAndPickedUp(t *testing.T) {
	story(t, func(w *env) {
		w.trigger("rt", selectRedis+`,"targets":[{"kind":"Deployment","name":"later"},{"kind":"Deployment","name":"predixy"}]`)
		w.WantCondition("rt", "Ready", "False/TargetMissing")
		w.replace("redis-0")
		w.Pass(time.Minute)
		w.wantRestarts(1) // the other one does not suffer
		w.Forget()
		w.Pass(10 * time.Minute)
		if n := len(w.Requests()); n > 20 {
			t.Errorf("%d requests in ten minutes: %v", n, w.Requests())
		}
		w.deploy("later", 1)
		w.Pass(5 * time.Second) // its pods tell
		w.WantCondition("rt", "Ready", "True/Armed")
		w.Pass(time.Minute)
		w.Want("restart of a target that came later", w.restartedAt(deployments, "later"), "")
		w.replace("redis-0")
		w.Pass(2 * time.Minute)
		if w.restartedAt(deployments, "later") == "" {
			t.Error("not restarted")
		}
		w.deploy("none", 0)
		w.trigger("two", selectRedis+`,"targets":[{"kind":"Deployment","name":"empty"}]`)
		w.deploy("empty", 0) // no pods that could tell
		w.Pass(61 * time.Second)
		w.WantCondition("two", "Ready", "True/Armed")
	})
}

func TestAnAnnotationThatIsTakenBackStopsTheTrigger(t *testing.T) {
	story(t, func(w *env) {
		w.trigger("rt", selectRedis+","+toPredixy)
		w.Pass(time.Second)
		w.replace("redis-0")
		w.Pass(10 * time.Minute)
		w.wantRestarts(1)
		w.Patch(deployments, "predixy", `{"spec":{"template":{"metadata":{"annotations":null}}}}`)
		w.Pass(time.Minute)
		w.WantCondition("rt", "Stalled", "True/Reverted")
		w.WantCondition("rt", "Ready", "False/Reverted")
		if n := w.notes("RestartTrigger", "rt"); len(n) != 2 ||
			!strings.HasPrefix(n[1], "Reverted: another field manager removed the annotation") {
			t.Errorf("Events: %q", n)
		}
		for range 3 {
			w.replace("redis-0")
			w.Pass(10 * time.Minute)
		}
		w.Stop()
		w.Start()
		w.Pass(15 * time.Minute)
		w.Want("restart", w.restartedAt(deployments, "predixy"), "")
		w.Patch(resource, "rt", `{"spec":{"debounce":"1s"}}`)
		w.Pass(time.Minute)
		if w.restartedAt(deployments, "predixy") == "" {
			t.Error("a change of the spec does not make it go on")
		}
		w.WantCondition("rt", "Ready", "True/Armed")
	})
}

func TestARestartByHandIsNoReversal(t *testing.T) {
	story(t, func(w *env) {
		w.trigger("rt", selectRedis+","+toPredixy)
		w.Pass(time.Second)
		w.replace("redis-0")
		w.Pass(10 * time.Minute)
		w.Patch(deployments, "predixy", `{"spec":{"template":{"metadata":{"annotations":{"`+restartedAt+`":"`+time.Now().Format(time.RFC3339)+`"}}}}}`)
		w.Pass(time.Minute)
		w.WantCondition("rt", "Ready", "True/Armed")
		w.Delete(deployments, "predixy")
		w.deploy("predixy", 1)
		w.Pass(time.Minute)
		w.WantCondition("rt", "Ready", "True/Armed")
	})
}

// Rules: WRT-23
func TestTheStatusSaysThatADeletedTriggerIsHeldByAnother(t *testing.T) {
	story(t, func(w *env) {
		w.trigger("rt", selectRedis+","+toPredixy)
		w.Pass(10 * time.Minute)
		w.Patch(resource, "rt", `{"metadata":{"finalizers":["example.com/backup"]}}`)
		w.replace("redis-0") // a restart is pending
		w.Delete(resource, "rt")
		w.Want("state", w.status("rt", "state"), "Terminating")
		w.WantCondition("rt", "Ready", "False/Terminating", "example.com/backup")
		w.Want("pending", w.status("rt", "pending"), nil)
		w.Forget()
		w.Pass(time.Hour)
		w.Stop()
		w.Start()
		w.Pass(time.Hour)
		w.WantRequests()
		w.wantRestarts(0)
	})
}
