package apply

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
)

// Engine brings the children of owners to what is declared. It is safe for concurrent use by reconciles of different
// owners; the controller sees to it that there is never more than one per owner.
type Engine struct {
	client *kube.Client
	kinds  []Kind

	nodePorts exhaustion // of the whole cluster

	mu     sync.Mutex // guards owners; what an entry points at belongs to the one reconcile of that owner
	owners map[kube.Key]*owned
}

// owned is what is remembered of the children of one owner.
type owned struct {
	uid       string
	children  []*memory // of the last Apply: those that were declared, in their order, and then others
	templates []*templateMemory

	// settledFor is the Spec of the owner when the last Apply left all children as they are declared, and no others;
	// nil: it did not. As long as the spec and the children stay the same, there is nothing to do: see Settled.
	settledFor any

	// tried is the generation of the owner for which what it declares was applied to the children that the cache does
	// not hold; 0: none. See applyUnheld.
	tried int64
}

// New returns an Engine for children of these kinds.
func New(client *kube.Client, kinds ...Kind) *Engine {
	return &Engine{client: client, kinds: kinds, owners: map[kube.Key]*owned{}}
}

// Outcome says what was done about a child.
type Outcome int

// The outcomes. Live is nil where the child does not exist or is not managed by skiff.
const (
	Unchanged Outcome = iota // it is as declared, or the server said so
	Created
	Applied   // it differed and was changed; Result.Differences says where
	Adopted   // it had no controller and has become a child of the owner; Result.Differences says what was changed
	Outdated  // it differs, and stays so until it is deleted (OnDelete); Result.Differences says where
	Foreign   // an object of that name is not managed by skiff and was left alone; Result.Message says whose it is
	Contested // something else keeps changing or deleting what we declare; Result.Message says what
	Waiting   // nothing can be done now; Result.Message says what for
	Overtaken // it changed while we wrote: Result.Live is old, and an event is on its way
	Held      // it is missing or differs, and was left so because the owner is on hold; Result.Message says where
	PortTaken // another Service has the node port; Result.Message says which
	Exhausted // the cluster has none left of what the child needs; Result.Message says what
	Deleted   // it was not declared any more, or its owner is being deleted
	Released  // it was not declared any more and had lost our label: it is there, and no child of the owner
	Replaced  // it had ended and was deleted, to be created again; Result.Message says how it ended
	Rolled    // it was of an older revision and was deleted, to be created again; Result.Message says which
	Failed    // a request failed or was refused: Result.Err
)

func (o Outcome) String() string {
	return [...]string{"unchanged", "created", "applied", "adopted", "outdated", "foreign", "contested", "waiting",
		"overtaken", "held", "node port taken", "exhausted", "deleted", "released", "replaced", "rolled", "failed"}[o]
}

// Result is what is known about a child after Apply.
type Result struct {
	Resource    kube.Resource
	Key         kube.Key
	Outcome     Outcome
	Live        kube.Object   // the newest copy that is known, also where there is an error; nil: none. See As
	Differences []string      // the declared fields that differed
	Message     string        // for users: what is in the way; of Created: what had to be left out (Child.Create)
	Err         error         // Failed: kube.IsRefused says whether trying again can help
	Wait        time.Duration // if not 0: look again after this time, even if no event comes
	Unheld      bool          // the cache does not hold the child: of Live, if any, only the metadata is known

	// Of children that are replaced:
	Declared string // the revision that is declared; "": Live is to go
	Revision string // that Live was made from
	Deleting bool   // Live is being deleted, whether this copy shows it already or not
	Settling bool   // Live is ready, but not for as long as Child.MinReady
	Ending   string // says that the child keeps ending, how it ended, and how long the pause before the next one is
}

// Report is what is known about the children of one owner after Apply.
type Report struct {
	Children []Result // in the order in which they were declared
	Pruned   []Result // what was done about those that are not declared any more
	Err      error    // children that are replaced could not be read: of these nothing is known
}

// All returns all results.
func (r *Report) All() []Result {
	return append(r.Children[:len(r.Children):len(r.Children)], r.Pruned...)
}

// Earlier returns the shorter of two waits, where 0 means none.
func Earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Forget drops what is remembered of an owner's children. Operators call it when the owner is gone, which bounds the
// memory to the owners that exist.
func (e *Engine) Forget(owner kube.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.owners, owner)
}

// Leave is Forget for all owners of a namespace that is no longer watched.
func (e *Engine) Leave(namespace string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.owners, func(owner kube.Key, _ *owned) bool { return owner.Namespace == namespace })
}

// remembered returns what is remembered of an owner. One that was created anew begins with nothing.
func (e *Engine) remembered(owner Owner) *owned {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := e.owners[owner.Key()]
	if o == nil || o.uid != owner.UID {
		o = &owned{uid: owner.UID}
		e.owners[owner.Key()] = o
	}
	return o
}

