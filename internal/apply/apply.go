package apply

import (
	"context"
	"fmt"
	"sync"
	"time"

	"skiff/internal/cache"
	"skiff/internal/kube"
	"skiff/internal/patch"
)

// Manager is the field manager of everything skiff declares. It must never change: the server removes a field that is
// declared no longer only from the manager that declared it.
const Manager = "skiff"

// keeper is the field manager that holds a field which is declared no longer and must keep its value (Child.Keep).
const keeper = "skiff-handover"

// ManagedByLabel and ManagedBy are the label that every child carries. Children are watched with ManagedBySelector, so that
// the rest of the cluster never reaches us; a child that loses the label looks deleted, and gets it back.
const (
	ManagedByLabel    = "app.kubernetes.io/managed-by"
	ManagedBy         = "skiff"
	ManagedBySelector = ManagedByLabel + "=" + ManagedBy
)

// HashAnnotation holds the hash of a child's desired state.
const HashAnnotation = "skiff.dev/desired-hash"

const (
	// soon is the wait where the next event should bring what is missing, and this is only for the case that it does
	// not come: long enough to cost nothing, short enough that nobody asks what skiff is waiting for.
	soon = time.Second
	// recheck is the wait for what only somebody else can change. A minute is soon enough for a person who has just
	// removed a foreign object, and one GET per minute is nothing to the server.
	recheck = time.Minute
	// whileDeleting is the wait for a child of ours that is being deleted. Its end comes as an event unless the child
	// has lost its label; a pod's grace period is 30 s, and nobody wants to wait for that twice.
	whileDeleting = 5 * time.Second
)

// Live is what the cache keeps of a child: whose it is, what can be compared with the desired state, and S, the fields
// of its status that the operator reads.
type Live[S any] struct {
	kube.MetaAnnotated `json:"metadata"`
	Spec               kube.Raw `json:"spec"`
	Status             S        `json:"status"`
}

// Child is one desired object.
type Child struct {
	// Body is all that we declare, in package patch's form of JSON: apiVersion, kind, metadata (name, namespace, labels,
	// the controller owner reference) and spec. Apply adds HashAnnotation. It is not changed and must not be.
	Body map[string]any
	// Create is what a POST sends in Body's place if not nil: Body and values that matter at the birth of the object
	// alone, where the server would choose otherwise.
	Create map[string]any
	// Keep names fields of spec that keep their value when Body does not declare them any longer.
	Keep []string
	// Insist sends what the server has just refused. Without it a refusal is remembered for a while (see Refusal).
	Insist bool
	// Hold changes nothing: Apply only says whether the child is as declared.
	Hold bool
}

// Outcome says what was done about a child.
type Outcome int

// The outcomes. Live is nil where the child is not there or not ours.
const (
	Unchanged Outcome = iota // it is as declared, or the server said so
	Created
	Applied   // it differed and was changed; Result.Difference says where
	Foreign   // an object of that name is not ours and was left alone; Result.Message says whose it is
	Contested // somebody else keeps changing or deleting what we declare; Result.Message says what
	Waiting   // nothing can be done now; Result.Message says what for
	Overtaken // it changed under our hands: Result.Live is old, and an event is on its way
	Held      // it is missing or differs, and was left so (Child.Hold); Result.Message says where
)

func (o Outcome) String() string {
	return [...]string{"unchanged", "created", "applied", "foreign", "contested", "waiting", "overtaken", "held"}[o]
}

// Result is what is known about a child after Apply.
type Result[S any] struct {
	Outcome    Outcome
	Live       *Live[S]      // the newest copy that is known: from the cache, or the answer to our last request
	Difference string        // Applied, Contested, Held: the first field that differed
	Message    string        // Foreign, Contested, Waiting, Overtaken, Held: for people
	Wait       time.Duration // if not 0: look again after this time, even if no event comes
}

// Applier applies the children of one kind. It is safe for concurrent use by reconciles of different owners; the
// controller sees to it that there is never more than one per owner.
type Applier[S any] struct {
	client   *kube.Client
	resource kube.Resource
	schema   *patch.Node
	mirror   *cache.Store[*Live[S]]

	mu     sync.Mutex // guards owners; what an entry points at belongs to the one reconcile of that owner
	owners map[kube.Key]*owned[S]
}

// owned is what is remembered of the children of one owner.
type owned[S any] struct {
	uid      string
	children map[kube.Key]*memory[S]
}

