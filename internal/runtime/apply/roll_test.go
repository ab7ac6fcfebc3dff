package apply

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// childrenOf makes children of words: an optional revision (n is the declared one, o an old one) and a state: + ready
// for an hour, ? ready for a second, - not ready, . being deleted, ! ended; p ended and in its pause; _ is no child
// and f another object. Those after num are surplus.
func childrenOf(num int, words string) []*child {
	var out []*child
	for i, word := range strings.Fields(words) {
		c := &child{key: kube.Key{Namespace: "default", Name: fmt.Sprint("cache-", i)}, mem: &memory{}}
		if i < num {
			c.want = &declared{hash: "n", minReady: 10 * time.Second}
		}
		out = append(out, c)
		switch word {
		case "_":
			continue
		case "f":
			c.other = &kube.Meta{Name: c.key.Name}
			continue
		}
		c.live = &kube.Meta{Name: c.key.Name}
		c.vitals = vitals{made: word[:1], ready: true, since: noon.Add(-time.Hour)}
		switch word[1:] {
		case "?":
			c.vitals.since = noon.Add(-time.Second)
		case "-":
			c.vitals.ready = false
		case ".":
			c.deleting = true
		case "!":
			c.vitals.ready, c.vitals.ended = false, true
		case "p":
			c.vitals.ready, c.vitals.ended, c.vitals.replace = false, true, noon.Add(time.Second)
		}
	}
	return out
}

var verbs = map[Outcome]string{Created: "Create", Deleted: "Delete", Replaced: "Replace", Rolled: "Roll"}

func stepsIn(steps []step) string {
	var out []string
	for _, s := range steps {
		out = append(out, verbs[s.does]+strings.TrimPrefix(s.child.key.Name, "cache-"))
	}
	return strings.Join(out, ", ")
}

func TestPlan(t *testing.T) {
	for _, test := range []struct {
		num         int
		slots, want string
	}{
		{0, "", ""},
		{3, "n+ n+ n+", ""},
		{3, "_ _ _", "Create0, Create1, Create2"},
		{3, "n+ _ n+", "Create1"},
		{3, "n+ f _", "Create2"},
		{3, "n+ n. n+", ""},
		{3, "n! n+ n!", "Replace0, Replace2"},
		{3, "n- n- n-", ""}, // a crash is the kubelet's business
		// Scaling down: the highest first, one at a time, whatever the others do.
		{1, "n+ n+ n+", "Delete2"},
		{1, "n+ n+ n.", ""},
		{1, "n+ n. n+", ""},
		{1, "_ n- n!", "Create0, Delete2"},
		{0, "o+ o+", "Delete1"},
		{1, "o+ _ _", "Roll0"},     // what is only remembered is not there
		{2, "o+ o+ n+", "Delete2"}, // no roll before that
		// A roll: the highest first, one at a time, waiting for the new ones.
		{3, "o+ o+ o+", "Roll2"},
		{3, "o+ o+ n+", "Roll1"},
		{3, "o+ n+ n+", "Roll0"},
		{3, "o+ o+ n-", ""},
		{3, "o+ o+ n?", ""},
		{3, "o+ o+ _", "Create2"},
		{3, "o+ o+ o.", ""},
		{3, "o+ n- o+", ""}, // at any place of the new one that is not ready
		{3, "o+ f o+", "Roll2"},
		// Old pods that do not serve go first.
		{3, "o- o+ o+", "Roll0"},
		{3, "o- o- o+", "Roll1"},
		{3, "o- o+ n-", ""},
		{3, "o- n+ o+", "Roll0"},
		// What has ended waits for its pause, stops a roll, and goes at once where it is of an old revision.
		{3, "n+ np n+", ""},
		{3, "o+ np n+", ""},
		{1, "np o+", "Delete1"},
		{3, "o+ o! n+", "Replace1"},
	} {
		if got := stepsIn(plan(childrenOf(test.num, test.slots), noon)); got != test.want {
			t.Errorf("num %d, pods %q: got %q, want %q", test.num, test.slots, got, test.want)
		}
	}
}

func TestPlanOfARemoval(t *testing.T) {
	for slots, want := range map[string]string{"": "", "n+ o-": "Delete1", "n+ n.": "", "n. n+": "", "n+ _": "Delete0",
		"n!": "Delete0", "_ f": ""} {
		if got := stepsIn(removal(childrenOf(0, slots), "")); got != want {
			t.Errorf("pods %q: got %q, want %q", slots, got, want)
		}
	}
}

func TestCrashLoopPausesAsAKubeletDoes(t *testing.T) {
	var c crashLoop
	now, n := noon, 0
	end := func(revision string) time.Duration {
		n++
		c.note(fmt.Sprint(n), revision, "OOMKilled", now)
		c.note(fmt.Sprint(n), revision, "OOMKilled", now.Add(time.Second)) // counts once
		pause := c.until.Sub(now)
		now = c.until
		c.follow(fmt.Sprint(n+1), now)
		return pause
	}
	for i, want := range []time.Duration{0, 10, 20, 40, 80, 160, 300, 300} {
		if got := end("a"); got != want*time.Second {
			t.Errorf("pause %d: %v, want %v", i, got, want*time.Second)
		}
		how, pause := c.ending("a", now)
		if (how == "") != (i == 0) || pause != want*time.Second {
			t.Errorf("pause %d: %v after it ended with %q", i, pause, how)
		}
	}
	if got := end("b"); got != 0 {
		t.Errorf("another revision waits for %v", got)
	}
	end("b")
	now = now.Add(goodFor)
	if how, _ := c.ending("b", now); end("b") != 0 || how != "" {
		t.Errorf("after ten good minutes: ends with %q", how)
	}
}

func TestSurplusChildrenAreOrderedByTheirNumber(t *testing.T) {
	keys := []kube.Key{{Name: "c-9"}, {Name: "c-100"}, {Name: "c-10"}, {Name: "c-0"}}
	slices.SortFunc(keys, byNumber)
	if want := []kube.Key{{Name: "c-0"}, {Name: "c-9"}, {Name: "c-10"}, {Name: "c-100"}}; !slices.Equal(keys, want) {
		t.Errorf("got %v, want %v", keys, want)
	}
}

// Whatever is there: nothing is touched that is not ours or is being deleted, and a roll takes one, and only
// while all others are available.
func TestNoPlanTakesASecondChildFromThoseThatServe(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"n+", "o+", "n?", "o?", "n-", "o-", "n.", "o.", "n!", "o!", "np", "op", "_", "f"}
	for range 20_000 {
		var picked []string
		for range r.IntN(7) {
			picked = append(picked, words[r.IntN(len(words))])
		}
		text := strings.Join(picked, " ")
		children := childrenOf(r.IntN(7), text)
		available, rolled, surplus := 0, 0, 0
		declared := 0
		for _, s := range children {
			if ok, _ := s.available(noon); s.want != nil && s.other == nil {
				declared++
				if ok || s.stays() && !s.current() {
					available++
				}
			}
		}
		for _, st := range plan(children, noon) {
			s := st.child
			if s.other != nil || s.deleting ||
				(s.live == nil) != (st.does == Created) || (s.want == nil) != (st.does == Deleted) {
				t.Fatalf("%q: %v of %s", text, st.does, s.key.Name)
			}
			switch st.does {
			case Rolled:
				rolled++
			case Deleted:
				surplus++
			}
		}
		if rolled > 0 && available-rolled < declared-1 || surplus > 1 || rolled > 0 && surplus > 0 {
			t.Fatalf("%q: %d of %d are available, %d are rolled and %d removed", text, available, declared, rolled,
				surplus)
		}
	}
}
