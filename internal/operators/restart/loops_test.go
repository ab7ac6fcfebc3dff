package restart

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/fakeapi"
	"skiff/internal/kube"
)

const selectPredixy = `"source":{"selector":{"matchLabels":{"app":"predixy"}}}`

func TestATriggerOnThePodsOfItsTargetIsRefused(t *testing.T) {
	story(t, func(w *world) {
		w.trigger("rt", selectPredixy+","+toPredixy)
		w.pass(time.Second)
		w.wantCondition("rt", "Stalled", "True/SelfReference")
		if m := w.message("rt", "Ready"); !strings.Contains(m, "cycle default/rt -> default/rt") {
			t.Errorf("message %q", m)
		}
		w.forget()
		w.patch(deployments, "predixy", `{"spec":{"template":{"metadata":{"annotations":{"by":"hand"}}}}}`)
		w.pass(15 * time.Minute)
		w.want("restart", w.restartedAt(deployments, "predixy"), "")
		w.wantWrites()
		w.patch(resource, "rt", `{"spec":{`+selectRedis+`}}`)
		w.pass(time.Second)
		w.wantCondition("rt", "Ready", "True/Armed")
		w.pass(15 * time.Minute)
		w.want("restart for what happened before", w.restartedAt(deployments, "predixy"), "")
	})
}

// The template's labels do not match, but a pod of the target has been given the source's label by hand.
func TestPodsOfATargetNeverCount(t *testing.T) {
	story(t, func(w *world) {
		w.trigger("rt", `"source":{"selector":{"matchLabels":{"hot":"yes"}},"reasons":["NewPodRunning","PodDeleted"]},`+toPredixy)
		w.pass(time.Second)
		for range 3 {
			for _, p := range w.api.List(pods, "default") {
				if name := at(p, "metadata", "name").(string); strings.HasPrefix(name, "predixy-") {
					w.patch(pods, name, `{"metadata":{"labels":{"hot":"yes"}}}`)
					w.delete(pods, name)
				}
			}
			w.pass(10 * time.Minute)
		}
		w.wantRestarts(0)
	})
}

func TestACycleOfTriggersIsRefusedOnAllOfThemAndGoneWithOneOfThem(t *testing.T) {
	story(t, func(w *world) {
		w.deploy("web", 1)
		w.deploy("app", 1)
		edge := func(from, to string) string {
			return fmt.Sprintf(`"source":{"selector":{"matchLabels":{"app":%q}}},"targets":[{"kind":"Deployment","name":%q}]`, from, to)
		}
		w.trigger("a", edge("predixy", "web"))
		w.trigger("b", edge("web", "app"))
		w.trigger("outside", edge("redis", "predixy"))
		w.pass(time.Minute)
		w.wantCondition("a", "Ready", "True/Armed")
		w.wantCondition("b", "Ready", "True/Armed")
		w.trigger("c", edge("app", "predixy"))
		w.pass(time.Second)
		for name, way := range map[string]string{"a": "default/a -> default/b -> default/c -> default/a",
			"b": "default/b -> default/c -> default/a -> default/b", "c": "default/c -> default/a -> default/b -> default/c"} {
			w.wantCondition(name, "Stalled", "True/Cycle")
			if m := w.message(name, "Stalled"); !strings.Contains(m, "cycle "+way) {
				t.Errorf("%s: message %q, want %s", name, m, way)
			}
		}
		w.wantCondition("outside", "Ready", "True/Armed")
		w.replace("redis-0")
		w.pass(15 * time.Minute)
		w.wantRestarts(1)
		w.want("restart of web", w.restartedAt(deployments, "web"), "")

		w.stop()
		w.start()
		w.pass(time.Minute)
		w.wantCondition("a", "Stalled", "True/Cycle")
		w.delete(resource, "c")
		w.pass(time.Second)
		w.wantCondition("a", "Ready", "True/Armed")
		w.wantCondition("b", "Ready", "True/Armed")
		w.replace("redis-0")
		w.pass(10 * time.Minute)
		for _, name := range []string{"predixy", "web", "app"} {
			if w.restartedAt(deployments, name) == "" {
				t.Errorf("%s was not restarted by the chain", name)
			}
		}
	})
}

