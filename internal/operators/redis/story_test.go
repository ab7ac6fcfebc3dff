package redis

import (
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/podpolicy"
)

const three = `{"port":6379,"num":3}`

// ready creates a Redis and waits until it is ready.
func (w *env) ready(name, spec string) {
	w.Helper()
	w.Create(name, spec)
	w.Pass(5 * time.Second)
	w.WantReady(name)
}

// Rules: CCH-11, WRT-04, WRT-12, WRT-14, WRT-16, WRT-22, WRT-23
func TestAWholeLifeWithTheWritesThatItNeeds(t *testing.T) {
	story(t, func(w *env) {
		w.Create("cache", three)
		w.wantRequests("PATCH redis/cache 200", "POST services 201", "POST pods 201", "POST pods 201", "POST pods 201")
		w.WantCondition("cache", "Ready", "False/PodsNotReady", "0 of 3")
		w.WantCondition("cache", "Progressing", "True/PodsNotReady")
		w.Pass(5 * time.Second)
		w.WantReady("cache")
		w.wantStatusWrites(8) // created; each of three pods ready, in the worst case one by one, twice
		rd := w.redis("cache")
		w.Want("replicas", []int32{rd.Status.Replicas, rd.Status.ReadyReplicas, rd.Status.UpdatedReplicas},
			[]int32{3, 3, 3})
		w.Want("members", len(rd.Status.Members), 3)
		for i, m := range rd.Status.Members {
			p := w.pod(podName("cache", i))
			w.Want("member", m, Member{p.Name, p.UID, p.Status.PodIP, true, revisionOfPod(p)})
			w.Want("owner", p.ControllerUID(), rd.UID)
		}

		w.Forget()
		w.Pass(20 * time.Minute)
		w.wantRequests()
		w.wantStatusWrites(0)

		w.Patch(resource, "cache", `{"spec":{"num":1}}`)
		w.wantPods("cache-0 cache-1 cache-2-")
		w.Pass(500 * time.Millisecond)
		w.wantPods("cache-0 cache-1 cache-2-") // cache-1 has to wait
		w.Pass(4 * time.Second)
		w.wantPods("cache-0")
		w.WantReady("cache")
		w.wantRequests("DELETE pods/cache-2 200", "DELETE pods/cache-1 200")
		w.wantStatusWrites(5) // each pod going, and gone, and ready again

		w.Forget()
		w.Patch(resource, "cache", `{"spec":{"num":0}}`)
		w.Pass(3 * time.Second)
		w.wantPods("")
		w.WantReady("cache")
		w.Patch(resource, "cache", `{"spec":{"num":2}}`)
		w.Pass(3 * time.Second)
		w.wantPods("cache-0 cache-1")
		w.WantReady("cache")
		w.wantRequests("DELETE pods/cache-0 200", "POST pods 201", "POST pods 201")

		w.Forget()
		before := w.uids()
		w.Patch(resource, "cache", `{"spec":{"config":{"maxmemory":"64mb"}}}`)
		w.wantPods("cache-0 cache-1-")
		w.Pass(10 * time.Second)
		w.Want("replaced", w.replaced(before), "cache-0 cache-1")
		w.WantReady("cache")
		w.wantRequests("TRY pods 409", "DELETE pods/cache-1 200", "POST pods 201", "DELETE pods/cache-0 200",
			"POST pods 201")
		w.wantStatusWrites(10)

		w.Forget()
		w.Delete(resource, "cache")
		w.wantPods("cache-0 cache-1-")
		w.Pass(2 * time.Second)
		w.wantPods("cache-0-")
		w.Pass(3 * time.Second)
		w.wantPods("")
		if w.redis("cache") != nil {
			t.Error("the Redis is still there")
		}
		w.wantRequests("DELETE pods/cache-1 200", "DELETE pods/cache-0 200", "PATCH redis/cache 200")
		w.wantStatusWrites(4)
		w.Stop() // sends the last events
		got := w.eventReasons("cache")
		for reason, n := range map[string]int{"CreatePod": 4, "CreateService": 1, "DeletePod": 5, "RollPod": 2,
			"PodsDeleted": 1} { // three pods at once are one Event
			if got[reason] != n {
				t.Errorf("events %s: %d, want %d", reason, got[reason], n)
			}
		}
	})
}

