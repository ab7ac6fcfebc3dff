package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// inPlace is the strategy of independent children that are compared with their declaration.
type inPlace struct {
	onDelete bool
}

var (
	// InPlace changes a child by server-side apply.
	InPlace Strategy = inPlace{}
	// OnDelete creates a child and never changes it: a new declaration takes effect when the child is deleted and
	// created again.
	OnDelete Strategy = inPlace{onDelete: true}
)

func (s inPlace) plan(children []*child, _ time.Time) []step {
	var steps []step
	for _, c := range children {
		if does, ok := s.next(c); ok {
			steps = append(steps, step{c, does, &health.Problem{Public: "it is not declared any more"}})
		}
	}
	return steps
}

// next returns the next action for a child; false: nothing.
func (s inPlace) next(c *child) (does Outcome, ok bool) {
	switch {
	case c.uncached:
		return Applied, c.want != nil && !c.paused && !s.onDelete && c.application.mem.tried != c.owner.Generation
	case c.err != nil:
	case c.want == nil && !c.stays(): // the end comes as an event
	case c.want == nil && !c.options.labelled(c.live):
		return Released, true
	case c.want == nil:
		return Deleted, true
	case c.other != nil:
		return Adopted, c.adoptable()
	case c.live == nil && c.overBudget():
		c.err = c.unheld
	case c.live == nil && c.paused:
		c.conclude(Paused, 0, "does not exist")
	case c.live == nil:
		return Created, true
	case c.deleting:
		c.conclude(Waiting, whileDeleting, "is being deleted and will be made again")
	case c.isSynced():
		c.unchanged()
	default:
		return Applied, s.differs(c)
	}
	return Unchanged, false
}

// differs says whether a child is to be changed.
func (s inPlace) differs(c *child) bool {
	c.differences, c.err = c.compare()
	switch {
	case c.err != nil:
	case c.differences.none():
		c.unchanged()
	case s.onDelete:
		c.outcome = Outdated
	case c.paused:
		c.conclude(Paused, 0, "differs in %s", List(c.differences.texts()))
	default:
		return true
	}
	return false
}

func (s inPlace) act(ctx context.Context, st step) error {
	c := st.child
	switch st.does {
	case Created:
		met, err := c.create(ctx)
		if !met {
			return err
		}
		if does, ok := s.next(c); ok {
			return s.act(ctx, step{child: c, does: does})
		}
		return c.err
	case Adopted:
		return c.adopt(ctx)
	case Deleted:
		return c.remove(ctx, st)
	case Released:
		return c.release(ctx, unlabelled)
	}
	if c.uncached {
		return c.applyUncached(ctx)
	}
	return c.apply(ctx)
}

// adopt makes the object of the child's name a child of the owner, as declared.
func (c *child) adopt(ctx context.Context) error {
	// The cache may be behind: an owner that is gone must not take anything.
	if gone, err := c.goneWithOwner(ctx); gone || err != nil {
		return err
	}
	other := c.other
	c.live = other
	var err error
	if c.differences, err = c.compare(); err == nil {
		err = c.apply(ctx)
	}
	switch {
	case c.outcome == Applied:
		c.outcome = Adopted
	case c.live == other: // still not a child
		c.live = nil
	}
	return err
}

// contested is the form of a fight about fields: who changes which.
const contested = "cannot be kept as declared: %s keeps changing %s"

// apply sends our declaration as a server-side apply to the live object, unless the same apply was in vain just now.
func (c *child) apply(ctx context.Context) error {
	live, t := c.live, c.mem.trouble()
	before := fingerprint(c.want, live)
	if pause := t.contest.pause(c.want.hash, withChanges); pause > 0 {
		c.conclude(Contested, pause, contested, c.rival(ctx, c.differences), List(c.differences.texts()))
		return nil
	}
	if err := t.refusal.Standing(requestOf(c.want.hash, before)); err != nil || c.kind.scarce.holds(c) {
		return err
	}
	answer := c.kind.mirror.empty()
	err := c.sendApply(ctx, live.ObjectMeta(), answer)
	switch {
	case errors.Is(err, errChanged), kube.IsConflict(err), kube.IsNotFound(err), otherUID(err):
		// The copy behind the decision is obsolete. The successor comes as an event; should no event come, or the
		// successor change as well, the waits get longer.
		c.mem.written.clear()
		t.lost = backoff.Backoff{Min: soon, Max: maxTrust}.Next(t.lost)
		c.conclude(Conflict, t.lost, "changed while it was being applied")
		return nil
	case c.kind.scarce.exhausted(err), c.kind.scarce.taken(err):
		_, err := c.kind.scarce.refused(ctx, c, err)
		return err
	case kube.IsRefused(err):
		t.refusal.Note(requestOf(c.want.hash, before), err)
	}
	if err != nil {
		return err
	}
	c.kind.scarce.allocated(c)
	t.lost, t.foreign = 0, nil
	c.mem.kept = c.declaredOf(c.want.keep)
	after := fingerprint(c.want, answer)
	if after != before {
		c.outcome = Applied
		t.contest.add(c.want.hash, withChanges)
		if c.differences.undeclared {
			c.differences = c.removed(contentOf(live).Body, contentOf(answer).Body)
		}
	}
	c.answered(answer)
	return nil
}

