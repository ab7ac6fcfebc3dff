// Package manager is the composition root of a process that runs controllers: the manager opens the probes, starts
// every controller by itself, and stops all parts in order.
//
// The manager does not know which controllers there are, nor their jobs, and reads no flags (package cli). A
// controller whose CRD or grant is missing waits alone and holds up no other; the manager only reports the wait, in
// /readyz?verbose.
//
// With an elector, the controllers mirror from the start and work only while this process leads.
//
// Run blocks its caller. The manager owns one goroutine for each HTTP server, one for each controller, one for the
// elector, and two that see whether the API server answers and whether the workers get on. Run returns when all have
// ended. The manager is not on the way of an event.
package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/leader"
	"skiff/internal/runtime/metrics"
	"skiff/internal/runtime/page"
	"skiff/internal/runtime/process"
)

// drainTimeout is from the end of the context to the return of Run: the time that Kubernetes gives a pod to end
// (terminationGracePeriodSeconds).
const drainTimeout = 30 * time.Second

// DefaultWatchTimeout is three times as long as a watch lasts at most (10 minutes).
const DefaultWatchTimeout = 30 * time.Minute

// Options configure a Manager.
type Options struct {
	Controllers  []*controller.Controller
	Set          *controller.Set         // controllers that come and go; nil: none
	Recorders    []*events.Recorder      // run by the manager; the last Events go out before the lease does
	Elector      *leader.Elector         // nil: the controllers work at once; else they must be Elected
	ElectionLog  *events.Recorder        // of who leads; the client may write without the lease; nil: no Events
	HealthAddr   string                  // host:port of the probes; "" or "0" = none
	HealthElse   []string                // where to serve probes, the first free address, while HealthAddr is taken
	MetricsAddr  string                  // host:port of /metrics; "" or "0" = none
	Client       *kube.Client            // of the controllers, to log when the server does not answer; nil: not logged
	Requests     *Requests               // requests sent by the clients of the process; nil: not counted
	DebugAddr    string                  // host:port of /debug/pprof/ and /debug/controllers; "" or "0" = none
	Place        page.Place              // where the process is, for the live page
	PageAddr     string                  // host:port of the live page, which shows History; "" or "0" = none
	PageOpened   func(url string)        // called when the page is served; nil: nothing is
	PageHosts    []string                // names that a browser may use, beside localhost and addresses
	PageToken    func() (string, error)  // for readers; nil: no token is needed
	PageOpen     bool                    // also readers without a token may see the words of others
	History      *history.Log            // of the controllers' runs; nil without a page
	WatchTimeout time.Duration           // how long a watch may be silent for /livez/watch; 0 = DefaultWatchTimeout
	Attention    func() []health.Problem // more Problems; nil: none
	About        func() []string         // more notes beside the Problems; nil: none
	Hooks        func() []page.Hook      // called by the controllers, for the live page; nil: none
	Scrape       func(*metrics.Page)     // adds more counts; nil: none
	LogState     func() LogState         // of the file behind Log; nil: a line is written at once
	Log          logr.Logger
}

// Manager runs controllers and answers their probes.
type Manager struct {
	o        Options
	started  time.Time     // of Run
	stopping atomic.Bool   // the context of Run has ended, or a part has failed
	panics   atomic.Uint64 // of HTTP handlers
	crashes  atomic.Uint64 // panics of the parts that the manager runs
	outage   atomic.Int64  // nanoseconds from started until contact was last seen to be lost; 0: never
	progress progress
	page     atomic.Pointer[string] // the URL of the live page; nil: no page is served
	asked    time.Time              // when the last ping was sent; only watchContact's goroutine has it
	listen   func(network, address string) (net.Listener, error)
}

// New returns a manager and starts nothing.
func New(o Options) *Manager {
	if o.WatchTimeout <= 0 {
		o.WatchTimeout = DefaultWatchTimeout
	}
	if o.ElectionLog != nil {
		o.Recorders = append(slices.Clip(o.Recorders), o.ElectionLog)
	}
	return &Manager{o: o, listen: net.Listen}
}

// ended says that a part of the manager has returned.
type ended struct {
	name string
	err  error
}

