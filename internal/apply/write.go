package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
		gone, err := ownerGone(ctx, t.engine.client, t.owner)
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
		*t.mem = memory{settled: settled{t.want.hash, answer.ObjectMeta().UID, fingerprint(&t.want, answer.content())}, contest: t.mem.contest}
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
func ownerGone(ctx context.Context, client *kube.Client, owner Owner) (bool, error) {
	var live struct {
		kube.Meta `json:"metadata"`
	}
	err := client.Get(ctx, owner.Resource, owner.Key(), &live)
	if kube.IsNotFound(err) {
		return true, nil
	}
	return live.UID != owner.UID || live.Deleting(), err
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
	c := live.content()
	switch {
	case c.ControllerUID() != t.owner.UID:
		wait := recheck
		if live == t.mem.foreign {
			wait = max(recheck-time.Since(t.mem.met), soon)
		}
		return Result{Outcome: Foreign, Wait: wait, Message: t.foreign(c)}
	case c.Deleting():
		return Result{Outcome: Waiting, Live: live, Wait: whileDeleting,
			Message: fmt.Sprintf("%s is being deleted and will be made again", t)}
	}
	now := settled{t.want.hash, c.UID, fingerprint(&t.want, c)}
	r := Result{Live: live}
	if t.mem.settled != now {
		if r.Differences, r.Err = t.differences(c); r.Err != nil {
			return r
		}
	}
	if len(r.Differences) == 0 {
		t.mem.settled = now
		t.mem.refusal = Refusal{} // of another state, which is not wanted any more
		return r
	}
	switch pause := t.mem.contest.pause(t.want.hash); {
	case t.hold:
		r.Outcome, r.Message = Held, fmt.Sprintf("%s differs in %s", t, List(r.Differences))
		return r
	case pause > 0:
		r.Outcome, r.Wait = Contested, pause
		r.Message = fmt.Sprintf("%s: something else keeps changing %s", t, List(r.Differences))
		return r
	}
	if r.Err = t.mem.refusal.Standing(requestOf(t.want.hash, now.content)); r.Err != nil && !t.want.insist {
		return r
	}
	return t.apply(ctx, live, r.Differences)
}

// foreign says whose the object in our way is.
func (t *operation) foreign(live *Content) string {
	if o, ok := live.Controller(); ok {
		return fmt.Sprintf("%s exists and belongs to %s %s (uid %s)", t, o.Kind, o.Name, o.UID)
	}
	return fmt.Sprintf("%s exists and was not made by skiff", t)
}

// maxDifferences is how many of a child's differences are named; of more there is the number.
const maxDifferences = 8

// differences returns the paths of the declared fields that live does not have, nil if it has all. The annotation with the
// hash is named only where there is no other: it differs after each change, and the field that was changed says more.
func (t *operation) differences(live *Content) ([]string, error) {
	all := map[string]any{}
	if len(live.Body) > 0 {
		body, err := patch.Decode(live.Body)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", t, err)
		}
		all, _ = body.(map[string]any)
	}
	references := make([]any, len(live.OwnerReferences))
	for i, o := range live.OwnerReferences {
		references[i] = map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name, "uid": o.UID,
			"controller": o.Controller, "blockOwnerDeletion": o.BlockOwnerDeletion}
	}
	all["apiVersion"], all["kind"] = t.want.apiVersion, t.want.kind
	all["metadata"] = map[string]any{"name": live.Name, "namespace": live.Namespace, "labels": values(live.Labels),
		"annotations": values(live.Annotations), "ownerReferences": references}
	paths, count := patch.Differences(t.kind.schema, t.want.plain, all, maxDifferences)
	if hash, _ := live.Annotations.Get(HashAnnotation); count == 0 && hash != t.want.hash {
		return []string{"metadata.annotations." + HashAnnotation}, nil
	}
	if more := count - len(paths); more > 0 {
		paths = append(paths, fmt.Sprintf("%d more fields", more))
	}
	return paths, nil
}

// List joins texts as one does in a sentence: "a, b and c".
func List(texts []string) string {
	last := len(texts) - 1
	if last < 1 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

func values(labels kube.Labels) map[string]any {
	m := make(map[string]any, len(labels))
	for _, l := range labels {
		m[l.Key] = l.Value
	}
	return m
}

// apply sends what we declare as a server-side apply.
func (t *operation) apply(ctx context.Context, live object, differences []string) Result {
	r := Result{Live: live, Differences: differences}
	before := fingerprint(&t.want, live.content())
	answer := t.kind.mirror.empty()
	body, err := t.want.apply(live.content().UID)
	if err != nil {
		r.Err = fmt.Errorf("encode %s: %w", t, err)
		return r
	}
	if err = t.prepare(ctx, live.content()); err == nil {
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
		return r
	case kube.IsRefused(err):
		t.mem.refusal.Note(requestOf(t.want.hash, before), err)
		fallthrough
	case err != nil:
		r.Err = err
		return r
	}
	// However the server stores it, that is what it makes of our state: it need not be compared, or sent again.
	after := fingerprint(&t.want, answer.content())
	t.mem.settled = settled{t.want.hash, answer.content().UID, after}
	t.mem.written.set(answer)
	t.mem.lost, t.mem.refusal = 0, Refusal{}
	t.mem.held = t.declaredOf(t.want.keep)
	r.Live = answer
	if after != before {
		r.Outcome = Applied
		t.mem.contest.add(t.want.hash)
	}
	return r
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
