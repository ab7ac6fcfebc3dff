package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/queue"
)

const (
	// shedReportEvery is the least time between two objects of a namespace whose status is made to say that they are
	// not worked on: five a second is nothing to a server, and the objects of a namespace that is shed are many.
	shedReportEvery = 200 * time.Millisecond
	// largeReportEvery is the same for objects that are too large. A status of one of 900 KiB takes a server as long
	// as a hundred others, and is an event of 900 KiB ahead of those of other namespaces in the same watch.
	largeReportEvery = time.Second

	shedCause     = "it is not worked on"
	returnedCause = "held in memory again"
)

// shedFunc says in the status of an object that it is not worked on, because it, or an object that it depends on,
// takes too much memory.
type shedFunc func(ctx context.Context, key kube.Key, reason, message string) error

// Shed makes the controller call f for an object of a source made by For when a run finds that the object, or another
// one that it reads, is not held in memory: f says so in the status. The Func runs again when it is.
func (s Source) Shed(f func(ctx context.Context, key kube.Key, reason, message string) error) Source {
	s.shed = f
	return s
}

// IsShed says that a run has found that an object is not held in memory. Nothing follows from what else it has found.
func IsShed(err error) bool { return cache.Unheld(err) != nil }

// paces spaces the writes of the status of objects that are not worked on.
type paces struct {
	mu sync.Mutex       // guards all below
	of map[string]*pace // by namespace: those in which the next turn is to come
}

// pace is the turns of one namespace.
type pace struct {
	next time.Time              // the first turn that is free
	at   map[kube.Key]time.Time // of those that wait: when it is their turn
}

// paceOf returns the time between two objects whose status says that they are not worked on for a reason.
func paceOf(reason string) time.Duration {
	if reason == cache.TooLarge {
		return largeReportEvery
	}
	return shedReportEvery
}

// maxReports bounds the objects of a namespace that wait for that: so many are written until the others are looked at
// again.
func maxReports(every time.Duration) int { return int(SlowDelay / every) }

// claim returns how long to wait before the status of an object can be written; 0: now, and the next one after every.
func (p *paces) claim(k kube.Key, now time.Time, every time.Duration) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.of[k.Namespace]
	if one == nil || !one.next.After(now) { // all turns are over
		p.beginLocked(k.Namespace, now, now.Add(every))
		return 0, true
	}
	over := func(_ kube.Key, at time.Time) bool { return !at.After(now) }
	if at, waits := one.at[k]; waits {
		if !over(k, at) {
			return at.Sub(now), true
		}
		delete(one.at, k)
		return 0, true
	}
	if len(one.at) >= maxReports(every) {
		maps.DeleteFunc(one.at, over) // an object that is gone does not come at its turn
	}
	if len(one.at) >= maxReports(every) {
		return 0, false
	}
	wait = one.next.Sub(now)
	one.at[k], one.next = one.next, one.next.Add(every)
	return wait, true
}

// beginLocked gives the first turn of a namespace, with the second one at next, and forgets the namespaces whose turns
// are over.
func (p *paces) beginLocked(namespace string, now, next time.Time) {
	maps.DeleteFunc(p.of, func(_ string, one *pace) bool { return !one.next.After(now) })
	if p.of == nil {
		p.of = map[string]*pace{}
	}
	p.of[namespace] = &pace{next, map[kube.Key]time.Time{}}
}

func (p *paces) leave(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, namespace)
}

// requeueShed is requeue for a run that has found that an object is not held, and nothing else. Nothing was done,
// nothing is lost, and nothing is to be tried again before it is held: that is an event.
func (c *Controller) requeueShed(ctx context.Context, item queue.Item, shed *cache.NotServed) string {
	wait, ok := time.Duration(0), c.shed != nil
	if ok {
		wait, ok = c.paces.claim(item.Key, time.Now(), paceOf(shed.Reason))
	}
	if wait > 0 {
		c.queue.AddAfter(item.Key, wait, shedCause)
		return c.again("not worked on ("+shed.Reason+"); its status says so in ", wait)
	}
	if ok {
		err := c.reportShed(ctx, item, shed, shed.Note())
		if err != nil && ctx.Err() != nil {
			c.queue.Add(item.Key, cutCause)
			return stopped
		}
		if err != nil {
			c.stats.errors.Add(1)
			return c.again("not worked on ("+shed.Reason+"), and its status cannot say so: "+kube.Explain(err)+
				"; again in ", c.retry(item.Key, next(err, c.streaks.Get(item.Key), time.Now()), err))
		}
	}
	c.streaks.Forget(item.Key)
	c.queue.AddAfter(item.Key, SlowDelay, recheckCause) // what it depends on may be in another namespace
	return c.again("not worked on ("+shed.Reason+"); looks again in ", SlowDelay)
}

