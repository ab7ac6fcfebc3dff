package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skiff/internal/runtime/kube"
)

// overdue is how long the cache may be behind an answer of ours before the server is asked. An event takes
// milliseconds.
const overdue = 5 * time.Second

// look finds out what there is of the declared children, and which others the owner has.
func (r *replacement) look(ctx context.Context, children []*Child) error {
	cached, err := r.owned(r.owner.Namespace, r.owner.UID)
	if err != nil {
		return fmt.Errorf("read %s: %w", r.resource.Plural, err)
	}
	others := make(map[kube.Key]bool, len(cached))
	for _, object := range cached {
		others[object.ObjectMeta().Key()] = true
	}
	for k := range r.mem.children {
		others[k] = true
	}
	for k := range r.owner.Known {
		others[k] = true
	}
	slots, err := newSlots(r.owner, r.revision, children, others)
	if err != nil {
		return fmt.Errorf("declare %s of %s %s: %w", r.resource.Plural, r.owner.Resource.Kind, r.owner.Key(), err)
	}
	for _, s := range slots {
		// A declared one is found by the POST that would create it, unless nothing is to be changed.
		lost := (s.want == nil || r.hold) && r.mayBeLost(s)
		if err := r.fill(ctx, s); err != nil {
			return err
		}
		if lost && s.live == nil {
			if err := r.find(ctx, s); err != nil {
				return err
			}
		}
		r.judge(s)
	}
	r.slots = slots
	r.tidy()
	return nil
}

// fill adds to a slot what is known of the object under its name.
func (r *replacement) fill(ctx context.Context, s *slot) error {
	m := r.mem.children[s.key]
	if m == nil {
		m = &childMemory{}
	}
	now := time.Now()
	live, err := r.newest(ctx, s.key, m)
	if err != nil {
		return err
	}
	if live != nil && uidOf(live) == m.removed && !deleting(live) && !m.gone && now.Sub(m.asked) >= overdue {
		if live, err = r.read(ctx, s.key); err != nil { // the cache should have shown its end by now
			return err
		}
		m.asked, m.gone = now, live == nil || uidOf(live) != m.removed
	}
	switch {
	case live == nil:
		m.removed, m.gone = "", false
		if m.foreign != "" && now.Before(m.recheck) {
			s.taken(m.foreign)
			s.again(m.recheck.Sub(now))
		} else {
			m.foreign = ""
		}
		return nil
	case !r.ours(live):
		s.other = live
		s.taken(r.describe(live))
		s.again(recheck)
		return nil
	case uidOf(live) != m.removed:
		m.removed, m.gone = "", false
		r.settle(s, live)
	case !m.gone:
		r.settle(s, live)
		if s.deleting = true; !deleting(live) {
			s.again(m.asked.Add(overdue).Sub(now))
		}
	}
	s.again(m.answer.remaining())
	return nil
}

// newest returns the newest copy of an object that can be trusted, nil if there is none: the answer to our last
// write as long as the cache is behind it, else what the cache has; and where the cache stays behind for too long,
// what the server says (CCH-15).
func (r *replacement) newest(ctx context.Context, k kube.Key, m *childMemory) (kube.Object, error) {
	trusted := m.answer.trusted(r.reached) // before the cache is read; see (*operation).look
	switch trusted {
	case fromAnswer:
		return m.answer.object, nil
	case fromServer:
		live, err := r.read(ctx, k)
		if err == nil && live != nil {
			m.answer.set(live)
		} else if err == nil {
			m.answer.clear()
		}
		return live, err
	}
	cached, ok, err := r.get(k)
	if err != nil || !ok {
		return nil, err
	}
	return cached, nil
}

// settle puts a child of ours into its slot.
func (r *replacement) settle(s *slot, live kube.Object) {
	s.live, s.deleting = live, deleting(live)
	s.made, _ = live.ObjectMeta().Labels.Get(r.revision)
	s.how, s.ended = r.ended(live)
	s.since, s.ready = r.ready(live)
	s.other, s.outcome, s.message = nil, Unchanged, ""
}

