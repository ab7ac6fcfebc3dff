package apply

import (
	"fmt"
	"slices"
	"time"
)

// plan returns what to do next about the declared children, which are in their order, and the surplus ones; nothing
// where there is nothing to do but to wait. At most limit of the declared children are unavailable because of a
// roll.
//
// Children that ended go as soon as their pause is over, and missing ones are created at once: neither makes
// anything worse. What takes away a child that may serve is done from the end, and only as long as fewer than limit
// are unavailable.
func plan(children []*child, limit int, now time.Time) []step {
	var steps []step
	var surplus []*child
	declared, unavailable := 0, 0
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
			steps = append(steps, step{c, Created, ""})
		case c.stays() && c.health.ended && !now.Before(c.health.replace):
			steps = append(steps, step{c, Replaced, "it ended (" + c.health.how + ") and will be created again"})
		}
		// One of the declared revision that is not available stops the roll: the next one would fare no better.
		if ok, _ := c.available(now); !ok && (c.current() || !c.stays()) {
			unavailable++
		}
	}
	if len(surplus) > 0 {
		return append(steps, removal(surplus, fmt.Sprintf("%d are declared", declared))...)
	}
	if len(steps) > 0 {
		return steps
	}
	return rolls(children, limit-unavailable)
}

// removal returns the removal of the last of the children that have a child, none where one is being deleted already.
func removal(children []*child, note string) []step {
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
	return []step{{last, Deleted, note}}
}

// rolls returns the children of an older revision that are replaced next, at most n. Those that are not ready go
// first: they get no traffic.
func rolls(children []*child, n int) []step {
	var old []*child
	for _, c := range slices.Backward(children) {
		if c.stays() && !c.current() {
			old = append(old, c)
		}
	}
	slices.SortStableFunc(old, func(a, b *child) int {
		switch {
		case a.health.ready == b.health.ready:
			return 0
		case b.health.ready:
			return -1
		}
		return 1
	})
	var steps []step
	for _, c := range old[:max(0, min(n, len(old)))] {
		steps = append(steps, step{c, Rolled, fmt.Sprintf("to replace revision %s by %s", c.health.made, c.want.hash)})
	}
	return steps
}
