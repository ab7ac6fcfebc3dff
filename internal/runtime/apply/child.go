package apply

import (
	"fmt"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

const (
	// soon is the wait where the next event should bring what is missing, and this is only for the case that it does
	// not come: long enough to cost nothing, short enough that no user asks what skiff is waiting for.
	soon = time.Second
	// recheck is the wait for what only others can change. A minute is soon enough for a person who has just removed
	// a foreign object, and one GET per minute is nothing to the server.
	recheck = time.Minute
	// whileDeleting is the wait for a child of ours that is being deleted. Its end comes as an event unless the child
	// has lost its label; a pod's grace period is 30 s, and no user wants to wait for that twice.
	whileDeleting = 5 * time.Second
)

// child is one child of an owner during one call of the Engine: what is declared, what is there, and the outcome.
type child struct {
	*application
	kind *Kind
	key  kube.Key
	mem  *memory
	want *declared // nil: it is not declared any more
	at   int       // in Report.Children

	live     kube.Object // the newest copy that is known; nil: there is none of ours
	other    kube.Object // an object of that name that is not a child of the owner; nil: none is known
	deleting bool        // live is being deleted, whether this copy shows it already or not
	stub     kube.Object // what the cache knows of a child that it may not hold; nil: nothing
	uncached bool        // the cache does not hold the child, and it is not read
	unheld   error       // why the cache does not hold the child, which is read instead; nil: it does
	vitals   vitals      // of live, if it is made from a template
	managed  *managed    // what was read of managedFields; nil: nothing was

	// See Result.
	outcome     Outcome
	problem     *health.Problem
	differences differences
	err         error
	wait        time.Duration
}

// String names the child: "Deployment default/web".
func (c *child) String() string { return c.kind.resource.Kind + " " + c.key.String() }

// requeue asks for another look at the child after d.
func (c *child) requeue(d time.Duration) { c.wait = Earlier(c.wait, d) }

// conclude notes the outcome, what keeps the child from being as declared, and after which time to look at the child
// again; 0: after none.
func (c *child) conclude(o Outcome, wait time.Duration, format string, args ...any) {
	c.outcome, c.problem = o, &health.Problem{Subject: c.String(), Public: fmt.Sprintf(format, args...)}
	c.requeue(wait)
}

// stays says that there is a child which is not being deleted.
func (c *child) stays() bool { return c.live != nil && !c.deleting }

// asDeclared says that a child is there as it is declared, as far as its kind is ever changed.
func (c *child) asDeclared() bool {
	switch c.outcome {
	case Unchanged, Created, Applied, Adopted, Outdated:
		return c.err == nil
	}
	return false
}

// result returns what is known of the child, and tidies up what is remembered of it.
func (c *child) result() Result {
	if c.unheld != nil {
		c.mem.written.clear() // it is read again when it is to be known
		if c.mem.wrong != nil {
			c.mem.wrong.foreign = nil
		}
	}
	r := Result{Resource: c.kind.resource, Key: c.key, Outcome: c.outcome, Live: c.live,
		Differences: c.differences.texts(), Problem: c.problem, Err: c.err,
		Wait: Earlier(c.wait, c.mem.written.remaining()), Deleting: c.deleting, Uncached: c.uncached, Unheld: c.unheld}
	if c.err != nil && !c.uncached {
		r.Outcome = Failed
	}
	if c.kind.template != nil {
		c.describe(&r)
	}
	if c.mem.wrong != nil && c.mem.wrong.over() {
		c.mem.wrong = nil
	}
	return r
}

// markSynced remembers that live is as declared: by comparison, or because it is what the server made of our state,
// however it stores that. It need not be compared or sent again, and is kept without what is no longer needed of it.
func (c *child) markSynced() {
	if t := c.mem.wrong; t != nil { // with another state, which is not declared any more
		t.refusal, t.scarce = Refusal{}, portWait{}
	}
	m, content := c.live.ObjectMeta(), contentOf(c.live)
	if content != nil && content.light {
		return
	}
	s := &c.mem.synced
	if s.hash != c.want.hash || s.uid != m.UID || s.version != m.ResourceVersion {
		*s = synced{hash: c.want.hash, uid: m.UID, whole: wholeFingerprint(c.live), version: m.ResourceVersion}
		if content != nil {
			s.content, s.read = fingerprint(c.want, c.live), c.kind.readOf(content)
		}
	}
	s.minReady = c.want.minReady
	if content == nil || c.kind.whole || s.read == nil && c.kind.reads != nil {
		return // it has no body, or one that cannot be read: Read returns the error
	}
	c.live = c.live.(object).withoutBody(s.read)
}

// unchanged marks a child that was found as declared.
func (c *child) unchanged() {
	before := c.live
	c.markSynced()
	switch {
	case c.live == before:
	case c.mem.written.object == before:
		c.mem.written.object = c.live
	default:
		c.kind.mirror.swap(before, c.live)
	}
}

// answered takes in the answer to a write that made the child as it is declared. Labels that children of a template
// are found by, and that the server did not store as they were sent, are still to be restored.
func (c *child) answered(answer kube.Object) {
	c.see(answer)
	newest := answer
	if c.live != nil && (c.kind.template == nil || c.current() && len(c.missing(answer)) == 0) {
		c.markSynced()
		newest = c.live
	}
	c.mem.written.set(newest)
}

// isSynced says whether live is known to be as declared.
func (c *child) isSynced() bool {
	s := &c.mem.synced
	if s.hash != c.want.hash || !c.stays() || s.uid != uidOf(c.live) {
		return false
	}
	if c.isSame(c.live) {
		return true
	}
	if content := contentOf(c.live); content == nil || content.light || s.content != fingerprint(c.want, c.live) {
		return false
	}
	// Only labels or annotations of others have changed.
	s.whole, s.version = wholeFingerprint(c.live), c.live.ObjectMeta().ResourceVersion
	return true
}

// isSame says whether nothing but the status of a live child is other than when it was marked.
func (c *child) isSame(live kube.Object) bool {
	s, m := &c.mem.synced, live.ObjectMeta()
	if s.uid != m.UID || s.version != m.ResourceVersion && (isLight(live) || s.whole != wholeFingerprint(live)) {
		return false
	}
	s.version = m.ResourceVersion
	return true
}

// isLight says whether the body of a child was dropped.
func isLight(live kube.Object) bool {
	content := contentOf(live)
	return content != nil && content.light
}

func uidOf(object kube.Object) string { return object.ObjectMeta().UID }

// Outcome says what was done about a child.
type Outcome int

// The outcomes. Live is nil where the child does not exist or is not managed by skiff.
const (
	Unchanged Outcome = iota // it is as declared, or the server said so
	Created
	Applied    // it differed and was changed; Result.Differences says where
	Adopted    // it had no controller and has become a child of the owner; Result.Differences says what was changed
	Outdated   // it differs, and stays so until it is deleted (OnDelete); Result.Differences says where
	Foreign    // an object of that name is not managed by skiff and was left alone; Result.Problem says whose it is
	Contested  // something else keeps changing or deleting what we declare; Result.Problem says what
	Waiting    // nothing can be done now; Result.Problem says what for
	Conflict   // it changed while we wrote: Result.Live is old, and an event is on its way
	Later      // no engine does: its controller changes it when something else is over; Result.Problem says what
	Paused     // it is missing or differs, and was left so because the owner is paused; Result.Problem says where
	PortTaken  // another Service has the node port; Result.Problem quotes the server
	NoNodePort // the cluster has none left of what the child needs
	Deleted    // it was not declared any more, or its owner is being deleted
	Released   // it was not declared any more and had lost our label: it is there, and no child of the owner
	Replaced   // it had ended and was deleted, to be created again; Result.Problem says how it ended
	Rolled     // it was of an older revision and was deleted, to be created again; Result.Problem says which
	Failed     // a request failed or was refused: Result.Err
)

func (o Outcome) String() string {
	return [...]string{"unchanged", "created", "applied", "adopted", "outdated", "foreign", "contested", "waiting",
		"conflict", "later", "paused", "node port taken", "no node port", "deleted", "released", "replaced", "rolled",
		"failed"}[o]
}

// Result is what is known about a child after Apply.
type Result struct {
	Resource    kube.Resource
	Key         kube.Key
	Outcome     Outcome
	Live        kube.Object // the newest copy that is known, also where there is an error; nil: none. See As
	Differences []string    // the declared fields that differed
	// Problem is what is in the way; of Created, what had to be left out (Child.Create); of Deleted, Replaced, Rolled
	// and Released, why; nil: nothing. See NotManaged for the Reasons; most have none.
	Problem  *health.Problem
	Err      error         // Failed: kube.IsRefused says whether trying again can help
	Wait     time.Duration // if not 0: look again after this time, even if no event comes
	Uncached bool          // the cache does not hold the child: of Live, if any, only the metadata is known
	Unheld   error         // why the cache does not hold the child, which was read instead; nil: it does

	// Of children that are replaced:
	Declared      string        // the revision that is declared; "": Live is to go
	Revision      string        // that Live was made from
	Deleting      bool          // Live is being deleted, whether this copy shows it already or not
	WaitsMinReady bool          // Live is ready, but not for as long as Child.MinReady
	Ending        string        // how the child keeps ending; "": the child does not
	Pause         time.Duration // of Ending: before the next one is created
}

// Why returns the Problem, the zero value for nil.
func (r *Result) Why() health.Problem {
	if r.Problem == nil {
		return health.Problem{}
	}
	return *r.Problem
}

// Report is what is known about the children of one owner after Apply.
type Report struct {
	Children []Result // in the order in which they were declared
	Pruned   []Result // what was done about those that are not declared any more
	Err      error    // children that are replaced could not be read: of these nothing is known
	Held     string   // why nothing was asked for, and so nothing is known
	LeftOut  []string // what of the declared children is not written, for people
}

// All returns all results.
func (r *Report) All() []Result {
	return append(r.Children[:len(r.Children):len(r.Children)], r.Pruned...)
}

// Earlier returns the shorter of two waits, where 0 means none.
func Earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
