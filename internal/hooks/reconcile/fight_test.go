package reconcile

import (
	"fmt"
	"testing"
	"time"

	"skiff/internal/hooks/wire"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
)

// A server that refuses a write says nothing of another controller, and what it refuses stays an error.
//
// Rules: HK-13
func TestARefusedWriteToAParentIsNotTakenForAnotherController(t *testing.T) {
	labels := decorator("one", things, func(wire.Hook, map[string]any) (string, error) {
		return `{"labels":{"a":"b"},"attachments":[]}`, nil
	})
	status := composite(func(wire.Hook, map[string]any) (string, error) {
		return `{"status":{"ready":true},"children":[]}`, nil
	})
	for name, c := range map[string]struct {
		script *script
		undo   func(w *env)
		done   func(w *env) bool
	}{
		"labels": {labels, func(w *env) { w.Patch(things, "a", `{"metadata":{"labels":{"a":null}}}`) },
			func(w *env) bool { return at(get(w, things, "a"), "metadata", "labels", "a") == "b" }},
		"status": {status, func(w *env) {
			w.PatchSub(things, "a", "status", `{"status":{"ready":false}}`)
			w.Patch(things, "a", `{"metadata":{"labels":{"touched":"1"}}}`)
		}, func(w *env) bool { return at(get(w, things, "a"), "status", "ready") == true }},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(w *env) {
				w.Create("a", `{}`)
				w.Pass(time.Minute)
				w.Want("written", c.done(w), true)
				allow := w.API.Inject(apiserver.Fault{Verb: "patch", Resource: things.Plural,
					UserAgent: operatortest.Agent, Reply: &apiserver.Reply{
						Code: 403, Reason: "Forbidden", Message: "it is forbidden"}})
				c.undo(w)
				w.Pass(10 * time.Minute)
				w.Want("written while it is refused", c.done(w), false)
				allow()
				w.Pass(6 * time.Minute)
				w.Want("written again", c.done(w), true)
				seen := map[string]bool{}
				for _, e := range w.Events("Thing", "a") {
					seen[fmt.Sprint(e["reason"])] = true
				}
				w.Want("Events", seen, map[string]bool{"SyncError": true})
			})
		})
	}
}
