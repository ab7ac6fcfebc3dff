package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"skiff/internal/kube"
	"skiff/internal/patch"
)

// create posts a child that the cache does not have.
func (t *operation) create(ctx context.Context) Result {
	if err := t.mem.refusal.Standing(requestOf(t.want.hash, 0)); err != nil && !t.want.insist {
		return Result{Err: err}
	}
	again := t.mem.known()
	if again {
		if pause := t.mem.contest.pause(t.want.hash); pause > 0 {
			return Result{Outcome: Contested, Wait: pause, Message: fmt.Sprintf("%s: something else keeps deleting it", t)}
		}
		gone, err := t.ownerGone(ctx)
		if err != nil {
			return Result{Err: err}
		}
		if gone {
			return Result{Outcome: Overtaken, Wait: whileDeleting,
				Message: fmt.Sprintf("%s has gone with its owner", t)}
		}
	}
	body, err := t.want.post()
	if err != nil {
		return Result{Err: fmt.Errorf("encode %s: %w", t, err)}
	}
	answer := t.kind.mirror.empty()
	// Strict, because an apply knows nothing else: it refuses a field that the server does not know, with a 500. A typo
	// in a template had better be refused at the first request than at the second.
	err = t.engine.client.Create(ctx, t.kind.resource, t.want.key.Namespace, body, answer,
		kube.WriteOptions{FieldManager: Manager, FieldValidation: "Strict"})
	switch {
	case err == nil:
		*t.mem = memory{settled: settled{t.want.hash, answer.UID, fingerprint(&t.want, answer.content())}, contest: t.mem.contest}
		t.mem.written.set(answer)
		if again {
			t.mem.contest.add(t.want.hash)
		}
		return Result{Outcome: Created, Live: answer}
	case kube.IsAlreadyExists(err), kube.IsInvalid(err):
		// The cache is behind, or the object lacks the label that the cache looks for, or it is not ours at all. A 422
		// can mean the same: the API server allocates a Service's node port before it looks for the name (seen on v1.36).
		return t.createdBefore(ctx, err)
	case kube.IsRefused(err):
		t.mem.refusal.Note(requestOf(t.want.hash, 0), err)
	case kube.IsNamespaceTerminating(err):
		return Result{Outcome: Waiting, Wait: whileDeleting,
			Message: fmt.Sprintf("namespace %s is being deleted", t.want.key.Namespace)}
	}
	return Result{Err: err}
}

// ownerGone asks the server whether the owner is still the one that the cache shows. It is asked before a child that
// existed is made again: the mirrors of two kinds are not of one moment, least of all after an outage, and the child may
// have gone with an owner whose deletion has not reached us. The garbage collector would remove what we make, and its
// event would make us do it again.
func (t *operation) ownerGone(ctx context.Context) (bool, error) {
	var live struct {
		kube.Meta `json:"metadata"`
	}
	err := t.engine.client.Get(ctx, t.owner.Resource, t.owner.Key(), &live)
	if kube.IsNotFound(err) {
		return true, nil
	}
	return live.UID != t.owner.UID || live.Deleting(), err
}

// createdBefore goes on with the object that was in the way of a POST, if there is one.
func (t *operation) createdBefore(ctx context.Context, refusal error) Result {
	live, err := t.read(ctx)
	switch {
	case err != nil:
		return Result{Err: errors.Join(refusal, err)}
	case live != nil:
		t.mem.hidden = true
		return t.converge(ctx, live)
	case kube.IsInvalid(refusal):
		t.mem.refusal.Note(requestOf(t.want.hash, 0), refusal)
		return Result{Err: refusal}
	}
	return Result{Outcome: Overtaken, Wait: soon, Message: fmt.Sprintf("%s has just been deleted", t)}
}

