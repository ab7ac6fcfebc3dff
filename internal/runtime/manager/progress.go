package manager

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
)

// This file says whether the workers of each controller get on. Each run has a deadline, and so has each request and
// each call of a hook in a run: workers that begin and end nothing although keys are due wait for something without a
// deadline, and will not come back. A restart helps then, and another replica works meanwhile.

const (
	// lookEvery is how often progress is looked at.
	lookEvery = 5 * time.Second
	// stuckStep is the next step where workers are stuck.
	stuckStep = "the process gives up its lease and fails /livez: restart it, and report the goroutines at " +
		"/debug/pprof/goroutine"
)

// progress is how the workers of the controllers get on.
type progress struct {
	mu sync.Mutex // guards of
	of map[*controller.Controller]*idleness
}

// idleness is for how long workers have done nothing with keys due.
type idleness struct {
	name  string
	turns uint64        // of controller.Progress, when it was looked at last
	due   int           // then
	idle  time.Duration // as looked at: a process that was stopped for a while has not been idle
	limit time.Duration
}

func (i *idleness) stuck() bool { return i.idle >= i.limit }

func (i *idleness) problem() health.Problem {
	return health.Problem{Controller: i.name, Reason: "WorkersStuck", Since: time.Now().Add(-i.idle), Next: stuckStep,
		Public: "controller " + i.name + ": " + health.Count(i.due, "key is", "keys are") +
			" due, and its workers have made no progress"}
}

// watchProgress looks at the progress of all controllers until ctx ends, and gives up the lease when workers are
// stuck.
func (m *Manager) watchProgress(ctx context.Context) {
	looks := time.NewTicker(lookEvery)
	defer looks.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
		}
		now := time.Now()
		passed := min(now.Sub(last), 2*lookEvery)
		last = now
		_ = m.contain("progress", func() error { m.look(passed); return nil }) // a panic is logged and counted
	}
}

// look notes which workers have made progress since the last look.
func (m *Manager) look(passed time.Duration) {
	all := m.controllers()
	excused := m.excused() // while the server does not answer, each try ends late, and a restart would not help
	m.progress.mu.Lock()
	defer m.progress.mu.Unlock()
	before := m.progress.of
	m.progress.of = make(map[*controller.Controller]*idleness, len(all))
	for _, c := range all {
		p, was := c.Progress(), before[c]
		now := &idleness{name: c.Name(), turns: p.Turns, due: p.Due, limit: p.Limit}
		m.progress.of[c] = now
		waits := p.Due > 0 && was != nil && p.Turns == was.turns && !(c.Elected() && m.standsBy())
		switch stuck := was != nil && was.stuck(); {
		case stuck && waits:
			now.idle = was.idle + passed
		case stuck:
			m.o.Log.Info("the workers make progress again", "controller", c.Name())
		case waits && !excused:
			if now.idle = was.idle + passed; now.stuck() {
				m.giveUp(c, now)
			}
		}
	}
}

// giveUp has other replicas work in the place of this process.
func (m *Manager) giveUp(c *controller.Controller, stuck *idleness) {
	why := stuck.problem()
	m.o.Log.Error(why, "the workers are stuck; "+stuckStep, "running", c.Running())
	if m.o.Elector != nil && c.Elected() {
		m.o.Elector.GiveUp(why)
	}
}

// stuck are the controllers whose workers make no progress, by name.
func (m *Manager) stuck() (out []*idleness) {
	m.progress.mu.Lock()
	defer m.progress.mu.Unlock()
	for _, i := range m.progress.of {
		if i.stuck() {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b *idleness) int { return strings.Compare(a.name, b.name) })
	return out
}

// working fails when workers are stuck.
func (m *Manager) working() []health.Problem {
	all := m.stuckProblems()
	return all[:min(len(all), 1)]
}

// stuckProblems are the Problems of the workers that are stuck.
func (m *Manager) stuckProblems() (out []health.Problem) {
	for _, i := range m.stuck() {
		out = append(out, i.problem())
	}
	return out
}
