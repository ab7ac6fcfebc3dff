package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
)

// Rules: HK-76, HK-77
func TestAChildThatDiffersIsTreatedByItsUpdateMethod(t *testing.T) {
	for method, want := range map[spec.Method]struct {
		text     string
		replaced bool
	}{
		spec.InPlace:  {"2", false},
		spec.Recreate: {"2", true},
		spec.OnDelete: {"1", false},
		"":            {"1", false},
	} {
		t.Run("method "+string(method), func(t *testing.T) {
			s := composite(echo)
			s.controller.Children[0].Method = method
			story(t, s, func(w *env) {
				w.Create("a", `{"names":["x"],"text":"1"}`)
				w.Pass(time.Second)
				uid := at(get(w, configMaps, "x"), "metadata", "uid")
				w.Patch(configMaps, "x", `{"data":{"others":"1"},"metadata":{"labels":{"others":"1"}}}`)
				w.Pass(time.Minute)
				w.Want("not replaced for the fields of others", at(get(w, configMaps, "x"), "metadata", "uid"), uid)
				w.Patch(things, "a", `{"spec":{"text":"2"}}`)
				w.Pass(time.Minute)
				now := get(w, configMaps, "x")
				w.Want("text", at(now, "data", "text"), want.text)
				w.Want("replaced", at(now, "metadata", "uid") != uid, want.replaced)
				w.Delete(configMaps, "x")
				w.Pass(time.Minute)
				w.Want("text after a deletion", at(get(w, configMaps, "x"), "data", "text"), "2")
			})
		})
	}
}

// Rules: HK-38, HK-75
func TestAChildThatIsBeingDeletedIsSeenAndMadeAgainWhenItIsGone(t *testing.T) {
	seen := ""
	s := composite(func(hook wire.Hook, request map[string]any) (string, error) {
		seen, _ = at(request, "children", "ConfigMap.v1", "x", "metadata", "deletionTimestamp").(string)
		return echo(hook, request)
	})
	story(t, s, func(w *env) {
		w.Create("a", `{"names":["x"],"text":"1"}`)
		w.Patch(configMaps, "x", `{"metadata":{"finalizers":["example.com/mine"]}}`)
		uid := at(get(w, configMaps, "x"), "metadata", "uid")
		w.Delete(configMaps, "x")
		w.Pass(time.Second)
		if seen == "" {
			t.Error("the hook did not see that the child is being deleted")
		}
		w.Forget()
		w.Patch(things, "a", `{"spec":{"text":"2"}}`)
		w.Pass(time.Minute)
		w.WantWrites("JSONPATCH things/a/status 200")
		w.Patch(configMaps, "x", `{"metadata":{"finalizers":null}}`)
		w.Pass(time.Minute)
		w.Want("text", at(get(w, configMaps, "x"), "data", "text"), "2")
		w.Want("made again", at(get(w, configMaps, "x"), "metadata", "uid") != uid, true)
	})
}

// Rules: HK-82
func TestChildrenAreCreatedInTheOrderOfTheAnswer(t *testing.T) {
	s := composite(declared).kind(services, spec.InPlace)
	service := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":{"ports":[{"port":80}]}}`,
			name)
	}
	story(t, s, func(w *env) {
		w.Create("a", answer(children(configMap("z", "", ""), service("b"), configMap("a", "", ""),
			service("a"))))
		w.WantRequests("POST configmaps 201", "POST services 201", "POST configmaps 201", "POST services 201",
			"JSONPATCH things/a/status 200")
	})
}

// Rules: HK-48, HK-73
func TestOneChildThatFailsStopsNeitherTheOthersNorTheStatus(t *testing.T) {
	s := composite(declared)
	story(t, s, func(w *env) {
		w.Create("a", answer(children(configMap("x", "", ""), configMap("y", "", ""), configMap("z", "", ""))))
		w.Pass(time.Second)
		for _, name := range []string{"x", "y"} {
			defer w.API.Inject(apiserver.Fault{Verb: "delete", Resource: "configmaps", Name: name,
				Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: "no, not " + name}})()
		}
		setAnswer(w, things, "a", `{"status":{"n":1},"children":[`+configMap("w", "", "")+`]}`)
		w.Pass(time.Second)
		w.Want("children", names(w, configMaps), []string{"w", "x", "y"})
		w.Want("status", at(get(w, things, "a"), "status", "n"), int64(1))
		for _, name := range []string{"x", "y"} {
			w.Want("note names "+name, strings.Contains(note(w, "SyncError"), "no, not "+name), true)
		}
	})
}

