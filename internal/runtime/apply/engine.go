package apply

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/keyed"
	"skiff/internal/runtime/kube"
)

// Engine brings the children of owners to the declared state. It is safe for concurrent use by reconciles of different
// owners; the controller never runs two reconciles of an owner at once.
type Engine struct {
	client  *kube.Client
	options Options
	kinds   []Kind

	owners keyed.Map[*owned]
}

// Options say how the children of an engine are known among other objects.
type Options struct {
	// Manager is the field manager of all writes. It must never change: the server removes a field no longer declared
	// only from the manager that declared the field.
	Manager string
	// ManagedBy is the value of ManagedByLabel on every child; "": children are not known by a label, and cannot lose
	// one.
	ManagedBy string
	// OtherOwners lets children declare owners besides their controller.
	OtherOwners bool
	// Ours says which of the objects controlled by an owner are children of this engine; nil: all. Objects it rejects
	// are never deleted: another engine with the same owner manages them. An object may be known by its metadata
	// alone.
	Ours func(head *kube.MetaAnnotated) bool
	// Unheld, if not nil, has children outside the cache read from the server whenever their state is needed, after
	// Unheld has admitted their size; nil: their declared state is applied blindly, and their live state is not known.
	Unheld func(ctx context.Context, bytes int64) error
	// ByClaim leaves adoption to Adopt: an object of a declared name without a controller is foreign.
	ByClaim bool
	// InOrder writes children singly in declared order, instead of several at a time.
	InOrder bool
	// RemoveFirst removes undeclared children before all else, and also where a declared child is not in place.
	RemoveFirst bool
	// Predecessor is an annotation left by a program that wrote the children before, with the same field manager; "":
	// none. A child with the annotation is applied; the apply removes the annotation and all that the program had
	// declared in addition.
	Predecessor string
}

// Manager is the field manager of all writes by skiff's own operators.
const Manager = "skiff"

// Own are the Options of skiff's own operators.
func Own() Options { return Options{Manager: Manager, ManagedBy: ManagedBy} }

// Handover is the suffix of the field manager of fields which are no longer declared and must keep their value
// (Child.Keep).
const Handover = "-handover"

func (o Options) keeper() string { return o.Manager + Handover }

// owns says whether an object is a child of this engine and of the owner with the uid.
func (o Options) owns(uid string, live kube.Object) bool {
	return live.ObjectMeta().ControllerUID() == uid && (o.Ours == nil || o.Ours(kube.HeadOf(live)))
}

// labelled says whether an object has the label by which children are known.
func (o Options) labelled(object kube.Object) bool {
	v, _ := object.ObjectMeta().Labels.Get(ManagedByLabel)
	return o.ManagedBy == "" || v == o.ManagedBy
}

// owned is the memory of the children of one owner. Only the reconcile of the owner uses an entry, except for notable.
type owned struct {
	uid      string
	children []*memory // of the last Apply: declared children in order, then the rest

	// accepted is the revision of a template for which the server has accepted a dry run. No lock is needed: a roll
	// takes a single step at a time.
	accepted map[*Kind]string

	// syncedFor is the Spec of the owner when the last Apply left exactly the declared children, all in sync; nil
	// otherwise. As long as the spec and the children stay the same, there is nothing to do: see InSync. Teardown
	// keeps no Spec: the cache may not hold the owner.
	syncedFor any

	// tried is the generation of the owner whose declaration was applied to the children outside the cache; 0: none.
	// See applyUncached.
	tried int64

	notable atomic.Pointer[[]notable] // of the last Apply, for Children
}

// New returns an Engine for children of the kinds.
func New(client *kube.Client, o Options, kinds ...Kind) *Engine {
	return &Engine{client: client, options: o, kinds: kinds}
}

// Forget drops the memory of an owner's children.
func (e *Engine) Forget(owner kube.Key) { e.owners.Forget(owner) }

// Leave is Forget for all owners of a namespace.
func (e *Engine) Leave(namespace string) { e.owners.Leave(namespace) }

// remembered returns the memory of an owner. A recreated owner begins with none.
func (e *Engine) remembered(owner Owner) *owned {
	o := e.owners.Get(owner.Key())
	if o == nil || o.uid != owner.UID {
		o = &owned{uid: owner.UID}
		e.owners.Set(owner.Key(), o)
	}
	return o
}

