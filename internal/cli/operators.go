package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/cache"
	"skiff/internal/controller"
	"skiff/internal/events"
	"skiff/internal/kube"
	"skiff/internal/operators/redis"
	"skiff/internal/operators/restart"
	"skiff/internal/operators/webserver"
)

// controllerOptions are what every controller is told.
type controllerOptions struct {
	client           *kube.Client
	namespaces       []string // empty: all
	workers          int      // 0: the default
	watchIdleTimeout time.Duration
	initialLists     *cache.Limiter // shared by all
	events           *events.Recorder
	log              logr.Logger
}

// operators are the controllers that skiff has, by the name that --controllers takes. Adding one is one entry.
var operators = []struct {
	name string
	new  func(controllerOptions) *controller.Controller
}{
	{"webserver", func(o controllerOptions) *controller.Controller {
		return webserver.New(o.client, webserver.Options{Namespaces: o.namespaces, Workers: o.workers,
			WatchIdleTimeout: o.watchIdleTimeout, InitialLists: o.initialLists, Events: o.events, Log: o.log})
	}},
	{"redis", func(o controllerOptions) *controller.Controller {
		return redis.New(o.client, redis.Options{Namespaces: o.namespaces, Workers: o.workers,
			WatchIdleTimeout: o.watchIdleTimeout, InitialLists: o.initialLists, Events: o.events, Log: o.log})
	}},
	{"restart", func(o controllerOptions) *controller.Controller {
		return restart.New(o.client, restart.Options{Namespaces: o.namespaces, Workers: o.workers,
			WatchIdleTimeout: o.watchIdleTimeout, InitialLists: o.initialLists, Events: o.events, Log: o.log})
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

// newControllers makes the controllers of these names, and the recorders of their Events, which the caller has to run.
func newControllers(names []string, o controllerOptions) ([]*controller.Controller, []*events.Recorder) {
	o.initialLists = cache.NewLimiter(cache.DefaultInitialLists)
	var cs []*controller.Controller
	var rs []*events.Recorder
	for _, op := range operators {
		if slices.Contains(names, op.name) {
			o.events = events.New(events.Options{Client: o.client, Controller: "skiff.dev/" + op.name, Log: o.log})
			cs, rs = append(cs, op.new(o)), append(rs, o.events)
		}
	}
	return cs, rs
}

// withRecorders runs recorders while work runs. They end after it, so that the Events of its last moments are sent.
func withRecorders(ctx context.Context, rs []*events.Recorder, work func(context.Context) error) error {
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	errs := make([]error, len(rs))
	var running sync.WaitGroup
	for i, r := range rs {
		running.Go(func() { errs[i] = r.Run(recording) })
	}
	err := work(ctx)
	stop()
	running.Wait()
	return errors.Join(append(errs, err)...)
}
