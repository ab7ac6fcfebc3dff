package apply

import (
	"context"
	"testing"
	"time"
)

// recreate is a strategy as hooks have it: a child that differs is deleted, and created by a later Apply. With one at
// a time it is that of a roll: the next child waits until the one before is there again.
type recreate struct {
	inPlace
	oneAtATime bool
}

func (r recreate) plan(children []*child, now time.Time) []step {
	var steps []step
	missing := false
	for _, s := range r.inPlace.plan(children, now) {
		missing = missing || s.does == Created
		if s.does == Applied {
			s.does, s.note = Replaced, "it differs"
		}
		if s.does == Replaced && r.oneAtATime {
			if missing {
				continue
			}
			missing = true
		}
		steps = append(steps, s)
	}
	return steps
}

func (r recreate) act(ctx context.Context, s step) error {
	if s.does == Replaced {
		return s.child.remove(ctx, s)
	}
	return r.inPlace.act(ctx, s)
}

// A strategy only plans other steps of the same engine.
func TestAStrategyThatDeletesWhatDiffersIsTwoFunctions(t *testing.T) {
	for _, test := range []struct {
		oneAtATime bool
		want       []string
	}{
		{false, []string{"replaced replaced DELETE DELETE", "created created POST POST", "unchanged unchanged"}},
		{true, []string{"replaced unchanged DELETE", "created unchanged POST", "unchanged replaced DELETE",
			"unchanged created POST", "unchanged unchanged"}},
	} {
		on(t, recreate{oneAtATime: test.oneAtATime}, func(b *bench) {
			declare := func(replicas int64) []Child {
				var out []Child
				for _, name := range []string{"a", "b"} {
					child := b.deployment(replicas)
					child.Body["metadata"].(map[string]any)["name"] = name
					out = append(out, child)
				}
				return out
			}
			b.want("first", b.apply(declare(1)...), "created created POST POST")
			for _, want := range test.want {
				b.want(want, b.apply(declare(2)...), want)
			}
		})
	}
}
