package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// This file says whether the API server answers. Nothing else can: a connection forgotten by a firewall, a stopped
// server and an etcd that hangs send no error, and probes stay green.

const (
	// lostAfter is for how long a request waits until contact is lost: longer than a slow server takes, and no longer
	// than the leader works on without a renewal.
	lostAfter = 10 * time.Second
	// doubtAfter is for how long a request waits until the manager sends a ping. A list of a large cluster may take
	// longer, and so may an admission webhook: where the ping is answered meanwhile, contact is not lost.
	doubtAfter = 5 * time.Second
	// askAfter is after how much rest the manager asks whether the server is there; silence is noticed after 25 s.
	// The keepalive of TCP finds out later, and not at all where a proxy or a load balancer answers it.
	askAfter = 15 * time.Second
	// askTimeout and leastAsk bound how long a ping waits. Between both bounds a ping ends when contact is lost.
	askTimeout, leastAsk = 5 * time.Second, time.Second
	// catchUp is for how long after an outage a mirror may be behind without harm to readiness: the next try may be
	// half a minute away, and a large mirror is listed anew.
	catchUp = 2 * time.Minute
)

// contact is what is known of the answers of the server to all clients of the process.
func (m *Manager) contact() kube.Contact {
	if m.o.Client == nil {
		return kube.Contact{}
	}
	c := m.o.Client.Contact()
	if m.o.Elector == nil {
		return c
	}
	lease := m.o.Elector.Contact()
	if c.Since.IsZero() || !lease.Since.IsZero() && lease.Since.Before(c.Since) {
		c.Since, c.Waiting, c.Err, c.NoCredential = lease.Since, lease.Waiting, lease.Err, lease.NoCredential
	}
	if lease.Heard.After(c.Heard) {
		c.Heard = lease.Heard
	}
	return c
}

// waited is for how long requests have waited for an answer.
func waited(c kube.Contact) time.Duration {
	if c.Since.IsZero() {
		return 0
	}
	return time.Since(c.Since)
}

// excused says whether a mirror that is not up to date is no fault of this replica: contact is lost, or has just come
// back.
func (m *Manager) excused() bool {
	outage := time.Duration(m.outage.Load())
	return waited(m.contact()) >= lostAfter || outage > 0 && time.Since(m.started)-outage < catchUp
}

// watchContact logs when contact is lost, and when contact is back, until ctx ends, and sends a ping where no request
// is under way.
func (m *Manager) watchContact(ctx context.Context) {
	var lost time.Time // since when; zero: contact is not lost
	for ctx.Err() == nil {
		_ = m.contain("contact", func() error {
			m.ask(ctx)
			lost = m.logContact(lost)
			return nil // a panic is logged and counted
		})
		timer := time.NewTimer(m.untilAsk())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// logContact logs that contact is lost, or back, unless a mirror has logged the outage at the beginning: a mirror
// knows at once of a credential plugin that fails, and of the remedy. The result is since when contact is lost.
func (m *Manager) logContact(lost time.Time) time.Time {
	c := m.contact()
	if waited(c) >= lostAfter {
		m.outage.Store(time.Since(m.started).Nanoseconds())
	}
	switch {
	case waited(c) >= lostAfter && lost.IsZero() && m.o.Client.FirstToLog():
		m.warnLost(c)
		return c.Since
	case waited(c) < lostAfter && !lost.IsZero():
		m.o.Log.Info("the API server answers again", "server", m.o.Client.Server(), "outage",
			time.Since(lost).Round(time.Second))
		return time.Time{}
	}
	return lost
}

// ask sends a ping where a ping is due, and waits for the end.
func (m *Manager) ask(ctx context.Context) {
	c := m.o.Client.Contact()
	wait := waited(m.contact())
	if wait < doubtAfter && !(c.Since.IsZero() && m.rest() >= askAfter) {
		return
	}
	m.asked = time.Now()
	timeout := min(max(lostAfter-wait, leastAsk), askTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	m.o.Client.Ping(ctx, m.pinged())
}

// namespaces are asked for while nothing is watched: a controller may have to wait for the namespace of its work.
var namespaces = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}

// pinged is the resource of a ping: a watched resource may also be listed.
func (m *Manager) pinged() kube.Query {
	watches := controller.WatchStates(m.controllers()...)
	if len(watches) == 0 {
		return kube.Query{Resource: namespaces}
	}
	i := slices.IndexFunc(watches, func(w controller.WatchState) bool { return w.Synced && !w.Parked })
	w := watches[max(i, 0)]
	return kube.Query{Resource: w.Resource, Namespace: w.Namespace}
}

// untilAsk is when watchContact has to look again. A request that begins meanwhile is seen before becoming doubtful.
func (m *Manager) untilAsk() time.Duration {
	switch wait := waited(m.contact()); {
	case wait >= lostAfter:
		return askTimeout
	case wait >= doubtAfter:
		return leastAsk
	case wait > 0:
		return doubtAfter - wait
	}
	return min(doubtAfter, max(askAfter-m.rest(), leastAsk))
}

// rest is for how long the server has neither served a request nor had a ping: the server may refuse all requests
// (401).
func (m *Manager) rest() time.Duration {
	return time.Since(later(m.o.Client.Contact().Served, later(m.asked, m.started)))
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// maxContactText bounds the part of an error in a line.
const maxContactText = 300

// missing names the thing that is absent while contact is lost.
func missing(c kube.Contact) string {
	if c.NoCredential {
		return "no credential for"
	}
	return "no answer from"
}

// warnLost logs for how long there has been no answer, and which request waits.
func (m *Manager) warnLost(c kube.Contact) {
	values := []any{"server", m.o.Client.Server(), "waited", waited(c).Round(time.Second), "waiting", c.Waiting}
	if c.Err != nil {
		values = append(values, "problem", kube.Printable(c.Err.Error(), maxContactText))
	}
	m.o.Log.Info(missing(c)+" the API server; nothing can be changed meanwhile", kube.Warn(values...)...)
}

// lost is the Problem that contact is lost.
func (m *Manager) lost() []health.Problem {
	c := m.contact()
	if waited(c) < lostAfter {
		return nil
	}
	p := health.Problem{Reason: "NoAnswer", Public: missing(c) + " " + m.o.Client.Server(), Since: c.Since,
		Next: "check the API server and the way to it; nothing can be changed meanwhile; waiting: " + c.Waiting +
			"; /readyz stays 200, because a restart would not help"}
	if c.NoCredential {
		p.Reason = "NoCredential"
	}
	if c.Err != nil {
		p.Quoted = c.Err.Error()
	}
	return []health.Problem{p}
}

// contactNote says when the server has answered last; "" while contact is lost.
func (m *Manager) contactNote() string {
	c := m.contact()
	switch {
	case m.o.Client == nil, waited(c) >= lostAfter:
		return ""
	case c.Heard.IsZero():
		return m.o.Client.Server() + " has not answered yet"
	}
	return fmt.Sprintf("%s answered %s ago", m.o.Client.Server(), time.Since(c.Heard).Round(time.Second))
}
