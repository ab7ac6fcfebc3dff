// Package manager is the composition root of a process that runs controllers: it opens the probes, starts
// every controller on its own, and stops all of it in order.
//
// It does not know what the controllers do or which there are, and it reads no flags (package cli). A
// controller whose CRD or grant is missing waits by itself and holds up no other; the manager only reports it, in
// /readyz?verbose.
//
// With an elector, the controllers mirror from the start and work only while this process leads.
//
// Run blocks its caller. It owns one goroutine for each HTTP server, one for each controller and one for the
// elector, and returns when all have ended. It is not on the way of an event.
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

	"skiff/internal/controller"
	"skiff/internal/leader"
)

// DefaultDrainTimeout is the time that Kubernetes gives a pod to end (terminationGracePeriodSeconds).
const DefaultDrainTimeout = 30 * time.Second

// Options configure a Manager.
type Options struct {
	Controllers  []*controller.Controller
	Elector      *leader.Elector // nil: the controllers work at once; else they must be Elected
	HealthAddr   string          // host:port of the probes; "" or "0" = none
	MetricsAddr  string          // host:port of /metrics; "" or "0" = none
	Requests     *Requests       // what the clients of the process have sent; nil: not counted
	DrainTimeout time.Duration   // from the end of the context to the return of Run; 0 = DefaultDrainTimeout
	Log          logr.Logger
}

// Manager runs controllers and answers their probes.
type Manager struct {
	o        Options
	stopping atomic.Bool   // the context of Run has ended, or a part has failed
	panics   atomic.Uint64 // of HTTP handlers
	listen   func(network, address string) (net.Listener, error)
}

// New returns a manager. It starts nothing.
func New(o Options) *Manager {
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = DefaultDrainTimeout
	}
	return &Manager{o: o, listen: net.Listen}
}

// ended tells that a part of the manager has returned.
type ended struct {
	name string
	err  error
}

// Run opens the probes, runs the controllers until ctx ends or one of them fails, and stops: /readyz turns to
// 503, controllers finish what is under way and stop, the probes close last (MGR-02). It is not called twice.
//
// The error is nil after a clean stop; otherwise it joins what failed, and names the controllers that did not
// stop within the drain timeout.
func (m *Manager) Run(ctx context.Context) error {
	if err := m.check(); err != nil {
		return err
	}
	failed := make(chan error, 2) // one for each server
	probes, err := m.open(served{what: "probes", flag: "--health-probe-bind-address", address: m.o.HealthAddr,
		handler: m.probes()}, failed)
	if err != nil {
		return err
	}
	defer probes.close()
	metrics, err := m.open(served{what: "metrics", flag: "--metrics-bind-address", address: m.o.MetricsAddr,
		handler: m.metrics()}, failed)
	if err != nil {
		return err
	}
	defer metrics.close()
	// The controllers' context ends after /readyz has turned, so it is not derived from ctx.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	parts := make(chan ended, len(m.o.Controllers)+1)
	waiting := map[string]bool{}
	for _, c := range m.o.Controllers {
		waiting["controller "+c.Name()] = true
		go func() { parts <- ended{"controller " + c.Name(), c.Run(running)} }()
	}
	if m.o.Elector != nil {
		waiting[election] = true
		go func() { parts <- ended{election, m.elect(running)} }()
	}

	var errs []error
	select {
	case <-ctx.Done():
		m.o.Log.Info("stopping", "drainTimeout", m.o.DrainTimeout)
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

// election is the name of the elector among the parts of the manager.
const election = "leader election"

// elect has the controllers work while this process leads, until ctx ends. That the lease could not be released is no
// failure of the process.
func (m *Manager) elect(ctx context.Context) error {
	var mu sync.Mutex // guards errs
	var errs []error
	err := m.o.Elector.Run(ctx, func(ctx, held context.Context) {
		var leading sync.WaitGroup
		for _, c := range m.o.Controllers {
			leading.Go(func() {
				if err := c.Lead(ctx, held); err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}
			})
		}
		leading.Wait()
	})
	if err != nil {
		m.o.Log.Info("the lease is left to expire", "problem", err.Error())
	}
	return errors.Join(errs...)
}

// drain waits for the parts that are still running.
func (m *Manager) drain(parts <-chan ended, waiting map[string]bool) []error {
	var errs []error
	timeout := time.NewTimer(m.o.DrainTimeout)
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
				errs = append(errs, fmt.Errorf("%s: not stopped within %v", name, m.o.DrainTimeout))
			}
			return errs
		}
	}
	return errs
}

// check refuses what cannot run.
func (m *Manager) check() error {
	if len(m.o.Controllers) == 0 {
		return errors.New("--controllers: there is none to run; name at least one")
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
