package apply

import (
	"context"
	"fmt"
	"maps"
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

// inPlace says that all children are there and nothing is in the way of one.
func (r *Report) inPlace() bool {
	return r.Err == nil && !slices.ContainsFunc(r.Children, func(c Result) bool {
		return !c.asDeclared() && c.Outcome != Outdated
	})
}

// settled says that all children are as they are declared, and that there are no others.
func (r *Report) settled() bool {
	return r.Err == nil && len(r.Pruned) == 0 &&
		!slices.ContainsFunc(r.Children, func(c Result) bool { return !c.asDeclared() })
}

// asDeclared says that a child is there as it is declared.
func (r *Result) asDeclared() bool {
	return !r.Unheld &&
		(r.Outcome == Unchanged || r.Outcome == Created || r.Outcome == Applied || r.Outcome == Adopted)
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

// Apply makes the children of an owner as they are declared, where they are not, side by side, and then deletes those
// of its children that are not declared. With hold it changes nothing, and only says what differs.
func (e *Engine) Apply(ctx context.Context, owner Owner, children []Child, hold bool) Report {
	a := e.application(owner, hold)
	a.mem.wanted, a.mem.settledFor = 0, nil
	r := Report{Children: make([]Result, len(children))}
	var todo []*operation
	var at []int                 // where in r.Children
	var replaced map[*Kind][]int // where in r.Children
	for i, c := range children {
		if k := e.replacedKind(&children[i]); k != nil {
			if replaced == nil {
				replaced = map[*Kind][]int{}
			}
			replaced[k] = append(replaced[k], i)
			continue
		}
		t, err := a.operationFor(c)
		if err != nil {
			r.Children[i] = Result{Resource: kube.Resource{Kind: t.want.kind}, Key: t.want.key, Outcome: Failed,
				Err: fmt.Errorf("declare a child of %s %s: %w", owner.Resource.Kind, owner.Key(), err)}
			continue
		}
		t.mem.at = i
		if settled, ok := t.settledNow(); ok {
			r.Children[i] = t.finish(settled)
			continue
		}
		if todo == nil {
			todo, at = make([]*operation, 0, len(children)-i), make([]int, 0, len(children)-i)
		}
		todo, at = append(todo, t), append(at, i)
	}
	sideBySide(len(todo), func(i int) { r.Children[at[i]] = todo[i].finish(todo[i].run(ctx)) })
	a.replace(ctx, children, replaced, &r)
	a.mem.tried = a.tried(&r)
	if !hold && r.inPlace() {
		r.Pruned = append(r.Pruned, a.prune(ctx)...)
	}
	known := len(a.mem.children)
	if known == a.mem.wanted && known+a.mem.settledReplaced() == len(children) && r.settled() {
		a.mem.settledFor = owner.Spec
	}
	return r
}

// replacedKind returns the kind of a child that is replaced, nil if it is not.
func (e *Engine) replacedKind(c *Child) *Kind {
	apiVersion, _ := c.Body["apiVersion"].(string)
	kind, _ := c.Body["kind"].(string)
	if k := e.kindOf(apiVersion, kind); k != nil && k.replacing != nil {
		return k
	}
	return nil
}

// Owned returns the children of an owner as the cache has them, declared or not.
func (e *Engine) Owned(ctx context.Context, owner Owner) ([]Result, error) {
	var out []Result
	for i := range e.kinds {
		if e.kinds[i].replacing != nil {
			run := e.application(owner, true).replacement(&e.kinds[i])
			if err := run.look(ctx, nil); err != nil {
				return nil, err
			}
			_, all := run.results()
			out = append(out, all...)
			continue
		}
		children, err := e.kinds[i].mirror.owned(owner.Namespace, owner.UID)
		if err != nil {
			return nil, fmt.Errorf("read the children of %s %s: %w", owner.Resource.Kind, owner.Key(), err)
		}
		for _, live := range children {
			if c := live.content(); c.ControllerUID() == owner.UID {
				out = append(out, Result{Resource: e.kinds[i].resource, Key: c.Key(), Live: live})
			}
		}
	}
	return out, nil
}

func (e *Engine) kindOf(apiVersion, kind string) *Kind {
	for i := range e.kinds {
		if k := &e.kinds[i]; k.resource.Kind == kind && k.apiVersion == apiVersion {
			return k
		}
	}
	return nil
}