// application is one call of the Engine for one owner.
type application struct {
	*Engine
	owner    Owner
	paused   bool
	teardown bool
	mem      *owned

	// lock guards asked, gone and goneErr. It is a channel, because the holder waits for a server: in a test's bubble,
	// time passes for goroutines waiting for a channel and not for goroutines waiting for a mutex.
	lock    chan struct{}
	asked   bool
	gone    bool
	goneErr error
}

func (e *Engine) application(owner Owner, paused bool) *application {
	return &application{Engine: e, owner: owner, paused: paused, mem: e.remembered(owner),
		lock: make(chan struct{}, 1)}
}

// Apply takes the next steps towards the declared children of an owner, and then deletes the owner's undeclared
// children. For a paused owner Apply changes nothing, and only reports the differences.
func (e *Engine) Apply(ctx context.Context, owner Owner, want []Child, paused bool) Report {
	r := e.application(owner, paused).run(ctx, want)
	Tell(ctx, owner, want, r)
	return r
}

// Owned returns the existing children of an owner, declared or not. Their memory stays.
func (e *Engine) Owned(ctx context.Context, owner Owner) (children []Result, err error) {
	a := e.application(owner, true)
	var r Report
	all := slices.DeleteFunc(a.children(nil, &r), (*child).knownForeign)
	a.observe(ctx, all)
	for _, c := range all {
		if c.live != nil || c.err != nil {
			children, r.Err = append(children, c.result()), errors.Join(r.Err, c.err)
		}
	}
	return children, r.Err
}

// Teardown removes the children of an owner that is being deleted, of all kinds made from a template, the last child
// first, and the next when the last is gone. No children in the answer: all are gone. The garbage collector removes
// the children of the other kinds.
func (e *Engine) Teardown(ctx context.Context, owner Owner) ([]Result, error) {
	a := e.application(owner, false)
	a.teardown = true
	r := a.run(ctx, nil)
	Tell(ctx, owner, nil, r)
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
	if !a.paused {
		a.take(ctx, steps, func() bool {
			return valid(func(c *child) bool { return c.want == nil || c.asDeclared() })
		})
		a.findLost(ctx, all)
	}
	a.mem.tried = a.triedFor(all)
	a.mem.syncedFor = nil
	if !a.teardown && valid(func(c *child) bool {
		return c.want == nil && c.live == nil && c.isForgotten() || c.want != nil && c.asDeclared() && c.isSynced()
	}) {
		a.mem.syncedFor = a.owner.Spec
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
	a.note(all)
	return r
}

// InSync returns the report of an Apply with nothing to do, without needing the declared children: the owner has the
// same Spec as when an Apply left all children in sync; and by the cache all are unchanged since, except for their
// status, and there are no more. False: an Apply is needed.
func (e *Engine) InSync(owner Owner) (Report, bool) {
	o := e.remembered(owner)
	if o.syncedFor == nil || o.syncedFor != owner.Spec && !reflect.DeepEqual(o.syncedFor, owner.Spec) {
		return Report{}, false
	}
	r := Report{Children: make([]Result, len(o.children))}
	c := child{application: &application{Engine: e, owner: owner, mem: o}, want: &declared{}}
	named := 0 // in the owner's status
	for i, m := range o.children {
		c.kind, c.key, c.mem = m.kind, m.key, m
		*c.want = declared{hash: m.synced.hash, minReady: m.synced.minReady}
		live, ask, err := c.known()
		if err != nil || ask || live == nil {
			return Report{}, false
		}
		if c.see(live); !c.stays() || !c.isSame(live) {
			return Report{}, false
		}
		if m.kind.template != nil {
			if named++; c.vitals.ended || owner.Known[m.key] != m.synced.uid {
				return Report{}, false
			}
		}
		c.markSynced()
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
	o.syncedFor = owner.Spec // the cache's copy, so that no second copy is kept
	return r, true
}

// ReplacedKind returns the name of the first kind of children made from a template, "" if there is none.
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

// triedFor returns the generation of the owner applied to the children outside the cache; 0: all are held, or a child
// could not be written.
func (a *application) triedFor(all []*child) int64 {
	generation := int64(0)
	for _, c := range all {
		switch {
		case a.paused:
			return a.mem.tried
		case c.want == nil || c.kind.template != nil:
		case c.uncached:
			generation = a.owner.Generation
		case cache.Unheld(c.err) != nil:
			return 0
		}
	}
	return generation
}
