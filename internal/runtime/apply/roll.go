package apply

import (
	"fmt"
	"slices"
	"time"

	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/health"
)

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
			steps = append(steps, step{c, Replaced,
				&health.Problem{Public: "it ended and will be created again", Quoted: c.vitals.how}})
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
	return []step{{last, Deleted, &health.Problem{Public: why}}}
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
	return []step{{old, Rolled, &health.Problem{
		Public: fmt.Sprintf("to replace revision %s by %s", old.vitals.made, old.want.hash)}}}
}

// crashLoop paces the replacement of a child that ends again and again, as a kubelet paces the restarts of a
// container. The zero value is a child that has not ended.
type crashLoop struct {
	revision string        // of the child; another revision begins anew
	uid      string        // of the last ended child
	how      string        // the child ended
	pause    time.Duration // before its replacement
	until    time.Time     // the end of the pause
	replaced time.Time     // when the successor was first seen; zero: not yet
}

// The figures of a kubelet's CrashLoopBackOff. A child that ends at once is replaced some 300 times a day.
var crashes = backoff.Backoff{Min: 10 * time.Second, Max: 5 * time.Minute}

const goodFor = 10 * time.Minute // without an end: all is forgotten

// note counts the end of a child once.
func (c *crashLoop) note(uid, revision, how string, now time.Time) {
	if c.uid == uid {
		return
	}
	pause := time.Duration(0)
	if c.active(revision, now) {
		pause = crashes.Next(c.pause)
	}
	*c = crashLoop{revision: revision, uid: uid, how: how, pause: pause, until: now.Add(pause)}
}

// follow notes the uid of the present child.
func (c *crashLoop) follow(uid string, now time.Time) {
	if c.uid != "" && c.uid != uid && c.replaced.IsZero() {
		c.replaced = now
	}
}

// active says whether a child of the revision has ended, and the successor has not been good for long enough since.
func (c *crashLoop) active(revision string, now time.Time) bool {
	return c.uid != "" && c.revision == revision && (c.replaced.IsZero() || now.Sub(c.replaced) < goodFor)
}

// ending describes the state of a child that has ended more than once; "" otherwise.
func (c *crashLoop) ending(revision string, now time.Time) (how string, pause time.Duration) {
	if c.pause == 0 || !c.active(revision, now) {
		return "", 0
	}
	return c.how, c.pause
}

// pace decides when an ended declared child may be replaced.
func (c *child) pace(now time.Time) {
	if c.kind.template == nil || c.want == nil || !c.stays() {
		return
	}
	if c.mem.wrong != nil {
		c.mem.wrong.crash.follow(uidOf(c.live), now)
	}
	if !c.vitals.ended || !c.current() {
		return // an older revision is replaced at once: the new revision is not known to end
	}
	crash := &c.mem.trouble().crash
	crash.note(uidOf(c.live), c.want.hash, c.vitals.how, now)
	c.vitals.replace = crash.until
	if wait := crash.until.Sub(now); wait > 0 {
		c.requeue(wait)
	}
}
