package redis

import (
	"strings"
	"testing"
	"time"

	"skiff/internal/kube"
)

const three = `{"port":6379,"num":3}`

// ready creates a Redis and waits until it is ready.
func (w *world) ready(name, spec string) {
	w.Helper()
	w.create(name, spec)
	w.pass(5 * time.Second)
	w.wantReady(name)
}

// Rules: CCH-11, WRT-04, WRT-12, WRT-14, WRT-16, WRT-22, WRT-23
func TestAWholeLifeWithTheWritesThatItNeeds(t *testing.T) {
	story(t, func(w *world) {
		w.create("cache", three)
		w.wantRequests("PATCH redis/cache 200", "POST services 201", "POST pods 201", "POST pods 201", "POST pods 201")
		w.wantCondition("cache", "Ready", "False/PodsNotReady", "0 of 3")
		w.wantCondition("cache", "Progressing", "True/PodsNotReady")
		w.pass(5 * time.Second)
		w.wantReady("cache")
		w.wantStatusWrites(8) // created; each of three pods ready, in the worst case one by one, twice
		rd := w.redis("cache")
		w.want("replicas", []int32{rd.Status.Replicas, rd.Status.ReadyReplicas, rd.Status.UpdatedReplicas}, []int32{3, 3, 3})
		w.want("members", len(rd.Status.Members), 3)
		for i, m := range rd.Status.Members {
			p := w.pod(podName("cache", i))
			w.want("member", m, Member{p.Name, p.UID, p.Status.PodIP, true, p.revision()})
			w.want("owner", p.ControllerUID(), rd.UID)
		}

		w.forget()
		w.pass(20 * time.Minute)
		w.wantRequests()
		w.wantStatusWrites(0)

		w.patch(resource, "cache", `{"spec":{"num":1}}`)
		w.wantPods("cache-0 cache-1 cache-2-")
		w.pass(500 * time.Millisecond)
		w.wantPods("cache-0 cache-1 cache-2-") // cache-1 has to wait
		w.pass(4 * time.Second)
		w.wantPods("cache-0")
		w.wantReady("cache")
		w.wantRequests("DELETE pods/cache-2 200", "DELETE pods/cache-1 200")
		w.wantStatusWrites(5) // each pod going, and gone, and ready again

		w.forget()
		w.patch(resource, "cache", `{"spec":{"num":0}}`)
		w.pass(3 * time.Second)
		w.wantPods("")
		w.wantReady("cache")
		w.patch(resource, "cache", `{"spec":{"num":2}}`)
		w.pass(3 * time.Second)
		w.wantPods("cache-0 cache-1")
		w.wantReady("cache")
		w.wantRequests("DELETE pods/cache-0 200", "POST pods 201", "POST pods 201")

		w.forget()
		before := w.uids()
		w.patch(resource, "cache", `{"spec":{"config":{"maxmemory":"64mb"}}}`)
		w.wantPods("cache-0 cache-1-")
		w.pass(10 * time.Second)
		w.want("replaced", w.replaced(before), "cache-0 cache-1")
		w.wantReady("cache")
		w.wantRequests("TRY pods 409", "DELETE pods/cache-1 200", "POST pods 201", "DELETE pods/cache-0 200", "POST pods 201")
		w.wantStatusWrites(10)

		w.forget()
		w.delete(resource, "cache")
		w.wantPods("cache-0 cache-1-")
		w.pass(2 * time.Second)
		w.wantPods("cache-0-")
		w.pass(3 * time.Second)
		w.wantPods("")
		if w.redis("cache") != nil {
			t.Error("the Redis is still there")
		}
		w.wantRequests("DELETE pods/cache-1 200", "DELETE pods/cache-0 200", "PATCH redis/cache 200")
		w.wantStatusWrites(4)
		w.stop() // sends the last events
		got := w.eventReasons("cache")
		for reason, n := range map[string]int{"CreatePod": 7, "CreateService": 1, "DeletePod": 5, "RollPod": 2, "PodsDeleted": 1} {
			if got[reason] != n {
				t.Errorf("events %s: %d, want %d", reason, got[reason], n)
			}
		}
	})
}