// Rules: HK-48
func TestAStatusThatIsMissingReplacesTheOneBefore(t *testing.T) {
	s := composite(declared)
	story(t, s, func(w *env) {
		w.Create("a", answer(`{"status":{"n":1}}`))
		w.Pass(time.Second)
		setAnswer(w, things, "a", `{}`)
		w.Pass(time.Second)
		w.Want("status", at(get(w, things, "a"), "status"), map[string]any{"observedGeneration": int64(2)})
		w.PatchSub(things, "a", "status", `{"status":{"others":1}}`)
		w.Pass(time.Second)
		w.Want("status", at(get(w, things, "a"), "status"), map[string]any{"observedGeneration": int64(2)})
	})
}

// Rules: HK-48
func TestAStatusThatAnotherWritesDuringACallIsSeenBeforeItIsReplaced(t *testing.T) {
	during := func() error { return nil }
	s := composite(func(_ wire.Hook, request map[string]any) (string, error) {
		if err := during(); err != nil {
			return "", err
		}
		during = func() error { return nil }
		before, _ := at(request, "parent", "status", "before").(string)
		if by, _ := at(request, "parent", "status", "by").(string); by == "another" {
			before = by
		}
		return `{"status":{"by":"skiff","before":"` + before + `"}}`, nil
	})
	story(t, s, func(w *env) {
		w.Create("a", `{}`)
		w.Pass(time.Second)
		during = func() error {
			return w.User.Patch(w.Context(), things, operatortest.Named("a"), kube.MergePatch,
				w.JSON(`{"status":{"by":"another"}}`), nil, kube.WriteOptions{Subresource: "status"})
		}
		w.Patch(things, "a", `{"spec":{"n":1}}`)
		w.Pass(time.Second)
		w.Want("status", at(get(w, things, "a"), "status"), map[string]any{"by": "skiff", "before": "another",
			"observedGeneration": int64(2)})
	})
}