// New returns an Applier for the children of the mirrored kind, which package patch has to have a schema of.
func New[S any](client *kube.Client, m *cache.Store[*Live[S]]) *Applier[S] {
	r := m.Resource()
	return &Applier[S]{client: client, resource: r, schema: patch.SchemaFor(r.APIVersion(), r.Kind), mirror: m,
		owners: map[kube.Key]*owned[S]{}}
}

// Forget drops what is remembered of an owner's children. Operators call it when the owner is gone, which bounds the
// memory to the owners that exist.
func (a *Applier[S]) Forget(owner kube.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.owners, owner)
}

// memoryOf returns what is remembered of a child. An owner that was created anew begins with nothing.
func (a *Applier[S]) memoryOf(owner Owner, child kube.Key) *memory[S] {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.owners[owner.Key()]
	if o == nil || o.uid != owner.UID {
		o = &owned[S]{uid: owner.UID, children: map[kube.Key]*memory[S]{}}
		a.owners[owner.Key()] = o
	}
	m := o.children[child]
	if m == nil {
		m = &memory[S]{}
		o.children[child] = m
	}
	return m
}

// Apply makes the child as c declares it, if it is not. An error is a request that failed or was refused; kube.IsRefused
// says whether trying again can help. Result.Live is the newest known copy also where there is an error.
func (a *Applier[S]) Apply(ctx context.Context, owner Owner, c Child) (Result[S], error) {
	want, err := declare(owner, c)
	if err != nil {
		return Result[S]{}, fmt.Errorf("declare a child of %s %s: %w", owner.Resource.Kind, owner.Key(), err)
	}
	t := &turn[S]{Applier: a, mem: a.memoryOf(owner, want.key), owner: owner, want: want}
	live, err := t.look(ctx)
	if err != nil {
		return Result[S]{}, err
	}
	var r Result[S]
	switch {
	case live != nil:
		r, err = t.converge(ctx, live)
	case c.Hold:
		r, err = t.find(ctx)
	default:
		r, err = t.create(ctx)
	}
	r.Wait = Earlier(r.Wait, t.mem.written.remaining())
	return r, err
}

// Earlier returns the shorter of two waits, where 0 means none.
func Earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// turn is one call of Apply.
type turn[S any] struct {
	*Applier[S]
	mem   *memory[S]
	owner Owner
	want  declared
}

// String names the child: "Deployment default/web".
func (t *turn[S]) String() string { return t.resource.Kind + " " + t.want.key.String() }

// look returns the newest copy of the child that can be trusted, nil if there is no child.
func (t *turn[S]) look(ctx context.Context) (*Live[S], error) {
	// Whether the cache has caught up is asked before it is read. The other way round it could catch up in between, and
	// the old copy would pass for a new one.
	trusted := t.mem.written.trusted(t.mirror.Reached)
	cached, ok, err := t.mirror.Get(t.want.key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t, err)
	}
	switch {
	case trusted == theAnswer:
		return t.mem.written.object, nil
	case !ok && t.mem.stranger != nil && time.Since(t.mem.met) < recheck:
		return t.mem.stranger, nil
	case trusted == nobody, !ok && t.mem.hidden:
		return t.read(ctx)
	case !ok:
		return nil, nil
	}
	t.mem.hidden, t.mem.stranger = false, nil
	return cached, nil
}

// read gets the child from the server, nil if there is none.
func (t *turn[S]) read(ctx context.Context) (*Live[S], error) {
	live := new(Live[S])
	err := t.client.Get(ctx, t.resource, t.want.key, live)
	switch {
	case kube.IsNotFound(err):
		t.mem.hidden, t.mem.stranger = false, nil
		t.mem.written.clear()
		return nil, nil
	case err != nil:
		return nil, err
	}
	if live.ControllerUID() == t.owner.UID {
		t.mem.stranger = nil
		t.mem.written.set(live)
	} else {
		t.mem.stranger, t.mem.met = live, time.Now()
	}
	return live, nil
}

// find looks for a child that the cache does not have and that is not to be made. The server knows: a child that has lost
// the label which our watch selects by is still there.
func (t *turn[S]) find(ctx context.Context) (Result[S], error) {
	live, err := t.read(ctx)
	switch {
	case err != nil:
		return Result[S]{}, err
	case live == nil:
		return Result[S]{Outcome: Held, Message: fmt.Sprintf("%s does not exist", t)}, nil
	}
	t.mem.hidden = true
	return t.converge(ctx, live)
}
