package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"skiff/internal/runtime/kube"
)

// create posts a child that the cache does not have.
func (t *operation) create(ctx context.Context) Result {
	if err := t.mem.trouble().refusal.Standing(requestOf(t.want.hash, 0)); err != nil {
		return Result{Err: err}
	}
	if r, wait := t.waitsForPort(nil); wait {
		return r
	}
	again := t.mem.known()
	if again {
		if pause := t.mem.trouble().contest.pause(t.want.hash); pause > 0 {
			return Result{Outcome: Contested, Wait: pause,
				Message: fmt.Sprintf("%s was deleted %s", t, t.mem.trouble().contest.fight())}
		}
		switch gone, err := t.ownerGone(ctx); {
		case err != nil:
			return Result{Err: err}
		case gone:
			return t.goneWithOwner()
		}
	}
	body, err := t.want.post()
	if err != nil {
		return Result{Err: fmt.Errorf("encode %s: %w", t, err)}
	}
	answer := t.kind.mirror.empty()
	// Strict, because an apply knows nothing else: it refuses a field that the server does not know, with a 500. A
	// typo in a template had better be refused at the first request than at the second.
	err = t.client.Create(ctx, t.kind.resource, t.want.key.Namespace, body, answer,
		kube.WriteOptions{FieldManager: Manager, FieldValidation: "Strict", Name: t.want.key.Name})
	switch {
	case err == nil:
		*t.mem = memory{kind: t.kind, key: t.want.key, at: t.mem.at, wrong: &trouble{contest: t.mem.trouble().contest}}
		if t.allocatesNodePort() {
			t.nodePorts.found()
		}
		if again {
			t.mem.trouble().contest.add(t.want.hash)
		}
		return Result{Outcome: Created, Live: t.answered(answer)}
	case noNodePortLeft(err):
		return t.starved(nil)
	case kube.IsAlreadyExists(err), kube.IsInvalid(err):
		// The cache is behind, or the object lacks the label that the cache looks for, or it is not ours at all. A 422
		// can mean the same: the API server allocates a Service's node port before it looks for the name (seen on
		// v1.36).
		return t.createdBefore(ctx, err)
	case kube.IsRefused(err):
		t.mem.trouble().refusal.Note(requestOf(t.want.hash, 0), err)
	case kube.IsNamespaceTerminating(err):
		return Result{Outcome: Waiting, Wait: whileDeleting,
			Message: fmt.Sprintf("namespace %s is being deleted", t.want.key.Namespace)}
	}
	return Result{Err: err}
}

// answered remembers the answer to a write, and that however the server stores it, it is what the server makes of our
// state: it need not be compared, or sent again.
func (t *operation) answered(answer object) object {
	light := t.settle(answer)
	t.mem.written.set(light)
	return light
}

// settle remembers that live is as declared, and returns it without what is no longer needed of it.
func (t *operation) settle(live object) object {
	if t.mem.wrong != nil { // with another state, which is not declared any more
		t.mem.trouble().refusal, t.mem.trouble().port = Refusal{}, portWait{}
	}
	c := live.content()
	if c.light {
		return live
	}
	s := &t.mem.settled
	if s.hash != t.want.hash || s.uid != c.UID || s.version != c.ResourceVersion {
		*s = settled{hash: t.want.hash, uid: c.UID, content: fingerprint(&t.want, c), whole: wholeFingerprint(c),
			version: c.ResourceVersion, read: t.kind.readOf(c)}
	}
	if s.read == nil && t.kind.reads != nil {
		return live // its body cannot be read: let Read tell of it
	}
	return live.withoutBody(s.read)
}

// isSettled says whether live is known to be as declared.
func (t *operation) isSettled(c *Content) bool {
	s := &t.mem.settled
	if s.hash != t.want.hash || s.uid != c.UID || !t.isChild(c) {
		return false
	}
	if t.isSame(c) {
		return true
	}
	if c.light || s.content != fingerprint(&t.want, c) {
		return false
	}
	s.whole, s.version = wholeFingerprint(c), c.ResourceVersion // only labels or annotations of others have changed
	return true
}

// isChild says whether live belongs to the owner, and goes on doing so.
func (t *operation) isChild(c *Content) bool {
	return c.ControllerUID() == t.owner.UID && !c.Deleting()
}

// isSame says whether nothing but the status of live is other than when it was settled.
func (t *operation) isSame(c *Content) bool {
	s := &t.mem.settled
	if s.uid != c.UID || s.version != c.ResourceVersion && (c.light || s.whole != wholeFingerprint(c)) {
		return false
	}
	s.version = c.ResourceVersion
	return true
}

// unchanged is the result for a child that is as declared.
func (t *operation) unchanged(live object) Result {
	light := t.settle(live)
	if light != live && t.mem.written.object == live {
		t.mem.written.object = light
	} else if light != live {
		t.kind.mirror.swap(live, light)
	}
	return Result{Live: light}
}

func (t *operation) goneWithOwner() Result {
	return Result{Outcome: Overtaken, Wait: whileDeleting,
		Message: fmt.Sprintf("%s was deleted together with its owner", t)}
}

