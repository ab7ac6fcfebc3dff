package apply

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"skiff/internal/kube"
)

// Engine brings the children of owners to what is declared. It is safe for concurrent use by reconciles of different owners;
// the controller sees to it that there is never more than one per owner.
type Engine struct {
	client *kube.Client
	kinds  []Kind

	mu     sync.Mutex // guards owners; what an entry points at belongs to the one reconcile of that owner
	owners map[kube.Key]*owned
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
	Foreign   // an object of that name is not managed by skiff and was left alone; Result.Message says whose it is
	Contested // something else keeps changing or deleting what we declare; Result.Message says what
	Waiting   // nothing can be done now; Result.Message says what for
	Overtaken // it changed while we wrote: Result.Live is old, and an event is on its way
	Held      // it is missing or differs, and was left so because the owner is on hold; Result.Message says where
	Deleted   // it was not declared any more, or its owner is being deleted
	Released  // it was not declared any more and had lost our label: it is there, and no child of the owner
	Adopted   // it had no controller and has become a child of the owner
	Replaced  // it had ended and was deleted, to be created again; Result.Message says how it ended
	Rolled    // it was of an older revision and was deleted, to be created again; Result.Message says which
	Failed    // a request failed or was refused: Result.Err
)

func (o Outcome) String() string {
	return [...]string{"unchanged", "created", "applied", "foreign", "contested", "waiting", "overtaken", "held", "deleted", "released", "adopted", "replaced", "rolled", "failed"}[o]
}

// Result is what is known about a child after Apply.
type Result struct {
	Resource    kube.Resource
	Key         kube.Key
	Outcome     Outcome
	Live        kube.Object   // the newest copy that is known, also where there is an error; nil: none. See As
	Differences []string      // Applied, Contested, Held: the declared fields that differed
	Message     string        // Foreign, Contested, Waiting, Overtaken, Held: for users
	Err         error         // Failed: kube.IsRefused says whether trying again can help
	Wait        time.Duration // if not 0: look again after this time, even if no event comes

	// Of children that are replaced:
	Revision string // that Live was made from
	Deleting bool   // Live is being deleted, whether this copy shows it already or not
	Settling bool   // Live is ready, but not for as long as Child.MinReady
	Ending   string // says that the child keeps ending, how it ended, and how long the pause before the next one is
}

// Report is what is known about the children of one owner after Apply.
type Report struct {
	Children []Result // in the order in which they were declared
}

// Wait returns after which time to look again even if no event comes, 0 if there is no need.
func (r *Report) Wait() time.Duration {
	var wait time.Duration
	for i := range r.Children {
		wait = Earlier(wait, r.Children[i].Wait)
	}
	return wait
}

// Err returns all errors.
func (r *Report) Err() error {
	var errs []error
	for i := range r.Children {
		errs = append(errs, r.Children[i].Err)
	}
	return errors.Join(errs...)
}

// Earlier returns the shorter of two waits, where 0 means none.
func Earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// owned is what is remembered of the children of one owner.
type owned struct {
	uid      string
	children map[childKey]*memory
}

// childKey names a child of an owner.
type childKey struct {
	resource kube.Resource
	key      kube.Key
}

// Forget drops what is remembered of an owner's children. Operators call it when the owner is gone, which bounds the
// memory to the owners that exist.
func (e *Engine) Forget(owner kube.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.owners, owner)
}

// remembered returns what is remembered of an owner. One that was created anew begins with nothing.
func (e *Engine) remembered(owner Owner) *owned {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := e.owners[owner.Key()]
	if o == nil || o.uid != owner.UID {
		o = &owned{uid: owner.UID, children: map[childKey]*memory{}}
		e.owners[owner.Key()] = o
	}
	return o
}

// memoryOf returns what is remembered of a child, to be added to.
func (o *owned) memoryOf(k childKey) *memory {
	m := o.children[k]
	if m == nil {
		m = &memory{}
		o.children[k] = m
	}
	return m
}

// Apply makes the children of an owner as they are declared, where they are not. With hold it changes nothing, and only
// says whether they are.
func (e *Engine) Apply(ctx context.Context, owner Owner, children []Child, hold bool) Report {
	r := Report{Children: make([]Result, len(children))}
	mem := e.remembered(owner)
	for i, c := range children {
		r.Children[i] = e.applyOne(ctx, owner, mem, c, hold)
	}
	return r
}

func (e *Engine) applyOne(ctx context.Context, owner Owner, mem *owned, c Child, hold bool) Result {
	want, err := declare(owner, c)
	kind := e.kindOf(want.apiVersion, want.kind)
	if err == nil && kind == nil {
		err = fmt.Errorf("%s %s is of a kind that this engine was not made for", want.kind, want.key)
	}
	if err != nil {
		return Result{Outcome: Failed, Key: want.key,
			Err: fmt.Errorf("declare a child of %s %s: %w", owner.Resource.Kind, owner.Key(), err)}
	}
	t := &operation{engine: e, kind: kind, owner: owner, want: want, hold: hold,
		mem: mem.memoryOf(childKey{kind.resource, want.key})}
	r := t.run(ctx)
	r.Resource, r.Key = kind.resource, want.key
	r.Wait = Earlier(r.Wait, t.mem.written.remaining())
	if r.Err != nil {
		r.Outcome = Failed
	}
	return r
}

func (e *Engine) kindOf(apiVersion, kind string) *Kind {
	for i := range e.kinds {
		if r := &e.kinds[i].resource; r.Kind == kind && r.APIVersion() == apiVersion {
			return &e.kinds[i]
		}
	}
	return nil
}
