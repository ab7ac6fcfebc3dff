package supervise

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/runtime/history"
	"skiff/internal/runtime/metrics"
	"skiff/internal/runtime/page"
)

// The families of hooks.
var (
	hookCalls = &metrics.Family{Name: "skiff_hook_calls_total", Kind: metrics.CounterKind,
		Help: "Calls of hooks, by controller and hook."}
	hookErrors = &metrics.Family{Name: "skiff_hook_errors_total", Kind: metrics.CounterKind,
		Help: "Calls of hooks that failed; a request to be called again later is none."}
	hookTime = &metrics.Family{Name: "skiff_hook_call_duration_seconds", Kind: metrics.HistogramKind,
		Help: "How long calls of hooks took."}
	hookParked = &metrics.Family{Name: "skiff_hook_parked", Kind: metrics.GaugeKind,
		Help: "1 while a hook fails for all parents and gets one call at a time."}
)

// hookBounds reach from a hook on the same machine to the slowest hook allowed, in seconds.
var hookBounds = metrics.Exponential(0.001, 2, 16)

// counts are the results of the calls of a hook.
type counts struct {
	errors  atomic.Uint64
	last    atomic.Pointer[failure] // nil: none has failed
	failing atomic.Bool             // the last call failed
	took    *metrics.Histogram
}

// failure is a failed call.
type failure struct {
	kind string // of call.Brief: the text of an error may repeat the output of a hook
	said string // of call.Said: for users who may see the output
	at   time.Time
}

// describe returns the counts as a line for people.
func (c *counts) describe() string {
	text := fmt.Sprintf("%d calls, %d failed", c.took.Count(), c.errors.Load())
	half, okHalf := c.took.Within(0.5)
	most, okMost := c.took.Within(0.99)
	if okHalf && okMost {
		text += fmt.Sprintf("; half took at most %s, 99 %% at most %s", half, most)
	}
	return text
}

// each calls f for each hook of each controller that runs, in the order of their names.
func (s *Supervisor) each(f func(controller string, h *hook)) {
	wanted, _ := s.snapshot()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		for _, h := range wanted[name].currentHooks() {
			f(wanted[name].spec.Name, h)
		}
	}
}

// About describes the hooks, a line each.
func (s *Supervisor) About() (lines []string) {
	s.each(func(controller string, h *hook) {
		lines = append(lines, fmt.Sprintf("hook %s of %s: %s", h.name, controller, h.counts.describe()))
	})
	return lines
}

// Shown returns the hooks for the live page.
func (s *Supervisor) Shown() (out []page.Hook) {
	s.each(func(controller string, h *hook) {
		took := h.counts.took
		half, _ := took.Within(0.5)
		most, _ := took.Within(0.99)
		one := page.Hook{Controller: controller, Hook: string(h.name), Calls: took.Count(),
			Errors: h.counts.errors.Load(), P50: history.Millis(half), P99: history.Millis(most),
			Failing: h.counts.failing.Load(), Parked: len(h.problems()) > 0, FailsIn: h.failsIn()}
		if last := h.counts.last.Load(); last != nil {
			one.LastError, one.Quoted, one.LastErrorAt = last.kind, last.said, last.at
		}
		out = append(out, one)
	})
	return out
}

// Scrape adds the counts of all hooks to a page of metrics.
func (s *Supervisor) Scrape(p *metrics.Page) {
	s.each(func(controller string, h *hook) {
		labels := []string{"controller", controller, "hook", string(h.name)}
		p.Add(hookCalls, float64(h.counts.took.Count()), labels...)
		p.Add(hookErrors, float64(h.counts.errors.Load()), labels...)
		p.Histogram(hookTime, h.counts.took, labels...)
		p.Flag(hookParked, len(h.problems()) > 0, labels...)
	})
}

// count takes in a call. A request to be called again later is no failure.
func (c *counts) count(began time.Time, err error) {
	c.took.Observe(time.Since(began))
	failed := err != nil && !errors.As(err, new(*call.Later))
	c.failing.Store(failed)
	if failed {
		c.errors.Add(1)
		c.last.Store(&failure{call.Brief(err), call.Said(err), time.Now()})
	}
}
