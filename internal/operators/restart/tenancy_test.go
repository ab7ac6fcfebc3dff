package restart

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
)

// in another namespace, the pods of which a trigger in default would like to see.
const fromOther = `"source":{"namespace":"other","selector":{"matchLabels":{"app":"redis"}}},`

func (w *env) namespace(annotations string) {
	w.Helper()
	w.inNamespace("", namespaces, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"other","annotations":`+annotations+`}}`)
}

func (w *env) inNamespace(namespace string, r kube.Resource, body string) {
	w.Helper()
	if err := w.User.Create(w.Context(), r, namespace, kube.Raw(body), nil, kube.WriteOptions{}); err != nil {
		w.Fatal(err)
	}
	w.WaitIdle()
}

func (w *env) annotate(annotations string) {
	w.Helper()
	patch := kube.Raw(`{"metadata":{"annotations":` + annotations + `}}`)
	if err := w.User.Patch(w.Context(), namespaces, kube.Key{Name: "other"}, kube.MergePatch, patch, nil,
		kube.WriteOptions{}); err != nil {
		w.Fatal(err)
	}
}

const otherPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"secret-name","labels":{"app":"redis"}},"spec":{` + containers + `}}`

func TestASourceInAnotherNamespaceNeedsItsConsent(t *testing.T) {
	for annotation, allowed := range map[string]bool{`null`: false, `{"skiff.dev/allow-restart-triggers-from":"team-a,team-b"}`: false,
		`{"skiff.dev/allow-restart-triggers-from":"team-a, default"}`: true, `{"skiff.dev/allow-restart-triggers-from":"*"}`: true} {
		t.Run(annotation, func(t *testing.T) {
			story(t, func(w *env) {
				w.namespace(annotation)
				w.inNamespace("other", pods, otherPod)
				w.trigger("rt", fromOther+toPredixy)
				w.Pass(10 * time.Second)
				if allowed {
					w.WantCondition("rt", "Ready", "True/Armed")
					w.Want("pods", w.status("rt", "matchingPods"), 1)
				} else {
					w.WantCondition("rt", "Stalled", "True/SourceNotAllowed", "namespace other", `skiff.dev/allow-restart-triggers-from: "default"`)
				}
				w.Forget()
				w.inNamespace("other", pods, strings.ReplaceAll(otherPod, "secret-name", "secret-too"))
				w.Pass(time.Minute)
				if text := string(w.JSONOf("rt")); !allowed && strings.Contains(text, "secret") {
					t.Errorf("the trigger tells of pods that it may not see: %s", text)
				}
				if !allowed {
					w.WantRequests()
					w.wantRestarts(0)
					return
				}
				w.wantRestarts(1)
				w.annotate(`null`) // the consent ends
				w.Pass(time.Minute)
				w.inNamespace("other", pods, strings.ReplaceAll(otherPod, "secret-name", "secret-three"))
				w.Pass(10 * time.Minute)
				w.wantRestarts(1)
				w.WantCondition("rt", "Stalled", "True/SourceNotAllowed")
				if text := string(w.JSONOf("rt")); strings.Contains(text, "secret-three") {
					t.Errorf("the trigger tells of pods that it may not see any more: %s", text)
				}
				w.annotate(`{"skiff.dev/allow-restart-triggers-from":"default"}`)
				w.Pass(10 * time.Minute)
				w.WantCondition("rt", "Ready", "True/Armed")
				w.wantRestarts(1) // what happened meanwhile does not count
			})
		})
	}
}

// What is wrong with another namespace's pods is that namespace's, too.
func TestATriggerDoesNotTellThatTheNamespaceItMayNotSeeIsOverItsBudget(t *testing.T) {
	o := options
	o.Setup = controller.Setup{MirrorBytes: 24 << 10, ObjectBytes: 64 << 10}
	storyWith(t, o, func(w *env) {
		w.deploy("predixy", 1)
		w.namespace(`null`)
		w.Start()
		labels := ""
		for i := range 20 {
			labels += fmt.Sprintf(`,"label-%d":%q`, i, strings.Repeat("x", 60))
		}
		for i := range 40 {
			w.inNamespace("other", pods, strings.NewReplacer("secret-name", fmt.Sprint("secret-", i),
				`"app":"redis"`, `"app":"redis"`+labels).Replace(otherPod))
		}
		w.trigger("rt", fromOther+toPredixy)
		w.Pass(10 * time.Minute)
		w.WantCondition("rt", "Stalled", "True/SourceNotAllowed")
		if text := string(w.JSONOf("rt")); strings.Contains(text, "secret") || strings.Contains(text, "MiB") {
			t.Errorf("the trigger tells of pods that it may not see: %s", text)
		}
	})
}

func TestANamespaceThatCannotBeReadAllowsNothingAndThatIsSaid(t *testing.T) {
	story(t, func(w *env) {
		w.API.Inject(apiserver.Fault{UserAgent: operatortest.Agent, Verb: "get", Resource: "namespaces",
			Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden",
				Message: `namespaces "other" is forbidden: User "skiff" cannot get resource "namespaces"`}})
		w.namespace(`{"skiff.dev/allow-restart-triggers-from":"*"}`)
		w.trigger("rt", fromOther+toPredixy)
		w.trigger("own", selectRedis+","+toPredixy)
		w.Pass(time.Minute)
		w.WantCondition("rt", "Stalled", "True/SourceNotAllowed", "cannot get resource", "grant get on namespaces")
		w.WantCondition("own", "Ready", "True/Armed")
	})
}

func TestAMissingNamespaceIsNotToldFromOneThatDoesNotAllow(t *testing.T) {
	story(t, func(w *env) {
		w.trigger("rt", fromOther+toPredixy)
		w.Pass(time.Second)
		missing := w.Message("rt", "Ready")
		w.namespace(`null`)
		w.Pass(10 * time.Minute)
		w.WantCondition("rt", "Ready", "False/SourceNotAllowed")
		w.Want("message", w.Message("rt", "Ready"), missing)
	})
}

// The digests of an address in two triggers must not be the same, nor such as could be looked up in a table.
func TestDigestsAreSaltedPerTrigger(t *testing.T) {
	story(t, func(w *env) {
		w.trigger("one", selectRedis+","+toPredixy)
		w.trigger("two", selectRedis+","+toPredixy)
		w.Pass(time.Second)
		one, _ := decodeDigest(w.status("one", "seen").(string))
		two, _ := decodeDigest(w.status("two", "seen").(string))
		a, b := one.pods["redis-0"], two.pods["redis-0"]
		if a.ip == "" || a.ip == b.ip || a.uid == b.uid ||
			a.ip == hash(at(w.API.Get(pods, in("redis-0")), "status", "podIP").(string)) {
			t.Errorf("digests %+v and %+v", a, b)
		}
	})
}
