package apply

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// Strategy decides how the children of a kind are brought to their declared state. A strategy sends nothing; all else
// is the same for all kinds: how a child is found, and how a step is done.
type Strategy interface {
	// plan returns the next steps about the observed children of a kind, and notes on each child without a step the
	// reason to wait. For a paused owner the steps are not taken.
	plan(children []*child, now time.Time) []step
	// meet returns the next step about a child that was in the way of a POST; false: nothing is to be done.
	meet(c *child) (step, bool)
}

// step is the next action for a child, and all that is known of the action before a request is sent.
type step struct {
	child *child
	does  Outcome         // the outcome of the step; Unchanged: labels are restored
	why   *health.Problem // of a removal; without effect otherwise
	// standing is the refusal that the request would meet again, as the server said a moment ago; nil: the request is
	// worth a try.
	standing error
}

// weigh finds an obstacle to the step without a request: a fight, a standing refusal, or a missing node port, where a
// Service takes its turn (see claim). False: there is only to wait. A step is weighed when its turn has come, because
// the steps before may have met the obstacle, or removed it.
func (s step) weigh() (step, bool) {
	c := s.child
	switch {
	case s.does == Applied && c.uncached: // a refusal is not remembered
		return s, true
	case c.live == nil && s.removes(): // lost in the step before
		c.requeue(soon)
		return s, false
	case s.changes() && c.contestPause() > 0:
		s.does = Contested
		return s, true
	}
	for _, request := range s.requests() {
		if s.standing = c.mem.refused(request); s.standing != nil {
			return s, true
		}
	}
	switch s.does {
	case Created:
		return s, !c.kind.scarce.holds(c) && !c.isLosing()
	case Applied, Adopted:
		return s, !c.kind.scarce.holds(c)
	}
	return s, true
}

// changes says whether the step makes an existing object another one, which another writer may undo.
func (s step) changes() bool {
	return s.child.kind.template == nil && (s.does == Applied || s.does == Adopted || s.does == Replaced)
}

// removes says whether the step takes the live child away.
func (s step) removes() bool {
	return s.does == Deleted || s.does == Released || s.does == Replaced || s.does == Rolled
}

// requests returns the texts by which the memory knows the requests of the step, should the server refuse one.
func (s step) requests() []string {
	c := s.child
	switch {
	case s.does == Created:
		return []string{c.creation()}
	case s.does == Rolled && c.application.mem.accepted[c.kind] != c.want.hash:
		return []string{c.creation(), c.deletion()}
	case s.does == Rolled:
		return []string{c.deletion()}
	case s.does == Deleted, s.does == Replaced && !s.changes():
		return []string{c.deletion()}
	case s.changes() && c.live == nil:
		return []string{c.changeOf(c.other)}
	case s.changes():
		return []string{c.changeOf(c.live)}
	}
	return nil
}

// isLosing concludes with Contested, and returns true, if another client has deleted the child so often that the next
// POST has to wait.
func (c *child) isLosing() bool {
	if c.mem.wrong == nil || c.mem.seen == "" {
		return false
	}
	pause := c.mem.wrong.losses.pause(c.want.hash, withDeletions)
	if pause > 0 {
		c.conclude(Contested, pause, "is deleted again and again")
	}
	return pause > 0
}

// contestPause returns how long to leave the child as another writer wants it; 0: no fight.
func (c *child) contestPause() time.Duration {
	if c.mem.wrong == nil {
		return 0
	}
	return c.mem.wrong.contest.pause(c.want.hash, withChanges)
}

// creation is the text of a POST of the child; see requests.
func (c *child) creation() string { return requestOf(c.want.hash, 0) }

// changeOf is the text of a change that makes an object as declared: another text for another object.
func (c *child) changeOf(live kube.Object) string {
	return requestOf(c.want.hash, fingerprint(c.want, live))
}

// deletion is the text of a DELETE of the child.
func (c *child) deletion() string { return "delete " + uidOf(c.live) }

// plan returns the steps about the children of each kind.
func (a *application) plan(all []*child, r *Report) [][]step {
	steps := make([][]step, len(a.kinds))
	for i := range a.kinds {
		kind := &a.kinds[i]
		var children []*child
		var unseen error // the first says enough
		for _, c := range all {
			if c.kind != kind {
				continue
			}
			children = append(children, c)
			if kind.template != nil { // each child's step depends on all children
				unseen, c.err = cmp.Or(unseen, c.err), nil
			}
		}
		if unseen != nil && (!a.teardown || cache.Unheld(unseen) == nil) {
			r.Err = errors.Join(r.Err, unseen)
		}
		if unseen != nil && cache.Unheld(unseen) == nil {
			continue
		}
		steps[i] = kind.strategy.plan(children, time.Now())
	}
	return steps
}

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

func (s inPlace) plan(children []*child, _ time.Time) []step { return each(children, s.meet) }

