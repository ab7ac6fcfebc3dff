package apply

import (
	"fmt"
	"time"
)

// crashLoop paces the replacement of a child that ends again and again, as a kubelet paces the restarts of a
// container. The zero value is a child that has not ended.
type crashLoop struct {
	revision string        // of the child; another one begins anew
	uid      string        // of the child that ended last
	how      string        // it ended
	pause    time.Duration // before its replacement
	until    time.Time     // when that is over
	replaced time.Time     // when its successor was first seen; zero: it was not yet
}

// The figures of a kubelet's CrashLoopBackOff. They bound a child that ends at once to some 300 replacements a day.
const (
	firstPause = 10 * time.Second
	maxPause   = 5 * time.Minute
	goodFor    = 10 * time.Minute // without an end: all is forgotten
)

// note counts the end of a child once.
func (c *crashLoop) note(uid, revision, how string, now time.Time) {
	if c.uid == uid {
		return
	}
	pause := time.Duration(0)
	if c.active(revision, now) {
		pause = min(max(2*c.pause, firstPause), maxPause)
	}
	*c = crashLoop{revision: revision, uid: uid, how: how, pause: pause, until: now.Add(pause)}
}

// follow notes which child is there.
func (c *crashLoop) follow(uid string, now time.Time) {
	if c.uid != "" && c.uid != uid && c.replaced.IsZero() {
		c.replaced = now
	}
}

// active says that a child of that revision has ended, and that its successor has not been good for long enough
// since.
func (c *crashLoop) active(revision string, now time.Time) bool {
	return c.uid != "" && c.revision == revision && (c.replaced.IsZero() || now.Sub(c.replaced) < goodFor)
}

// message describes the state of a child that has ended more than once; "" if it has not.
func (c *crashLoop) message(revision string, now time.Time) string {
	if c.pause == 0 || !c.active(revision, now) {
		return ""
	}
	return fmt.Sprintf("it keeps ending (%s); the pause before it is created again is %s now", c.how, c.pause)
}

// pace decides when a declared child that has ended may be replaced.
func (c *child) pace(now time.Time) {
	if c.kind.template == nil || c.want == nil || !c.stays() {
		return
	}
	if c.mem.wrong != nil {
		c.mem.wrong.crash.follow(uidOf(c.live), now)
	}
	if !c.health.ended || !c.current() {
		return // one of an older revision is replaced at once: the new one is not known to end
	}
	crash := &c.mem.trouble().crash
	crash.note(uidOf(c.live), c.want.hash, c.health.how, now)
	c.health.replace = crash.until
	if wait := crash.until.Sub(now); wait > 0 {
		c.again(wait)
	}
}