// reportShed says in the status of an object that it is not worked on.
func (c *Controller) reportShed(ctx context.Context, item queue.Item, shed *cache.NotServed, message string) error {
	c.Report(item.Key, &shed.Problem)
	counting, writes := kube.CountWrites(ctx, 0)
	_, err := c.call(counting, c.logOf(item), item, func(ctx context.Context, key kube.Key) (Outcome, error) {
		return Done, c.shed(ctx, key, shed.Reason, message)
	})
	if shed.Reason == cache.TooLarge && writes.Sent() > 0 { // for OverBudget, the namespace has a line
		c.logOf(item).Info("not worked on", kube.Warn("reason", shed.Reason, "message", message)...)
	}
	return err
}

// besideShed returns what a run has failed for, but for objects that are not held; nil: nothing else. Where there is
// something, the status says that, too, if the server has refused it, and the run is tried again for it.
func (c *Controller) besideShed(ctx context.Context, item queue.Item, err error) error {
	rest := notShed(err)
	if rest == nil || c.shed == nil {
		return rest
	}
	shed := cache.Unheld(err)
	message := shed.Note()
	if kube.IsRefused(rest) {
		message += "; " + kube.Explain(rest)
	}
	if wait, ok := c.paces.claim(item.Key, time.Now(), paceOf(shed.Reason)); ok && wait == 0 {
		return errors.Join(rest, c.reportShed(ctx, item, shed, message))
	}
	return rest // the status says it at a later try
}

// notShed returns the errors that are joined in err and are about more than memory; nil: there are none.
func notShed(err error) error {
	if cache.Unheld(err) == nil {
		return err
	}
	switch wrapped := err.(type) {
	case interface{ Unwrap() []error }:
		var rest []error
		for _, e := range wrapped.Unwrap() {
			rest = append(rest, notShed(e))
		}
		return errors.Join(rest...)
	case interface{ Unwrap() error }:
		return notShed(wrapped.Unwrap())
	}
	return nil
}

// queueReturned queues the objects of a namespace of which a mirror holds what it did not.
func (c *Controller) queueReturned(namespace string) {
	if c.keys == nil {
		return
	}
	c.paces.leave(namespace)
	for _, k := range c.keys(namespace) {
		c.queue.AddLow(k, returnedCause)
	}
}

// maxShedLines is how many namespaces of a mirror are named that are not worked on: those that take most.
const maxShedLines = 5

// Shed is what a mirror does not hold of a namespace.
type Shed struct {
	Resource kube.Resource
	Labels   string // the label selector, "" for all
	cache.ShedNamespace
}

// others stands for the namespaces that are not named.
const others = "others"

// Sheds returns what the mirrors of some controllers do not hold, a mirror that several share once: of each, the
// namespaces that would take most, and all others as one.
func Sheds(cs ...*Controller) (out []Shed) {
	seen := map[mirror]bool{}
	for _, c := range cs {
		for _, m := range c.everyMirror() {
			if seen[m] {
				continue
			}
			seen[m] = true
			rest := Shed{m.Resource(), m.Labels(), cache.ShedNamespace{Namespace: others}}
			for i, one := range m.Sheds() {
				if i < maxShedLines {
					out = append(out, Shed{m.Resource(), m.Labels(), one})
					continue
				}
				rest.Objects += one.Objects
				rest.Bytes += one.Bytes
			}
			if rest.Objects > 0 {
				out = append(out, rest)
			}
		}
	}
	return out
}

// notInMemory returns the namespaces and objects that are left alone for lack of memory. Objects that are too large
// are named only where the controller works for them: the status of the owner names a child.
func (c *Controller) notInMemory() (out []health.Problem) {
	for _, m := range c.everyMirror() {
		sheds := slices.DeleteFunc(m.Sheds(), func(s cache.ShedNamespace) bool { return !s.Whole && m != c.own })
		for i, shed := range sheds {
			p := health.Problem{Controller: c.name, Reason: cache.OverBudget}
			if i == maxShedLines {
				p.Public = fmt.Sprintf("over budget: %s of %d more namespaces", m.Resource().GroupResource(),
					len(sheds)-i)
				out = append(out, p)
				break
			}
			p.Namespaces = []string{shed.Namespace}
			what := "over budget"
			if !shed.Whole {
				p.Reason, what = cache.TooLarge, "too large"
			}
			p.Public = fmt.Sprintf("%s: namespace %s: %d of its %s not worked on: %s", what, shed.Namespace,
				shed.Objects, m.Resource().Plural, shed.Problem.Public)
			p.Next = shed.Problem.Next
			out = append(out, p)
		}
	}
	return out
}