// mayBeLost says that a child is known which we have not removed. Should the cache not show it, it may be there
// still: one that loses the label which our watch selects by looks deleted.
func (r *replacement) mayBeLost(s *slot) bool {
	uid, known := r.owner.Known[s.key]
	m := r.mem.children[s.key]
	return known && (m == nil || m.removed != uid)
}

// findDeclared looks for declared children that may be lost after the POSTs have been sent: one that was refused, or
// not sent, has not met the object that is there. Unless the status goes on naming it, nothing finds it later.
func (r *replacement) findDeclared(ctx context.Context) {
	for _, s := range r.slots {
		if s.want == nil || s.live != nil || s.other != nil || !r.mayBeLost(s) {
			continue
		}
		err := r.find(ctx, s)
		if err == nil && s.live != nil {
			err = r.relabel(ctx, s)
		}
		s.err = errors.Join(s.err, err)
	}
}

// find asks the server for a child that the cache does not show.
func (r *replacement) find(ctx context.Context, s *slot) error {
	live, err := r.read(ctx, s.key)
	if err != nil || live == nil || !r.ours(live) {
		return err
	}
	r.settle(s, live)
	return nil
}

// judge decides when an ended child may be replaced, and remembers which one is there.
func (r *replacement) judge(s *slot) {
	if s.want == nil || !s.stays() {
		return
	}
	now := time.Now()
	r.mem.saw(s.key, uidOf(s.live))
	if m := r.mem.children[s.key]; m != nil {
		m.crash.follow(uidOf(s.live), now)
	}
	if !s.ended || !s.current() {
		return // one of an older revision is replaced at once: the new one is not known to end
	}
	crash := &r.mem.child(s.key).crash
	crash.note(uidOf(s.live), s.revision, s.how, now)
	s.replace = crash.until
	if wait := s.replace.Sub(now); wait > 0 {
		s.again(wait)
	}
}

// tidy drops what is not worth remembering.
func (r *replacement) tidy() {
	now := time.Now()
	for _, s := range r.slots {
		if s.want == nil {
			delete(r.mem.seen, s.key)
		}
		if m := r.mem.children[s.key]; m != nil && m.idle(now) {
			delete(r.mem.children, s.key)
		}
	}
}

// read gets an object from the server, nil if there is none.
func (r *replacement) read(ctx context.Context, k kube.Key) (kube.Object, error) {
	live := r.empty()
	err := r.client.Get(ctx, r.resource, k, live)
	switch {
	case kube.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return live, nil
}

func (r *replacement) ours(live kube.Object) bool {
	return live.ObjectMeta().ControllerUID() == r.owner.UID
}

// describe says whose object is in our way.
func (r *replacement) describe(live kube.Object) string {
	m := live.ObjectMeta()
	if o, ok := m.Controller(); ok {
		return fmt.Sprintf("%s %s exists and belongs to %s %s (uid %s)", r.resource.Kind, m.Key(), o.Kind, o.Name,
			o.UID)
	}
	return fmt.Sprintf("%s %s exists and is not managed by skiff", r.resource.Kind, m.Key())
}

func uidOf(object kube.Object) string { return object.ObjectMeta().UID }

func deleting(object kube.Object) bool { return object.ObjectMeta().Deleting() }

// declaredLabels returns the labels that a child declares.
func declaredLabels(c *Child) map[string]any {
	meta, _ := c.Body["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	return labels
}

// lost returns those of the Selector's labels that an object does not have as declared.
func (r *replacement) lost(s *slot, m *kube.Meta) map[string]any {
	var out map[string]any
	want := declaredLabels(s.want)
	for _, key := range r.selector {
		if have, ok := m.Labels.Get(key); !ok || have != want[key] {
			if out == nil {
				out = map[string]any{}
			}
			out[key] = want[key]
		}
	}
	return out
}
