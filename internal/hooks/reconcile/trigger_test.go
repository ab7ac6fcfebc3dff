package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/wire"
)

// Rules: HK-29
func TestAHookThatFailsIsReportedTriedAgainAndNothingIsWritten(t *testing.T) {
	var failing atomic.Bool
	failing.Store(true)
	s := composite(func(hook wire.Hook, request map[string]any) (string, error) {
		if failing.Load() {
			return "", errors.New("connection refused")
		}
		return declared(hook, request)
	})
	story(t, s, func(w *env) {
		w.Create("a", answer(`{"status":{"ok":true},"children":[`+configMap("x", "", "")+`]}`))
		w.Pass(time.Minute)
		w.WantRequests()
		w.WantLines("Events", w.EventLines("a"), []string{"Warning SyncError"})
		w.Want("note", note(w, "SyncError"), "connection refused")
		if n := len(s.called()); n < 3 || n > 20 {
			t.Errorf("%d calls in the first minute", n)
		}
		failing.Store(false)
		w.Pass(10 * time.Minute)
		w.Want("children", names(w, configMaps), []string{"x"})
		w.Want("status", at(get(w, things, "a"), "status", "ok"), true)
	})
}

// Rules: HK-45, HK-47
func TestAnAnswerThatIsWrongIsReportedAndNothingIsWritten(t *testing.T) {
	s := composite(declared)
	story(t, s, func(w *env) {
		w.Create("a", answer(children(configMap("x", "", ""))))
		w.Pass(time.Second)
		w.Forget()
		for _, wrong := range []string{`null`, `[]`, ``, `{"children":[null]}`,
			`{"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}]}`} {
			setAnswer(w, things, "a", wrong)
			w.Pass(time.Second)
		}
		w.WantRequests()
		w.Want("children", names(w, configMaps), []string{"x"})
		w.Want("note", strings.HasPrefix(note(w, "SyncError"), "answer of the sync hook: "), true)
	})
}

// Rules: HK-29, HK-42
func TestAHookThatAsksForALaterCallGetsItAndIsNoError(t *testing.T) {
	s := composite(nil)
	s.hook = func(hook wire.Hook, request map[string]any) (string, error) {
		if text, _ := declared(hook, request); text != "later" {
			return text, nil
		}
		return "", &call.Later{After: 7 * time.Second}
	}
	story(t, s, func(w *env) {
		w.Create("a", answer(`later`))
		w.Pass(20 * time.Second)
		w.Want("calls", s.called(), []string{"sync a", "sync a", "sync a"})
		w.WantLines("Events", w.EventLines("a"), nil)
		w.WantRequests()
	})
}

// Rules: HK-26
func TestEachAnswerReplacesTheResyncThatTheOneBeforeHasAskedFor(t *testing.T) {
	s := composite(declared)
	story(t, s, func(w *env) {
		w.Create("a", answer(`{"resyncAfterSeconds":10.5}`))
		w.Pass(time.Second)
		s.called()
		w.Pass(10 * time.Second)
		w.Want("calls", s.called(), []string{"sync a"})
		setAnswer(w, things, "a", `{"resyncAfterSeconds":60}`)
		w.Pass(time.Second) // with its status
		s.called()
		w.Pass(50 * time.Second)
		w.Want("calls", len(s.called()), 0)
		w.Pass(10 * time.Second)
		w.Want("calls", s.called(), []string{"sync a"})
		setAnswer(w, things, "a", `{"resyncAfterSeconds":-1}`)
		w.Pass(time.Second)
		s.called()
		w.Pass(time.Hour)
		w.Want("calls", len(s.called()), 0)
	})
}

// Rules: HK-25
func TestAResyncPeriodRunsAllParents(t *testing.T) {
	s := composite(declared)
	s.controller.Resync = time.Minute
	story(t, s, func(w *env) {
		w.Create("a", `{}`)
		w.Create("b", `{}`)
		w.Pass(time.Second)
		s.called()
		w.Pass(10 * time.Minute)
		w.Want("calls in ten minutes", len(s.called()), 20)
		w.Want("status", at(get(w, things, "a"), "status", "observedGeneration"), 1)
	})
}

// Rules: HK-23
func TestAChildOfAParentOfAnotherGroupIsNoTrigger(t *testing.T) {
	s := selecting(declared)
	story(t, s, func(w *env) {
		w.Post(things, thing("a", selectsWeb, `{}`))
		w.Pass(time.Minute)
		s.called()
		owned := func(name, group string) string {
			return configMap(name, `,"ownerReferences":[{"apiVersion":"`+group+`/v1","kind":"Thing","name":"a","uid":"u",
				"controller":true}]`, "")
		}
		w.Post(configMaps, owned("x", "other.example.com"))
		w.Want("calls", len(s.called()), 0)
		w.Post(configMaps, owned("y", "example.com"))
		w.Want("calls", s.called(), []string{"sync a"})
	})
}