// createdBefore goes on with the object that was in the way of a POST, if there is one.
func (t *operation) createdBefore(ctx context.Context, refusal error) Result {
	live, err := t.read(ctx)
	switch {
	case err != nil:
		return Result{Err: errors.Join(refusal, err)}
	case live != nil:
		t.mem.trouble().hidden = true
		return t.converge(ctx, live)
	}
	if cause, taken := nodePortTaken(refusal); taken {
		return t.portTaken(ctx, nil, cause)
	}
	if kube.IsInvalid(refusal) {
		t.mem.trouble().refusal.Note(requestOf(t.want.hash, 0), refusal)
		return Result{Err: refusal}
	}
	return Result{Outcome: Overtaken, Wait: soon, Message: fmt.Sprintf("%s has just been deleted", t)}
}

// converge brings an existing object to its desired state if it is ours and differs.
func (t *operation) converge(ctx context.Context, live object) Result {
	c := live.content()
	switch {
	case c.ControllerUID() != t.owner.UID:
		return t.adopt(ctx, live)
	case c.Deleting():
		return Result{Outcome: Waiting, Live: live, Wait: whileDeleting,
			Message: fmt.Sprintf("%s is being deleted and will be made again", t)}
	case t.isSettled(c):
		return t.unchanged(live)
	case c.light: // to be compared with another declared state
		full, err := t.read(ctx)
		if err != nil {
			return Result{Live: live, Err: err}
		}
		if full == nil {
			return Result{Outcome: Overtaken, Wait: soon, Message: fmt.Sprintf("%s has just been deleted", t)}
		}
		return t.converge(ctx, full)
	}
	r := Result{Live: live}
	if r.Differences, r.Err = t.differences(c); r.Err != nil {
		return r
	}
	switch {
	case len(r.Differences) == 0:
		return t.unchanged(live)
	case t.kind.strategy.onDelete:
		r.Outcome = Outdated
		return r
	case t.hold:
		r.Outcome, r.Message = Held, fmt.Sprintf("%s differs in %s", t, List(r.Differences))
		return r
	}
	return t.apply(ctx, r)
}

// apply sends what we declare as a server-side apply to the child that r is about, unless that was in vain just now.
func (t *operation) apply(ctx context.Context, r Result) Result {
	live := r.Live.(object).content()
	before := fingerprint(&t.want, live)
	if pause := t.mem.trouble().contest.pause(t.want.hash); pause > 0 {
		r.Outcome, r.Wait = Contested, pause
		r.Message = fmt.Sprintf("%s: %s changed %s %s", t, t.rival(ctx, r.Differences), List(r.Differences),
			t.mem.trouble().contest.fight())
		return r
	}
	if r.Err = t.mem.trouble().refusal.Standing(requestOf(t.want.hash, before)); r.Err != nil {
		return r
	}
	if waiting, wait := t.waitsForPort(r.Live); wait {
		return waiting
	}
	answer, err := t.sendApply(ctx, live)
	cause, taken := nodePortTaken(err)
	switch {
	case errors.Is(err, errChanged), kube.IsConflict(err), kube.IsNotFound(err), otherUID(err):
		// What this was decided on is obsolete. Its successor comes as an event; should it not, or be overtaken as
		// well, the waits get longer.
		t.mem.written.clear()
		t.mem.trouble().lost = min(max(2*t.mem.trouble().lost, soon), maxTrust)
		r.Outcome, r.Wait = Overtaken, t.mem.trouble().lost
		r.Message = fmt.Sprintf("%s changed while it was being applied", t)
		return r
	case noNodePortLeft(err):
		return t.starved(r.Live)
	case taken:
		return t.portTaken(ctx, r.Live, cause)
	case kube.IsRefused(err):
		t.mem.trouble().refusal.Note(requestOf(t.want.hash, before), err)
	}
	if r.Err = err; err != nil {
		return r
	}
	if t.mem.trouble().port.starved {
		t.nodePorts.found()
	}
	t.mem.trouble().lost, t.mem.trouble().foreign = 0, nil
	t.mem.held = t.declaredOf(t.want.keep)
	after := fingerprint(&t.want, answer.content())
	r.Live = t.answered(answer)
	if after != before {
		r.Outcome = Applied
		t.mem.trouble().contest.add(t.want.hash)
		if slices.Equal(r.Differences, []string{noLonger}) {
			r.Differences = t.removed(live.Body, answer.content().Body)
		}
	}
	return r
}

// sendApply makes live ready for an apply, and applies.
func (t *operation) sendApply(ctx context.Context, live *Content) (object, error) {
	body, err := t.want.apply(live.UID)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", t, err)
	}
	if err := t.prepare(ctx, live); err != nil {
		return nil, err
	}
	answer := t.kind.mirror.empty()
	// The uid makes the apply fail on an object that was deleted meanwhile, where it would otherwise create one, and
	// on one that has taken its place.
	return answer, t.client.Patch(ctx, t.kind.resource, t.want.key, kube.ApplyPatch, body, answer,
		kube.WriteOptions{FieldManager: Manager, Force: true})
}

// declaredOf returns those of the fields of spec that are declared.
func (t *operation) declaredOf(fields []string) []string {
	var out []string
	for _, f := range fields {
		if _, ok := t.want.spec[f]; ok {
			out = append(out, f)
		}
	}
	return out
}

// otherUID says that an apply met another object than the one that it names.
func otherUID(err error) bool {
	s := kube.AsStatus(err)
	return s != nil && s.Code == http.StatusUnprocessableEntity &&
		slices.ContainsFunc(s.Details.Causes, func(c kube.StatusCause) bool { return c.Field == "metadata.uid" })
}
