package reconcile

import (
	"fmt"
	"sync"
	"time"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/kube"
)

const (
	// manyDeletes is the least number of losses that are many. Few children that go are daily work.
	manyDeletes = 10
	// knownGood is how long a state must last before later answers are compared with the state: a roll, or an outage
	// of a service behind the hook, is over by then.
	knownGood = 10 * time.Minute
	// settleEvery bounds how often the records of all parents are read.
	settleEvery = time.Second
)

// The next look at a parent with held children is as far away as the first loss is back, within firstHold and maxHold:
// while most parents have not run yet, the held children may turn out to be few of all; later only the annotation
// frees them. For firstHold less than manyDeletes wait, too, because other parents may want as much.
const (
	firstHold = 2 * time.Second
	maxHold   = 5 * time.Minute
)

// DeletesHeld is the reason of the Events about held deletions.
const DeletesHeld = "DeletesHeld"

// Brake keeps a faulty hook from deleting most children of a controller, whether or not skiff can see a change of the
// hook. Brake compares how many children each parent had in a state that lasted for knownGood with how many the hook
// still declares. Once the answers for all parents together leave out more than half, and at least manyDeletes, no
// more children are deleted until the controller has the annotation spec.AllowDeletes for the version of the hook.
//
// Deletions after a change of the parent itself are free, except in the first answer after a change of the hook or a
// start: there every deletion counts, also of a child with a replacement, and only parents asked since are compared.
// Brake is safe for concurrent use.
type Brake struct {
	Allowed string               // the annotation's value; "": missing
	Version func() string        // identifies the controller and its hook as they are now
	Tell    func(problem string) // is called once each time deletions begin to be held

	mu      sync.Mutex // guards the rest
	parents map[brakeKey]record
	change  int64 // of the hook: sum is of the parents asked since
	sum     tally
	since   time.Time // of the first of the losses in sum, or of change
	burst   time.Time // of the first loss after firstHold without any, or of change
	grew    time.Time // when the last loss came
	settled time.Time // when settleLocked last looked
	told    bool
}

// brakeKey is a parent. A DecoratorController has parents of several resources.
type brakeKey struct {
	resource kube.Resource
	kube.Key
}

// tally counts children, of a parent or of all parents.
type tally struct {
	good int // in the state that lasted
	lost int // of good: left out since
	held int // of lost: still there
}

func (t *tally) add(o tally, times int) {
	t.good += times * o.good
	t.lost += times * o.lost
	t.held += times * o.held
}

// record is the state of a parent.
type record struct {
	tally
	replaced int       // children deleted by the first answer after a change
	all      bool      // all children to be deleted count, also with a replacement
	at       time.Time // when lost last grew
	changed  time.Time // when the parent last changed
	change   int64     // of the hook, at the last answer
	version  string    // of the parent, at the last answer
}

// answered is an answer of the hook, as the Brake sees it.
type answered struct {
	parent   brakeKey
	version  string // of the parent; differs after a change of the parent
	change   int64  // of the hook
	children int    // existing
	doomed   int    // of children: not in the answer
	declared int    // children in the answer
}

// holds says for how long an answer must delete none of the doomed children, 0: deletions are free; and whether the
// losses of all parents are many.
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
		if now.Sub(b.grew) > firstHold && now.Sub(b.burst) > firstHold { // earlier losses say nothing of now
			b.burst = now
		}
		b.grew = now
	}
	b.sum.add(is.tally, 1)
	many = b.sum.lost >= manyDeletes && 2*b.sum.lost > b.sum.good
	age := now.Sub(b.since)
	few := b.sum.good < manyDeletes && !is.all // fewer children in all, and not the first answer
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

// next is the record of a parent after an answer, before any child is held.
func (r record) next(a answered, ran bool, now time.Time) record {
	changed := r.version != a.version
	asked := ran && r.change == a.change
	held := r.held > 0
	r.version, r.change, r.held = a.version, a.change, 0
	r.all = !asked || r.all
	if asked && held && a.children > r.good+a.declared { // the names change with each answer, and are no renaming
		r.all = false
	}
	// Held children may exist beside their successors, as the children replaced by a roll do.
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

// settleLocked takes a state that has lasted for knownGood as good.
func (b *Brake) settleLocked(now time.Time) {
	if b.sum.lost == 0 || b.sum.held > 0 || now.Sub(b.settled) < settleEvery { // a held state is not known good
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

// Problem says which deletions are held, and how to allow them; "": none.
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
