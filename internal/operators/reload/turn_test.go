package reload

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/testcluster/operatortest"
)

// A workload that cannot be worked on, as a source is not held any more, keeps neither its slot nor its place.
func TestAWorkloadThatIsNotWorkedOnHoldsUpNoOther(t *testing.T) {
	for _, hurt := range []string{"the one that rolls", "the first that waits"} {
		o := options
		o.Quiet, o.Setup.ObjectBytes = true, 4000
		o.NewAll = func(s controller.Setup, r *events.Recorder) []*controller.Controller {
			return New(s, r, Options{Share: Share{n: 1}})
		}
		operatortest.Run(t, o, func(w *operatortest.Env) {
			e := inCluster(w)
			w.Start()
			e.configMap("a", "1")
			e.configMap("large", "1")
			of := map[string]string{"web-1": envFrom("a"), "web-2": envFrom("a"), "web-3": envFrom("a")}
			name := map[bool]string{true: "web-1", false: "web-2"}[hurt == "the one that rolls"]
			of[name] = `,"envFrom":[{"configMapRef":{"name":"a"}},{"configMapRef":{"name":"large"}}]`
			for _, one := range []string{"web-1", "web-2", "web-3"} {
				e.deploy(one, auto, of[one])
				w.Pass(10 * time.Second)
			}
			e.Patch(deployments, "web-2", `{"metadata":{"annotations":{"skiff.dev/paused":"true"}}}`)
			e.Patch(deployments, "web-3", `{"metadata":{"annotations":{"skiff.dev/paused":"true"}}}`)
			e.setConfigMap("a", "2")
			for range 100 { // until web-1 rolls
				w.Pass(100 * time.Millisecond)
				if e.restartedAt("web-1") != nil {
					break
				}
			}
			for _, one := range []string{"web-2", "web-3"} {
				e.Patch(deployments, one, `{"metadata":{"annotations":{"skiff.dev/paused":null}}}`)
				w.WaitIdle()
			}
			keys := ""
			for i := range 200 {
				keys += fmt.Sprintf(`,"a-key-with-a-long-name-%d":"x"`, i)
			}
			e.Patch(configMaps, "large", `{"data":{`+keys[1:]+`}}`)
			w.Pass(10 * time.Minute)
			for one := range of {
				if one != name && e.restartedAt(one) == nil {
					t.Errorf("%s is hurt: %s is not restarted", hurt, one)
				}
			}
		})
	}
}

func TestASourceTellsHowManyWorkloadsWaitForATurn(t *testing.T) {
	story(t, Options{Share: Share{n: 1}}, func(w *env) {
		w.configMap("a", "1")
		for _, name := range []string{"web-1", "web-2", "web-3"} {
			w.deploy(name, auto, envFrom("a"))
		}
		w.Pass(time.Minute)
		w.setConfigMap("a", "2")
		w.Pass(5 * time.Minute)
		var notes []string
		for _, note := range w.notes("ConfigMap", "a") {
			_, wait, _ := strings.Cut(note, ", ") // behind the name, which is any
			notes = append(notes, wait)
		}
		w.Want("Events of the source", notes, []string{"1 of 3; 2 wait: at most 1 roll at a time",
			"2 of 3; 1 wait: at most 1 roll at a time", "the last of 3"})
	})
}

func (w *env) restartedAt(name string) any {
	return at(w.API.Get(deployments, in(name)), "spec", "template", "metadata", "annotations", RestartAnnotation)
}