func TestAPodThatGoesOrEndsComesBackOnce(t *testing.T) {
	story(t, func(w *world) {
		w.ready("cache", three)
		before := w.uids()
		w.delete(pods, "cache-1")
		w.wantCondition("cache", "Ready", "False/PodsMissing", "2 of 3") // within one reconcile of its end
		w.fail("cache-0")
		w.wantCondition("cache", "Ready", "False/PodsMissing")
		w.pass(5 * time.Second)
		w.wantPods("cache-0 cache-1 cache-2")
		w.want("replaced", w.replaced(before), "cache-0 cache-1")
		w.wantReady("cache")

		before = w.uids()
		var none int64
		if err := w.user.Delete(w.Context(), pods, named("cache-2"), kube.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
			t.Fatal(err)
		}
		w.pass(3 * time.Second)
		w.want("replaced", w.replaced(before), "cache-2")
		w.wantReady("cache")

		w.stop() // vanished while nobody looked
		w.delete(pods, "cache-0")
		w.delete(services, "cache")
		w.pass(5 * time.Second)
		w.wantPods("cache-1 cache-2")
		w.start()
		w.pass(5 * time.Second)
		w.wantPods("cache-0 cache-1 cache-2")
		w.wantReady("cache")
		if w.api.Get(services, named("cache")) == nil {
			t.Error("the Service did not come back")
		}
	})
}

func TestAPodThatCrashesIsReportedAndNotTouched(t *testing.T) {
	story(t, func(w *world) {
		w.ready("cache", three)
		w.forget()
		w.crash("cache-1")
		w.wantCondition("cache", "Ready", "False/CrashLoopBackOff", "cache-1", "exit code 137", "OOMKilled", "kubectl describe")
		w.wantCondition("cache", "Degraded", "True/CrashLoopBackOff")
		w.pass(20 * time.Minute)
		w.wantRequests()
		w.wantStatusWrites(1)
		w.want("events", w.eventReasons("cache")["CrashLoopBackOff"], 1)
	})
}

func TestARollWaitsForEachPodAndForMinReadySeconds(t *testing.T) {
	story(t, func(w *world) {
		w.ready("cache", three)
		w.patch(resource, "cache", `{"spec":{"minReadySeconds":20}}`)
		before := w.uids()
		w.pass(30 * time.Second) // no roll
		w.want("replaced", w.replaced(before), "")
		w.patch(resource, "cache", `{"spec":{"image":"redis:8"}}`)
		w.pass(15 * time.Second)
		w.want("replaced", w.replaced(before), "cache-2")
		w.wantCondition("cache", "Progressing", "True/RollingOut", "1 of 3")
		w.wantPods("cache-0 cache-1 cache-2") // ready by now, but not for long enough
		w.pass(15 * time.Second)
		w.want("replaced", w.replaced(before), "cache-1 cache-2")
		w.pass(20 * time.Second)
		w.want("replaced", w.replaced(before), "cache-0 cache-1 cache-2")
		w.wantCondition("cache", "Ready", "False/PodsNotReady", "2 of 3 pods are available")
		w.pass(20 * time.Second)
		w.wantReady("cache")
	})
}

