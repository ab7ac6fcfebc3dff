package apply

import (
	"fmt"
	"slices"
	"time"

	"skiff/internal/runtime/kube"
)

// slot is the name of one child of a kind that is replaced, and what is known of the object under that name.
type slot struct {
	key      kube.Key
	want     *Child        // nil: it is no longer declared
	revision string        // that is declared
	minReady time.Duration // Child.MinReady

	live     kube.Object // nil: there is none of ours
	made     string      // the revision of live
	deleting bool        // live is being deleted, whether this copy shows it already or not
	ended    bool        // live has ended; how says how
	how      string
	ready    bool // live is ready, since then
	since    time.Time
	replace  time.Time   // an ended one is not replaced before that
	other    kube.Object // an object of that name that is not ours; nil: none is known

	// What came of it; see Result.
	outcome Outcome
	message string
	err     error
	wait    time.Duration
}

func (s *slot) again(d time.Duration) { s.wait = Earlier(s.wait, d) }

// taken says that an object which is not ours is in the way.
func (s *slot) taken(message string) {
	s.outcome, s.message = Foreign, message
}

// stays says that there is a child which is not being deleted.
func (s *slot) stays() bool { return s.live != nil && !s.deleting }

// current says that the child is of the declared revision.
func (s *slot) current() bool { return s.stays() && s.made == s.revision }

// available says that the child has been ready for long enough; if it is ready but not for so long yet, wait is
// what is missing.
func (s *slot) available(now time.Time) (ok bool, wait time.Duration) {
	if !s.stays() || !s.ready {
		return false, 0
	}
	wait = max(0, s.since.Add(s.minReady).Sub(now))
	return wait == 0, wait
}

// step is one thing to do next.
type step struct {
	slot *slot
	does Outcome // Created, Deleted, Replaced or Rolled
	note string  // why
}

// plan returns what to do next about the declared slots, which are in their order, and the surplus ones; nothing
// where there is nothing to do but to wait. At most limit of the declared children are unavailable because of a
// roll.
//
// Children that ended go as soon as their pause is over, and missing ones are created at once: neither makes
// anything worse. What takes away a child that may serve is done from the end, and only as long as fewer than limit
// are unavailable.
func plan(slots []*slot, limit int, now time.Time) []step {
	var steps []step
	var surplus []*slot
	declared, unavailable := 0, 0
	for _, s := range slots {
		if s.want == nil {
			if s.live != nil {
				surplus = append(surplus, s)
			}
			continue
		}
		declared++
		switch {
		case s.outcome == Foreign:
			continue
		case s.live == nil:
			steps = append(steps, step{s, Created, ""})
		case s.stays() && s.ended && !now.Before(s.replace):
			steps = append(steps, step{s, Replaced, "it ended (" + s.how + ") and will be created again"})
		}
		// One of the declared revision that is not available stops the roll: the next one would fare no better.
		if ok, _ := s.available(now); !ok && (s.current() || !s.stays()) {
			unavailable++
		}
	}
	if len(surplus) > 0 {
		return append(steps, remove(surplus, fmt.Sprintf("%d are declared", declared))...)
	}
	if len(steps) > 0 {
		return steps
	}
	return rolls(slots, limit-unavailable)
}

// remove returns the removal of the last of the slots that have a child, none where one is being deleted already.
func remove(slots []*slot, note string) []step {
	var last *slot
	for _, s := range slots {
		switch {
		case s.deleting:
			return nil
		case s.live != nil:
			last = s
		}
	}
	if last == nil {
		return nil
	}
	return []step{{last, Deleted, note}}
}

// rolls returns the children of an older revision that are replaced next, at most n. Those that are not ready go
// first: they serve nobody.
func rolls(slots []*slot, n int) []step {
	var old []*slot
	for _, s := range slices.Backward(slots) {
		if s.stays() && !s.current() {
			old = append(old, s)
		}
	}
	slices.SortStableFunc(old, func(a, b *slot) int {
		switch {
		case a.ready == b.ready:
			return 0
		case b.ready:
			return -1
		}
		return 1
	})
	var steps []step
	for _, s := range old[:max(0, min(n, len(old)))] {
		steps = append(steps, step{s, Rolled, fmt.Sprintf("to replace revision %s by %s", s.made, s.revision)})
	}
	return steps
}

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
