package reconcile

import (
	"slices"
	"testing"
	"time"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
)

const finalizer = "metacontroller.io/compositecontroller-thing"

// finalizers are those of an object.
func finalizers(w *env, r kube.Resource, name string) any {
	return at(get(w, r, name), "metadata", "finalizers")
}

// Rules: HK-50, HK-51, HK-52, HK-53
func TestAFinalizeHookSaysWhenAParentMayGo(t *testing.T) {
	s := composite(func(hook wire.Hook, request map[string]any) (string, error) {
		parent := request["parent"]
		if list, _ := at(parent, "metadata", "finalizers").([]any); len(list) != 1 || list[0] != finalizer {
			t.Errorf("the %s hook was called with the finalizers %v", hook, list)
		}
		finalizing := at(parent, "metadata", "deletionTimestamp") != nil
		if request["finalizing"] != finalizing || finalizing != (hook == wire.Finalize) {
			t.Errorf("the %s hook was called with finalizing %v", hook, request["finalizing"])
		}
		return declared(hook, request)
	}).finalizing()
	story(t, s, func(w *env) {
		w.Create("a", answer(children(configMap("x", "", ""))))
		w.WantRequests("PATCH things/a 200", "POST configmaps 201", "JSONPATCH things/a/status 200")
		w.Delete(things, "a")
		w.Want("children", names(w, configMaps), []string{"x"})
		setAnswer(w, things, "a", `{"status":{"going":true}}`)
		w.Want("children", names(w, configMaps), []string(nil))
		w.Want("status", at(get(w, things, "a"), "status", "going"), true)
		s.called()
		w.Patch(things, "a", `{"metadata":{"labels":{"touched":"1"}}}`)
		w.Want("calls", s.called(), []string{"finalize a"})
		w.Forget()
		setAnswer(w, things, "a", `{"finalized":true,"children":[`+configMap("y", "", "")+`]}`)
		w.Want("parent", get(w, things, "a"), map[string]any(nil))
		w.Pass(time.Hour)
		w.WantRequests("PATCH things/a 200")
		w.Want("calls", s.called(), []string{"finalize a"})
	})
}

// Rules: HK-16, HK-51, HK-53
func TestAParentThatIsNoLongerSelectedIsFinalized(t *testing.T) {
	s := composite(declared).finalizing()
	s.controller.Parents[0].Labels = labels.Requirements{{Key: "app", Operator: "In", Values: []string{"web"}}}
	story(t, s, func(w *env) {
		w.Create("b", answer(children(configMap("other", "", ""))))
		w.Post(things, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","labels":{"app":"web"}},
			"spec":`+answer(children(configMap("x", "", "")))+`}`)
		w.Want("children", names(w, configMaps), []string{"x"})
		w.Want("calls", s.called()[0], "sync a")
		w.Patch(things, "a", `{"metadata":{"labels":null}}`)
		w.Want("finalizers", finalizers(w, things, "a"), []any{finalizer})
		setAnswer(w, things, "a", `{"finalized":true,"children":[`+configMap("y", "", "")+`]}`)
		w.Want("finalizers", finalizers(w, things, "a"), nil)
		w.Want("children", names(w, configMaps), []string{"y"})
		s.called()
		setAnswer(w, things, "a", `{}`)
		w.Pass(time.Hour)
		w.Want("calls for one that is not selected", len(s.called()), 0)
		w.Want("children", names(w, configMaps), []string{"y"})
	})
}

// Nobody asks about such a parent once the finalizer is off, and what is left of its children stays for ever.
//
// Rules: HK-53
func TestAParentThatIsNoLongerSelectedKeepsTheFinalizerUntilItsChildrenAreInPlace(t *testing.T) {
	for verb, last := range map[string]string{
		"delete": `{"finalized":true,"status":{"last":1},"children":[]}`,
		"create": `{"finalized":true,"status":{"last":1},"children":[` + configMap("x", "", "") + "," +
			configMap("y", "", "") + `]}`,
	} {
		s := composite(declared).finalizing()
		s.controller.Parents[0].Labels = labels.Requirements{{Key: "app", Operator: "In", Values: []string{"web"}}}
		story(t, s, func(w *env) {
			w.Post(things, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a",
				"labels":{"app":"web"}},"spec":`+answer(children(configMap("x", "", "")))+`}`)
			allow := w.API.Inject(apiserver.Fault{Verb: verb, Resource: configMaps.Plural,
				UserAgent: operatortest.Agent, Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden"}})
			w.Patch(things, "a", `{"metadata":{"labels":null},"spec":`+answer(last)+`}`)
			w.Pass(time.Minute)
			w.Want("finalizers while "+verb+" is forbidden", finalizers(w, things, "a"), []any{finalizer})
			allow()
			w.Pass(time.Hour)
			w.Want("finalizers", finalizers(w, things, "a"), nil)
			w.Want("status", at(get(w, things, "a"), "status", "last"), 1)
			want := []string{"x", "y"}
			if verb == "delete" {
				want = nil
			}
			w.Want("children", names(w, configMaps), want)
		})
	}
}

