package reconcile

import (
	"fmt"
	"sync"
	"time"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/announce"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// manyDeletes is how many children may always be deleted. Few children that go are daily work.
const manyDeletes = 10

// The next look at a parent whose children are held is as far away as the change is back, within these bounds: while
// most parents have not run yet, what is held may turn out to be few of all, and later only the annotation changes it.
// For firstHold less than manyDeletes wait, too, because the other parents may want as much.
const (
	firstHold = 2 * time.Second
	maxHold   = 5 * time.Minute
)

// DeletesHeld is the reason of the Events about what a Brake holds.
const DeletesHeld = "DeletesHeld"

// Brake keeps a hook that has just changed from deleting most children of a controller. It watches the first sync of
// each parent after a change; a start counts as one, because the hook may have changed before it. Once these syncs
// together want more than half of all children deleted, and at least manyDeletes, they delete no more, until the
// controller has the annotation spec.AllowDeletes for this version of the hook. Syncs that follow are free: what they
// delete follows from a change of a parent. It is safe for concurrent use.
type Brake struct {
	Allowed string               // what the annotation says; "": it is missing
	Version func() string        // identifies the controller and its hook as they are now
	Tell    func(problem string) // is told once for each change that something is held

	mu      sync.Mutex // guards what follows
	change  int64      // of the hook, that all of it is about
	parents map[brakeKey]firstSync
	sum     firstSync // of all parents
	since   time.Time // of the change
	told    bool
}

// brakeKey is a parent. A DecoratorController has them of several resources.
type brakeKey struct {
	resource kube.Resource
	kube.Key
}

// firstSync is the first sync of a parent after a change, or all of them.
type firstSync struct {
	children, doomed int // that there were, and those of them to be deleted
	held             int // of doomed: how many are held
}

func (s *firstSync) add(o firstSync, times int) {
	s.children += times * o.children
	s.doomed += times * o.doomed
	s.held += times * o.held
}

// holds says for how long a sync of a parent must leave the doomed ones of its children, 0: it may delete them; and
// whether those of all parents are many.
func (b *Brake) holds(parent brakeKey, change int64, children, doomed int) (wait time.Duration, many bool) {
	b.mu.Lock()
	if b.parents == nil || b.change != change {
		b.change, b.since, b.told = change, time.Now(), false
		b.parents, b.sum = map[brakeKey]firstSync{}, firstSync{}
	}
	was, ran := b.parents[parent]
	if !ran || was.held > 0 {
		is := firstSync{children: children, doomed: doomed}
		b.sum.add(was, -1)
		b.sum.add(is, 1)
		many = b.sum.doomed >= manyDeletes
		age := time.Since(b.since)
		if doomed > 0 && (many || age < firstHold) && 2*b.sum.doomed > b.sum.children && b.Allowed != b.Version() {
			is.held = doomed
			b.sum.held += doomed
			wait = min(max(age, firstHold), maxHold)
		}
		b.parents[parent] = is
	}
	tell := wait > 0 && many && !b.told
	b.told = b.told || tell
	b.mu.Unlock()
	if tell {
		b.Tell(b.Problem())
	}
	return wait, many
}

func (b *Brake) forget(parent brakeKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sum.add(b.parents[parent], -1)
	delete(b.parents, parent)
}

// leave forgets the parents of a resource in a namespace.
func (b *Brake) leave(r kube.Resource, namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for parent, of := range b.parents {
		if parent.resource == r && parent.Namespace == namespace {
			b.sum.add(of, -1)
			delete(b.parents, parent)
		}
	}
}

// Problem says what is held, and how to have it deleted; "": nothing is.
func (b *Brake) Problem() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sum.held == 0 || b.sum.doomed < manyDeletes {
		return ""
	}
	return fmt.Sprintf("holds the deletion of %d children: since the controller started or its hook changed, %d of "+
		"the %d seen are to be deleted; if that is right, set the annotation %s of the controller to %q",
		b.sum.held, b.sum.doomed, b.sum.children, spec.AllowDeletes, b.Version())
}

// brake holds what a sync would delete where that is too much, and returns when to look again; 0: nothing is held.
func (r *reconciler) brake(about announce.Announcer, parent *Object, owner apply.Owner, seen []wire.Group,
	want []wire.Child) time.Duration {
	children, doomed := 0, 0
	declared := make(map[brakeKey]bool, len(want))
	for i := range want {
		declared[brakeKey{r.kinds[want[i].Kind].Resource, want[i].Key}] = true
	}
	for _, of := range seen {
		for i := range of.Items {
			key := of.Items[i].Key
			if children++; declared[brakeKey{of.Resource, key}] {
				continue
			}
			if r.engine.Known(owner, of.Resource, key) != nil { // it is not being deleted already
				doomed++
			}
		}
	}
	wait, many := r.Brake.holds(brakeKey{r.Parent.Resource, parent.Key()}, r.Changes(), children, doomed)
	if wait > 0 && many {
		about.Event(events.Warning, DeletesHeld, fmt.Sprintf("deleting %d of the %d children is held: "+
			"since %s %s started or its hook changed, most children of all parents are to be deleted; if that is "+
			"right, set its annotation %s to %q", doomed, children, r.Spec.Kind, r.Spec.Name, spec.AllowDeletes,
			r.Brake.Version()), nil)
	}
	return wait
}
