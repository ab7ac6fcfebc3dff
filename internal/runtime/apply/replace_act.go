package apply

import (
	"context"
	"fmt"
	"time"

	"skiff/internal/runtime/kube"
)

// take takes the steps. One that fails is no reason to leave out others, but those that do the same.
func (r *replacement) take(ctx context.Context, steps []step) {
	var missing []*slot
	failed := map[Outcome]bool{}
	for _, st := range steps {
		switch s := st.slot; {
		case st.does == Created:
			missing = append(missing, s)
		case !failed[st.does]:
			removed, err := r.remove(ctx, st)
			if removed {
				s.outcome, s.message = st.does, st.note
			}
			if err != nil {
				s.err, failed[st.does] = err, true
			}
		}
	}
	r.createAll(ctx, missing)
}

// createAll creates the missing children side by side: first one, then two, four and so on, and after a failure no
// more. What fails for all of them, such as a quota that is used up, costs one request.
func (r *replacement) createAll(ctx context.Context, missing []*slot) {
	failed := false
	for batch := 1; len(missing) > 0 && !failed; batch = min(2*batch, atOnce) {
		n := min(batch, len(missing))
		answers := make([]creation, n)
		for _, s := range missing[:n] {
			r.mem.child(s.key) // which post only reads
		}
		sideBySide(n, func(i int) { answers[i] = r.post(ctx, missing[i]) })
		for i, s := range missing[:n] {
			s.err = r.created(ctx, s, answers[i])
			failed = failed || s.err != nil || s.outcome == Waiting
		}
		missing = missing[n:]
	}
}

// creation is what came of a POST.
type creation struct {
	answer kube.Object // nil: none was sent
	wait   time.Duration
	err    error
}

// createOptions are strict, so that a typo in a template is refused and not dropped.
var createOptions = kube.WriteOptions{FieldManager: Manager, FieldValidation: "Strict"}

// post sends the POST of a missing child. It may run beside others, and only reads what they share.
func (r *replacement) post(ctx context.Context, s *slot) creation {
	m := r.mem.child(s.key)
	if err := r.mem.refused.Standing(s.revision); err != nil {
		return creation{err: err}
	}
	if pause := m.contest.pause(s.revision); pause > 0 {
		return creation{wait: pause}
	}
	answer := r.empty()
	err := r.client.Create(ctx, r.resource, s.key.Namespace, s.want.Body, answer, createOptions)
	return creation{answer: answer, err: err}
}

// created takes in what came of a POST. That there is one already is no error: the cache was behind, or does not
// see it.
func (r *replacement) created(ctx context.Context, s *slot, c creation) error {
	m := r.mem.child(s.key)
	switch {
	case c.wait > 0:
		s.outcome = Contested
		s.message = fmt.Sprintf("%s %s was deleted %s", r.resource.Kind, s.key, m.contest.fight())
		s.again(c.wait)
		return nil
	case c.err == nil:
		if r.mem.seen[s.key] != "" { // it was there, and it was not us who removed it
			m.contest.add(s.revision)
		}
		m.removed, m.gone, m.foreign = "", false, ""
		r.mem.saw(s.key, uidOf(c.answer))
		m.answer.set(c.answer)
		r.mem.accepted = s.revision
		r.settle(s, c.answer)
		s.outcome = Created
		return nil
	case kube.IsAlreadyExists(c.err):
		return r.meet(ctx, s)
	case kube.IsNamespaceTerminating(c.err):
		s.outcome, s.message = Waiting, fmt.Sprintf("namespace %s is being deleted", s.key.Namespace)
		s.again(whileDeleting)
		return nil
	case kube.IsRefused(c.err) && c.answer != nil:
		r.mem.refused.Note(s.revision, c.err)
	}
	return c.err
}

// meet takes in the object that was in the way of a POST.
func (r *replacement) meet(ctx context.Context, s *slot) error {
	live, err := r.read(ctx, s.key)
	if err != nil {
		return err
	}
	if live == nil { // it has just gone
		s.again(soon)
		return nil
	}
	m := r.mem.child(s.key)
	m.answer.clear()
	m.removed, m.gone = "", false
	if r.ours(live) {
		m.answer.set(live)
		r.settle(s, live)
		return r.relabel(ctx, s) // if that is why the cache does not show it
	}
	s.other = live
	s.taken(r.describe(live))
	if labelled(live) {
		m.answer.set(live) // until the cache shows it, and tells of its end
	} else {
		m.foreign, m.recheck = s.message, time.Now().Add(recheck)
	}
	s.again(recheck)
	return r.adopt(ctx, s)
}

// remove deletes the child of a slot, and no other one that may have taken its place.
func (r *replacement) remove(ctx context.Context, st step) (removed bool, err error) {
	s := st.slot
	if st.does == Rolled {
		if err := r.try(ctx, s); err != nil {
			return false, err
		}
	}
	uid := uidOf(s.live)
	err = r.client.Delete(ctx, r.resource, s.key, kube.DeleteOptions{UID: uid, Propagation: kube.Background})
	switch {
	case err == nil:
		s.deleting = true
		s.again(overdue)
	case kube.IsNotFound(err):
		s.live = nil
		s.again(soon)
	case kube.IsConflict(err): // another one has its name, or it has just changed: a look will tell
		s.live = nil
		s.again(soon)
		if err := r.meet(ctx, s); err != nil || s.live != nil && uidOf(s.live) == uid {
			return false, err
		}
	default:
		return false, err
	}
	m := r.mem.child(s.key)
	m.removed, m.gone, m.asked = uid, err != nil, time.Now()
	if r.mem.seen[s.key] == uid {
		delete(r.mem.seen, s.key)
	}
	return err == nil, nil
}

// try asks the server whether it would take a child of the declared revision, before a roll takes the first old one
// away: a template that it refuses must not cost a child. It refuses what is wrong before it looks at the name,
// which is taken.
func (r *replacement) try(ctx context.Context, s *slot) error {
	if r.mem.accepted == s.revision {
		return nil
	}
	if err := r.mem.refused.Standing(s.revision); err != nil {
		return err
	}
	o := createOptions
	o.DryRun = true
	err := r.client.Create(ctx, r.resource, s.key.Namespace, s.want.Body, nil, o)
	switch {
	case err == nil, kube.IsAlreadyExists(err):
		r.mem.accepted = s.revision
		return nil
	case kube.IsRefused(err):
		r.mem.refused.Note(s.revision, err)
	}
	return err
}
