package cli

import (
	"slices"
	"strings"

	"skiff/internal/operators/redis"
	"skiff/internal/operators/restart"
	"skiff/internal/operators/webserver"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// maker makes a controller.
type maker func(controller.Setup, *events.Recorder, restart.Floors) *controller.Controller

// unbounded is the maker of a controller without floors.
func unbounded(of func(controller.Setup, *events.Recorder) *controller.Controller) maker {
	return func(s controller.Setup, r *events.Recorder, _ restart.Floors) *controller.Controller { return of(s, r) }
}

// builtIn is one of skiff's controllers.
type builtIn struct {
	name   string
	new    maker
	rights []kube.Right // all resources in use, the custom resource first; `skiff manifests` makes roles of these
	// container is the declared container in the pods of a custom resource with a spec.template; "": there is none.
	container string
	marks     func(kube.Raw) ([]string, error) // the marks of children about how they were declared; nil: none
}

// operators are skiff's controllers with their names in --controllers. A new operator is one line here.
var operators = []builtIn{
	{"webserver", unbounded(webserver.New), webserver.Rights, webserver.Container, webserver.Marks},
	{"redis", unbounded(redis.New), redis.Rights, redis.Container, redis.Marks},
	{"restart", restart.New, restart.Rights, "", nil},
}

// Marks returns the texts in the children of a custom resource of skiff that are computed from the custom resource, in
// an order that does not depend on values; nil of any other object.
func Marks(apiVersion, kind string, raw kube.Raw) ([]string, error) {
	for _, op := range operators {
		if r := op.rights[0].Resource; op.marks != nil && r.Kind == kind && r.APIVersion() == apiVersion {
			return op.marks(raw)
		}
	}
	return nil, nil
}

// ControllerNames returns the names of all controllers, in the order of the table.
func ControllerNames() []string {
	var names []string
	for _, op := range operators {
		names = append(names, op.name)
	}
	return names
}

// checkControllers checks the value of --controllers.
func checkControllers(names []string) error {
	if len(names) == 0 {
		return Usagef("--controllers: name at least one of %s", strings.Join(ControllerNames(), ", "))
	}
	for i, name := range names {
		if !slices.Contains(ControllerNames(), name) {
			return Usagef("--controllers: unknown controller %q: %s", name, Instead(name, ControllerNames()))
		}
		if slices.Contains(names[:i], name) {
			return Usagef("--controllers: %q is listed twice", name)
		}
	}
	return nil
}

// newControllers makes the named controllers and the recorders of their Events. The manager runs both, and sends the
// last Events before it releases the lease.
func newControllers(names []string, s controller.Setup, floors restart.Floors) (cs []*controller.Controller,
	rs []*events.Recorder) {
	s.Mirrors = cache.NewMirrors()
	if limit, limited := cache.MemoryLimit(); limited {
		s.InFlight = controller.NewInFlight(limit)
	}
	if s.NamespaceSelector != "" {
		cs = append(cs, controller.SelectNamespaces(s))
	}
	for _, op := range operators {
		if slices.Contains(names, op.name) {
			r := events.New(events.Options{Client: s.Client, Controller: "skiff.dev/" + op.name, Log: s.Log})
			cs, rs = append(cs, op.new(s, r, floors)), append(rs, r)
		}
	}
	return cs, rs
}
