package redis

import (
	"fmt"
	"testing"
	"time"

	"skiff/internal/controller"
	"skiff/internal/events"
	"skiff/internal/fakeapi"
	"skiff/internal/operator"
	"skiff/internal/operatortest"
)

func TestMissingPodsAreCreatedSideBySideButNotAllAtOnce(t *testing.T) {
	story(t, func(w *world) {
		remove := w.API.Inject(fakeapi.Fault{Verb: "create", Resource: "pods", UserAgent: operatortest.Agent,
			Delay: time.Second})
		defer remove()
		w.Create("cache", `{"port":6379,"num":20}`)
		for after, want := range []int{0, 1, 9, 17, 20} { // the first shows whether the server takes such a pod
			w.Want(fmt.Sprint("pods after ", after, " s"), len(w.uids()), want)
			w.Pass(time.Second)
		}
		w.Want("requests", w.Count("POST pods 201"), 20)
	})
}

func TestATemplateThatTheServerRefusesIsSentOnce(t *testing.T) {
	story(t, func(w *world) {
		w.Create("cache", `{"port":6379,"num":20,"template":{"spec":{"containers":[{"name":"Not_A_Label","image":"x"}]}}}`)
		w.WantCondition("cache", "Stalled", "True/PodRefused", "spec.containers[")
		w.Want("requests", w.Count("POST pods"), 1)
	})
}

func TestARollTakesAsManyPodsAtATimeAsMayBeUnavailable(t *testing.T) {
	o := options
	o.New = func(s controller.Setup, r *events.Recorder) *controller.Controller {
		replace := podOptions
		replace.MaxUnavailable = 2
		return operator.New(s, r, definition(replace))
	}
	storyWith(t, o, func(w *world) {
		w.ready("cache", `{"port":6379,"num":5}`)
		before := w.uids()
		w.Patch(resource, "cache", `{"spec":{"image":"redis:8"}}`)
		w.wantPods("cache-0 cache-1 cache-2 cache-3- cache-4-")
		for range 60 {
			w.Pass(250 * time.Millisecond)
			if ready := w.redis("cache").Status.ReadyReplicas; ready < 3 {
				t.Fatalf("%d of 5 pods are ready", ready)
			}
		}
		w.Want("replaced", w.replaced(before), "cache-0 cache-1 cache-2 cache-3 cache-4")
		w.WantReady("cache")

		w.Patch(resource, "cache", `{"spec":{"image":"`+slowImage+`"}}`)
		before = w.uids()
		w.Pass(2 * time.Minute)
		w.Want("replaced by what does not become ready", w.replaced(before), "cache-3 cache-4")
	})
}