// sendApply prepares live for an apply, and applies.
func (c *child) sendApply(ctx context.Context, live *kube.Meta, answer any) error {
	body, err := c.want.apply(live.UID)
	if err != nil {
		return fmt.Errorf("encode %s: %w", c, err)
	}
	if err := c.prepare(ctx, live); err != nil {
		return err
	}
	// The uid makes the apply fail on an object deleted meanwhile, instead of creating a new object, and on an object
	// that has taken its place.
	return c.client.Patch(ctx, c.kind.resource, c.key, kube.ApplyPatch, body, answer,
		kube.WriteOptions{FieldManager: c.options.Manager, Force: true})
}

// declaredOf returns the declared fields among some fields of spec.
func (c *child) declaredOf(fields []string) []string {
	var out []string
	for _, f := range fields {
		if _, ok := c.want.spec[f]; ok {
			out = append(out, f)
		}
	}
	return out
}

// otherUID says whether an apply met an object with another uid.
func otherUID(err error) bool {
	s := kube.AsStatus(err)
	return s != nil && s.Code == http.StatusUnprocessableEntity &&
		slices.ContainsFunc(s.Details.Causes, func(c kube.StatusCause) bool { return c.Field == "metadata.uid" })
}

// maxDifferences is how many of a child's differences are named; the rest is only counted.
const maxDifferences = 8

// differences are where a child is not as declared.
type differences struct {
	first []patch.Difference // at most maxDifferences
	count int
	// undeclared says that no declared field differs, and some field is no longer declared: the apply that removes the
	// field shows which.
	undeclared bool
}

func (d differences) none() bool { return d.count == 0 && !d.undeclared }

// texts returns the paths of the first fields, and how many more there are.
func (d differences) texts() (texts []string) {
	for _, one := range d.first {
		texts = append(texts, one.String())
	}
	switch more := d.count - len(d.first); {
	case d.undeclared:
		return []string{"fields that are no longer declared"}
	case more > 0:
		return append(texts, fmt.Sprintf("%d more fields", more))
	}
	return texts
}

// compare returns the declared fields missing or different in the live child.
func (c *child) compare() (differences, error) {
	live := contentOf(c.live)
	all := map[string]any{}
	if len(live.Body) > 0 {
		body, err := patch.Decode(live.Body)
		if err != nil {
			return differences{}, fmt.Errorf("read %s: %w", c, err)
		}
		all, _ = body.(map[string]any)
	}
	all["apiVersion"], all["kind"] = c.kind.apiVersion, c.kind.resource.Kind
	all["metadata"] = map[string]any{"name": live.Name, "namespace": live.Namespace, "labels": values(live.Labels),
		"annotations": values(live.Annotations), "ownerReferences": references(&live.Meta)}
	first, count := patch.Differences(c.kind.schema, c.want.plain, all, maxDifferences)
	hash, _ := live.Annotations.Get(HashAnnotation)
	_, before := live.Annotations.Get(c.options.Predecessor)
	return differences{first, count, count == 0 && (before || hash != c.want.hash)}, nil
}

// removed returns the fields of an object removed by an apply.
func (c *child) removed(before, after kube.Raw) differences {
	was, errWas := patch.Decode(before)
	is, errIs := patch.Decode(after)
	if errWas != nil || errIs != nil { // the apply has succeeded all the same
		return differences{undeclared: true}
	}
	first, count := patch.Differences(c.kind.schema, was, is, maxDifferences)
	return differences{first, count, count == 0}
}

// List joins texts as in a sentence: "a, b and c".
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