func TestAPodThatDoesNotBecomeReadyStopsTheRollAndTheNextChangeGoesOn(t *testing.T) {
	for image, reason := range map[string]string{brokenImage: "ImagePullBackOff", slowImage: "PodNotReady"} {
		story(t, func(w *world) {
			w.ready("cache", three)
			before := w.uids()
			w.patch(resource, "cache", `{"spec":{"image":"`+image+`"}}`)
			w.pass(2 * time.Minute)
			w.want("replaced", w.replaced(before), "cache-2")
			w.wantCondition("cache", "Degraded", "True/"+reason, "pod cache-2")
			w.wantCondition("cache", "Ready", "False/"+reason)
			w.wantCondition("cache", "Progressing", "False/"+reason)
			w.want("ready", w.redis("cache").Status.ReadyReplicas, int32(2))
			w.forget()
			w.pass(time.Hour)
			w.wantRequests()
			w.wantStatusWrites(0)

			before = w.uids()
			w.patch(resource, "cache", `{"spec":{"image":"redis:8"}}`)
			w.wantPods("cache-0 cache-1 cache-2-") // the stuck one first
			w.pass(20 * time.Second)
			w.want("replaced", w.replaced(before), "cache-0 cache-1 cache-2")
			w.wantReady("cache")
		})
	}
}

func TestAStuckPodOfAnOlderRevisionIsReplacedBeforeOnesThatServe(t *testing.T) {
	story(t, func(w *world) {
		w.ready("cache", three)
		w.crash("cache-0")
		before := w.uids()
		w.patch(resource, "cache", `{"spec":{"image":"redis:8"}}`)
		w.wantPods("cache-0- cache-1 cache-2")
		w.pass(20 * time.Second)
		w.want("replaced", w.replaced(before), "cache-0 cache-1 cache-2")
		w.wantReady("cache")
	})
}

func TestAPodThatNoNodeTakesIsReportedAndScalingGoesOn(t *testing.T) {
	story(t, func(w *world) {
		w.create("cache", `{"port":6379,"num":2,"template":{"spec":{"nodeSelector":{"no":"where"}}}}`)
		w.pass(time.Second)
		w.wantCondition("cache", "Degraded", "True/Unschedulable", "cache-1", "0/1 nodes are available")
		w.patch(resource, "cache", `{"spec":{"num":1}}`)
		w.pass(2 * time.Second)
		w.wantPods("cache-0")
		w.patch(resource, "cache", `{"spec":{"template":null}}`)
		w.pass(5 * time.Second)
		w.wantReady("cache")
	})
}

func TestATemplateThatTheServerRefusesCostsNoPod(t *testing.T) {
	story(t, func(w *world) {
		w.ready("cache", three)
		before := w.uids()
		w.forget()
		w.patch(resource, "cache", `{"spec":{"template":{"spec":{"containers":[{"name":"Not_A_Label","image":"x"}]}}}}`)
		w.wantCondition("cache", "Degraded", "True/PodRefused", "spec.containers[", "correct the spec")
		w.wantCondition("cache", "Stalled", "True/PodRefused")
		w.delete(services, "cache") // wakes the controller, which must not ask the same again at once
		w.want("attempts", w.count("TRY"), 1)
		w.pass(time.Hour)
		w.want("replaced", w.replaced(before), "")
		if n := len(w.requests(false)); n > 20 {
			t.Errorf("%d requests in an hour for one refused template", n)
		}
		w.patch(resource, "cache", `{"spec":{"template":null}}`)
		w.wantReady("cache")
		w.want("replaced", w.replaced(before), "")
	})
}

