package controller

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

const (
	// shedReportEvery is the least time between two objects of a namespace whose status is made to say that they are
	// not worked on: five a second is nothing to a server, and the objects of a namespace that is shed are many.
	shedReportEvery = 200 * time.Millisecond
	// largeReportEvery is the same for objects that are too large. A status of one of 900 KiB takes a server as long
	// as a hundred others, and is an event of 900 KiB ahead of those of other namespaces in the same watch.
	largeReportEvery = time.Second

	shedCause     = "it is not worked on"
	turnCause     = "its status is to say that it is not worked on" // a key has its turn: see paces
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
	mu   sync.Mutex           // guards next
	next map[string]time.Time // by namespace: the first free turn, where it is not over
}

// paceOf returns the time between two objects whose status says that they are not worked on for a reason.
func paceOf(reason string) time.Duration {
	if reason == cache.TooLarge {
		return largeReportEvery
	}
	return shedReportEvery
}

// claim returns how long the next turn of a namespace is away; false: so long that the objects are looked at again
// before.
func (p *paces) claim(namespace string, now time.Time, every time.Duration) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.next, func(_ string, at time.Time) bool { return !at.After(now) })
	if at, taken := p.next[namespace]; taken {
		wait = at.Sub(now)
	}
	if wait > SlowDelay {
		return 0, false
	}
	if p.next == nil {
		p.next = map[string]time.Time{}
	}
	p.next[namespace] = now.Add(wait + every)
	return wait, true
}

func (p *paces) leave(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.next, namespace)
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