// application is one call of the Engine for one owner.
type application struct {
	*Engine
	owner    Owner
	hold     bool
	teardown bool
	mem      *owned

	// lock guards what follows. It is a channel, because its holder waits for a server: in a test's bubble, time
	// passes for those who wait for a channel and not for those who wait for a mutex.
	lock    chan struct{}
	asked   bool
	gone    bool
	goneErr error
}

func (e *Engine) application(owner Owner, hold bool) *application {
	return &application{Engine: e, owner: owner, hold: hold, mem: e.remembered(owner), lock: make(chan struct{}, 1)}
}

// Apply takes the next steps towards the declared children of an owner, and then deletes those of its children that
// are not declared. With hold it changes nothing, and only says what differs.
func (e *Engine) Apply(ctx context.Context, owner Owner, want []Child, hold bool) Report {
	return e.application(owner, hold).run(ctx, want)
}

// Owned returns the children of an owner that there are, declared or not.
func (e *Engine) Owned(ctx context.Context, owner Owner) ([]Result, error) {
	owner.Spec = nil // nothing is declared: that says nothing about what settles it
	r := e.application(owner, true).run(ctx, nil)
	return r.Pruned, r.Err
}

// Teardown removes the children of an owner that is being deleted, of all kinds that are made from a template, the
// last one first, and the next one when it is gone. When it returns no children, all are gone. The garbage collector
// removes those of the other kinds.
func (e *Engine) Teardown(ctx context.Context, owner Owner) ([]Result, error) {
	a := e.application(owner, false)
	a.teardown = true
	r := a.run(ctx, nil)
	return r.Pruned, r.Err
}

func (a *application) run(ctx context.Context, want []Child) Report {
	r := Report{Children: make([]Result, len(want))}
	all := a.children(want, &r)
	a.observe(ctx, all)
	steps := a.plan(all, &r)
	valid := func(fine func(c *child) bool) bool {
		return r.Err == nil && !slices.ContainsFunc(r.Children, func(c Result) bool { return c.Err != nil }) &&
			!slices.ContainsFunc(all, func(c *child) bool { return !fine(c) })
	}
	if !a.hold {
		a.take(ctx, steps, func() bool {
			return valid(func(c *child) bool { return c.want == nil || c.asDeclared() })
		})
		a.findLost(ctx, all)
	}
	a.mem.tried = a.triedFor(all)
	a.mem.settledFor = nil
	if valid(func(c *child) bool {
		return c.want == nil && c.live == nil && c.isForgotten() || c.want != nil && c.asDeclared() && c.isSettled()
	}) {
		a.mem.settledFor = a.owner.Spec
	}
	a.mem.children = make([]*memory, 0, len(all))
	for _, c := range all {
		result := c.result()
		switch {
		case c.want != nil:
			r.Children[c.at] = result
		case c.live != nil || c.err != nil:
			r.Pruned = append(r.Pruned, result)
		}
		if c.want != nil || !c.isForgotten() {
			a.mem.children = append(a.mem.children, c.mem)
		}
	}
	return r
}

// Settled returns the report of an Apply that has nothing to do, without the children that it would be given: the
// owner has the same Spec as when an Apply left all of them as they are declared; and by what the cache shows they are
// as they were then, but for their status, and there are no others. False: it takes an Apply.
func (e *Engine) Settled(owner Owner) (Report, bool) {
	o := e.remembered(owner)
	if o.settledFor == nil || o.settledFor != owner.Spec && !reflect.DeepEqual(o.settledFor, owner.Spec) {
		return Report{}, false
	}
	r := Report{Children: make([]Result, len(o.children))}
	c := child{application: &application{Engine: e, owner: owner, mem: o}, want: &declared{}}
	named := 0 // in the owner's status
	for i, m := range o.children {
		c.kind, c.key, c.mem = m.kind, m.key, m
		*c.want = declared{hash: m.settled.hash, minReady: m.settled.minReady}
		live, ask, err := c.known()
		if err != nil || ask || live == nil {
			return Report{}, false
		}
		if c.see(live); !c.stays() || !c.isSame(live) {
			return Report{}, false
		}
		if m.kind.template != nil {
			if named++; c.health.ended || owner.Known[m.key] != m.settled.uid {
				return Report{}, false
			}
		}
		c.unchanged()
		r.Children[i] = c.result()
	}
	others := -len(o.children)
	for i := range e.kinds {
		n, err := e.kinds[i].mirror.countOwned(owner.Namespace, owner.UID)
		if others += n; err != nil || others > 0 {
			return Report{}, false
		}
	}
	if named != len(owner.Known) {
		return Report{}, false
	}
	o.settledFor = owner.Spec // the copy that the cache has, and not one that is kept here alone
	return r, true
}

// ReplacedKind returns the name of the first kind of children that are made from a template, "" if there is none.
func (e *Engine) ReplacedKind() string {
	for i := range e.kinds {
		if e.kinds[i].template != nil {
			return e.kinds[i].resource.Kind
		}
	}
	return ""
}

func (e *Engine) kindOf(apiVersion, kind string) *Kind {
	for i := range e.kinds {
		if k := &e.kinds[i]; k.resource.Kind == kind && k.apiVersion == apiVersion {
			return k
		}
	}
	return nil
}