// Run opens the servers, runs the controllers until ctx ends or a controller fails, and stops in this order: /readyz
// turns to 503, controllers finish runs under way and stop the mirrors, the last Events are sent, the lease is
// released, the servers close. Run is not called twice.
//
// The error is nil after a clean stop; otherwise all failures are joined, and the controllers named that did not stop
// within the drain timeout.
func (m *Manager) Run(ctx context.Context) error {
	if err := m.check(); err != nil {
		return err
	}
	m.started = time.Now()
	failed := make(chan error, 4) // one for each server
	for _, s := range []served{
		{what: Probes, address: m.o.HealthAddr, others: m.o.HealthElse,
			handler: m.probes()},
		{what: Metrics, address: m.o.MetricsAddr, handler: m.metrics()},
		{what: DebugPages, address: m.o.DebugAddr, handler: m.debug(), slow: true},
		{what: LivePage, address: m.o.PageAddr, handler: m.livePage()},
	} {
		e, err := m.open(s, failed)
		if err != nil {
			return err
		}
		defer e.close()
		if s.what == LivePage && e != nil {
			m.page.Store(&e.url)
			if m.o.PageOpened != nil {
				m.o.PageOpened(e.url)
			}
		}
	}
	// The controllers' context ends after /readyz has turned, and so is not derived from ctx.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	flush := m.record(running)
	defer flush()
	var watching sync.WaitGroup
	if m.o.Client != nil {
		watching.Go(func() { m.watchContact(running) })
	}
	watching.Go(func() { m.watchProgress(running) })
	if m.o.History != nil {
		watching.Go(func() { _ = m.contain("samples", func() error { m.sample(running); return nil }) })
	}
	defer m.await("contact with the server", watching.Wait) // stop comes before
	parts := make(chan ended, len(m.o.Controllers)+2)
	waiting := map[string]bool{}
	var controllers sync.WaitGroup
	for _, c := range m.o.Controllers {
		name := "controller " + c.Name()
		waiting[name] = true
		controllers.Go(func() { parts <- ended{name, m.contain(name, func() error { return c.Run(running) })} })
	}
	if m.o.Set != nil {
		waiting[set] = true
		controllers.Go(func() { parts <- ended{set, m.contain(set, func() error { return m.o.Set.Run(running) })} })
	}
	if m.o.Elector != nil {
		waiting[election] = true
		go func() {
			parts <- ended{election, m.contain(election, func() error {
				return m.elect(running, func() { controllers.Wait(); flush() })
			})}
		}()
	}
	var errs []error
	select {
	case <-ctx.Done():
		m.o.Log.Info("stopping", "drainTimeout", drainTimeout)
	case err := <-failed:
		errs = append(errs, err)
	case p := <-parts:
		delete(waiting, p.name)
		if p.err == nil {
			p.err = fmt.Errorf("%s: stopped without being asked to", p.name)
		}
		errs = append(errs, p.err)
	}
	m.stopping.Store(true)
	stop()
	errs = append(errs, m.drain(parts, waiting)...)
	return errors.Join(errs...)
}

// contain runs a part. A panic that the part itself has not contained becomes an error: the other parts then stop in
// good order, and the lease is released.
func (m *Manager) contain(part string, run func() error) error {
	err := process.Contain(part, run)
	if p := new(process.Panic); errors.As(err, &p) {
		m.crashes.Add(1)
		m.o.Log.Error(err, "a part of the process panicked", "stack", string(p.Stack))
	}
	return err
}

// record runs the recorders of Events until flush is called. The recorders then send the Events that are left, for at
// most three seconds, and flush returns at the end. Calling flush again is allowed.
func (m *Manager) record(ctx context.Context) (flush func()) {
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, r := range m.o.Recorders {
		running.Go(func() {
			if err := m.contain("events", func() error { return r.Run(recording) }); err != nil {
				m.o.Log.Error(err, "recording Events failed")
			}
		})
	}
	return func() {
		stop()
		m.await("events", running.Wait)
	}
}

// lastTimeout is how long a part may take to end that has no drain timeout: the last Events have three seconds.
const lastTimeout = 5 * time.Second

// await calls wait, which returns when a stopped part has ended. A part that does not end in time is named and left to
// the end of the process.
func (m *Manager) await(part string, wait func()) {
	if !EndsWithin(lastTimeout, wait) {
		m.o.Log.Info("a part of the process does not stop, and is left",
			kube.Warn("part", part, "after", lastTimeout)...)
	}
}

// EndsWithin says whether wait returns within a time. Otherwise its goroutine goes on.
func EndsWithin(d time.Duration, wait func()) bool {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wait()
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

// The names of the elector and of Options.Set among the parts of the manager.
const (
	election = "leader election"
	set      = "controllers that come and go"
)

// controllers are all that run now.
func (m *Manager) controllers() []*controller.Controller {
	if m.o.Set == nil {
		return m.o.Controllers
	}
	return append(slices.Clip(m.o.Controllers), m.o.Set.All()...)
}

// drain waits for the parts that are still running.
func (m *Manager) drain(parts <-chan ended, waiting map[string]bool) []error {
	var errs []error
	timeout := time.NewTimer(drainTimeout)
	defer timeout.Stop()
	for len(waiting) > 0 {
		select {
		case p := <-parts:
			delete(waiting, p.name)
			if p.err != nil {
				errs = append(errs, p.err)
			}
		case <-timeout.C:
			for _, name := range slices.Sorted(maps.Keys(waiting)) {
				errs = append(errs, fmt.Errorf("%s: not stopped within %v", name, drainTimeout))
			}
			return errs
		}
	}
	return errs
}

// check refuses options that cannot run.
func (m *Manager) check() error {
	if len(m.o.Controllers) == 0 && m.o.Set == nil {
		return errors.New("there is no controller to run")
	}
	seen := map[string]bool{}
	for _, c := range m.o.Controllers {
		if name := c.Name(); seen[name] || reserved(name) || strings.Contains(name, "/") {
			return fmt.Errorf("controller %q: the name is taken by another check of /readyz", name)
		}
		seen[c.Name()] = true
	}
	return nil
}