func TestAPodThatGoesOrEndsComesBackOnce(t *testing.T) {
	story(t, func(w *env) {
		w.ready("cache", three)
		before := w.uids()
		w.Delete(pods, "cache-1")
		w.WantCondition("cache", "Ready", "False/PodsMissing", "2 of 3") // within one reconcile of its end
		w.fail("cache-0")
		w.WantCondition("cache", "Ready", "False/PodsMissing")
		w.Pass(5 * time.Second)
		w.wantPods("cache-0 cache-1 cache-2")
		w.Want("replaced", w.replaced(before), "cache-0 cache-1")
		w.WantReady("cache")

		before = w.uids()
		w.DeleteNow(pods, "cache-2")
		w.Pass(3 * time.Second)
		w.Want("replaced", w.replaced(before), "cache-2")
		w.WantReady("cache")

		w.Stop() // it vanishes while skiff is down
		w.Delete(pods, "cache-0")
		w.Delete(services, "cache")
		w.Pass(5 * time.Second)
		w.wantPods("cache-1 cache-2")
		w.Start()
		w.Pass(5 * time.Second)
		w.wantPods("cache-0 cache-1 cache-2")
		w.WantReady("cache")
		if w.API.Get(services, named("cache")) == nil {
			t.Error("the Service did not come back")
		}
	})
}

func TestARollWaitsForEachPodAndForMinReadySeconds(t *testing.T) {
	story(t, func(w *env) {
		w.ready("cache", three)
		w.Patch(resource, "cache", `{"spec":{"minReadySeconds":20}}`)
		before := w.uids()
		w.Pass(30 * time.Second) // no roll
		w.Want("replaced", w.replaced(before), "")
		w.Patch(resource, "cache", `{"spec":{"image":"redis:8"}}`)
		w.Pass(15 * time.Second)
		w.Want("replaced", w.replaced(before), "cache-2")
		w.WantCondition("cache", "Progressing", "True/RollingOut", "1 of 3")
		w.wantPods("cache-0 cache-1 cache-2") // ready by now, but not for long enough
		w.Pass(15 * time.Second)
		w.Want("replaced", w.replaced(before), "cache-1 cache-2")
		w.Pass(20 * time.Second)
		w.Want("replaced", w.replaced(before), "cache-0 cache-1 cache-2")
		w.WantCondition("cache", "Ready", "False/PodsNotReady", "2 of 3 pods are available")
		w.Pass(20 * time.Second)
		w.WantReady("cache")
	})
}

func TestAPodThatDoesNotBecomeReadyStopsTheRollAndTheNextChangeGoesOn(t *testing.T) {
	for image, reason := range map[string]string{brokenImage: "ImagePullBackOff", slowImage: "PodNotReady"} {
		story(t, func(w *env) {
			w.ready("cache", three)
			before := w.uids()
			w.Patch(resource, "cache", `{"spec":{"image":"`+image+`"}}`)
			w.Pass(2 * time.Minute)
			w.Want("replaced", w.replaced(before), "cache-2")
			w.WantCondition("cache", "Degraded", "True/"+reason, "pod cache-2")
			w.WantCondition("cache", "Ready", "False/"+reason)
			w.WantCondition("cache", "Progressing", "False/"+reason)
			w.Want("ready", w.redis("cache").Status.ReadyReplicas, int32(2))
			w.Forget()
			w.Pass(time.Hour)
			w.wantRequests()
			w.wantStatusWrites(0)

			before = w.uids()
			w.Patch(resource, "cache", `{"spec":{"image":"redis:8"}}`)
			w.wantPods("cache-0 cache-1 cache-2-") // the stuck one first
			w.Pass(20 * time.Second)
			w.Want("replaced", w.replaced(before), "cache-0 cache-1 cache-2")
			w.WantReady("cache")
		})
	}
}

func TestAPausedRedisIsReportedOnAndNotChanged(t *testing.T) {
	story(t, func(w *env) {
		w.ready("cache", three)
		w.Patch(resource, "cache", `{"metadata":{"annotations":{"skiff.dev/paused":"true"}}}`)
		w.WantCondition("cache", "Paused", "True/Annotated", "skiff.dev/paused")
		w.WantCondition("cache", "Ready", "True/Complete")
		w.Forget()
		w.Patch(resource, "cache", `{"spec":{"num":1,"image":"redis:8"}}`)
		w.Delete(pods, "cache-0")
		w.Pass(time.Minute)
		w.wantPods("cache-1 cache-2")
		w.wantRequests("GET pods/cache-0 404") // it might have been hidden only
		w.WantCondition("cache", "Ready", "False/ScalingDown")
		w.Delete(services, "cache")
		w.Pass(time.Minute)
		w.Want("the Service", w.API.Get(services, named("cache")), map[string]any(nil))
		w.WantCondition("cache", "Ready", "False/Paused", "Service default/cache does not exist")
		w.Want("writes", len(w.requests(false))-w.Count("GET"), 0)
		w.WantCondition("cache", "Progressing", "False/Paused")
		w.Patch(resource, "cache", `{"metadata":{"annotations":{"skiff.dev/paused":null}}}`)
		w.Pass(20 * time.Second)
		w.wantPods("cache-0")
		w.WantCondition("cache", "Paused", "False/NotAnnotated")
		w.WantReady("cache")

		w.Patch(resource, "cache", `{"metadata":{"annotations":{"skiff.dev/paused":"true"}}}`)
		w.Delete(resource, "cache")
		w.Pass(5 * time.Second)
		w.wantPods("")
		if w.redis("cache") != nil {
			t.Error("a paused Redis cannot be deleted")
		}

		w.Post(resource, `{"apiVersion":"skiff.dev/v1alpha1","kind":"Redis","metadata":{"name":"born",
			"annotations":{"skiff.dev/paused":"true"}},"spec":`+three+`}`)
		w.Pass(time.Minute)
		w.wantPods("")
		w.Delete(resource, "born")
		if w.redis("born") != nil {
			t.Error("a Redis that was born paused cannot be deleted")
		}
	})
}

