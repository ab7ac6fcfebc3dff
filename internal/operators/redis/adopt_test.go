package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// orphan deletes a Redis as `kubectl delete --cascade=orphan` does.
func (w *env) orphan(name string) {
	w.Helper()
	err := w.User.Delete(w.Context(), resource, named(name), kube.DeleteOptions{Propagation: kube.Orphan})
	if err != nil {
		w.Fatal(err)
	}
	w.Pass(2 * time.Second)
	w.Want("the Redis", w.redis(name), (*Redis)(nil))
}

// Rules: WRT-26
func TestPodsThatWereOrphanedAreAdoptedByARedisOfTheSameName(t *testing.T) {
	story(t, func(w *env) {
		w.ready("cache", three)
		w.orphan("cache")
		w.Patch(pods, "cache-1", `{"metadata":{"ownerReferences":[
			{"apiVersion":"v1","kind":"ConfigMap","name":"other","uid":"other"}]}}`)
		before := w.uids()
		w.Create("cache", three)
		w.Pass(5 * time.Second)
		w.WantReady("cache")
		w.Want("replaced", w.replaced(before), "")
		uid := w.redis("cache").UID
		for _, name := range []string{"cache-0", "cache-1", "cache-2"} {
			w.Want("controller of "+name, w.pod(name).ControllerUID(), uid)
		}
		w.Want("owners of cache-1, one of them foreign", len(w.pod("cache-1").OwnerReferences), 2)
		w.Patch(resource, "cache", `{"spec":{"image":"redis:8"}}`)
		w.Pass(20 * time.Second)
		w.Want("replaced by a roll", w.replaced(before), "cache-0 cache-1 cache-2")
		w.WantReady("cache")
		w.Stop()
		w.Want("Events", w.eventReasons("cache")["AdoptPod"] > 0, true)
	})
}

// Rules: WRT-26
func TestAPodWithoutAnOwnerIsAdoptedOnlyIfItIsOursOrFitsAndTheUserSaysSo(t *testing.T) {
	const fit = `{"app.kubernetes.io/name":"redis","app.kubernetes.io/instance":"cache"}`
	story(t, func(w *env) {
		w.Post(pods, foreignPod("cache-0", `{"app.kubernetes.io/managed-by":"skiff","app.kubernetes.io/name":"redis",
			"app.kubernetes.io/instance":"other","skiff.dev/revision":"1"}`))
		w.Post(pods, foreignPod("cache-1", `{"app":"theirs"}`))
		w.Post(pods, foreignPod("cache-2", fit))
		w.Post(pods, strings.Replace(foreignPod("cache-3", fit), `{"name":"own","image":"own"}`,
			`{"name":"sidecar","image":"own"},{"name":"redis","image":"redis:7-alpine"}`, 1))
		before := w.uids()
		w.Create("cache", `{"port":6379,"num":4}`)
		w.Pass(5 * time.Second)
		w.WantCondition("cache", "Degraded", "True/NameTaken", "cache-0")
		owned := func() (names []string) {
			for _, name := range []string{"cache-0", "cache-1", "cache-2", "cache-3"} {
				if w.pod(name).ControllerUID() != "" {
					names = append(names, name)
				}
			}
			return names
		}
		w.Want("owned without the annotation", len(owned()), 0)
		w.Patch(resource, "cache", `{"metadata":{"annotations":{"skiff.dev/adopt":"true"}}}`)
		w.Pass(3 * time.Minute)
		w.Want("owned", fmt.Sprint(owned()), "[cache-3]")
		w.Want("replaced by pods of the template", w.replaced(before), "cache-3")
		for i, reason := range []string{`its label app.kubernetes.io/instance is "other", not "cache"`,
			`its label app.kubernetes.io/name is "", not "redis"`,
			`its container redis has the image "", not "redis:7-alpine"`} {
			w.WantCondition("cache", "Degraded", "True/NotAdopted", reason)
			w.Delete(pods, fmt.Sprint("cache-", i))
			w.Pass(2 * time.Minute)
		}
		w.WantReady("cache")
	})
}