// each returns the steps about children that are independent of each other.
func each(children []*child, next func(c *child) (step, bool)) (steps []step) {
	for _, c := range children {
		if s, ok := next(c); ok {
			steps = append(steps, s)
		}
	}
	return steps
}

func (s inPlace) meet(c *child) (step, bool) {
	does, ok := s.next(c)
	return step{child: c, does: does, why: &health.Problem{Public: "it is not declared any more"}}, ok
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
		if !c.adoptable() {
			return Unchanged, false
		}
		c.differences, c.err = c.compare(c.other)
		return Adopted, c.err == nil
	case c.live == nil && c.overBudget():
		c.err = c.unheld
	case c.live == nil && c.paused:
		c.conclude(Paused, 0, "does not exist")
	case c.live == nil:
		return Created, true
	case c.deleting:
		c.conclude(Waiting, whileDeleting, "is being deleted and will be made again")
	case c.isSynced():
		c.markSynced()
	default:
		return Applied, s.differs(c)
	}
	return Unchanged, false
}

// differs says whether a child is to be changed.
func (s inPlace) differs(c *child) bool {
	c.differences, c.err = c.compare(c.live)
	switch {
	case c.err != nil:
	case c.differences.none():
		c.markSynced()
	case s.onDelete:
		c.outcome = Outdated
	case c.paused:
		c.conclude(Paused, 0, "differs in %s", List(c.differences.texts()))
	default:
		return true
	}
	return false
}

// Recreate deletes a child that differs, and creates the child again after the deletion: for kinds that cannot be
// changed. Before the deletion, dry runs find out whether the server sees a difference and would accept the new child.
var Recreate Strategy = recreate{}

type recreate struct{ inPlace }

func (r recreate) plan(children []*child, _ time.Time) []step { return each(children, r.meet) }

func (r recreate) meet(c *child) (step, bool) {
	s, ok := r.inPlace.meet(c)
	if !ok || s.does != Applied {
		return s, ok
	}
	s.does, s.why = Replaced, &health.Problem{Public: "it differs in " + List(c.differences.texts())}
	return s, !c.uncached // the differences are not known
}

// replace is the strategy of children made from one template. They are never changed, except for their labels.
type replace struct{}

func (r replace) plan(children []*child, now time.Time) []step {
	if len(children) > 0 && children[0].teardown {
		return removal(children, "its "+children[0].owner.Resource.Kind+" is being deleted")
	}
	surplus := slices.DeleteFunc(slices.Clone(children), func(c *child) bool { return c.want != nil })
	if slices.ContainsFunc(children, func(c *child) bool { return c.uncached }) {
		return removal(surplus, fmt.Sprintf("%d are declared", len(children)-len(surplus)))
	}
	var steps []step
	var others []*child
	for _, c := range children {
		s, ok := r.meet(c)
		if ok {
			steps = append(steps, s)
		}
		if !ok || s.does != Released {
			others = append(others, c)
		}
	}
	return append(steps, plan(others, now)...)
}

// meet returns what comes before all else: an object provably ours is adopted, an undeclared child without our label
// is released, and lost Selector labels are restored. A child in no need of that is marked as in sync.
func (r replace) meet(c *child) (step, bool) {
	switch {
	case c.want == nil:
		return step{child: c, does: Released}, c.stays() && !c.options.labelled(c.live)
	case c.other != nil:
		return step{child: c, does: Adopted}, c.adoptable()
	case c.stays() && len(c.missing(c.live)) > 0:
		return step{child: c, does: Unchanged}, true
	case c.current() && !c.vitals.ended:
		c.markSynced()
	}
	return step{}, false
}

// plan returns the next steps about the declared children, in their order, and the surplus children; none if there is
// only to wait. A roll makes at most one declared child unavailable.
//
// Ended children go as soon as their pause is over, and missing children are created at once: neither makes anything
// worse. Steps that delete a possibly serving child go from the end, and only while all other children are available.
func plan(children []*child, now time.Time) []step {
	var steps []step
	var surplus []*child
	declared, unavailable := 0, false
	for _, c := range children {
		if c.want == nil {
			if c.live != nil {
				surplus = append(surplus, c)
			}
			continue
		}
		declared++
		switch {
		case c.other != nil:
			continue
		case c.live == nil:
			steps = append(steps, step{child: c, does: Created})
		case c.stays() && c.vitals.ended && !now.Before(c.vitals.replace):
			steps = append(steps, step{child: c, does: Replaced,
				why: &health.Problem{Public: "it ended and will be created again", Quoted: c.vitals.how}})
		}
		// An unavailable child of the declared revision stops the roll: the next child would fare no better.
		if ok, _ := c.available(now); !ok && (c.current() || !c.stays()) {
			unavailable = true
		}
	}
	if len(surplus) > 0 {
		return append(steps, removal(surplus, fmt.Sprintf("%d are declared", declared))...)
	}
	if len(steps) > 0 || unavailable {
		return steps
	}
	return roll(children)
}

