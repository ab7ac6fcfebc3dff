package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"skiff/internal/hooks/wire"
)

// Each answer differs from the one before, in the status or in a child.
//
// Rules: HK-48
func TestAHookWhoseAnswersNeverSettleIsCalledLessAndLessOften(t *testing.T) {
	for name, text := range map[string]string{
		"status": `{"status":{"n":%d}}`,
		"child":  `{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"n":"%d"}}]}`,
		"name":   `{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x%d"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			n, settled := 0, false
			s := composite(func(_ wire.Hook, request map[string]any) (string, error) {
				if at(request, "parent", "metadata", "name") == "calm" || settled {
					return `{"status":{"calm":true}}`, nil
				}
				n++
				return fmt.Sprintf(text, n), nil
			})
			story(t, s, func(w *env) {
				w.Create("a", `{}`)
				w.Pass(time.Hour)
				if n < 60 || n > 500 {
					t.Errorf("%d calls within an hour", n)
				}
				if lines := w.EventLines("a"); !slices.Contains(lines, "Warning Unsettled") {
					t.Errorf("Events %q", lines)
				}
				w.Create("calm", `{}`)
				w.Pass(time.Second)
				w.Want("status of another", at(get(w, things, "calm"), "status", "calm"), true)
				settled = true
				w.Patch(things, "a", `{"spec":{"changed":true}}`)
				w.Pass(time.Second)
				w.Want("status after a change", at(get(w, things, "a"), "status", "calm"), true)
				s.called()
				w.Pass(time.Hour)
				w.Want("calls at rest", len(s.called()), 0)
			})
		})
	}
}

// The status of a resource without the subresource belongs to its generation: each write makes another one.
//
// Rules: HK-48
func TestAStatusThatNeverSettlesIsHeldBackWithoutTheSubresourceToo(t *testing.T) {
	n := 0
	s := decorator("d", gadgets, func(wire.Hook, map[string]any) (string, error) {
		n++
		return fmt.Sprintf(`{"status":{"kept":"%d"}}`, n), nil
	})
	s.slow = 100 * time.Millisecond // a run a second is no hurry
	story(t, s, func(w *env) {
		w.Create("a", `{}`)
		w.Pass(time.Hour)
		if n < 60 || n > 500 {
			t.Errorf("%d calls within an hour", n)
		}
	})
}
