package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/hooks/wire"
)

// sayingThat answers with the same text each time.
func sayingThat(text string) hookFunc {
	return func(wire.Hook, map[string]any) (string, error) { return text, nil }
}

// Two controllers of one parent see the same objects as their children, and undo each other's work. That is slowed
// down, and said in an Event and in the status.
//
// Rules: HK-18
func TestTwoControllersThatWantTheSameChildrenOfOneParentSlowDown(t *testing.T) {
	for name, second := range map[string]string{
		"another content of the child":                    children(configMap("x", "", `"whose":"two"`)),
		"another child, so that each deletes the other's": children(configMap("y", "", `"whose":"two"`)),
	} {
		t.Run(name, func(t *testing.T) {
			one := composite(sayingThat(children(configMap("x", "", `"whose":"one"`))))
			two := composite(sayingThat(second))
			two.controller.Name = "two"
			one.others, two.others = []string{"CompositeController two"}, []string{"CompositeController thing"}
			story(t, one, func(w *env) {
				stop := beside(w, two)
				w.Create("a", `{}`)
				w.Pass(5 * time.Minute)
				w.Forget()
				w.Pass(2 * time.Hour)
				if n := len(w.Requests()); n > 200 { // each tries every four minutes
					t.Errorf("%d requests in two hours", n)
				}
				problems := one.notes.Problems()
				told := len(problems) > 0 // the first of them to give way is
				problems = append(problems, two.notes.Problems()...)
				named := slices.ContainsFunc(problems, func(p string) bool {
					return strings.HasPrefix(p, "Thing default/a: ConfigMap default/") &&
						strings.Contains(p, "if it is a child of CompositeController t")
				})
				w.Want("told, with the name of the other one", named, true)
				event := slices.ContainsFunc(w.EventLines("a"), func(line string) bool {
					return strings.HasPrefix(line, "Warning Contested ConfigMap/")
				})
				w.Want("Event, which only the first one records", event, told)
				stop()
				w.Pass(2 * time.Hour)
				w.Want("told when the other one is gone", len(one.notes.Problems()), 0)
				w.Want("child", at(get(w, configMaps, "x"), "data", "whose"), "one")
				w.Forget()
				w.Pass(time.Hour)
				w.WantWrites()
			})
		})
	}
}

// What a controller of another kind makes for the same parent is none of its children: who comes second is refused.
//
// Rules: HK-62
func TestAChildOfADecoratorIsNoChildOfAnotherController(t *testing.T) {
	attachment := `{"attachments":[` + configMap("x", "", `"whose":"two"`) + `]}`
	for name, first := range map[string]*script{
		"composite": composite(sayingThat(children(configMap("x", "", `"whose":"one"`)))),
		"decorator": decorator("one", things, sayingThat(strings.Replace(attachment, "two", "one", 1))),
	} {
		t.Run(name, func(t *testing.T) {
			two := decorator("two", things, sayingThat(attachment))
			prepared(t, two, func(w *env) {
				beside(w, first)
				w.Create("a", `{}`)
				w.Pass(time.Second)
				w.Want("whose is it", at(get(w, configMaps, "x"), "data", "whose"), "one")
				w.Start()
				w.Pass(time.Minute)
				w.Forget()
				w.Pass(time.Hour)
				w.Want("whose is it later", at(get(w, configMaps, "x"), "data", "whose"), "one")
				w.Want("Events", w.EventLines("a"), []string{"Warning NameTaken ConfigMap/x"})
				w.WantWrites()
			})
		})
	}
}
