package apply

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

const (
	// soon is the wait where the next event should bring the missing state, in case the event does not come: long
	// enough to cost nothing, short enough to leave no user wondering.
	soon = time.Second
	// recheck is the wait for a change only other clients can make. A minute is soon enough for a person who has just
	// removed a foreign object, and one GET per minute is nothing to the server.
	recheck = time.Minute
	// whileDeleting is the wait for a child of ours under deletion. The end comes as an event unless the child has
	// lost our label; a pod's grace period is 30 s, and no user wants to wait twice as long.
	whileDeleting = 5 * time.Second
)

// child is one child of an owner during one call of the Engine: the declared state, the live state, and the outcome.
type child struct {
	*application
	kind *Kind
	key  kube.Key
	mem  *memory
	want *declared // nil: no longer declared
	at   int       // in Report.Children

	live     kube.Object // the newest known copy; nil: no child of ours exists
	other    kube.Object // an object of the same name, not a child of the owner; nil: none is known
	deleting bool        // live is being deleted, even if the copy does not show so yet
	stub     kube.Object // the cache's knowledge of a child it may not hold; nil: nothing
	uncached bool        // the cache does not hold the child, and the child is not read
	unheld   error       // why the cache does not hold the child, which is read instead; nil: held
	vitals   vitals      // of live, if made from a template
	managed  *managed    // managedFields as read; nil: not read

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

// conclude notes the outcome, the obstacle to the declared state, and the wait before the next look at the child; 0:
// none.
func (c *child) conclude(o Outcome, wait time.Duration, format string, args ...any) {
	c.outcome, c.problem = o, &health.Problem{Subject: c.String(), Public: fmt.Sprintf(format, args...)}
	c.requeue(wait)
}

// stays says whether the child exists and is not being deleted.
func (c *child) stays() bool { return c.live != nil && !c.deleting }

// asDeclared says whether the child is as declared, as far as the kind is ever changed.
func (c *child) asDeclared() bool {
	switch c.outcome {
	case Unchanged, Created, Applied, Adopted, Outdated:
		return c.err == nil
	}
	return false
}

// result returns the Result of the child, and tidies up the child's memory.
func (c *child) result() Result {
	if c.unheld != nil {
		c.mem.written.clear() // the next look reads the child again
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

// markSynced remembers live as in sync: by comparison, or because the server made live of our state, in whatever form.
// Until a change, live need not be compared or sent again.
func (c *child) markSynced() {
	if t := c.mem.wrong; t != nil { // with another state, no longer declared
		t.refusal, t.scarce = Refusal{}, portWait{}
	}
	s, m := &c.mem.synced, c.live.ObjectMeta()
	if s.hash != c.want.hash || s.uid != m.UID || s.version != m.ResourceVersion {
		*s = synced{hash: c.want.hash, uid: m.UID, version: m.ResourceVersion, whole: wholeFingerprint(c.live)}
		if contentOf(c.live) != nil {
			s.content = fingerprint(c.want, c.live)
		}
	}
	s.minReady = c.want.minReady
}

// answered takes in the answer to a write that made the child as declared. Labels by which children of a template are
// found, and which the server stored differently, are still to be restored.
func (c *child) answered(answer kube.Object) {
	c.see(answer)
	if c.live != nil && (c.kind.template == nil || c.current() && len(c.missing(answer)) == 0) {
		c.markSynced()
	}
	c.mem.written.set(answer)
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
	if contentOf(c.live) == nil || s.content != fingerprint(c.want, c.live) {
		return false
	}
	// Only labels or annotations set by other clients have changed.
	s.whole, s.version = wholeFingerprint(c.live), c.live.ObjectMeta().ResourceVersion
	return true
}

// isSame says whether a live child has changed in nothing but the status since markSynced.
func (c *child) isSame(live kube.Object) bool {
	s, m := &c.mem.synced, live.ObjectMeta()
	if s.uid != m.UID || s.version != m.ResourceVersion && s.whole != wholeFingerprint(live) {
		return false
	}
	s.version = m.ResourceVersion
	return true
}

// isForgotten says whether an undeclared child leaves nothing worth remembering.
func (c *child) isForgotten() bool {
	return c.outcome == Released || c.live == nil && c.err == nil && (c.mem.wrong == nil || c.mem.wrong.removed == "")
}

// current says whether the child is of the declared revision.
func (c *child) current() bool { return c.stays() && c.vitals.made == c.want.hash }

// available says whether the child has been ready for long enough; wait is the missing time of a ready child.
func (c *child) available(now time.Time) (ok bool, wait time.Duration) {
	if !c.stays() || !c.vitals.ready {
		return false, 0
	}
	if c.want != nil {
		wait = max(0, c.vitals.since.Add(c.want.minReady).Sub(now))
	}
	return wait == 0, wait
}

// missing returns the Selector's labels that are not as declared on an object.
func (c *child) missing(object kube.Object) map[string]any {
	keys := c.kind.template.selector
	if c.options.ManagedBy != "" {
		keys = append(slices.Clip(keys), ManagedByLabel)
	}
	var out map[string]any
	for _, key := range keys {
		if have, ok := object.ObjectMeta().Labels.Get(key); !ok || have != c.want.labels[key] {
			if out == nil {
				out = map[string]any{}
			}
			out[key] = c.want.labels[key]
		}
	}
	return out
}

// describe adds the state of a child made from a template.
func (c *child) describe(r *Result) {
	now := time.Now()
	available, missing := c.available(now)
	r.Wait, r.Revision, r.WaitsMinReady = Earlier(r.Wait, missing), c.vitals.made, missing > 0
	if c.want == nil {
		if c.uncached {
			r.Wait = cmp.Or(r.Wait, recheck) // the end comes as an event
		}
		return
	}
	if r.Declared = c.want.hash; c.mem.wrong != nil && !available && !c.deleting {
		r.Ending, r.Pause = c.mem.wrong.crash.ending(c.want.hash, now)
	}
}

func uidOf(object kube.Object) string { return object.ObjectMeta().UID }

// Outcome is the action taken on a child, or the reason for none.
type Outcome int

// The outcomes. Live is nil where the child does not exist or is not managed by skiff.
const (
	Unchanged Outcome = iota // as declared, or the server said so
	Created
	Applied    // differed and was changed; Result.Differences says where
	Adopted    // had no controller, became a child of the owner; Result.Differences names the changes
	Outdated   // differs, and stays so until deleted (OnDelete); Result.Differences says where
	Foreign    // an object of the name, not managed by skiff, was left alone; Result.Problem says why
	Contested  // another writer keeps changing or deleting the child; Result.Problem says how
	Waiting    // nothing can be done now; Result.Problem names the cause
	Conflict   // changed while we wrote: Result.Live is old, and an event is on the way
	Later      // not changed by an engine: the controller makes the change later; Result.Problem names the condition
	Paused     // missing or different, and left so because the owner is paused; Result.Problem says where
	PortTaken  // another Service has the node port; Result.Problem quotes the server
	NoNodePort // the cluster has no free node port left
	Deleted    // no longer declared, or the owner is being deleted
	Released   // no longer declared and without our label: exists, but no longer as a child of the owner
	Replaced   // had ended and was deleted, to be created again; Result.Problem says how the child ended
	Rolled     // was of an older revision and was deleted, to be created again; Result.Problem says which
	Failed     // a request failed or was refused: Result.Err
)

func (o Outcome) String() string {
	return [...]string{"unchanged", "created", "applied", "adopted", "outdated", "foreign", "contested", "waiting",
		"conflict", "later", "paused", "node port taken", "no node port", "deleted", "released", "replaced", "rolled",
		"failed"}[o]
}

// Result describes a child after Apply.
type Result struct {
	Resource    kube.Resource
	Key         kube.Key
	Outcome     Outcome
	Live        kube.Object // the newest known copy, even with an error; nil: none. See As
	Differences []string    // declared fields found different
	// Problem is the obstacle; of Created, the part left out (Child.Create); of Deleted, Replaced, Rolled and
	// Released, the reason; nil: nothing. See NotManaged for the Reasons; most have none.
	Problem  *health.Problem
	Err      error         // Failed: kube.IsRefused says whether trying again can help
	Wait     time.Duration // if not 0: look again after Wait, even if no event comes
	Uncached bool          // the cache does not hold the child: of Live, if any, only the metadata is known
	Unheld   error         // why the cache does not hold the child, which was read instead; nil: held

	// For children of kinds made by Replace:
	Declared      string        // the declared revision; "": Live is to go
	Revision      string        // from which Live was made
	Deleting      bool          // Live is being deleted, even if the copy does not show so yet
	WaitsMinReady bool          // Live is ready, but not for as long as Child.MinReady
	Ending        string        // how the child keeps ending; "": the child does not
	Pause         time.Duration // of Ending: before the next child is created
}

// Why returns the Problem, the zero value for nil.
func (r *Result) Why() health.Problem {
	if r.Problem == nil {
		return health.Problem{}
	}
	return *r.Problem
}

// Report describes the children of one owner after Apply.
type Report struct {
	Children []Result // in the order in which they were declared
	Pruned   []Result // of children no longer declared
	Err      error    // children of a template could not be read, and nothing is known of them
	Held     string   // why nothing was asked for, and so nothing is known
	LeftOut  []string // the declared parts not written, for people
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