// Rules: HK-53
func TestAParentThatIsNoLongerSelectedKeepsTheFinalizerUntilAChildIsMadeAgain(t *testing.T) {
	s := composite(declared).finalizing()
	s.controller.Children[0].Method = spec.Recreate
	s.controller.Parents[0].Labels = labels.Requirements{{Key: "app", Operator: "In", Values: []string{"web"}}}
	story(t, s, func(w *env) {
		w.Post(things, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a",
			"labels":{"app":"web"}},"spec":`+answer(children(configMap("x", "", `"a":"1"`)))+`}`)
		w.Patch(things, "a", `{"metadata":{"labels":null},"spec":`+
			answer(`{"finalized":true,"children":[`+configMap("x", "", `"a":"2"`)+`]}`)+`}`)
		w.Pass(time.Hour)
		w.Want("child", at(get(w, configMaps, "x"), "data", "a"), "2")
		w.Want("finalizers", finalizers(w, things, "a"), nil)
	})
}

// Rules: HK-16, HK-50, HK-55
func TestWithoutAFinalizeHookTheFinalizerGoesAndChildrenOfADeletedParentStay(t *testing.T) {
	s := composite(declared)
	s.controller.Parents[0].Labels = labels.Requirements{{Key: "app", Operator: "In", Values: []string{"web"}}}
	prepared(t, s, func(w *env) {
		parent := func(name, label string, finalizers string) {
			w.Post(things, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"`+name+`",
				"labels":{"app":"`+label+`"},"finalizers":[`+finalizers+`]},"spec":`+answer(`{}`)+`}`)
		}
		parent("selected", "web", `"`+finalizer+`","example.com/mine"`)
		parent("other", "db", `"`+finalizer+`","example.com/mine"`)
		w.Start()
		w.Want("finalizers", finalizers(w, things, "selected"), []any{"example.com/mine"})
		w.Want("finalizers of one outside", finalizers(w, things, "other"), []any{"example.com/mine"})
		w.Want("calls for the one outside", slices.Contains(s.called(), "sync other"), false)
		setAnswer(w, things, "selected", children(configMap("x", "", "")))
		w.Delete(things, "selected")
		s.called()
		setAnswer(w, things, "selected", `{"status":{"seen":1},"children":[`+configMap("y", "", "")+`]}`)
		w.Want("calls", s.called()[0], "sync selected")
		w.Want("children", names(w, configMaps), []string{"x"})
		w.Want("status", at(get(w, things, "selected"), "status", "seen"), int64(1))
	})
}

func TestAParentThatIsGoneWithItsFinalizerIsNotAskedFor(t *testing.T) {
	s := composite(declared)
	prepared(t, s, func(w *env) {
		w.Post(things, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a",
			"finalizers":["`+finalizer+`"]},"spec":`+answer(`{}`)+`}`)
		w.Delete(things, "a")
		w.Start()
		w.Pass(time.Minute)
		w.Want("parents", names(w, things), []string(nil))
		w.Want("calls", s.called(), []string(nil))
	})
}

// Rules: HK-50
func TestAParentThatIsBeingDeletedGetsNoFinalizer(t *testing.T) {
	s := composite(declared).finalizing()
	prepared(t, s, func(w *env) {
		w.Post(things, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a",
			"finalizers":["example.com/mine"]},"spec":`+answer(children(configMap("x", "", "")))+`}`)
		w.Delete(things, "a")
		w.Start()
		w.Pass(time.Hour)
		w.Want("finalizers", finalizers(w, things, "a"), []any{"example.com/mine"})
		w.Want("children", names(w, configMaps), []string(nil))
	})
}

// Rules: HK-54
func TestFinalizedInAnAnswerOfSyncIsIgnored(t *testing.T) {
	s := composite(declared).finalizing()
	story(t, s, func(w *env) {
		w.Create("a", answer(`{"finalized":true,"children":[`+configMap("x", "", "")+`]}`))
		w.Pass(time.Hour)
		w.Want("finalizers", finalizers(w, things, "a"), []any{finalizer})
		w.Want("children", names(w, configMaps), []string{"x"})
		w.WantRequests("PATCH things/a 200", "POST configmaps 201", "JSONPATCH things/a/status 200")
	})
}

// Rules: HK-56
func TestTheChildrenOfAParentThatTheGarbageCollectorDeletesAreItsOwn(t *testing.T) {
	for _, propagation := range []kube.Propagation{kube.Foreground, kube.Orphan} {
		t.Run(string(propagation), func(t *testing.T) {
			s := composite(declared).finalizing()
			story(t, s, func(w *env) {
				w.Create("a", answer(children(configMap("x", "", ""))))
				if err := w.User.Delete(w.Context(), things, operatortest.Named("a"),
					kube.DeleteOptions{Propagation: propagation}); err != nil {
					t.Fatal(err)
				}
				w.WaitIdle()
				s.called()
				w.Forget()
				setAnswer(w, things, "a", children(configMap("y", "", "")))
				w.Want("calls", s.called()[0], "finalize a")
				w.WantWrites("JSONPATCH things/a/status 200")
				w.Want("children", names(w, configMaps), []string{"x"})
				setAnswer(w, things, "a", `{"finalized":true}`)
				w.Want("children", names(w, configMaps), []string{"x"})
			})
		})
	}
}
