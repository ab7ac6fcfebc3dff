package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/health"
)

// Strategy says how the children of a kind are brought to their declared state. A strategy is two functions; all else
// is the same for all kinds: the [child], how a child is found, and the requests.
type Strategy interface {
	// plan returns the next steps about the children of a kind, and notes on each child without a step the reason to
	// wait. The children were observed; plan sends nothing. For a paused owner plan only notes.
	plan(children []*child, now time.Time) []step
	// act does one step, concurrently with steps about other children. The outcome is noted on the child.
	act(ctx context.Context, s step) error
}

// step is the next action for a child.
type step struct {
	child *child
	does  Outcome // the outcome of the step; Unchanged: labels are restored
	why   *health.Problem
}

func (s step) act(ctx context.Context) {
	s.child.err = errors.Join(s.child.err, s.child.kind.strategy.act(ctx, s))
}

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

// take takes the steps: about independent children side by side, then about children made from a template, and then,
// if all declared children are in place, the removals of independent children. Options may want another order.
func (a *application) take(ctx context.Context, steps [][]step, inPlace func() bool) {
	var writes, removals []step
	for i, of := range steps {
		for _, s := range of {
			switch {
			case a.kinds[i].template != nil:
			case a.owner.KeepOthers && s.child.want == nil:
			case s.does == Deleted || s.does == Released:
				removals = append(removals, s)
			default:
				writes = append(writes, s)
			}
		}
	}
	if a.options.RemoveFirst {
		sideBySide(len(removals), func(i int) { removals[i].act(ctx) })
		removals = nil
	}
	if a.options.InOrder {
		slices.SortStableFunc(writes, func(x, y step) int { return x.child.at - y.child.at })
		for _, s := range writes {
			s.act(ctx)
		}
	} else {
		sideBySide(len(writes), func(i int) { writes[i].act(ctx) })
	}
	for i, of := range steps {
		if a.kinds[i].template != nil {
			takeAlike(ctx, of)
		}
	}
	if inPlace() {
		sideBySide(len(removals), func(i int) { removals[i].act(ctx) })
	}
}

// takeAlike takes steps about children made from one template. A failure stops only the steps of the same action: of
// these the first is taken alone, then two, four and so on, and after a failure no more. A failure common to all, such
// as an exhausted quota, costs one request.
func takeAlike(ctx context.Context, steps []step) {
	for _, does := range []Outcome{Unchanged, Adopted, Released, Replaced, Rolled, Deleted, Created} {
		var same []step
		for _, s := range steps {
			if s.does == does {
				same = append(same, s)
			}
		}
		failed := false
		for batch := 1; len(same) > 0 && !failed; batch = min(2*batch, atOnce) {
			n := min(batch, len(same))
			sideBySide(n, func(i int) { same[i].act(ctx) })
			for _, s := range same[:n] {
				failed = failed || s.child.err != nil || s.child.outcome == Waiting
			}
			same = same[n:]
		}
	}
}

// atOnce bounds how many children of one owner are written at a time: enough to hide the round trips, and few for the
// server.
const atOnce = 8

// sideBySide calls f for 0 to n-1, at most atOnce at a time, and returns when all calls have. A panic in a call
// becomes a panic of the caller, who can recover: on another goroutine a panic would end the process.
func sideBySide(n int, f func(i int)) {
	switch n {
	case 0:
		return
	case 1:
		f(0)
		return
	}
	var running sync.WaitGroup
	var first sync.Once
	var panicked any
	var next atomic.Int32
	call := func(i int) {
		defer func() {
			if p := recover(); p != nil {
				first.Do(func() { panicked = fmt.Sprintf("%v\n%s", p, debug.Stack()) })
			}
		}()
		f(i)
	}
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			call(i)
		}
	}
	for range min(n, atOnce) - 1 {
		running.Go(work)
	}
	work() // the caller would only wait
	running.Wait()
	if panicked != nil {
		panic(panicked)
	}
}
