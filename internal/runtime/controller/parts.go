package controller

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/queue"
)

// part is what a controller starts and stops to work on as a whole: one namespace, or everything.
type part struct {
	namespace string    // "": all namespaces, or the cluster-scoped objects beside parts that have one
	logged    string    // what was logged about it last, "" if nothing is wrong; of watchParts alone
	closed    time.Time // since when it is not worked on; of watchParts alone

	stage stage
}

// stage is what a controller does with the keys of a part. watchParts alone changes it, but that a worker mutes.
type stage struct {
	doing doing
	since time.Time
	why   string // what the status of the objects says while they are not seen
}

type doing int

const (
	waiting   doing = iota // parks them until all mirrors serve the part
	working                // runs the Func
	reporting              // has not seen the part for long: runs the unseenFunc; see unseen.go
	muted                  // may not write the status either: drops them
	left                   // no longer selected: drops them, and what is known of them
)

// parts are all parts of a controller. A controller without mirrors has none, and works at once.
type parts struct {
	selected bool // namespaces come and go; does not change after New

	mu  sync.Mutex       // guards the rest, and stage of all
	all []*part          // sorted by namespace; the slice is replaced, never changed
	by  map[string]*part // the same by namespace
}

// follow makes a part of each namespace that the mirrors have alone, and drops those that they no longer have.
func (p *parts) follow(mirrors []mirror) (gone []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	by := map[string]*part{}
	var all []*part
	for _, m := range mirrors {
		namespaces := m.Namespaces()
		if len(namespaces) == 0 && !m.Selected() {
			namespaces = []string{""}
		}
		for _, ns := range namespaces {
			if by[ns] != nil {
				continue
			}
			if by[ns] = p.by[ns]; by[ns] == nil {
				by[ns] = &part{namespace: ns, closed: time.Now()}
			}
			all = append(all, by[ns])
		}
		if m.Selected() && !p.selected {
			p.selected = true // in New: it does not change after it
		}
	}
	for _, one := range p.all {
		if by[one.namespace] == nil {
			gone = append(gone, one.namespace)
		}
	}
	slices.SortFunc(all, func(a, b *part) int { return strings.Compare(a.namespace, b.namespace) })
	p.all, p.by = all, by
	return gone
}

func (p *parts) list() []*part {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}

// partLocked returns the part that a key belongs to, nil for a key outside of what is watched.
func (p *parts) partLocked(k kube.Key) *part {
	if one := p.by[k.Namespace]; one != nil || len(p.all) > 1 || p.selected {
		return one
	}
	return p.by[""]
}

// admit says what to do with a key, and why if its object is not seen. While the part of the key is waiting, admit
// parks the key: under mu, so that no Release comes between.
func (p *parts) admit(item queue.Item, q *queue.Queue) (doing, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.partLocked(item.Key)
	if one == nil && p.selected {
		return left, ""
	} else if one == nil {
		return working, ""
	}
	if one.stage.doing == waiting {
		q.Park(item, one.namespace)
	}
	return one.stage.doing, one.stage.why
}

// works reports whether a namespace is worked on.
func (p *parts) works(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.partLocked(kube.Key{Namespace: namespace})
	return one != nil && one.stage.doing == working
}

func (p *parts) stage(one *part) stage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return one.stage
}

// setStage changes what is done with the keys of a part. The caller releases the parked keys, unless to is waiting.
func (p *parts) setStage(one *part, to doing, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if one.stage.doing == working {
		one.closed = now
	}
	one.stage = stage{to, now, why}
}

// admit says what to do with a key, and why if its object is not seen.
func (c *Controller) admit(item queue.Item) (doing, string) {
	d, why := c.parts.admit(item, c.queue)
	if d == left { // or selected just now: a mirror may be quicker than watchParts
		c.followSelection()
		return c.parts.admit(item, c.queue)
	}
	return d, why
}

// followSelection has a part for each namespace that is selected now.
func (c *Controller) followSelection() {
	for _, namespace := range c.parts.follow(c.mirrors) {
		c.leave(namespace)
	}
}

// leave drops what is remembered of a namespace that is no longer selected.
func (c *Controller) leave(namespace string) {
	c.queue.Release(namespace) // admit drops the keys
	c.paces.leave(namespace)
	for _, m := range c.memories {
		m.Leave(namespace)
	}
}

// left reports whether a namespace is no longer selected.
func (p *parts) left(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.selected && p.by[namespace] == nil
}

// watchParts decides which parts are worked on, and logs why one is not, until ctx ends. It calls work when there is
// something to do in one.
func (c *Controller) watchParts(ctx context.Context, work func()) {
	news := make(chan struct{}, 1)
	for _, m := range c.mirrors {
		defer m.OnServes(func() {
			select {
			case news <- struct{}{}:
			default: // there is news already
			}
		})()
	}
	for _, one := range c.parts.list() {
		one.closed = time.Now()
	}
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		if c.parts.selected {
			c.followSelection()
		}
		if c.updateParts() {
			work()
		}
		select {
		case <-news: // a mirror has heard of the server after a while, or no longer may
			c.requestsWork(c.parts.works)
		case <-tick.C: // not at once: one missing grant shows in one mirror after the other
			c.logParts()
		case <-ctx.Done():
			return
		}
	}
}

// updateParts turns parts to working when all mirrors serve them, and away from it when one does not. It reports
// whether there is something to do in one.
func (c *Controller) updateParts() (work bool) {
	all := c.parts.list()
	for _, one := range all {
		serves := !slices.ContainsFunc(c.mirrors, func(m mirror) bool { return !m.Serves(one.namespace) })
		was := c.parts.stage(one)
		switch {
		case serves && was.doing != working:
			c.parts.setStage(one, working, "")
			c.queue.Release(one.namespace)
			if was.doing != waiting {
				c.queueAll(one, seenCause)
			}
		case !serves && was.doing == working:
			c.parts.setStage(one, waiting, "")
		case !serves:
			c.updateUnseen(one, was)
		}
		work = work || c.parts.stage(one).doing != waiting
	}
	return work || len(all) == 0
}

// logParts logs what keeps a part from being worked on, and again when that changes.
func (c *Controller) logParts() {
	for _, one := range c.parts.list() {
		problem := ""
		working := c.parts.stage(one).doing == working
		if !working {
			problem = health.Texts(c.problemsOf(one), time.Now())
		}
		if problem == one.logged || problem == "" && !working || !working && time.Since(one.closed) < reportEvery {
			continue // not heard of yet, or a server that has just started and has not loaded its rules
		}
		one.logged = problem
		if problem == "" {
			c.log.Info("working again", "namespace", one.namespace)
		} else {
			c.log.Info("waiting", kube.Warn("namespace", one.namespace, "problem", problem)...)
		}
	}
}
