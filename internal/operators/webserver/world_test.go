package webserver

import (
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
