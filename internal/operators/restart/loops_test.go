package restart

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
)

const selectPredixy = `"source":{"selector":{"matchLabels":{"app":"predixy"}}}`

func TestATriggerOnThePodsOfItsTargetIsRefused(t *testing.T) {
	story(t, func(w *env) {
		w.trigger("rt", selectPredixy+","+toPredixy)
		w.Pass(time.Second)
		w.WantCondition("rt", "Stalled", "True/SelfReference")
		if m := w.Message("rt", "Ready"); !strings.Contains(m, "the selector matches the pods of a target") {
			t.Errorf("message %q", m)
		}
		w.Forget()
		w.Patch(deployments, "predixy", `{"spec":{"template":{"metadata":{"annotations":{"by":"hand"}}}}}`)
		w.Pass(15 * time.Minute)
		w.Want("restart", w.restartedAt(deployments, "predixy"), "")
		w.WantWrites()
		w.Patch(resource, "rt", `{"spec":{`+selectRedis+`}}`)
		w.Pass(time.Second)
		w.WantCondition("rt", "Ready", "True/Armed")
		w.Pass(15 * time.Minute)
		w.Want("restart for what happened before", w.restartedAt(deployments, "predixy"), "")
	})
}

// The template's labels do not match, but a pod of the target has been given the source's label by hand.
func TestPodsOfATargetNeverCount(t *testing.T) {
	story(t, func(w *env) {
		w.trigger("rt", `"source":{"selector":{"matchLabels":{"hot":"yes"}},"reasons":["NewPodRunning","PodDeleted"]},`+toPredixy)
		w.Pass(time.Second)
		for range 3 {
			for _, p := range w.API.List(pods, "default") {
				if name := at(p, "metadata", "name").(string); strings.HasPrefix(name, "predixy-") {
					w.Patch(pods, name, `{"metadata":{"labels":{"hot":"yes"}}}`)
					w.Delete(pods, name)
				}
			}
			w.Pass(10 * time.Minute)
		}
		w.wantRestarts(0)
	})
}

func TestACycleOfTriggersIsRefusedOnAllOfThemAndGoneWithOneOfThem(t *testing.T) {
	story(t, func(w *env) {
		w.deploy("web", 1)
		w.deploy("app", 1)
		edge := func(from, to string) string {
			return fmt.Sprintf(`"source":{"selector":{"matchLabels":{"app":%q}}},"targets":[{"kind":"Deployment","name":%q}]`, from, to)
		}
		w.trigger("a", edge("predixy", "web"))
		w.trigger("b", edge("web", "app"))
		w.trigger("outside", edge("redis", "predixy"))
		w.Pass(time.Minute)
		w.WantCondition("a", "Ready", "True/Armed")
		w.WantCondition("b", "Ready", "True/Armed")
		w.trigger("c", edge("app", "predixy"))
		w.Pass(time.Second)
		for name, way := range map[string]string{"a": "default/a -> default/b -> default/c -> default/a",
			"b": "default/b -> default/c -> default/a -> default/b",
			"c": "default/c -> default/a -> default/b -> default/c"} {
			w.WantCondition(name, "Stalled", "True/Cycle")
			if m := w.Message(name, "Stalled"); !strings.Contains(m, "cycle "+way) {
				t.Errorf("%s: message %q, want %s", name, m, way)
			}
		}
		w.WantCondition("outside", "Ready", "True/Armed")
		w.replace("redis-0")
		w.Pass(15 * time.Minute)
		w.wantRestarts(1)
		w.Want("restart of web", w.restartedAt(deployments, "web"), "")

		w.Stop()
		w.Start()
		w.Pass(time.Minute)
		w.WantCondition("a", "Stalled", "True/Cycle")
		w.Delete(resource, "c")
		w.Pass(time.Second)
		w.WantCondition("a", "Ready", "True/Armed")
		w.WantCondition("b", "Ready", "True/Armed")
		w.replace("redis-0")
		w.Pass(10 * time.Minute)
		for _, name := range []string{"predixy", "web", "app"} {
			if w.restartedAt(deployments, name) == "" {
				t.Errorf("%s was not restarted by the chain", name)
			}
		}
	})
}