// Rules: WRT-24
func TestDeletionWorksWhateverHappensMeanwhile(t *testing.T) {
	for name, meanwhile := range map[string]func(w *env){
		"pods are gone already": func(w *env) {
			for _, p := range []string{"cache-0", "cache-1", "cache-2"} {
				w.Delete(pods, p)
			}
			w.Pass(2 * time.Second)
		},
		"the spec is nonsense": func(w *env) { w.Patch(resource, "cache", `{"spec":{"config":{"port":"1"}}}`) },
		"a pod is stuck":       func(w *env) { w.crash("cache-1") },
		"a pod has failed":     func(w *env) { w.fail("cache-1") },
		"a pod is deleted":     func(w *env) { w.Delete(pods, "cache-1") },
		"nothing":              func(*env) {},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *env) {
				w.ready("cache", three)
				w.Stop() // the controller is down
				meanwhile(w)
				w.Delete(resource, "cache")
				w.Pass(time.Minute)
				if w.redis("cache") == nil {
					t.Fatal("nothing kept the Redis")
				}
				w.Start()
				w.Pass(10 * time.Second)
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
	story(t, func(w *env) {
		w.Post(resource, `{"apiVersion":"skiff.dev/v1alpha1","kind":"Redis","metadata":{"name":"cache",
			"finalizers":["example.com/backup"]},"spec":`+three+`}`)
		w.Want("finalizers", strings.Join(w.redis("cache").Finalizers, " "), "example.com/backup skiff.dev/pods")
		w.Pass(5 * time.Second)
		w.Delete(resource, "cache")
		w.Want("state", w.redis("cache").Status.State, "Terminating")
		w.WantCondition("cache", "Ready", "False/Terminating", "3 left", "waiting for pod cache-2 to end")
		w.WantCondition("cache", "Progressing", "True/Terminating")
		w.Pass(10 * time.Second)
		w.wantPods("")
		w.Want("finalizers", strings.Join(w.redis("cache").Finalizers, " "), "example.com/backup")
		w.Want("state", w.redis("cache").Status.State, "Terminating")
		w.WantCondition("cache", "Ready", "False/Terminating", "example.com/backup")
		w.WantCondition("cache", "Progressing", "False/Terminating")
		w.Want("pods in the status", len(w.redis("cache").Status.Members), 0)
		w.Forget()
		w.Patch(resource, "cache", `{"metadata":{"labels":{"a":"b"}}}`)
		w.Pass(time.Hour)
		w.Stop()
		w.Start()
		w.Pass(time.Hour)
		w.WantRequests()
		w.Patch(resource, "cache", `{"metadata":{"finalizers":null}}`)
		if w.redis("cache") != nil {
			t.Error("the Redis is still there")
		}
	})
}

// Rules: CCH-15, WRT-13, WRT-28
func TestAForeignPodIsLeftAloneReportedAndOvercome(t *testing.T) {
	for name, labels := range map[string]string{"hidden from our watch": `{"app":"theirs"}`,
		"seen by our watch": `{"app.kubernetes.io/managed-by":"skiff"}`} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *env) {
				w.Post(pods, foreignPod("cache-1", labels))
				w.Pass(5 * time.Second)
				foreign := w.pod("cache-1")
				w.Create("cache", three)
				w.Pass(5 * time.Second)
				w.wantPods("cache-0 cache-1 cache-2")
				w.WantCondition("cache", "Ready", "False/NameTaken", "Pod default/cache-1", "is not managed by skiff")
				w.WantCondition("cache", "Degraded", "True/NameTaken")
				w.Want("ready", w.redis("cache").Status.ReadyReplicas, int32(2))
				w.Forget()
				w.Patch(resource, "cache", `{"spec":{"image":"redis:8"}}`) // the others are rolled
				w.Pass(20 * time.Second)
				w.Want("updated", w.redis("cache").Status.UpdatedReplicas, int32(2))
				w.Pass(10 * time.Minute)
				w.Want("the foreign pod", w.pod("cache-1"), foreign)
				if n := len(w.requests(false)); n > 40 {
					t.Errorf("%d requests in ten minutes: %q", n, w.requests(false))
				}
				w.Delete(pods, "cache-1")
				w.Pass(70 * time.Second)
				w.WantReady("cache")
				w.Delete(resource, "cache")
				w.Pass(10 * time.Second)
				w.wantPods("")
			})
		})
	}
}

