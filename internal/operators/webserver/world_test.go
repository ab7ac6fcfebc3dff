package webserver

import (
	"fmt"
	"slices"
	"testing"

	"skiff/internal/operators/operatortest"
	"skiff/internal/runtime/kube"
)

// world is the controller on an embedded API server, in virtual time. Nothing runs Deployments: rollOut plays that
// part.
type world struct{ *operatortest.World }

var options = operatortest.Options{Resource: resource, Controller: "webserver", New: New}

// story runs f in a fresh world with a running controller.
func story(t *testing.T, f func(w *world)) { storyWith(t, options, f) }

func storyWith(t *testing.T, o operatortest.Options, f func(w *world)) {
	operatortest.Run(t, o, func(w *operatortest.World) {
		w.Start()
		f(&world{w})
	})
}

func web(name string) kube.Key { return operatortest.Named(name) }

var at = operatortest.At

// rollOut does what a Deployment controller has done in the end.
func (w *world) rollOut(name string) {
	w.Helper()
	d := w.API.Get(deployments, web(name))
	n := at(d, "spec", "replicas")
	w.PatchSub(deployments, name, "status", fmt.Sprintf(`{"status":{"observedGeneration":%v,"replicas":%v,"updatedReplicas":%v,"readyReplicas":%v,"availableReplicas":%v}}`,
		at(d, "metadata", "generation"), n, n, n, n))
}

// events returns the Events about a WebServer, sorted, in short: "Normal CreateService Service/web-service".
func (w *world) events(name string) []string {
	var out []string
	for _, e := range w.Events(resource.Kind, name) {
		line := fmt.Sprint(e["type"], " ", e["reason"])
		if related := e["related"]; related != nil {
			line += fmt.Sprint(" ", at(related, "kind"), "/", at(related, "name"))
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}
