package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/hooks/wire"
)

// braked are six Things with three ConfigMaps each; the hook answers with none of them once wiped is true.
func braked(wiped *bool) *script {
	s := composite(func(hook wire.Hook, request map[string]any) (string, error) {
		name, _ := at(request, "parent", "metadata", "name").(string)
		if *wiped && at(request, "parent", "spec", "keep") == nil {
			return `{"children":[]}`, nil
		}
		return children(configMap(name+"-1", "", ""), configMap(name+"-2", "", ""), configMap(name+"-3", "", "")), nil
	})
	s.version = "v0"
	return s
}

func sixThings(w *env) {
	for i := range 6 {
		w.Post(things, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t%d"}}`, i))
	}
	w.Want("children", len(names(w, configMaps)), 18)
}

// heldNotes are the notes of the Events about what is held.
func heldNotes(w *env) (notes []string) {
	for i := range 6 {
		for _, e := range w.Events("Thing", fmt.Sprint("t", i)) {
			if e["reason"] == "DeletesHeld" {
				notes = append(notes, fmt.Sprint(e["note"]))
			}
		}
	}
	return notes
}

// change has the hook be another one.
func (s *script) change(w *env) {
	s.version = fmt.Sprint("v", s.changes.Add(1))
	s.last.RunAll("", "the hook has changed")
	w.Pass(time.Minute)
}

// Rules: HK-63
func TestAHookThatWantsMostChildrenDeletedAfterItHasChangedIsHeld(t *testing.T) {
	wiped := false
	s := braked(&wiped)
	story(t, s, func(w *env) {
		sixThings(w)
		wiped = true
		s.change(w)
		left := len(names(w, configMaps))
		w.Want("children that are left", left, 18)
		if held := heldNotes(w); len(held) == 0 ||
			!strings.Contains(held[0], `annotation skiff.dev/allow-deletes to "v1"`) {
			t.Errorf("Events %q", held)
		}
		if problem := s.brake.Problem(); !strings.Contains(problem, "holds the deletion of") || len(s.told) != 1 {
			t.Errorf("problem %q, told %q", problem, s.told)
		}
		s.called()
		w.Pass(time.Hour)
		w.Want("children an hour later", len(names(w, configMaps)), left)
		if calls := s.called(); len(calls) > 6*16 {
			t.Errorf("%d calls in this hour: %q", len(calls), calls[:12])
		}
		wiped = false // the hook is repaired
		s.change(w)
		w.Want("children of the repaired hook", len(names(w, configMaps)), 18)
		w.Want("problem", s.brake.Problem(), "")
	})
}

// Rules: HK-63
func TestDeletesThatAreAcknowledgedAreMade(t *testing.T) {
	wiped := false
	s := braked(&wiped)
	s.allowed = "v1"
	story(t, s, func(w *env) {
		sixThings(w)
		wiped = true
		s.change(w)
		w.Want("children", len(names(w, configMaps)), 0)
		wiped = false
		s.change(w)
		w.Want("children", len(names(w, configMaps)), 18)
		wiped = true
		s.change(w) // to v3, which is not what was acknowledged
		w.Want("children that are left", len(names(w, configMaps)), 18)
	})
}

// Rules: HK-63
func TestDeletesAreNotHeldWithoutAChangeOfTheHookOrOfHalfTheChildren(t *testing.T) {
	wiped := false
	s := braked(&wiped)
	story(t, s, func(w *env) {
		sixThings(w)
		wiped = true
		s.last.RunAll("", "")
		w.Pass(time.Minute)
		w.Want("children that the same hook wants no more", len(names(w, configMaps)), 0)
		wiped = false
		s.change(w)
		for _, name := range []string{"t0", "t1", "t2"} {
			w.Patch(things, name, `{"spec":{"keep":true}}`)
		}
		w.Want("children", len(names(w, configMaps)), 18)
		wiped = true
		s.change(w)
		w.Want("children of half the parents", len(names(w, configMaps)), 9)
		w.Want("held", len(heldNotes(w)), 0)
	})
}

// A start counts as a change.
//
// Rules: HK-63
func TestAHookThatHasChangedBeforeTheStartIsHeld(t *testing.T) {
	wiped := false
	s := braked(&wiped)
	story(t, s, func(w *env) {
		sixThings(w)
		w.Stop()
		wiped = true
		w.Start()
		w.Pass(time.Minute)
		w.Want("children that are left", len(names(w, configMaps)), 18)
	})
}
