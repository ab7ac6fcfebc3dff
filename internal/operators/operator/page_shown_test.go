package operator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

// Rules: LP-08, LP-12
func TestChildrenAreShownWithTheirStateAndWhatIsInTheWay(t *testing.T) {
	var c *controller.Controller
	o := options
	o.New = func(s controller.Setup, r *events.Recorder) *controller.Controller {
		c = NewPages(s, r)
		return c
	}
	storyWith(t, o, func(w *operatortest.Env) {
		shown := func(want ...string) {
			t.Helper()
			var got []string
			children, _ := c.Details(kube.Key{Namespace: "default", Name: "a"})
			for _, one := range children {
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", one.Resource.Kind, one.State,
					one.Outcome, one.Problem)))
			}
			w.Want("children", fmt.Sprintf("%q", got), fmt.Sprintf("%q", want))
		}
		const declared = "ConfigMap exists: as declared"
		w.Post(services, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"ports":[{"port":1}]}}`)
		shown()
		w.Create("a", hello)
		w.Pass(time.Second)
		const taken = "Service missing: foreign exists and is not managed by skiff"
		shown(taken, "Deployment not ready: as declared", declared)
		w.RollOut("a")
		shown(taken, "Deployment ready: as declared", declared)
		w.Delete(services, "a")
		w.Pass(2 * time.Minute)
		shown("Deployment ready: as declared", declared, "Service exists: as declared")
		remove := failing(w, "patch", "configmaps", 100, 403, "Forbidden", "canary")
		w.Patch(pages, "a", `{"spec":{"text":"other"}}`)
		w.Pass(time.Second)
		shown("Deployment ready: as declared", "ConfigMap exists: failed Forbidden", "Service exists: as declared")
		remove()
		w.Pass(5 * time.Minute)
		shown("Deployment ready: as declared", declared, "Service exists: as declared")
		w.Delete(pages, "a")
		w.Pass(time.Second)
		shown()
	})
}