// removal returns the removal of the last live child, none while a child is being deleted.
func removal(children []*child, why string) []step {
	var last *child
	for _, c := range children {
		switch {
		case c.deleting:
			return nil
		case c.live != nil:
			last = c
		}
	}
	if last == nil {
		return nil
	}
	return []step{{child: last, does: Deleted, why: &health.Problem{Public: why}}}
}

// roll returns the next child of an older revision to replace: the last not-ready child, which gets no traffic, else
// the last child.
func roll(children []*child) []step {
	var old *child
	for _, c := range slices.Backward(children) {
		if c.stays() && !c.current() && (old == nil || old.vitals.ready && !c.vitals.ready) {
			old = c
		}
	}
	if old == nil {
		return nil
	}
	return []step{{child: old, does: Rolled, why: &health.Problem{
		Public: fmt.Sprintf("to replace revision %s by %s", old.vitals.made, old.want.hash)}}}
}

// AdoptAnnotation on an owner, with a true value, lets the owner adopt objects that show no sign of being made by
// skiff.
const AdoptAnnotation = "skiff.dev/adopt"

// adoptable says whether the object of the child's name is to become a child of the owner: if the object has no
// controller, was made by skiff (or the user says so), and selects the same as the child. Such objects are left by
// `kubectl delete --cascade=orphan`, or come from a backup without owners. Any other object is left alone.
func (c *child) adoptable() bool {
	switch reason, why := c.foreign(c.other.ObjectMeta()); {
	case reason != "":
		wait := recheck
		if t := c.mem.wrong; t != nil && c.other == t.foreign {
			wait = max(recheck-time.Since(t.readAt), soon)
		}
		c.conclude(Foreign, wait, "%s", why)
		c.problem.Reason = reason
	case c.paused:
		c.conclude(Paused, 0, "has no owner")
	default:
		return true
	}
	return false
}

// The Reasons of a Result's Problem: of a Foreign child, and of a Service without its node port.
const (
	NodePort   = "NodePort"
	Owned      = "Owned"      // the object has another controller, or is not the owner's for another reason
	NotManaged = "NotManaged" // no sign that skiff made the object: AdoptAnnotation would take the object
	NotAdopted = "NotAdopted" // AdoptAnnotation does not take the object, because the content does not fit
)

// foreign says why an object is not to be adopted, "" if adoptable.
func (c *child) foreign(m *kube.Meta) (reason, why string) {
	if o, ok := m.Controller(); ok {
		return Owned, fmt.Sprintf("exists and belongs to %s %s (uid %s)", o.Kind, o.Name, o.UID)
	}
	switch {
	case c.options.ByClaim:
		return Owned, fmt.Sprintf("exists and is not controlled by %s %s", c.owner.Resource.Kind, c.owner.Key())
	case m.Deleting():
		return Owned, "exists without an owner and is being deleted"
	case !c.owner.Adopt && !c.isMade(c.other):
		return NotManaged, "exists and is not managed by skiff"
	case !c.sameSelector(c.other):
		return Owned, "exists without an owner and has another spec.selector"
	}
	return "", ""
}

// isMade says whether an object shows signs of being made by skiff: the labels, and the hash or the revision.
func (c *child) isMade(object kube.Object) bool {
	if t := c.kind.template; t != nil {
		_, made := object.ObjectMeta().Labels.Get(t.revision)
		return made && len(c.missing(object)) == 0
	}
	_, hashed := contentOf(object).Annotations.Get(HashAnnotation)
	return c.options.labelled(object) && hashed
}

// sameSelector says whether an object has the declared spec.selector, if any. In most kinds the selector cannot be
// changed.
func (c *child) sameSelector(object kube.Object) bool {
	want, ok := c.want.spec["selector"]
	content := contentOf(object)
	if !ok || content == nil {
		return true
	}
	var live struct {
		Spec struct {
			Selector kube.Raw `json:"selector"`
		} `json:"spec"`
	}
	if kube.Unmarshal(content.Body, &live) != nil || len(live.Spec.Selector) == 0 {
		return false
	}
	selector, err := patch.Decode(live.Spec.Selector)
	same, _ := patch.Covered(c.kind.schema.Field("spec").Field("selector"), want, selector)
	return err == nil && same
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

// compare returns the declared fields missing or different in an object.
func (c *child) compare(object kube.Object) (differences, error) {
	live := contentOf(object)
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

func values(labels kube.Labels) map[string]any {
	m := make(map[string]any, len(labels))
	for _, l := range labels {
		m[l.Key] = l.Value
	}
	return m
}

// references returns the owner references of an object in the form to compare: with the flags that are false.
func references(m *kube.Meta) []any {
	out := []any{}
	for _, o := range m.OwnerReferences {
		out = append(out, map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name, "uid": o.UID,
			"controller": o.Controller, "blockOwnerDeletion": o.BlockOwnerDeletion})
	}
	return out
}

// List joins texts as in a sentence: "a, b and c".
func List(texts []string) string {
	last := len(texts) - 1
	if last < 1 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}
