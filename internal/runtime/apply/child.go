package apply

import (
	"fmt"
	"time"

	"skiff/internal/runtime/kube"
)

const (
	// soon is the wait where the next event should bring what is missing, and this is only for the case that it does
	// not come: long enough to cost nothing, short enough that no user asks what skiff is waiting for.
	soon = time.Second
	// recheck is the wait for what only others can change. A minute is soon enough for a person who has just removed a
	// foreign object, and one GET per minute is nothing to the server.
	recheck = time.Minute
	// whileDeleting is the wait for a child of ours that is being deleted. Its end comes as an event unless the child
	// has lost its label; a pod's grace period is 30 s, and no user wants to wait for that twice.
	whileDeleting = 5 * time.Second
)

// child is one child of an owner during one call of the Engine: what is declared, what is there, and what came of it.
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
	unheld   bool        // the cache does not hold the child
	health   health      // of live, if it is made from a template
	managed  *managed    // what was read of managedFields; nil: nothing was

	// What came of it; see Result.
	outcome     Outcome
	message     string
	differences []string
	err         error
	wait        time.Duration
}

// String names the child: "Deployment default/web".
func (c *child) String() string { return c.kind.resource.Kind + " " + c.key.String() }

// again asks for another look after d.
func (c *child) again(d time.Duration) { c.wait = Earlier(c.wait, d) }

// came notes what came of the child, and after which time to look again; 0: after none.
func (c *child) came(o Outcome, wait time.Duration, format string, args ...any) {
	c.outcome, c.message = o, fmt.Sprintf(format, args...)
	c.again(wait)
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
	r := Result{Resource: c.kind.resource, Key: c.key, Outcome: c.outcome, Live: c.live, Differences: c.differences,
		Message: c.message, Err: c.err, Wait: Earlier(c.wait, c.mem.written.remaining()), Deleting: c.deleting,
		Unheld: c.unheld}
	if c.err != nil && !c.unheld {
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

// settle remembers that live is as declared: by comparison, or because it is what the server made of our state,
// however it stores that. It need not be compared or sent again, and is kept without what is no longer needed of it.
func (c *child) settle() {
	if t := c.mem.wrong; t != nil { // with another state, which is not declared any more
		t.refusal, t.port = Refusal{}, portWait{}
	}
	m, content := c.live.ObjectMeta(), contentOf(c.live)
	if content != nil && content.light {
		return
	}
	s := &c.mem.settled
	if s.hash != c.want.hash || s.uid != m.UID || s.version != m.ResourceVersion {
		*s = settled{hash: c.want.hash, uid: m.UID, whole: wholeFingerprint(c.live), version: m.ResourceVersion}
		if content != nil {
			s.content, s.read = fingerprint(c.want, c.live), c.kind.readOf(content)
		}
	}
	s.minReady = c.want.minReady
	if content == nil || s.read == nil && c.kind.reads != nil {
		return // it has no body, or one that cannot be read: let Read tell of it
	}
	c.live = c.live.(object).withoutBody(s.read)
}

// unchanged settles a child that was found as declared.
func (c *child) unchanged() {
	before := c.live
	c.settle()
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
		c.settle()
		newest = c.live
	}
	c.mem.written.set(newest)
}

// isSettled says whether live is known to be as declared.
func (c *child) isSettled() bool {
	s := &c.mem.settled
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

// isSame says whether nothing but the status of a live child is other than when it was settled.
func (c *child) isSame(live kube.Object) bool {
	s, m := &c.mem.settled, live.ObjectMeta()
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