// A pod that ends again and again is replaced at once the first time, then after 10 s, 20 s, 40 s ... 5 min, as a
// kubelet restarts a container that crashes.
//
// Rules: ERR-08
func TestAPodThatEndsAgainAndAgainIsReplacedLessAndLessOften(t *testing.T) {
	for image, how := range map[string]string{
		rejectedImage: "OutOfcpu: Pod was rejected",
		failingImage:  "container redis ended with exit code 1",
	} {
		t.Run(image, func(t *testing.T) {
			story(t, func(w *env) {
				w.Create("cache", `{"port":6379,"num":1,"image":"`+image+`"}`)
				w.Pass(30 * time.Second)
				w.WantCondition("cache", "Degraded", "True/PodEnded", "pod cache-0", how, "20s")
				w.WantCondition("cache", "Ready", "False/PodEnded", "pod cache-0")
				w.Pass(30 * time.Second)
				w.WantCondition("cache", "Degraded", "True/PodEnded", "pod cache-0", how, "40s")
				w.atMost("in the first minute", 6, 6, 30)
				w.Pass(9 * time.Minute) // made at 0, 0, 10, 30, 70, 150, 310, 610 s
				w.Forget()
				w.Pass(30 * time.Minute)
				w.WantCondition("cache", "Degraded", "True/PodEnded", "pod cache-0", how, "5m")
				w.atMost("in half an hour", 7, 7, 40)
				w.Patch(resource, "cache", `{"spec":{"image":"redis:8"}}`) // what is new is tried at once
				w.Pass(10 * time.Second)
				w.WantReady("cache")
				w.Stop()
				w.Want("Events about pods that ended", w.eventReasons("cache")["ReplacePod"] > 0, true)
			})
		})
	}
}

func (w *env) atMost(when string, posts, deletes, statuses int) {
	w.Helper()
	p, d, s := w.Count("POST pods"), w.Count("DELETE pods"), len(w.requests(true))
	if p > posts || d > deletes || s > statuses {
		w.Errorf("%s: %d POST, %d DELETE, %d status writes, want at most %d, %d and %d",
			when, p, d, s, posts, deletes, statuses)
	}
}

func TestAPodThatEndsDoesNotHoldUpTheOthers(t *testing.T) {
	story(t, func(w *env) {
		w.ready("cache", three)
		for range 2 {
			w.fail("cache-1")
			w.Pass(3 * time.Second)
		}
		before := w.uids()
		w.fail("cache-0")
		w.Delete(pods, "cache-2")
		w.Pass(4 * time.Second)
		w.Want("replaced", w.replaced(before), "cache-0 cache-2")
		w.WantCondition("cache", "Degraded", "True/PodEnded", "pod cache-1", "Evicted")
		w.Patch(resource, "cache", `{"spec":{"num":1}}`)
		w.Pass(5 * time.Second)
		w.wantPods("cache-0")
		w.WantReady("cache")
	})
}

func TestPodsStayWhileTheirNewTemplateIsRefused(t *testing.T) {
	story(t, func(w *env) {
		w.ready("cache", three)
		before := w.uids()
		w.Patch(resource, "cache", `{"spec":{"num":1,"template":{"spec":{"hostPID":true}}}}`)
		w.Pass(time.Minute)
		w.WantCondition("cache", "Stalled", "True/TemplateRefused", "spec.template.spec.hostPID must be false")
		w.wantPods("cache-0 cache-1 cache-2")
		w.Want("replaced", w.replaced(before), "")
		w.Want("ready", w.redis("cache").Status.ReadyReplicas, int32(3))
		w.StartWith(func(s *controller.Setup) { s.TemplatePolicy = podpolicy.Any })
		w.Pass(time.Minute)
		w.wantPods("cache-0")
		w.Want("replaced with --template-policy=any", w.replaced(before), "cache-0")
		w.StartWith(func(s *controller.Setup) { s.TemplatePolicy = podpolicy.Restricted })
		w.WantCondition("cache", "Stalled", "True/TemplateRefused", "hostPID", "runAsNonRoot must be true")
		w.Delete(resource, "cache") // a refusal does not keep a Redis from being deleted
		w.Pass(time.Minute)
		w.wantPods("")
		w.Want("the Redis", w.redis("cache"), (*Redis)(nil))
	})
}
