package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"skiff/internal/cache"
	"skiff/internal/kube"
	"skiff/internal/queue"
)

const (
	// tellEvery is the least time between two objects of a namespace that are told that they are not worked on: five a
	// second is nothing to a server, and the objects of a namespace that is shed are many.
	tellEvery = 200 * time.Millisecond
	// maxTold bounds the objects that wait to be told, in all namespaces. More are told when they are looked at again.
	maxTold = 20_000

	shedCause     = "it is not worked on"
	returnedCause = "held in memory again"
)

// shedFunc tells in the status of an object that it is not worked on, because it, or an object that it depends on,
// takes too much memory.
type shedFunc func(ctx context.Context, key kube.Key, reason, message string) error

// Shed makes the controller call f for an object of a source made by For when a run finds that the object, or another
// one that it reads, is not held in memory: f says so in the status. The Func runs again when it is.
func (s Source) Shed(f func(ctx context.Context, key kube.Key, reason, message string) error) Source {
	s.shed = f
	return s
}

// IsShed says that a run has found that an object is not held in memory. Nothing follows from what else it has found.
func IsShed(err error) bool { return cache.AsShed(err) != nil }

// paces spaces what the objects of a namespace are told.
type paces struct {
	mu   sync.Mutex             // guards all below
	at   map[kube.Key]time.Time // of those that wait: when it is their turn
	next map[string]time.Time   // by namespace
}

// claim returns how long to wait before an object can be told; 0: it is to be told now.
func (p *paces) claim(k kube.Key, now time.Time) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, waits := p.at[k]; waits {
		if at.After(now) {
			return at.Sub(now), true
		}
		delete(p.at, k)
		return 0, true
	}
	if len(p.at) >= maxTold {
		return 0, false
	}
	if len(p.at) == 0 { // all that was is over
		p.at, p.next = map[kube.Key]time.Time{}, map[string]time.Time{k.Namespace: p.next[k.Namespace]}
	}
	at := p.next[k.Namespace]
	if !at.After(now) {
		p.next[k.Namespace] = now.Add(tellEvery)
		return 0, true
	}
	p.at[k], p.next[k.Namespace] = at, at.Add(tellEvery)
	return at.Sub(now), true
}

func (p *paces) forget(k kube.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.at, k)
}

// settleShed is settle for a run that has found that an object is not held. Nothing was done, nothing is lost, and
// nothing is to be tried again before it is: that is an event.
func (c *Controller) settleShed(ctx context.Context, item queue.Item, shed *cache.ShedError) string {
	c.forget(item.Key)
	wait, ok := time.Duration(0), c.shed != nil
	if ok {
		wait, ok = c.paces.claim(item.Key, time.Now())
	}
	if wait > 0 {
		c.queue.AddAfter(item.Key, wait, shedCause)
		return c.again("not worked on ("+shed.Reason+"); its status says so in ", wait)
	}
	if ok {
		counting, writes := kube.CountWrites(ctx)
		_, err := c.call(counting, c.logOf(item), item, func(ctx context.Context, key kube.Key) (Outcome, error) {
			return Done, c.shed(ctx, key, shed.Reason, shed.Message)
		})
		if shed.Reason == cache.TooLarge && writes.Load() > 0 { // for OverBudget, the namespace has a line
			c.logOf(item).Info("not worked on", kube.Warn("reason", shed.Reason, "message", shed.Message)...)
		}
		if err != nil && ctx.Err() != nil {
			c.queue.Add(item.Key, cutCause)
			return stopped
		}
		if err != nil {
			c.stats.errors.Add(1)
			return c.again("not worked on ("+shed.Reason+"), and its status cannot say so: "+kube.Explain(err)+
				"; again in ", c.retry(item, next(err, c.streaks.get(item.Key), time.Now()), err))
		}
	}
	c.queue.AddAfter(item.Key, SlowDelay, recheckCause) // what it depends on may be in another namespace
	return c.again("not worked on ("+shed.Reason+"); looks again in ", SlowDelay)
}

// queueReturned queues the objects of a namespace of which a mirror holds what it did not.
func (c *Controller) queueReturned(namespace string) {
	if c.keys == nil {
		return
	}
	for _, k := range c.keys(namespace) {
		c.paces.forget(k)
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

// others stands for the namespaces that are not told apart.
const others = "others"

// Sheds returns what the mirrors of some controllers do not hold, a mirror that several share once: of each, the
// namespaces that would take most, and all others as one.
func Sheds(cs ...*Controller) (out []Shed) {
	seen := map[mirror]bool{}
	for _, c := range cs {
		for _, m := range c.mirrors {
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

// describeSheds says what is not held in memory, in lines for people.
func (c *Controller) describeSheds() (lines []string) {
	for _, m := range c.mirrors {
		for i, shed := range m.Sheds() {
			if i == maxShedLines {
				lines = append(lines, fmt.Sprintf("over budget: %s of %d more namespaces",
					m.Resource().GroupResource(), len(m.Sheds())-i))
				break
			}
			what := "over budget"
			if !shed.Whole {
				what = "too large"
			}
			lines = append(lines, fmt.Sprintf("%s: namespace %s: %d %s are left alone: %s", what, shed.Namespace,
				shed.Objects, m.Resource().Plural, kube.Printable(shed.Message, 2*maxReason)))
		}
	}
	return lines
}
