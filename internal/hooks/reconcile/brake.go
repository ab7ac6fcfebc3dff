package reconcile

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/announce"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

const (
	// manyDeletes is how many children may always be deleted. Few children that go are daily work.
	manyDeletes = 10
	// knownGood is how long a state must last to be what later answers are compared with: a roll, or an outage of what
	// the hook depends on, is over by then.
	knownGood = 10 * time.Minute
	// settleEvery bounds how often the records of all parents are read.
	settleEvery = time.Second
)

// The next look at a parent whose children are held is as far away as the first loss is back, within these bounds:
// while most parents have not run yet, what is held may turn out to be few of all, and later only the annotation
// changes it. For firstHold less than manyDeletes wait, too, because the other parents may want as much.
const (
	firstHold = 2 * time.Second
	maxHold   = 5 * time.Minute
)

// DeletesHeld is the reason of the Events about what a Brake holds.
const DeletesHeld = "DeletesHeld"

// Brake keeps a hook that has gone wrong from deleting most children of a controller, whether or not skiff can see
// that the hook has changed. It compares how many children each parent had in a state that lasted for knownGood with
// how many the hook still declares. Once the answers of all parents together leave out more than half, and at least
// manyDeletes, no more are deleted until the controller has the annotation spec.AllowDeletes for this version of the
// hook.
//
// What a change of the parent itself leads to is free, but for the first answer after a change of the hook or a start:
// there every child that would be deleted counts, also one that another replaces, and only parents that have been
// asked since are compared. It is safe for concurrent use.
type Brake struct {
	Allowed string               // what the annotation says; "": it is missing
	Version func() string        // identifies the controller and its hook as they are now
	Tell    func(problem string) // is told once for each time that something is held

	mu      sync.Mutex // guards what follows
	parents map[brakeKey]record
	change  int64 // of the hook: sum is of the parents that were asked since
	sum     tally
	since   time.Time // of the first of the losses in sum, or of change
	burst   time.Time // of the first loss that came no later than firstHold after the one before, or of change
	grew    time.Time // when the last loss came
	settled time.Time // when settleLocked last looked
	told    bool
}

// brakeKey is a parent. A DecoratorController has them of several resources.
type brakeKey struct {
	resource kube.Resource
	kube.Key
}

// tally is about the children of a parent, or of all of them.
type tally struct {
	good int // that there were in the state that lasted
	lost int // of good: left out since
	held int // of lost: still there
}

func (t *tally) add(o tally, times int) {
	t.good += times * o.good
	t.lost += times * o.lost
	t.held += times * o.held
}

// record is what is known of a parent.
type record struct {
	tally
	replaced int       // children that the first answer after a change was allowed to delete
	all      bool      // all children to be deleted count, not only those that nothing replaces
	at       time.Time // when lost last grew
	changed  time.Time // when the parent last changed
	change   int64     // of the hook, at the last answer
	version  string    // of the parent, at the last answer
}

// answered is an answer of the hook, as the Brake sees it.
type answered struct {
	parent   brakeKey
	version  string // of the parent; another one says that the parent has changed
	change   int64  // of the hook
	children int    // that there are
	doomed   int    // of children: not in the answer
	declared int    // children in the answer
}

// holds says for how long an answer must delete none of its doomed children, 0: it may; and whether those of all
// parents are many.
func (b *Brake) holds(a answered) (wait time.Duration, many bool) {
	now := time.Now()
	b.mu.Lock()
	if b.parents == nil {
		b.parents = map[brakeKey]record{}
	}
	if b.change != a.change {
		b.change, b.since, b.burst, b.sum, b.told = a.change, now, now, tally{}, false
	}
	b.settleLocked(now)
	was, ran := b.parents[a.parent]
	if ran && was.change == b.change {
		b.sum.add(was.tally, -1)
	}
	is := was.next(a, ran, now)
	if is.lost > was.lost {
		if is.at = now; b.sum.lost+was.lost == 0 {
			b.since = now
		}
		if now.Sub(b.grew) > firstHold && now.Sub(b.burst) > firstHold { // few went before: that says nothing of now
			b.burst = now
		}
		b.grew = now
	}
	b.sum.add(is.tally, 1)
	many = b.sum.lost >= manyDeletes && 2*b.sum.lost > b.sum.good
	age := now.Sub(b.since)
	few := b.sum.good < manyDeletes && !is.all // there are not as many, or those that there are have run
	if a.doomed > 0 && is.lost > 0 && (many || now.Sub(b.burst) < firstHold && !few) && b.Allowed != b.Version() {
		is.held = a.doomed
		b.sum.held += a.doomed
		wait = min(max(age, firstHold), maxHold)
	} else if is.all {
		is.all, is.replaced = false, a.doomed
	}
	b.parents[a.parent] = is
	tell := wait > 0 && many && !b.told
	b.told = b.sum.held > 0 && (b.told || tell)
	b.mu.Unlock()
	if tell {
		b.Tell(b.Problem())
	}
	return wait, many
}

