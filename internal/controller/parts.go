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
	namespace string // "": all namespaces, or the cluster-scoped objects beside parts that have one
	told      string // what was logged about it last, "" if nothing is wrong; of watchParts alone

	open bool                    // changed by watchParts alone
	held map[kube.Key]queue.Item // keys that came while it was not open
}

// parts are all parts of a controller. A controller without mirrors has none, and works at once.
type parts struct {
	all []*part          // sorted by namespace; does not change after New
	by  map[string]*part // the same by namespace

	mu sync.Mutex // guards open and held of all
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

// hold keeps a key whose part is not open until it is, and reports whether it did.
func (p *parts) hold(item queue.Item) bool {
	one := p.partOf(item.Key)
	if one == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.open {
		return false
	}
	if before, ok := one.held[item.Key]; ok {
		item.Causes = slices.Concat(before.Causes, item.Causes)
		item.Causes = item.Causes[:min(len(item.Causes), maxHeldCauses)]
	}
	one.held[item.Key] = item
	return true
}

// works reports whether a namespace is worked on.
func (p *parts) works(namespace string) bool {
	one := p.partOf(kube.Key{Namespace: namespace})
	if one == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return one.open
}

// maxHeldCauses bounds the causes of a key that is held: as many as the queue keeps.
const maxHeldCauses = 8

// turn opens or closes a part. It returns the keys that were held, when it opens.
func (p *parts) turn(one *part, open bool) (held map[kube.Key]queue.Item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one.open = open
	if open {
		held, one.held = one.held, map[kube.Key]queue.Item{}
	}
	return held
}

// watchParts opens each part when all mirrors serve it, closes it when one does not any more, and logs why, until ctx
// ends. It calls work when a part is open.
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

// turnParts opens and closes parts, and reports whether one is open.
func (c *Controller) turnParts() (open bool) {
	for _, one := range c.parts.all {
		serves := !slices.ContainsFunc(c.mirrors, func(m mirror) bool { return !m.Serves(one.namespace) })
		if serves != one.open {
			c.release(c.parts.turn(one, serves))
		}
		open = open || serves
	}
	return open || len(c.parts.all) == 0
}

// tellOfParts logs what keeps a part from being worked on, and again when that changes.
func (c *Controller) tellOfParts() {
	for _, one := range c.parts.all {
		problem := ""
		if !one.open {
			problem = c.problemOf(one)
		}
		if problem == one.told {
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