// looseCRD lets everything through, as an older or missing schema does.
func (w *env) looseCRD() {
	w.Helper()
	crd := kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
		Kind: "CustomResourceDefinition", ClusterScoped: true}
	patch := `[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema","value":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}]`
	if err := w.User.Patch(w.Context(), crd, kube.Key{Name: "restarttriggers.skiff.dev"}, kube.JSONPatch,
		kube.Raw(patch), nil, kube.WriteOptions{}); err != nil {
		w.Fatal(err)
	}
	w.Pass(5 * time.Second)
}

func TestWhatASchemaShouldHaveRefusedIsSaidInTheStatusOnce(t *testing.T) {
	story(t, func(w *env) {
		w.looseCRD()
		for name, spec := range map[string]string{
			"everything": `"source":{"selector":{}},` + toPredixy,
			"duration":   selectRedis + "," + toPredixy + `,"debounce":"tomorrow"`,
		} {
			w.trigger(name, spec)
		}
		w.Pass(time.Minute)
		for _, name := range []string{"everything", "duration"} {
			w.WantCondition(name, "Ready", "False/InvalidSpec")
			w.WantCondition(name, "Stalled", "True/InvalidSpec")
			if m := w.Message(name, "Ready"); !strings.Contains(m, "(spec.") ||
				!strings.HasSuffix(m, "; correct the spec") {
				t.Errorf("%s: message %q", name, m)
			}
		}
		w.Forget()
		w.replace("redis-0")
		w.Pass(15 * time.Minute)
		w.WantRequests()
		w.Patch(resource, "duration", `{"spec":{"debounce":"1s"}}`)
		w.Pass(time.Minute)
		w.WantCondition("duration", "Ready", "True/Armed")
	})
}

func TestAMissingRightIsReportedAndPickedUp(t *testing.T) {
	story(t, func(w *env) {
		remove := w.API.Inject(apiserver.Fault{UserAgent: operatortest.Agent, Verb: "patch", Resource: "deployments",
			Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: `User "skiff" cannot patch resource "deployments"`}})
		w.trigger("rt", selectRedis+","+toPredixy)
		w.Pass(time.Second)
		w.replace("redis-0")
		w.Pass(10 * time.Minute)
		w.WantCondition("rt", "Degraded", "True/Forbidden", "cannot patch", "grant it")
		w.Forget()
		w.Pass(15 * time.Minute)
		if n := len(w.Requests()); n > 50 {
			t.Errorf("%d requests in a quarter of an hour", n)
		}
		remove()
		w.Pass(10 * time.Minute)
		w.wantRestarts(1)
		w.WantCondition("rt", "Ready", "True/Armed")
	})
}

// Rules: MGR-15
func TestKillingTheControllerAtAnyRequestNeitherLosesNorDoublesARestart(t *testing.T) {
	operatortest.KillAtAnyRequest(t, options, func(ow *operatortest.Env, start func(), pass func(time.Duration)) {
		w := inCluster(ow)
		w.deploy("predixy", 1)
		w.deploy("second", 1)
		w.pod("redis-0")
		w.Pass(5 * time.Second)
		start()
		w.trigger("rt", selectRedis+`,"debounce":"2s","cooldown":"30s","targets":[{"kind":"Deployment","name":"predixy"},{"kind":"Deployment","name":"second"}]`)
		pass(10 * time.Second)
		for round := 1; round <= 2; round++ {
			w.replace("redis-0")
			pass(2 * time.Minute)
			for _, name := range []string{"predixy", "second"} {
				w.Want("revision of "+name, w.revision(name), fmt.Sprint(round+1))
			}
			w.Want("count", w.status("rt", "restarts"), round)
		}
		w.WantCondition("rt", "Ready", "True/Armed")
		w.Want("restart of the second target", w.restartedAt(deployments, "second"),
			w.restartedAt(deployments, "predixy"))
	})
}
