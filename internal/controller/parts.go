package controller

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/kube"
	"skiff/internal/queue"
)

// part is what a controller starts and stops to work on as a whole: one namespace, or everything.
type part struct {
	namespace string    // "": all namespaces, or the cluster-scoped objects beside parts that have one
	told      string    // what was logged about it last, "" if nothing is wrong; of watchParts alone
	closed    time.Time // since when it is not worked on; of watchParts alone

	stage stage
	held  map[kube.Key]queue.Item // keys that came while it was waiting
}

// stage is what a controller does with the keys of a part. watchParts alone changes it, but that a worker mutes.
type stage struct {
	doing doing
	since time.Time
	why   string // what the objects are told while they are not seen
}

type doing int

const (
	waiting doing = iota // keeps them until all mirrors serve the part
	working              // runs the Func
	telling              // has not seen the part for long: runs the unseenFunc; see unseen.go
	muted                // may not even tell: drops them
)

// parts are all parts of a controller. A controller without mirrors has none, and works at once.
type parts struct {
	all []*part          // sorted by namespace; does not change after New
	by  map[string]*part // the same by namespace

	mu sync.Mutex // guards stage and held of all
}

// of makes a part of each namespace that the mirrors have by itself.
func (p *parts) of(mirrors []mirror) {
	p.by = map[string]*part{}
	for _, m := range mirrors {
		for _, s := range m.State() {
			if p.by[s.Namespace] == nil {
				p.by[s.Namespace] = &part{namespace: s.Namespace, held: map[kube.Key]queue.Item{}}
				p.all = append(p.all, p.by[s.Namespace])
			}
		}
	}
	slices.SortFunc(p.all, func(a, b *part) int { return strings.Compare(a.namespace, b.namespace) })
}

// partOf returns the part that a key belongs to, nil for a key outside of what is watched.
func (p *parts) partOf(k kube.Key) *part {
	if one := p.by[k.Namespace]; one != nil || len(p.all) > 1 {
		return one
	}
	return p.by[""]
}

// admit says what to do with a key, and why if its object is not seen. It keeps the key while its part is waiting.
func (p *parts) admit(item queue.Item) (doing, string) {
	one := p.partOf(item.Key)
	if one == nil {
		return working, ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.stage.doing == waiting {
		if before, ok := one.held[item.Key]; ok {
			item.Causes = slices.Concat(before.Causes, item.Causes)
			item.Causes = item.Causes[:min(len(item.Causes), maxHeldCauses)]
		}
		one.held[item.Key] = item
	}
	return one.stage.doing, one.stage.why
}

// works reports whether a namespace is worked on.
func (p *parts) works(namespace string) bool {
	one := p.partOf(kube.Key{Namespace: namespace})
	return one != nil && p.stage(one).doing == working
}

func (p *parts) stage(one *part) stage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return one.stage
}

// maxHeldCauses bounds the causes of a key that is held: as many as the queue keeps.
const maxHeldCauses = 8

// turn changes what is done with the keys of a part. It returns those that were kept, unless it is waiting now.
func (p *parts) turn(one *part, to doing, why string) (held map[kube.Key]queue.Item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if one.stage.doing == working {
		one.closed = now
	}
	one.stage = stage{to, now, why}
	if to != waiting {
		held, one.held = one.held, map[kube.Key]queue.Item{}
	}
	return held
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
	for _, one := range c.parts.all {
		one.closed = time.Now()
	}
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		if c.turnParts() {
			work()
		}
		select {
		case <-news: // a mirror has heard of the server after a while, or no longer may
			c.requestsWork(c.parts.works)
		case <-tick.C: // not at once: one missing grant shows in one mirror after the other
			c.tellOfParts()
		case <-ctx.Done():
			return
		}
	}
}

// turnParts turns parts to working when all mirrors serve them, and away from it when one does not. It reports whether
// there is something to do in one.
func (c *Controller) turnParts() (work bool) {
	for _, one := range c.parts.all {
		serves := !slices.ContainsFunc(c.mirrors, func(m mirror) bool { return !m.Serves(one.namespace) })
		was := c.parts.stage(one)
		switch {
		case serves && was.doing != working:
			c.release(c.parts.turn(one, working, ""))
			if was.doing != waiting {
				c.queueAll(one, seenCause)
			}
		case !serves && was.doing == working:
			c.parts.turn(one, waiting, "")
		case !serves:
			c.turnUnseen(one, was)
		}
		work = work || c.parts.stage(one).doing != waiting
	}
	return work || len(c.parts.all) == 0
}

// tellOfParts logs what keeps a part from being worked on, and again when that changes.
func (c *Controller) tellOfParts() {
	for _, one := range c.parts.all {
		problem := ""
		working := c.parts.stage(one).doing == working
		if !working {
			problem = c.problemOf(one)
		}
		if problem == one.told || problem == "" && !working {
			continue
		}
		one.told = problem
		if problem == "" {
			c.log.Info("working again", "namespace", one.namespace)
		} else {
			c.log.Info("waiting", "namespace", one.namespace, "problem", problem)
		}
	}
}

// release queues keys that were held, in the order of the keys.
func (c *Controller) release(held map[kube.Key]queue.Item) {
	keys := make([]kube.Key, 0, len(held))
	for k := range held {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, kube.Key.Compare)
	for _, k := range keys {
		for _, cause := range held[k].Causes {
			if cause == initialList {
				c.queue.AddLow(k, cause)
			} else {
				c.queue.Add(k, cause)
			}
		}
	}
}
