// Package operatortest is the environment for tests of operators: a controller on an embedded API server, over real
// HTTP and in virtual time, with a client for the user's actions. Only tests import it.
//
// It starts, stops and kills the controller, acts as a user and compares the result (env.go, objects.go,
// requests.go); it simulates parts of a cluster that an operator depends on (cluster.go); it kills a controller at
// each of its requests (kill.go); and it runs a controller through random histories (history.go), some of which are
// short of memory (crowd.go) or have a namespace selector. What an operator must have done is up to the operator's own
// tests.
//
// A Env is confined to a testing/synctest bubble. The test runs on the bubble's first goroutine, the controller and
// the simulated parts on goroutines that Run waits for. The package is beside the event path, around an operator.
package operatortest

import (
	"bytes"
	"context"
	"log"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/stdr"

	"skiff/crds"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// Agent is the user agent of the controller under test, to tell its requests from others'.
const Agent = "controller"

// Options of a Env.
type Options struct {
	Resource   kube.Resource // the custom resource of the controller
	Controller string        // its name in Events, without skiff.dev/
	New        func(controller.Setup, *events.Recorder) *controller.Controller
	// NewAll makes several controllers that run together, in place of New.
	NewAll     func(controller.Setup, *events.Recorder) []*controller.Controller
	Setup      controller.Setup // that New gets, with a client and the log of the environment
	Server     apiserver.Options
	Definition func([]byte) []byte // changes the CRD before it is installed; nil = no change
	Books      []kube.Resource     // that are no children: see plan.Options
	Quiet      bool                // no log; otherwise it goes to the test's log
}

// Env is a controller on an embedded API server, in virtual time.
type Env struct {
	*testing.T
	Options
	API  *apiserver.Server
	User *kube.Client
	Log  logr.Logger
	Stop func() // stops the controller and waits for it; does nothing if it does not run

	pipe *apiserver.Pipe
	ends []func()
}

// Run runs f in a new environment. The CRD is installed; the controller is not started.
func Run(t *testing.T, o Options, f func(w *Env)) {
	synctest.Test(t, func(t *testing.T) {
		w := &Env{T: t, Options: o, API: apiserver.New(o.Server), Stop: func() {},
			Log: stdr.New(log.New(t.Output(), "", log.Ltime|log.Lmicroseconds))}
		if o.Quiet {
			w.Log = logr.Discard()
		}
		w.pipe = w.API.ListenPipe()
		w.User = w.Connect("user")
		defer w.close()
		for _, text := range crds.All() {
			if !bytes.Contains(text, []byte("name: "+o.Resource.Plural+"."+o.Resource.Group+"\n")) {
				continue
			}
			if o.Definition != nil {
				text = o.Definition(text)
			}
			w.PostYAML("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", text)
		}
		w.Pass(time.Second) // until the CRD is served
		f(w)
	})
}

func (w *Env) close() {
	w.Stop()
	for _, end := range w.ends {
		end()
	}
	w.User.Close()
	if err := w.pipe.Close(); err != nil {
		w.Error(err)
	}
	w.API.Close()
}

// Connect returns a client with a user agent. The caller closes it.
func (w *Env) Connect(agent string) *kube.Client {
	w.Helper()
	return w.connect(agent, w.pipe.Dial)
}

func (w *Env) connect(agent string, dial dialFunc) *kube.Client {
	w.Helper()
	c, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: dial, UserAgent: agent})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// PostYAML posts a file as `kubectl create` does.
func (w *Env) PostYAML(path string, text []byte) {
	w.Helper()
	transport := &http.Transport{DialContext: w.pipe.Dial}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Post(apiserver.PipeURL+path,
		"application/yaml", bytes.NewReader(text))
	if err != nil {
		w.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusCreated {
		w.Fatalf("POST %s: %s %v", path, resp.Status, err)
	}
}

// Start runs a new controller without any memory, as after a restart of the process.
func (w *Env) Start() { w.start(w.pipe.Dial) }

// StartWith restarts the process with another --template-policy, or with what else change sets.
func (w *Env) StartWith(change func(s *controller.Setup)) {
	w.Stop()
	change(&w.Setup)
	w.Start()
}

// StartToBeKilled is Start, but k kills the process.
func (w *Env) StartToBeKilled(k *Killer) {
	k.dial = w.pipe.Dial
	w.start(k.Dial)
}

func (w *Env) start(dial dialFunc) {
	client := w.connect(Agent, dial)
	recorder := events.New(events.Options{Client: client, Controller: "skiff.dev/" + w.Controller,
		Instance: "test", Log: w.Log})
	setup := w.Setup
	setup.Client, setup.Log = client, w.Log
	parts := []func(context.Context) error{recorder.Run}
	for _, c := range w.withSelection(setup, recorder) {
		parts = append(parts, c.Run)
	}
	stop := w.run(parts...)
	w.Stop = func() {
		stop()
		client.Close()
		w.Stop = func() {}
	}
	w.WaitIdle()
}

// withSelection returns the controllers of a process: the controllers under test, and the controller that follows a
// namespace selector.
func (w *Env) withSelection(s controller.Setup, r *events.Recorder) (cs []*controller.Controller) {
	if s.Mirrors == nil {
		s.Mirrors = cache.NewMirrors()
		if s.NamespaceSelector != "" {
			cs = append(cs, controller.SelectNamespaces(s))
		}
	}
	if w.NewAll != nil {
		return append(cs, w.NewAll(s, r)...)
	}
	return append(cs, w.New(s, r))
}

// Background runs a simulated part of the cluster until the environment ends.
func (w *Env) Background(part func(context.Context) error) { w.ends = append(w.ends, w.run(part)) }

// run runs all parts until stop is called.
func (w *Env) run(parts ...func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	for _, part := range parts {
		running.Go(func() {
			if err := part(ctx); err != nil {
				w.Error(err)
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// WaitIdle waits until all goroutines wait for time to pass.
func (w *Env) WaitIdle() { synctest.Wait() }

// Pass lets time pass, then waits until all is idle.
func (w *Env) Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
