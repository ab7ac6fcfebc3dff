package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

// Manager is the field manager of everything skiff declares. It must never change: the server removes a field that is
// declared no longer only from the manager that declared it.
const Manager = "skiff"

// keeper is the field manager that holds a field which is declared no longer and must keep its value (Child.Keep).
const keeper = "skiff-handover"

// ManagedByLabel and ManagedBy are the label that every child carries. Children are watched with ManagedBySelector, so
// that the rest of the cluster never reaches us; a child that loses the label looks deleted, and gets it back.
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

// Child is one desired object, of any kind that the Engine was made for.
type Child struct {
	// Body is all that we declare, in package patch's form of JSON: apiVersion, kind, metadata (name, namespace,
	// labels, the controller owner reference) and whatever else the kind has, but no status. Apply adds
	// HashAnnotation. It is not changed and must not be.
	Body map[string]any
	// Create is what a POST sends in Body's place if not nil: Body and values that matter at the birth of the object
	// alone, where the server would choose otherwise.
	Create map[string]any
	// Keep names fields of spec that keep their value when Body does not declare them any longer.
	Keep []string
	// MinReady is how long a child that is replaced has to have been ready before the next one is replaced.
	MinReady time.Duration
}

// operation is what is done about one child in one call of Apply.
type operation struct {
	*application
	kind *Kind
	mem  *memory
	want declared

	managed *managed // what was read of managedFields, nil if nothing was
}

// String names the child: "Deployment default/web".
func (t *operation) String() string { return t.want.kind + " " + t.want.key.String() }

// settledNow says whether the child is known to be as declared, without any request.
func (t *operation) settledNow() (Result, bool) {
	live, err := t.known()
	if err != nil || live == nil || !t.isSettled(live.content()) {
		return Result{}, false
	}
	return t.unchanged(live), true
}

// run makes the child as it is declared, if it is not.
func (t *operation) run(ctx context.Context) Result {
	live, err := t.look(ctx)
	switch {
	case cache.AsShed(err) != nil:
		return t.applyUnheld(ctx, err)
	case err != nil:
		return Result{Err: err}
	case live != nil:
		return t.converge(ctx, live)
	case t.hold:
		return t.find(ctx)
	}
	return t.create(ctx)
}

// finish completes a result with what is the same for all.
func (t *operation) finish(r Result) Result {
	r.Resource, r.Key = t.kind.resource, t.want.key
	r.Wait = Earlier(r.Wait, t.mem.written.remaining())
	if t.mem.wrong != nil && t.mem.wrong.over() {
		t.mem.wrong = nil
	}
	if r.Err != nil && !r.Unheld {
		r.Outcome = Failed
	}
	return r
}

// known returns the copy of the child that stands without a request to the server; nil: there is none.
func (t *operation) known() (object, error) {
	// Whether the cache has caught up is asked before it is read. The other way round it could catch up in between,
	// and the old copy would pass for a new one.
	newest := t.mem.written.trusted(t.kind.mirror.reached)
	cached, ok, err := t.kind.mirror.get(t.want.key)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", t, err)
	case newest == fromAnswer:
		return t.mem.written.object.(object), nil
	case newest == fromServer, !ok:
		return nil, nil
	}
	if t.mem.wrong != nil {
		t.mem.trouble().hidden, t.mem.trouble().foreign = false, nil
	}
	return cached, nil
}

// look returns the newest copy of the child that can be trusted, nil if there is no child.
func (t *operation) look(ctx context.Context) (object, error) {
	live, err := t.known()
	switch {
	case err != nil || live != nil:
		return live, err
	case t.mem.trouble().foreign != nil && time.Since(t.mem.trouble().met) < recheck:
		return t.mem.trouble().foreign, nil
	case t.mem.trouble().hidden || t.mem.written.object != nil:
		return t.read(ctx)
	}
	return nil, nil
}

// read gets the child from the server, nil if there is none.
func (t *operation) read(ctx context.Context) (object, error) {
	live, err := t.get(ctx)
	switch {
	case kube.IsNotFound(err):
		t.mem.trouble().hidden, t.mem.trouble().foreign = false, nil
		t.mem.written.clear()
		return nil, nil
	case err != nil:
		return nil, err
	}
	if live.content().ControllerUID() == t.owner.UID {
		t.mem.trouble().foreign = nil
		t.mem.written.set(live)
	} else {
		t.mem.trouble().foreign, t.mem.trouble().met = live, time.Now()
	}
	return live, nil
}

// get asks the server for the child. Of the answer prepare needs managedFields as well.
func (t *operation) get(ctx context.Context) (object, error) {
	var answer kube.Raw
	if err := t.client.Get(ctx, t.kind.resource, t.want.key, &answer); err != nil {
		return nil, err
	}
	live, m := t.kind.mirror.empty(), new(managed)
	if err := errors.Join(kube.Unmarshal(answer, live), kube.Unmarshal(answer, m)); err != nil {
		return nil, fmt.Errorf("read %s: %w", t, err)
	}
	t.managed = m
	return live, nil
}

// find looks for a child that the cache does not have and that is not to be made. The server knows: a child that has
// lost the label which our watch selects by is still there.
func (t *operation) find(ctx context.Context) Result {
	live, err := t.read(ctx)
	switch {
	case err != nil:
		return Result{Err: err}
	case live == nil:
		return Result{Outcome: Held, Message: fmt.Sprintf("%s does not exist", t)}
	}
	t.mem.trouble().hidden = true
	return t.converge(ctx, live)
}