// converge brings an existing object to its desired state if it is ours and differs.
func (t *operation) converge(ctx context.Context, live object) Result {
	switch {
	case live.ControllerUID() != t.owner.UID:
		wait := recheck
		if live == t.mem.foreign {
			wait = max(recheck-time.Since(t.mem.met), soon)
		}
		return Result{Outcome: Foreign, Wait: wait, Message: t.foreign(live)}
	case live.Deleting():
		return Result{Outcome: Waiting, Live: live, Wait: whileDeleting,
			Message: fmt.Sprintf("%s is being deleted and will be made again", t)}
	}
	content := fingerprint(&t.want, live.content())
	if t.mem.settled == (settled{t.want.hash, live.UID, content}) {
		t.mem.refusal = Refusal{} // of another state, which is not wanted any more
		return Result{Live: live}
	}
	difference, err := t.difference(live)
	if err != nil {
		return Result{Live: live, Err: err}
	}
	if difference == "" {
		t.mem.settled, t.mem.refusal = settled{t.want.hash, live.UID, content}, Refusal{}
		return Result{Live: live}
	}
	if t.want.hold {
		return Result{Outcome: Held, Live: live, Difference: difference,
			Message: fmt.Sprintf("%s differs in %s", t, difference)}
	}
	if pause := t.mem.contest.pause(t.want.hash); pause > 0 {
		return Result{Outcome: Contested, Live: live, Difference: difference, Wait: pause,
			Message: fmt.Sprintf("%s: something else keeps changing %s", t, difference)}
	}
	if err := t.mem.refusal.Standing(requestOf(t.want.hash, content)); err != nil && !t.want.insist {
		return Result{Live: live, Difference: difference, Err: err}
	}
	return t.apply(ctx, live, difference)
}

// foreign says whose the object in our way is.
func (t *operation) foreign(live object) string {
	if o, ok := live.Controller(); ok {
		return fmt.Sprintf("%s exists and belongs to %s %s (uid %s)", t, o.Kind, o.Name, o.UID)
	}
	return fmt.Sprintf("%s exists and was not made by skiff", t)
}

// difference returns the path of the first declared field that live does not have, "" if it has all. The annotation with
// the hash comes last: it differs after each change, and the field that was changed says more.
func (t *operation) difference(live object) (string, error) {
	spec, err := patch.Decode(live.Spec)
	if err != nil {
		return "", fmt.Errorf("read spec of %s: %w", t, err)
	}
	references := make([]any, len(live.OwnerReferences))
	for i, o := range live.OwnerReferences {
		references[i] = map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name, "uid": o.UID,
			"controller": o.Controller, "blockOwnerDeletion": o.BlockOwnerDeletion}
	}
	_, path := patch.Covered(t.schema, t.want.plain, map[string]any{
		"apiVersion": t.want.apiVersion,
		"kind":       t.want.kind,
		"metadata": map[string]any{"name": live.Name, "namespace": live.Namespace, "labels": object(live.Labels),
			"annotations": object(live.Annotations), "ownerReferences": references},
		"spec": spec,
	})
	if hash, _ := live.Annotations.Get(HashAnnotation); path == "" && hash != t.want.hash {
		path = "metadata.annotations." + HashAnnotation
	}
	return path, nil
}

func object(labels kube.Labels) map[string]any {
	m := make(map[string]any, len(labels))
	for _, l := range labels {
		m[l.Key] = l.Value
	}
	return m
}

// apply sends what we declare as a server-side apply.
func (t *operation) apply(ctx context.Context, live object, difference string) Result {
	r := Result{Live: live, Difference: difference}
	body, err := t.want.apply(live.UID)
	if err != nil {
		return r, fmt.Errorf("encode %s: %w", t, err)
	}
	err = t.prepare(ctx, live)
	answer := t.kind.mirror.empty()
	if err == nil {
		// The uid makes the apply fail on an object that was deleted meanwhile, where it would otherwise create one, and
		// on one that has taken its place.
		err = t.engine.client.Patch(ctx, t.kind.resource, t.want.key, kube.ApplyPatch, body, answer,
			kube.WriteOptions{FieldManager: Manager, Force: true})
	}
	switch {
	case errors.Is(err, errChanged), kube.IsConflict(err), kube.IsNotFound(err), otherUID(err):
		// What this was decided on is obsolete. Its successor comes as an event; should it not, or be overtaken as well, the
		// waits get longer.
		t.mem.written.clear()
		t.mem.lost = min(max(2*t.mem.lost, soon), maxTrust)
		r.Outcome, r.Wait, r.Message = Overtaken, t.mem.lost, fmt.Sprintf("%s changed while it was being applied", t)
		return r, nil
	case kube.IsRefused(err):
		t.mem.refusal.Note(requestOf(t.want.hash, fingerprint(&t.want, live.content())), err)
		return r, err
	case err != nil:
		return r, err
	}
	// However the server stores it, that is what it makes of our state: it need not be compared, or sent again.
	content := fingerprint(&t.want, answer.content())
	t.mem.settled = settled{t.want.hash, answer.UID, content}
	t.mem.written.set(answer)
	t.mem.lost, t.mem.refusal = 0, Refusal{}
	t.mem.held = t.declaredOf(t.want.keep)
	r.Live = answer
	if content != fingerprint(&t.want, live.content()) {
		r.Outcome = Applied
		t.mem.contest.add(t.want.hash)
	}
	return r, nil
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
