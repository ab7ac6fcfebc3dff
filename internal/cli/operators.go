package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/cache"
	"skiff/internal/controller"
	"skiff/internal/kube"
	"skiff/internal/operators/webserver"
)

// controllerOptions are what every controller is told.
type controllerOptions struct {
	client           *kube.Client
	namespaces       []string // empty: all
	workers          int      // 0: the default
	watchIdleTimeout time.Duration
	initialLists     *cache.Limiter // shared by all
	log              logr.Logger
}

// operators are the controllers that skiff has, by the name that --controllers takes. Adding one is one entry.
var operators = []struct {
	name string
	new  func(controllerOptions) *controller.Controller
}{
	{"webserver", func(o controllerOptions) *controller.Controller {
		return webserver.New(o.client, webserver.Options{Namespaces: o.namespaces, Workers: o.workers,
			WatchIdleTimeout: o.watchIdleTimeout, InitialLists: o.initialLists, Log: o.log})
	}},
}

// operatorNames are the names of all controllers, in the order of the table.
func operatorNames() []string {
	var names []string
	for _, op := range operators {
		names = append(names, op.name)
	}
	return names
}

// checkControllers refuses names that are not in the table.
func checkControllers(names []string) error {
	if len(names) == 0 {
		return usagef("--controllers: name at least one of %s", strings.Join(operatorNames(), ", "))
	}
	for i, name := range names {
		if !slices.Contains(operatorNames(), name) {
			return usagef("--controllers: there is no controller %q: choose from %s", name, strings.Join(operatorNames(), ", "))
		}
		if slices.Contains(names[:i], name) {
			return usagef("--controllers: %q is there twice", name)
		}
	}
	return nil
}

// newControllers makes the controllers of these names.
func newControllers(names []string, o controllerOptions) []*controller.Controller {
	o.initialLists = cache.NewLimiter(cache.DefaultInitialLists)
	var out []*controller.Controller
	for _, op := range operators {
		if slices.Contains(names, op.name) {
			out = append(out, op.new(o))
		}
	}
	return out
}
