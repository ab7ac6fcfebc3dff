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

// Rules: HK-63, HK-34
func TestChildrenThatAreTooLargeForTheCacheAreHeldLikeOthers(t *testing.T) {
	wiped := false
	s := braked(&wiped)
	small := s.hook
	s.hook = func(hook wire.Hook, request map[string]any) (string, error) {
		answer, err := small(hook, request)
		return strings.ReplaceAll(answer, `"data":{`, `"data":{`+large(30)), err
	}
	prepared(t, s, func(w *env) {
		w.Setup.ObjectBytes = 20 << 10
		w.Start()
		sixThings(w)
		wiped = true
		s.change(w)
		w.Want("children that are left", len(names(w, configMaps)), 18)
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
func TestDeletesOfHalfTheChildrenAreNotHeld(t *testing.T) {
	wiped := false
	s := braked(&wiped)
	story(t, s, func(w *env) {
		sixThings(w)
		for _, name := range []string{"t0", "t1", "t2"} {
			w.Patch(things, name, `{"spec":{"keep":true}}`)
		}
		wiped = true
		s.change(w)
		w.Want("children of half the parents", len(names(w, configMaps)), 9)
		w.Want("held", len(heldNotes(w)), 0)
	})
}

// A hook may go wrong without a change that skiff can see: a webhook that says no version, a program that loads
// another file. Its answers are compared with the state that lasted.
//
// Rules: HK-63
func TestAHookThatGoesWrongUnseenIsHeld(t *testing.T) {
	for name, wrong := range map[string]func(w *env, s *script, wiped *bool){
		"without a change": func(_ *env, s *script, wiped *bool) {
			*wiped = true
			s.last.RunAll("", "resync")
		},
		"with a second change within the minute": func(w *env, s *script, wiped *bool) {
			s.changes.Add(1)
			s.last.RunAll("", "the hook has changed")
			w.Pass(5 * time.Second)
			*wiped = true
			s.last.RunAll("", "resync") // what package supervise does not count as another change
		},
		"with a version that alternates": func(w *env, s *script, wiped *bool) {
			for i := range 10 {
				s.changes.Add(1)
				*wiped = i%2 == 1
				s.last.RunAll("", "the hook has changed")
				w.Pass(500 * time.Millisecond)
			}
		},
		"one parent after the other": func(w *env, s *script, wiped *bool) {
			*wiped = true
			for i := range 6 {
				w.Patch(things, fmt.Sprint("t", i), `{"metadata":{"annotations":{"touched":"1"}}}`)
				w.Pass(30 * time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			wiped := false
			s := braked(&wiped)
			story(t, s, func(w *env) {
				sixThings(w)
				w.Pass(time.Hour)
				wrong(w, s, &wiped)
				w.Pass(time.Hour)
				left := len(names(w, configMaps))
				if left < 9 {
					t.Errorf("%d of 18 children are left", left)
				}
				if name != "one parent after the other" {
					w.Want("children", left, 18)
				}
				w.Want("something is held", s.brake.Problem() != "", true)
				wiped = false
				s.last.RunAll("", "resync")
				w.Pass(time.Minute)
				w.Want("children of the repaired hook", len(names(w, configMaps)), 18)
				w.Want("problem", s.brake.Problem(), "")
			})
		})
	}
}

// Rules: HK-63
func TestWhatAChangeOfTheParentsLeadsToIsNotHeld(t *testing.T) {
	wiped := false
	s := braked(&wiped)
	story(t, s, func(w *env) {
		sixThings(w)
		wiped = true
		for i := range 6 {
			w.Patch(things, fmt.Sprint("t", i), `{"spec":{"changed":true}}`)
		}
		w.Want("children", len(names(w, configMaps)), 0)
	})
}

// Rules: HK-63
func TestChildrenThatOthersReplaceAreNotHeld(t *testing.T) {
	round := 0
	s := composite(func(_ wire.Hook, request map[string]any) (string, error) {
		name, _ := at(request, "parent", "metadata", "name").(string)
		name = fmt.Sprintf("%s-%d", name, round)
		return children(configMap(name+"-1", "", ""), configMap(name+"-2", "", ""), configMap(name+"-3", "", "")), nil
	})
	s.version = "v0"
	story(t, s, func(w *env) {
		sixThings(w)
		for round = range 3 {
			s.last.RunAll("", "resync")
			w.Pass(time.Minute)
			w.Want("children", len(names(w, configMaps)), 18)
			w.Want("first child", names(w, configMaps)[0], fmt.Sprintf("t0-%d-1", round))
		}
		round = 9
		s.change(w)
		w.Want("first child after a change of the hook", names(w, configMaps)[0], "t0-2-1")
	})
}

// A hook that makes other children with each answer does so across a restart, too: what is held must not pile up.
//
// Rules: HK-63
func TestWhatIsHeldOfARotationDoesNotPileUp(t *testing.T) {
	round := 0
	s := composite(func(_ wire.Hook, request map[string]any) (string, error) {
		name, _ := at(request, "parent", "metadata", "name").(string)
		name = fmt.Sprintf("%s-%d", name, round)
		return children(configMap(name+"-1", "", ""), configMap(name+"-2", "", ""), configMap(name+"-3", "", "")), nil
	})
	s.version = "v0"
	story(t, s, func(w *env) {
		sixThings(w)
		for round = 1; round < 6; round++ {
			if round == 1 {
				s.change(w)
			}
			s.last.RunAll("", "resync")
			w.Pass(10 * time.Minute)
			if n := len(names(w, configMaps)); n > 3*18 {
				t.Errorf("%d children in round %d", n, round)
			}
		}
		w.Want("children in the end", len(names(w, configMaps)), 18)
		w.Want("problem", s.brake.Problem(), "")
	})
}

// Rules: HK-63
func TestAStateThatLastsIsWhatLaterAnswersAreComparedWith(t *testing.T) {
	gone := 0
	s := composite(func(_ wire.Hook, request map[string]any) (string, error) {
		name, _ := at(request, "parent", "metadata", "name").(string)
		if name < fmt.Sprint("t", gone) {
			return `{"children":[]}`, nil
		}
		return children(configMap(name+"-1", "", ""), configMap(name+"-2", "", ""), configMap(name+"-3", "", "")), nil
	})
	s.version = "v0"
	story(t, s, func(w *env) {
		sixThings(w)
		for gone = range 7 { // 18 children go, three in a quarter of an hour
			s.last.RunAll("", "resync")
			w.Pass(15 * time.Minute)
			w.Want("children", len(names(w, configMaps)), 18-3*gone)
		}
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

// A child that goes as it should, minutes before, leaves the others no less well kept.
//
// Rules: HK-63
func TestAHookThatGoesWrongMinutesAfterASmallLossDeletesNothing(t *testing.T) {
	wiped, one := false, false
	s := composite(func(_ wire.Hook, request map[string]any) (string, error) {
		name, _ := at(request, "parent", "metadata", "name").(string)
		switch {
		case wiped:
			return `{"children":[]}`, nil
		case one && name == "t0":
			return children(configMap(name+"-1", "", ""), configMap(name+"-2", "", "")), nil
		}
		return children(configMap(name+"-1", "", ""), configMap(name+"-2", "", ""), configMap(name+"-3", "", "")), nil
	})
	s.version = "v0"
	story(t, s, func(w *env) {
		sixThings(w)
		w.Pass(time.Hour)
		one = true
		s.last.RunAll("", "resync")
		w.Pass(5 * time.Minute)
		w.Want("children after the small loss", len(names(w, configMaps)), 17)
		wiped = true
		s.last.RunAll("", "resync")
		w.Pass(time.Hour)
		w.Want("children", len(names(w, configMaps)), 17)
		wiped = false
		s.last.RunAll("", "resync")
		w.Pass(time.Minute)
		w.Want("children of the repaired hook", len(names(w, configMaps)), 17)
		w.Want("problem", s.brake.Problem(), "")
	})
}

// A roll keeps old children beside new ones for a while, in the end without another change of the parent.
//
// Rules: HK-63
func TestTheEndOfARollIsNotHeld(t *testing.T) {
	s := composite(func(_ wire.Hook, request map[string]any) (string, error) {
		sets, _ := at(request, "parent", "spec", "sets").(string)
		if at(request, "parent", "metadata", "labels", "ready") != nil {
			sets = sets[len(sets)-1:]
		}
		var of []string
		for _, set := range sets {
			for i := range 10 {
				of = append(of, configMap(fmt.Sprintf("%c-%d", set, i), "", ""))
			}
		}
		return children(of...), nil
	})
	s.version = "v0"
	story(t, s, func(w *env) {
		w.Create("a", `{"sets":"a"}`)
		w.Pass(time.Hour)
		for _, sets := range []string{"ab", "abc"} {
			w.Patch(things, "a", `{"spec":{"sets":"`+sets+`"}}`)
			w.Pass(time.Minute)
		}
		w.Want("children while it rolls", len(names(w, configMaps)), 30)
		w.Patch(things, "a", `{"metadata":{"labels":{"ready":"1"}}}`)
		w.Pass(time.Minute)
		w.Want("children", len(names(w, configMaps)), 10)
	})
}

// A hook that answers again counts as the same hook, and only the parents that waited for the answer run: fewer
// children of a tenant are compared with the children of all parents.
//
// Rules: HK-63
func TestAHookThatAnswersAgainIsNoOther(t *testing.T) {
	s := composite(declared)
	s.version = "v0"
	story(t, s, func(w *env) {
		for name, n := range map[string]int{"a": 30, "b": 100} {
			w.Create(name, answer(children(numbered(name, n)...)))
		}
		w.Pass(time.Hour)
		w.Want("children", len(names(w, configMaps)), 130)
		s.returns.Add(1)
		setAnswer(w, things, "a", children(numbered("a", 10)...))
		w.Pass(time.Minute)
		w.Want("children of both", len(names(w, configMaps)), 110)
		w.Want("problem", s.brake.Problem(), "")
	})
}

// numbered are ConfigMaps whose names have a prefix.
func numbered(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, configMap(fmt.Sprintf("%s-%d", prefix, i), "", ""))
	}
	return out
}