func TestAPausedRedisIsReportedOnAndNotChanged(t *testing.T) {
	story(t, func(w *world) {
		w.ready("cache", three)
		w.patch(resource, "cache", `{"metadata":{"annotations":{"skiff.dev/paused":"true"}}}`)
		w.wantCondition("cache", "Paused", "True/Annotated", "skiff.dev/paused")
		w.wantCondition("cache", "Ready", "True/Complete")
		w.forget()
		w.patch(resource, "cache", `{"spec":{"num":1,"image":"redis:8"}}`)
		w.delete(pods, "cache-0")
		w.pass(time.Minute)
		w.wantPods("cache-1 cache-2")
		w.wantRequests("GET pods/cache-0 404") // it might have been hidden only
		w.wantCondition("cache", "Ready", "False/ScalingDown")
		w.delete(services, "cache")
		w.pass(time.Minute)
		w.want("the Service", w.api.Get(services, named("cache")), map[string]any(nil))
		w.wantCondition("cache", "Ready", "False/Paused", "Service default/cache does not exist")
		w.want("writes", len(w.requests(false))-w.count("GET"), 0)
		w.wantCondition("cache", "Progressing", "False/Paused")
		w.patch(resource, "cache", `{"metadata":{"annotations":{"skiff.dev/paused":null}}}`)
		w.pass(20 * time.Second)
		w.wantPods("cache-0")
		w.wantCondition("cache", "Paused", "False/NotAnnotated")
		w.wantReady("cache")

		w.patch(resource, "cache", `{"metadata":{"annotations":{"skiff.dev/paused":"true"}}}`)
		w.delete(resource, "cache")
		w.pass(5 * time.Second)
		w.wantPods("")
		if w.redis("cache") != nil {
			t.Error("a paused Redis cannot be deleted")
		}

		w.post(resource, w.json(`{"apiVersion":"skiff.dev/v1alpha1","kind":"Redis","metadata":{"name":"born","annotations":{"skiff.dev/paused":"true"}},"spec":`+three+`}`))
		w.pass(time.Minute)
		w.wantPods("")
		w.delete(resource, "born")
		if w.redis("born") != nil {
			t.Error("a Redis that was born paused cannot be deleted")
		}
	})
}

// Rules: WRT-24
func TestDeletionWorksWhateverHappensMeanwhile(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world){
		"pods are gone already": func(w *world) {
			for _, p := range []string{"cache-0", "cache-1", "cache-2"} {
				w.delete(pods, p)
			}
			w.pass(2 * time.Second)
		},
		"the spec is nonsense": func(w *world) { w.patch(resource, "cache", `{"spec":{"config":{"port":"1"}}}`) },
		"a pod is stuck":       func(w *world) { w.crash("cache-1") },
		"a pod has failed":     func(w *world) { w.fail("cache-1") },
		"a pod is deleted":     func(w *world) { w.delete(pods, "cache-1") },
		"nothing":              func(*world) {},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				w.ready("cache", three)
				w.stop() // the controller is down
				meanwhile(w)
				w.delete(resource, "cache")
				w.pass(time.Minute)
				if w.redis("cache") == nil {
					t.Fatal("nothing kept the Redis")
				}
				w.start()
				w.pass(10 * time.Second)
				w.wantPods("")
				if rd := w.redis("cache"); rd != nil {
					t.Errorf("the Redis is still there: %+v", rd.Finalizers)
				}
			})
		})
	}
}

// Rules: WRT-06, WRT-23
func TestFinalizersOfOthersStay(t *testing.T) {
	story(t, func(w *world) {
		w.post(resource, w.json(`{"apiVersion":"skiff.dev/v1alpha1","kind":"Redis","metadata":{"name":"cache","finalizers":["example.com/backup"]},"spec":`+three+`}`))
		w.want("finalizers", strings.Join(w.redis("cache").Finalizers, " "), "example.com/backup skiff.dev/pods")
		w.pass(5 * time.Second)
		w.delete(resource, "cache")
		w.pass(10 * time.Second)
		w.wantPods("")
		w.want("finalizers", strings.Join(w.redis("cache").Finalizers, " "), "example.com/backup")
		w.forget()
		w.patch(resource, "cache", `{"metadata":{"labels":{"a":"b"}}}`)
		w.wantRequests()
		w.patch(resource, "cache", `{"metadata":{"finalizers":null}}`)
		if w.redis("cache") != nil {
			t.Error("the Redis is still there")
		}
	})
}