// Rules: HK-34, HK-36, HK-39, HK-58
func TestTheChildrenOfAClusterScopedParentAreInAnyNamespace(t *testing.T) {
	var seen []string
	s := composite(func(hook wire.Hook, request map[string]any) (string, error) {
		seen = nil
		for _, kind := range []string{"Namespace.v1", "ConfigMap.v1"} {
			objects, _ := at(request, "children", kind).(map[string]any)
			for key := range objects {
				seen = append(seen, key)
			}
		}
		slices.Sort(seen)
		return declared(hook, request)
	}).of(realms).kind(namespaces, spec.InPlace)
	story(t, s, func(w *env) {
		in := func(namespace string) string { return configMap("x", `,"namespace":"`+namespace+`"`, "") }
		team := `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team"}}`
		post(w, realms, "", `{"apiVersion":"example.com/v1","kind":"Realm","metadata":{"name":"r"},"spec":`+
			answer(children(team, in("team"), in("default")))+`}`)
		w.Pass(time.Minute)
		w.Want("child", w.API.Get(configMaps, kube.Key{Namespace: "team", Name: "x"}) != nil, true)
		w.Want("owner", ownerOf(w, "x"), "r")
		w.Want("seen", seen, []string{"default/x", "team", "team/x"})
		if err := w.User.Delete(w.Context(), configMaps, kube.Key{Namespace: "team", Name: "x"},
			kube.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Pass(time.Minute)
		w.Want("made again", w.API.Get(configMaps, kube.Key{Namespace: "team", Name: "x"}) != nil, true)
		if err := w.User.Patch(w.Context(), realms, kube.Key{Name: "r"}, kube.MergePatch,
			w.JSON(`{"spec":`+answer(children(team))+`}`), nil, kube.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Pass(time.Minute)
		w.Want("left", w.API.Get(configMaps, kube.Key{Namespace: "team", Name: "x"}), map[string]any(nil))
		w.Want("left", names(w, configMaps), []string(nil))
	})
}

// Rules: HK-45
func TestAnAnswerWithoutChildrenDeletesNone(t *testing.T) {
	s := composite(func(_ wire.Hook, request map[string]any) (string, error) {
		text, _ := at(request, "parent", "spec", "answer").(string)
		return text, nil
	})
	s.verbatim = true
	story(t, s, func(w *env) {
		w.Create("a", answer(children(configMap("x", "", ""))))
		for _, text := range []string{`{}`, `{"ok":true}`, `{"Children":[]}`, `{"level":"info","msg":"syncing"}`} {
			setAnswer(w, things, "a", text)
			w.Pass(time.Minute)
			w.Want("children after "+text, names(w, configMaps), []string{"x"})
			w.Want("refused", strings.Contains(note(w, "SyncError"), `say "children": []`), true)
		}
		setAnswer(w, things, "a", `{"children":[]}`)
		w.Want("children", len(names(w, configMaps)), 0)
	})
}

// answering is a controller of parents that have conditions, whose hook does what the test sets.
func answering(has bool) (s *script, set func(text string, err error)) {
	var answer string
	var failure error
	s = composite(func(wire.Hook, map[string]any) (string, error) { return answer, failure })
	s.hasConditions = func(context.Context) bool { return has }
	return s, func(text string, err error) {
		s.mu.Lock()
		answer, failure = text, err
		s.mu.Unlock()
		if s.last != nil {
			s.changes.Add(1)
			s.last.RunAll("", "the hook has changed")
		}
	}
}

const fine = `{"status":{"state":"Ready"},"children":[]}`

func TestAParentSaysThatItsHookFailsAndThatItAnswersAgain(t *testing.T) {
	s, set := answering(true)
	set("", errors.New("SyntaxError: expected ':' (hook.py:8)"))
	story(t, s, func(w *env) {
		w.Create("a", `{}`)
		w.Pass(time.Second)
		w.Want("condition", w.Condition("a", Synced), "False/HookFailed")
		w.Want("message", w.Message("a", Synced), "SyntaxError: expected ':' (hook.py:8)")
		w.Forget()
		w.Pass(time.Hour)
		w.WantWrites()
		set(fine, nil)
		w.Pass(time.Minute)
		w.Want("condition", w.Condition("a", Synced), "True/HookAnswered")
		w.Want("the hook's status", at(get(w, things, "a"), "status", "state"), "Ready")
		w.Forget()
		w.Patch(things, "a", `{"metadata":{"labels":{"touched":"1"}}}`)
		w.Pass(time.Hour)
		w.WantWrites()
		set("", errors.New("another"))
		w.Pass(time.Minute)
		w.Want("the hook's status of before", at(get(w, things, "a"), "status", "state"), "Ready")
		w.Want("message", w.Message("a", Synced), "another")
		set(`{"children":[{}]}`, nil)
		w.Pass(time.Minute)
		w.Want("condition", w.Condition("a", Synced), "False/HookFailed")
		w.Want("the answer's field is named", strings.Contains(w.Message("a", Synced), "children[0].apiVersion"), true)
	})
}

func TestAParentWithoutConditionsIsNotTold(t *testing.T) {
	s, set := answering(false)
	set("", errors.New("it fails"))
	story(t, s, func(w *env) {
		w.Forget()
		w.Create("a", `{}`)
		w.Pass(time.Minute)
		w.Want("status", at(get(w, things, "a"), "status"), nil)
		set(fine, nil)
		w.Pass(time.Minute)
		w.Want("conditions", at(get(w, things, "a"), "status", "conditions"), nil)
	})
}

func TestAHookThatFailsWithAnotherTextEachTimeIsReportedOnceAMinute(t *testing.T) {
	s, _ := answering(true)
	n := 0
	s.hook = func(wire.Hook, map[string]any) (string, error) {
		n++
		return "", fmt.Errorf("object at 0x%x", n)
	}
	story(t, s, func(w *env) {
		w.Create("a", `{}`)
		w.Forget()
		w.Pass(10 * time.Minute)
		if writes, calls := len(w.Writes()), len(s.called()); writes > 10 || calls > 60 {
			t.Errorf("%d writes and %d calls in ten minutes", writes, calls)
		}
	})
}

func TestASyncedOfTheHooksOwnIsNotReplaced(t *testing.T) {
	s, set := answering(true)
	set(`{"status":{"conditions":[{"type":"Synced","status":"True","reason":"Mine","message":"m"}]},"children":[]}`,
		nil)
	story(t, s, func(w *env) {
		w.Create("a", `{}`)
		w.Pass(time.Second)
		set("", errors.New("it fails"))
		w.Pass(time.Minute)
		w.Want("condition", w.Condition("a", Synced), "True/Mine")
	})
}

func TestAControllerWithTheAnnotationAlwaysHasTheCondition(t *testing.T) {
	s, set := answering(false)
	s.controller.ReportSync = true
	set(`{"status":{"state":"Ready","conditions":[{"type":"Up","status":"True"}]},"children":[]}`, nil)
	story(t, s, func(w *env) {
		w.Create("a", `{}`)
		w.Pass(time.Second)
		w.Want("condition", w.Condition("a", Synced), "True/HookAnswered")
		set("", errors.New("it fails"))
		w.Pass(time.Second)
		w.Want("condition", w.Condition("a", Synced), "False/HookFailed")
		w.Want("the hook's condition", at(get(w, things, "a"), "status", "conditions", 0, "type"), "Up")
		w.Want("state", at(get(w, things, "a"), "status", "state"), "HookFailed")
		set(`{"status":{"state":"Ready","conditions":[{"type":"Synced","status":"False","reason":"HookFailed",`+
			`"message":"repeated by the hook"}]},"children":[]}`, nil)
		w.Pass(time.Second)
		w.Want("condition", w.Condition("a", Synced), "True/HookAnswered")
		w.Want("state", at(get(w, things, "a"), "status", "state"), "Ready")
		w.Forget()
		w.Pass(time.Hour)
		w.WantWrites()
	})
}
