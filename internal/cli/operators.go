package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"skiff/internal/cache"
	"skiff/internal/controller"
	"skiff/internal/events"
	"skiff/internal/kube"
	"skiff/internal/operators/redis"
	"skiff/internal/operators/restart"
	"skiff/internal/operators/webserver"
)

// operators are skiff's controllers with their names in --controllers. A new operator is one line here.
var operators = []struct {
	name   string
	new    func(controller.Setup, *events.Recorder) *controller.Controller
	rights []kube.Right // all that it needs; `skiff manifests` makes the roles of them
}{
	{"webserver", webserver.New, webserver.Rights},
	{"redis", redis.New, redis.Rights},
	{"restart", restart.New, restart.Rights},
}

// operatorNames returns the names of all controllers, in the order of the table.
func operatorNames() []string {
	var names []string
	for _, op := range operators {
		names = append(names, op.name)
	}
	return names
}

// checkControllers checks the value of --controllers.
func checkControllers(names []string) error {
	if len(names) == 0 {
		return usagef("--controllers: name at least one of %s", strings.Join(operatorNames(), ", "))
	}
	for i, name := range names {
		if !slices.Contains(operatorNames(), name) {
			return usagef("--controllers: unknown controller %q: choose from %s", name,
				strings.Join(operatorNames(), ", "))
		}
		if slices.Contains(names[:i], name) {
			return usagef("--controllers: %q is listed twice", name)
		}
	}
	return nil
}

// newControllers makes the named controllers and the recorders of their Events. The manager runs both, and sends the
// last Events before it releases the lease.
func newControllers(names []string, s controller.Setup) ([]*controller.Controller, []*events.Recorder) {
	s.Mirrors = cache.NewMirrors()
	var cs []*controller.Controller
	var rs []*events.Recorder
	if s.NamespaceSelector != "" {
		cs = append(cs, controller.SelectNamespaces(s))
	}
	for _, op := range operators {
		if slices.Contains(names, op.name) {
			r := events.New(events.Options{Client: s.Client, Controller: "skiff.dev/" + op.name, Log: s.Log})
			cs, rs = append(cs, op.new(s, r)), append(rs, r)
		}
	}
	return cs, rs
}

// during runs work while service runs. The context of work ends with ctx, and when service does; that of service ends
// when work has returned.
func during(ctx context.Context, service, work func(context.Context) error) error {
	serving, stopService := context.WithCancel(context.WithoutCancel(ctx))
	defer stopService()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	var failed error
	running.Go(func() {
		defer stop()
		failed = service(serving)
	})
	err := work(ctx)
	stopService()
	running.Wait()
	return errors.Join(err, failed)
}