// next is the record of a parent after an answer, before any of its children is held.
func (r record) next(a answered, ran bool, now time.Time) record {
	changed := r.version != a.version
	asked := ran && r.change == a.change
	held := r.held > 0
	r.version, r.change, r.held = a.version, a.change, 0
	r.all = !asked || r.all
	if asked && held && a.children > r.good+a.declared { // the names change with each answer, and are no renaming
		r.all = false
	}
	// Those that are held have others beside them, and so have those that a roll replaces.
	if !held && (r.all || now.Sub(r.changed) >= knownGood) {
		r.good = max(r.good, a.children)
	}
	switch {
	case r.all:
		r.lost = max(a.doomed, r.good-a.declared, 0)
	case changed && !held:
		r.good, r.lost, r.replaced, r.changed = a.children-a.doomed, 0, 0, now
	default:
		r.lost = max(r.replaced, r.good-a.declared, 0)
	}
	return r
}

// settleLocked takes what has lasted for knownGood as the good state.
func (b *Brake) settleLocked(now time.Time) {
	if b.sum.lost == 0 || b.sum.held > 0 || now.Sub(b.settled) < settleEvery { // what is held is not known to be good
		return
	}
	b.settled = now
	for parent, r := range b.parents {
		if r.lost == 0 || now.Sub(r.at) < knownGood {
			continue
		}
		before := r.tally
		r.good, r.lost, r.replaced = max(0, r.good-r.lost), 0, 0
		b.parents[parent] = r
		if r.change == b.change {
			b.sum.add(before, -1)
			b.sum.add(r.tally, 1)
		}
	}
}

func (b *Brake) forget(parent brakeKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetLocked(parent)
}

func (b *Brake) forgetLocked(parent brakeKey) {
	if r, ok := b.parents[parent]; ok && r.change == b.change {
		b.sum.add(r.tally, -1)
	}
	delete(b.parents, parent)
}

// leave forgets the parents of a resource in a namespace.
func (b *Brake) leave(r kube.Resource, namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for parent := range b.parents {
		if parent.resource == r && parent.Namespace == namespace {
			b.forgetLocked(parent)
		}
	}
}

// Problem says what is held, and how to have it deleted; "": nothing is.
func (b *Brake) Problem() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sum.held == 0 || b.sum.lost < manyDeletes {
		return ""
	}
	return fmt.Sprintf("holds the deletion of %d children: the hook leaves out %d of %d without a change of their "+
		"parents; if that is right, set the annotation %s of the controller to %q", b.sum.held, b.sum.lost, b.sum.good,
		spec.AllowDeletes, b.Version())
}

// brake holds what a sync would delete where that is too much, and returns when to look again; 0: nothing is held.
func (r *reconciler) brake(about announce.Announcer, parent *Object, owner apply.Owner, seen []wire.Group,
	want []wire.Child) time.Duration {
	a := answered{parent: brakeKey{r.Parent.Resource, parent.Key()}, change: r.Changes(), declared: len(want),
		version: strconv.FormatInt(parent.Generation, 10)}
	if parent.Generation == 0 { // the kind has none: each write is a change
		a.version = parent.ResourceVersion
	}
	declared := make(map[brakeKey]bool, len(want))
	for i := range want {
		declared[brakeKey{r.kinds[want[i].Kind].Resource, want[i].Key}] = true
	}
	for _, of := range seen {
		for i := range of.Items {
			key := of.Items[i].Key
			if !declared[brakeKey{of.Resource, key}] {
				if r.engine.Known(owner, of.Resource, key) == nil { // it is being deleted already
					continue
				}
				a.doomed++
			}
			a.children++
		}
	}
	wait, many := r.Brake.holds(a)
	if wait > 0 && many {
		about.Event(events.Warning, DeletesHeld, fmt.Sprintf("deleting %d of the %d children is held: the hook of %s "+
			"%s leaves out most children of all parents; if that is right, set its annotation %s to %q", a.doomed,
			a.children, r.Spec.Kind, r.Spec.Name, spec.AllowDeletes, r.Brake.Version()), nil)
	}
	return wait
}
