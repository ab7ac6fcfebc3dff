package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/hooks/wire"
)

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
