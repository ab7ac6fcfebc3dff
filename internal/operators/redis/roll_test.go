package redis

import (
	"fmt"
	"testing"
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/operators/operatortest"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

func TestMissingPodsAreCreatedSideBySideButNotAllAtOnce(t *testing.T) {
	story(t, func(w *world) {
		remove := w.API.Inject(apiserver.Fault{Verb: "create", Resource: "pods", UserAgent: operatortest.Agent,
			Delay: time.Second})
		defer remove()
		w.Create("cache", `{"port":6379,"num":20}`)
		for after, want := range []int{0, 1, 3, 7, 15, 20} {
			w.Want(fmt.Sprint("pods after ", after, " s"), len(w.uids()), want)
			w.Pass(time.Second)
		}
		w.Want("requests", w.Count("POST pods 201"), 20)
	})
}

// Rules: WRT-32
func TestAQuotaThatIsUsedUpCostsOneRequestATry(t *testing.T) {
	o := options
	o.Server.Quotas = true
	storyWith(t, o, func(w *world) {
		w.Post(kube.Resource{Version: "v1", Plural: "resourcequotas", Kind: "ResourceQuota"},
			`{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"pods":"3"}}}`)
		w.ready("cache", three)
		w.Forget()
		w.Patch(resource, "cache", `{"spec":{"num":20}}`)
		if n := w.Count("POST pods 403"); n < 1 || n > 3 { // the write of the status is a reason to try again
			t.Errorf("%d of 17 pods were refused at first", n)
		}
		w.Pass(time.Minute)
		tries := w.Count("POST pods 403")
		w.Pass(10 * time.Minute)
		if n := w.Count("POST pods 403") - tries; n == 0 || n > 30 {
			t.Errorf("%d pods were refused in ten minutes, want one for each of two tries a minute", n)
		}
		w.WantCondition("cache", "Degraded", "True/PodRefused", "exceeded quota: q")
		w.Want("pods", len(w.uids()), 3)

		w.Forget() // room for two of the other 17: the first, and one of the two beside each other that come next
		w.Patch(kube.Resource{Version: "v1", Plural: "resourcequotas", Kind: "ResourceQuota"}, "q",
			`{"spec":{"hard":{"pods":"5"}}}`)
		w.Pass(10 * time.Minute)
		w.Want("created", w.Count("POST pods 201"), 2)
		w.Want("pods", len(w.uids()), 5)
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