func TestPodsStayWhereTheUserSaysOrphan(t *testing.T) {
	story(t, func(w *world) {
		w.ready("cache", three)
		if err := w.user.Delete(w.Context(), resource, named("cache"), kube.DeleteOptions{Propagation: kube.Orphan}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		w.wantPods("cache-0 cache-1 cache-2")
		w.want("finalizers", strings.Join(w.redis("cache").Finalizers, " "), "orphan")
	})
}

// Rules: CCH-15, WRT-13, WRT-28
func TestAForeignPodIsLeftAloneReportedAndOvercome(t *testing.T) {
	for name, labels := range map[string]string{"hidden from our watch": `{"app":"theirs"}`, "seen by our watch": `{"app.kubernetes.io/managed-by":"skiff"}`} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				w.foreignPod("cache-1", labels)
				w.pass(5 * time.Second)
				foreign := w.pod("cache-1")
				w.create("cache", three)
				w.pass(5 * time.Second)
				w.wantPods("cache-0 cache-1 cache-2")
				w.wantCondition("cache", "Ready", "False/NameTaken", "Pod default/cache-1", "was not made by skiff")
				w.wantCondition("cache", "Degraded", "True/NameTaken")
				w.want("ready", w.redis("cache").Status.ReadyReplicas, int32(2))
				w.forget()
				w.patch(resource, "cache", `{"spec":{"image":"redis:8"}}`) // the others are rolled
				w.pass(20 * time.Second)
				w.want("updated", w.redis("cache").Status.UpdatedReplicas, int32(2))
				w.pass(10 * time.Minute)
				w.want("the foreign pod", w.pod("cache-1"), foreign)
				if n := len(w.requests(false)); n > 40 {
					t.Errorf("%d requests in ten minutes: %q", n, w.requests(false))
				}
				w.delete(pods, "cache-1")
				w.pass(70 * time.Second)
				w.wantReady("cache")
				w.delete(resource, "cache")
				w.pass(10 * time.Second)
				w.wantPods("")
			})
		})
	}
}

func TestPodsOfADeletedRedisOfTheSameNameAreNotAdopted(t *testing.T) {
	story(t, func(w *world) {
		w.ready("cache", three)
		w.node.freeze(true) // so that the old pods take their time
		w.patch(resource, "cache", `{"metadata":{"finalizers":null}}`)
		w.stop()
		w.patch(resource, "cache", `{"metadata":{"finalizers":null}}`)
		w.delete(resource, "cache")
		before := w.uids()
		w.create("cache", three)
		w.start()
		w.wantCondition("cache", "Ready", "False/NameTaken", "belongs to Redis cache (uid ")
		w.want("replaced", w.replaced(before), "")
		w.node.freeze(false) // the garbage collector removes them
		w.pass(10 * time.Second)
		w.want("replaced", w.replaced(before), "cache-0 cache-1 cache-2")
		w.wantReady("cache")
	})
}

func TestLabelsThatThePodsNeedAreBroughtBack(t *testing.T) {
	story(t, func(w *world) {
		w.ready("cache", three)
		before := w.uids()
		w.forget()
		w.patch(pods, "cache-1", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`) // now our watch does not see it
		w.patch(pods, "cache-2", `{"metadata":{"labels":{"app.kubernetes.io/instance":"other","mine":"stays"}}}`)
		w.pass(2 * time.Second)
		w.want("replaced", w.replaced(before), "")
		w.wantRequests("POST pods 409", "GET pods/cache-1 200", "PATCH pods/cache-1 200", "PATCH pods/cache-2 200")
		for _, name := range []string{"cache-1", "cache-2"} {
			for _, label := range []string{"app.kubernetes.io/managed-by", "app.kubernetes.io/instance"} {
				if v, _ := w.pod(name).Labels.Get(label); v != childLabels("cache")[label] {
					t.Errorf("%s has %s=%q", name, label, v)
				}
			}
		}
		if v, _ := w.pod("cache-2").Labels.Get("mine"); v != "stays" {
			t.Error("a label of the user's is gone")
		}
		w.wantReady("cache")
	})
}
