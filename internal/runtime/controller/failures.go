package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/keyed"
	"skiff/internal/runtime/kube"
)

const (
	// wakeEvery bounds how often a key is tried because requests for other keys work again: the key may fail for a
	// reason of its own.
	wakeEvery = 30 * time.Second
	// wakeScan is the least time between two searches for such keys.
	wakeScan = time.Second
)

// streak is the failures of a key since the last success, or since the key's object was replaced: backoff, log, page,
// metrics, history read no other count. Failures are counted by class, too: an outage of the server says nothing about
// the key.
type streak struct {
	failures  int       // of all classes
	first     time.Time // of the first failure
	failing   int       // of class failing
	since     time.Time // of the first of class failing
	forbidden time.Time // of the first of class forbidden

	last    time.Time // of the last failure
	class   class     // of the last failure
	text    string    // of the last failure
	reason  string    // of the last failure, one word
	stalled bool      // the next try is at the longest interval
	woken   time.Time // last try because other requests worked again
	missed  bool      // a change of the status was passed over since the last run began
}

// streaks are the keys that fail.
type streaks struct {
	keyed.Map[streak]
	scanned time.Time // the last search of wake; read and written in View
}

// passOver notes that a change is no reason to run a failing key; false: the key does not fail any more.
func (s *streaks) passOver(k kube.Key) bool { return s.miss(k, true) }

// begin notes that a run of a key begins, which sees all changes up to now.
func (s *streaks) begin(k kube.Key) { s.miss(k, false) }

// miss sets missed in the streak of a key, if there is a streak.
func (s *streaks) miss(k kube.Key, missed bool) (ok bool) {
	s.View(func(of map[kube.Key]streak) {
		var one streak
		if one, ok = of[k]; ok && one.missed != missed {
			one.missed = missed
			of[k] = one
		}
	})
	return ok
}

// count returns how many keys fail, and how many of these are tried at the longest interval.
func (s *streaks) count() (failing, stalled int) {
	s.View(func(of map[kube.Key]streak) {
		for _, one := range of {
			if one.stalled {
				stalled++
			}
		}
		failing = len(of)
	})
	return failing, stalled
}

// drop forgets a key, and says whether a change was passed over since the last run of the key began.
func (s *streaks) drop(k kube.Key) (missed bool) {
	s.View(func(of map[kube.Key]streak) {
		missed = of[k].missed
		delete(of, k)
	})
	return missed
}

// add counts a failure, and returns how many there were before.
func (s *streaks) add(k kube.Key, n Next, err error) (before int) {
	now, reason, text := time.Now(), ReasonOf(err), kube.Printable(kube.Explain(err), maxReason)
	s.Change(k, func(one *streak) {
		before = one.failures
		*one = one.and(n.class, now)
		one.last, one.stalled, one.reason, one.text = now, n.Stalled, reason, text
	})
	return before
}

// maxFailing is how many groups of objects that fail are named.
const maxFailing = 20

// failures are the objects of one namespace with the same reason to fail.
type failures struct {
	alike
	keys []kube.Key
	rank int // among those of the namespace, the largest first
}

// alike is what such objects have in common.
type alike struct{ namespace, what, reason string }

// problems returns the failing objects: one Problem for each namespace and reason, and the first of each namespace
// before the rest, so that no namespace hides another. A recent failure of the class passing is left out, as the retry
// most often succeeds. kind is the kind of the objects.
func (s *streaks) problems(controller, kind string) (out []health.Problem) {
	s.View(func(of map[kube.Key]streak) { out = problemsOf(of, controller, kind) })
	return out
}

func problemsOf(of map[kube.Key]streak, controller, kind string) (out []health.Problem) {
	groups := groupsOf(of)
	for i, g := range groups {
		if i == maxFailing {
			more := 0
			for _, rest := range groups[i:] {
				more += len(rest.keys)
			}
			return append(out, health.Problem{Controller: controller, Reason: "More",
				Public: fmt.Sprintf("failing: %d more", more)})
		}
		one := of[g.keys[0]]
		p := one.problem()
		p.Controller, p.Since = controller, one.first
		p.Public = fmt.Sprintf("%s, %s", g.keys[0], times(one.failures))
		if n := len(g.keys); n > 1 {
			p.Public = fmt.Sprintf("%d %s in %s, first %s", n, plural(kind), g.namespace, p.Public)
		}
		p.Public = g.what + ": " + p.Public + ": " + g.reason
		if g.namespace != "" {
			p.Namespaces = []string{g.namespace}
		}
		out = append(out, p)
	}
	return out
}

// groupsOf returns the groups worth reporting, in order.
func groupsOf(of map[kube.Key]streak) []*failures {
	by := map[alike]*failures{}
	var groups []*failures
	for k, one := range of {
		if one.class == passing && one.failures < newsAfter {
			continue
		}
		id := alike{k.Namespace, "failing", one.reason}
		if one.class == terminal || one.class == forbidden {
			id.what = "refused"
		}
		if by[id] == nil {
			by[id] = &failures{alike: id}
			groups = append(groups, by[id])
		}
		by[id].keys = append(by[id].keys, k)
	}
	slices.SortFunc(groups, func(a, b *failures) int {
		return cmp.Or(cmp.Compare(len(b.keys), len(a.keys)), cmp.Compare(a.what+a.reason, b.what+b.reason))
	})
	ranks := map[string]int{}
	for _, g := range groups {
		g.rank = ranks[g.namespace]
		ranks[g.namespace]++
		slices.SortFunc(g.keys, kube.Key.Compare)
	}
	slices.SortStableFunc(groups, func(a, b *failures) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.keys[0].Compare(b.keys[0]))
	})
	return groups
}

// plural is the name of a kind for several objects.
func plural(kind string) string {
	if strings.HasSuffix(kind, "s") {
		return kind
	}
	return kind + "s"
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// problem is the Problem of the last failure.
func (s streak) problem() health.Problem {
	p := health.Problem{Reason: s.reason, Quoted: s.text, Since: s.since}
	if s.stalled {
		p.Severity = health.Stalled
	}
	return p
}

// and is the streak with one more failure.
func (s streak) and(c class, now time.Time) streak {
	if s.failures++; s.failures == 1 {
		s.first = now
	}
	s.class = c
	switch {
	case c == failing:
		s.failing++
		if s.failing == 1 {
			s.since = now
		}
	case c == forbidden && s.forbidden.IsZero():
		s.forbidden = now
	}
	return s
}

// wake returns the keys that waited for the server, or for a right in the namespaces for which in is true.
func (s *streaks) wake(in func(namespace string) bool) (keys []kube.Key) {
	s.View(func(of map[kube.Key]streak) {
		now := time.Now()
		if len(of) == 0 || now.Sub(s.scanned) < wakeScan {
			return
		}
		s.scanned = now
		for k, one := range of {
			waits := one.class == passing || one.class == forbidden && in(k.Namespace)
			if waits && now.Sub(one.woken) >= wakeEvery {
				one.woken = now
				of[k] = one
				keys = append(keys, k)
			}
		}
	})
	return keys
}