// looseCRD lets everything through, as an older or missing schema does.
func (w *world) looseCRD() {
	w.Helper()
	crd := kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition", ClusterScoped: true}
	patch := `[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema","value":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}]`
	if err := w.user.Patch(w.Context(), crd, kube.Key{Name: "restarttriggers.skiff.dev"}, kube.JSONPatch, kube.Raw(patch), nil, kube.WriteOptions{}); err != nil {
		w.Fatal(err)
	}
	w.pass(5 * time.Second)
}

func TestWhatASchemaShouldHaveRefusedIsSaidInTheStatusOnce(t *testing.T) {
	story(t, func(w *world) {
		w.looseCRD()
		for name, spec := range map[string]string{
			"everything": `"source":{"selector":{}},` + toPredixy,
			"negative":   `"source":{"selector":{"matchExpressions":[{"key":"x","operator":"NotIn","values":["y"]}]}},` + toPredixy,
			"kind":       selectRedis + `,"targets":[{"kind":"Job","name":"x"}]`,
			"none":       selectRedis,
			"budget":     selectRedis + "," + toPredixy + `,"budget":{"max":0,"per":"1h"}`,
			"duration":   selectRedis + "," + toPredixy + `,"debounce":"tomorrow"`,
		} {
			w.trigger(name, spec)
		}
		w.pass(time.Minute)
		for _, name := range []string{"everything", "negative", "kind", "none", "budget", "duration"} {
			w.wantCondition(name, "Ready", "False/InvalidSpec")
			w.wantCondition(name, "Stalled", "True/InvalidSpec")
			if m := w.message(name, "Ready"); !strings.HasPrefix(m, "spec.") || !strings.HasSuffix(m, "; correct the spec") {
				t.Errorf("%s: message %q", name, m)
			}
		}
		w.forget()
		w.replace("redis-0")
		w.pass(15 * time.Minute)
		w.wantRequests()
		w.patch(resource, "duration", `{"spec":{"debounce":"1s"}}`)
		w.pass(time.Minute)
		w.wantCondition("duration", "Ready", "True/Armed")
	})
}

func TestMissingRightsAreSaidAndTheRestWorks(t *testing.T) {
	forbidden := func(w *world, verb, plural string) (remove func()) {
		return w.api.Inject(fakeapi.Fault{UserAgent: agent, Verb: verb, Resource: plural, Reply: &fakeapi.Reply{Code: 403, Reason: "Forbidden",
			Message: plural + " is forbidden: User \"skiff\" cannot " + verb + " resource \"" + plural + "\""}})
	}
	t.Run("to patch the target", func(t *testing.T) {
		story(t, func(w *world) {
			remove := forbidden(w, "patch", "deployments")
			w.trigger("rt", selectRedis+","+toPredixy)
			w.pass(time.Second)
			w.replace("redis-0")
			w.pass(10 * time.Minute)
			w.wantCondition("rt", "Degraded", "True/Forbidden")
			if m := w.message("rt", "Degraded"); !strings.Contains(m, "cannot patch") || !strings.Contains(m, "grant it") {
				t.Errorf("message %q", m)
			}
			w.forget()
			w.pass(15 * time.Minute)
			if n := len(w.requests()); n > 50 {
				t.Errorf("%d requests in a quarter of an hour", n)
			}
			remove()
			w.pass(10 * time.Minute)
			w.wantRestarts(1)
			w.wantCondition("rt", "Ready", "True/Armed")
		})
	})
	t.Run("to read the target", func(t *testing.T) {
		story(t, func(w *world) {
			remove := forbidden(w, "get", "deployments")
			w.trigger("rt", selectRedis+","+toPredixy)
			w.pass(time.Minute)
			w.wantCondition("rt", "Degraded", "True/Forbidden")
			remove()
			w.pass(10 * time.Minute)
			w.wantCondition("rt", "Ready", "True/Armed")
		})
	})
	t.Run("to write Events", func(t *testing.T) {
		story(t, func(w *world) {
			forbidden(w, "create", "events")
			w.trigger("rt", selectRedis+","+toPredixy)
			w.pass(time.Second)
			w.replace("redis-0")
			w.pass(time.Minute)
			w.wantRestarts(1)
			w.wantCondition("rt", "Ready", "True/Armed")
		})
	})
}