// Rules: HK-22
func TestAChangeOfTheStatusIsNoTriggerWhereTheControllerIgnoresIt(t *testing.T) {
	s := composite(declared)
	s.controller.Parents[0].IgnoreStatusChanges = true
	s.controller.Resync = time.Hour
	story(t, s, func(w *env) {
		w.Create("a", `{}`)
		w.Pass(time.Second)
		w.Want("calls with a status of our own", s.called(), []string{"sync a"})
		w.PatchSub(things, "a", "status", `{"status":{"others":1}}`)
		w.Pass(time.Second)
		w.Want("calls", len(s.called()), 0)
		for _, change := range []string{`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"annotations":{"a":"b"}}}`,
			`{"spec":{"n":1}}`} {
			w.Patch(things, "a", change)
			w.Pass(time.Second)
			w.Want("calls after "+change, len(s.called()) > 0, true)
		}
		w.PatchSub(things, "a", "status", `{"status":{"others":1}}`)
		w.Pass(time.Hour)
		w.Want("calls of a resync", s.called(), []string{"sync a"})
		w.Want("status", at(get(w, things, "a"), "status", "others"), nil)
		w.Patch(things, "a", `{"metadata":{"finalizers":["example.com/mine"]}}`)
		w.Pass(time.Second)
		s.called()
		w.Delete(things, "a")
		w.Pass(time.Second)
		w.Want("calls of a deletion", slices.Contains(s.called(), "sync a"), true)
	})
}

// A ConfigMap has no generation that would tell whether the status alone has changed.
func TestAChangeOfAParentWithoutGenerationsIsNoChangeOfTheStatusAlone(t *testing.T) {
	s := decorator("d", configMaps, func(wire.Hook, map[string]any) (string, error) { return `{}`, nil })
	s.controller.Children = nil
	s.controller.Parents[0].IgnoreStatusChanges = true
	story(t, s, func(w *env) {
		w.Post(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1"}}`)
		w.Pass(time.Minute)
		s.called()
		w.Patch(configMaps, "a", `{"data":{"k":"2"}}`)
		w.Pass(time.Minute)
		w.Want("calls for a change of the data", len(s.called()), 1)
	})
}

// Two processes that write different statuses would otherwise try, and write, without a pause.
//
// Rules: HK-22, HK-29
func TestAStatusWrittenByAnotherEndsNoBackoffOfAHookThatFails(t *testing.T) {
	var works atomic.Bool
	s := composite(func(hook wire.Hook, request map[string]any) (string, error) {
		if works.Load() {
			return declared(hook, request)
		}
		return "", errors.New("connection refused")
	})
	story(t, s, func(w *env) {
		w.Create("a", `{}`)
		w.Pass(time.Hour)
		for s.called(); len(s.called()) == 0; w.Pass(time.Second) { // until a try: the next is five minutes away
		}
		foreign := func() {
			for i := range 10 {
				w.PatchSub(things, "a", "status", fmt.Sprintf(`{"status":{"others":%d}}`, i))
				w.Pass(time.Second)
			}
		}
		foreign()
		w.Want("calls of a hook that fails", len(s.called()), 0)
		w.Patch(things, "a", `{"metadata":{"labels":{"a":"b"}}}`)
		w.Want("calls for another change", s.called(), []string{"sync a"})
		works.Store(true)
		w.Pass(time.Hour)
		s.called()
		w.PatchSub(things, "a", "status", `{"status":{"others":11}}`)
		w.Pass(time.Second)
		w.Want("calls of a hook that answers", len(s.called()) > 0, true)
	})
}

// Rules: HK-114
func TestAPausedParentIsLeftAloneAndItsHookIsNotCalled(t *testing.T) {
	s := composite(declared).finalizing()
	story(t, s, func(w *env) {
		w.Post(things, strings.Replace(thing("a", "", children(configMap("x", "", ""))), `"name":"a"`,
			`"name":"a","annotations":{"skiff.dev/paused":"true"}`, 1))
		w.Pass(time.Hour)
		w.WantRequests()
		w.Want("calls", len(s.called()), 0)
		w.Patch(things, "a", `{"metadata":{"annotations":null}}`)
		w.Want("children", names(w, configMaps), []string{"x"})
	})
}

// Rules: HK-114
func TestAPausedControllerCallsNoHook(t *testing.T) {
	s := composite(declared)
	s.controller.Paused = true
	story(t, s, func(w *env) {
		w.Create("a", answer(children(configMap("x", "", ""))))
		w.Pass(time.Hour)
		w.WantRequests()
		w.Want("calls", len(s.called()), 0)
	})
}

// Rules: HK-24, HK-104
func TestEventsOfAnAnswerAreAboutTheParentOrAChild(t *testing.T) {
	s := composite(declared)
	story(t, s, func(w *env) {
		w.Create("a", answer(`{"events":[{"type":"Normal","reason":"Scaled","message":"to three"},`+
			`{"type":"Warning","reason":"Odd","message":"this one","object":{"kind":"ConfigMap","name":"x"}},`+
			`{"type":"Loud","reason":"Bad","message":"is left out"}]}`))
		w.Pass(time.Second)
		w.WantLines("Events", w.EventLines("a"), []string{"Normal Scaled", "Warning Odd ConfigMap/x"})
		w.Want("status", at(get(w, things, "a"), "status", "observedGeneration"), 1)
	})
}
