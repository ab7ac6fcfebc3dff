package manager

import (
	"context"
	"net/http"
	"time"

	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
	"skiff/internal/runtime/page"
)

// livePage serves the live page.
func (m *Manager) livePage() http.Handler {
	version, _ := kube.Version()
	return page.New(page.Options{Version: version, Place: m.o.Place, Started: m.started, Controllers: m.controllers,
		Standby: m.standsBy,
		Leader:  m.leads,
		Process: m.troubles, Contact: func() time.Time { return m.contact().Heard }, History: m.o.History,
		Hooks: m.o.Hooks, Panicked: m.panicked, Hosts: m.o.PageHosts, Token: m.o.PageToken,
		Open: m.o.PageOpen}).Handler()
}

// standsBy says whether the controllers of this process wait for the lead.
func (m *Manager) standsBy() bool { return m.o.Elector != nil && !m.o.Elector.Leading() }

// sample adds to the history how the queues are, until ctx ends.
func (m *Manager) sample(ctx context.Context) {
	ticks := time.NewTicker(history.SampleEvery)
	defer ticks.Stop()
	var before sampled
	for {
		select {
		case <-ticks.C:
			before = m.sampleOnce(before)
		case <-ctx.Done():
			return
		}
	}
}

// sampled is what was counted up to a sample.
type sampled struct {
	runs, requests     *metrics.Histogram // nil: nothing yet
	throttled, refused uint64
}

func (m *Manager) sampleOnce(before sampled) sampled {
	s := history.Sample{At: time.Now()}
	now := sampled{}
	for _, c := range m.controllers() {
		stats := c.Stats()
		s.Due, s.Running, s.Failing = s.Due+stats.Queue.Due, s.Running+stats.Queue.Running, s.Failing+stats.Failing
		if due := c.OldestDue(); !due.IsZero() && !(c.Elected() && m.standsBy()) {
			s.OldestMS = max(s.OldestMS, history.Millis(s.At.Sub(due)))
		}
		if now.runs == nil {
			now.runs = stats.Took.Since(nil)
		} else {
			now.runs.Merge(stats.Took)
		}
	}
	now.requests, now.throttled, now.refused = m.o.Requests.sample()
	s.RequestP50, s.RequestP99 = percentiles(now.requests, before.requests)
	if now.runs != nil {
		s.RunP50, s.RunP99 = percentiles(now.runs, before.runs)
	}
	s.Throttled, s.Refused = now.throttled-before.throttled, now.refused-before.refused
	m.o.History.Sample(s)
	return now
}

// percentiles are those of what was observed since before, in milliseconds.
func percentiles(h, before *metrics.Histogram) (p50, p99 float64) {
	since := h.Since(before)
	half, _ := since.Within(0.5)
	most, _ := since.Within(0.99)
	return history.Millis(half), history.Millis(most)
}
