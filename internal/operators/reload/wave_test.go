package reload

import (
	"fmt"
	"slices"
	"testing"

	"skiff/internal/runtime/kube"
)

func named(namespace string, i int) id {
	return id{"Deployment", kube.Key{Namespace: namespace, Name: fmt.Sprint(i)}}
}

func TestAWaveIsInOrderAndBounded(t *testing.T) {
	w := newWave(Share{n: 2}, func(string) int { return 10 })
	enter := func(i int, want bool) {
		t.Helper()
		if got, _ := w.enter(named("a", i)); got != want {
			t.Errorf("%d entered: %t", i, got)
		}
	}
	enter(0, true)
	enter(1, true)
	enter(2, false)
	enter(3, false)
	w.note(named("a", 0), false)
	enter(3, false) // 2 comes first
	if next := w.next("Deployment", "a"); len(next) != 2 || next[0].Name != "2" {
		t.Errorf("next are %v", next)
	}
	enter(2, true)
	enter(3, false)
	enter(1, true) // it rolls already
	w.leaveLine(named("a", 3))
	w.note(named("a", 1), false)
	enter(4, true)
	members{w, "Deployment"}.Leave("a")
	enter(5, true)
	if w.total != 1 {
		t.Errorf("%d roll", w.total)
	}
}

// A namespace whose rollouts never end takes no more than the cluster's share, and no other's turn.
func TestAWaveOfOneNamespaceHoldsUpNoOther(t *testing.T) {
	w := newWave(Share{n: 3}, func(string) int { return 10 })
	for i := range 10 {
		w.enter(named("a", i))
	}
	for i := range 5 {
		if entered, _ := w.enter(named(fmt.Sprint("other", i), 0)); !entered {
			t.Errorf("the first of namespace %d has to wait", i)
		}
	}
	if entered, _ := w.enter(named("other0", 1)); entered {
		t.Error("the cluster's share is exceeded")
	}
	// Whoever waits anywhere is looked at when one has ended.
	next := w.next("Deployment", "other1")
	if !slices.ContainsFunc(next, func(k kube.Key) bool { return k.Namespace == "other0" }) {
		t.Errorf("next are %v", next)
	}
}

func TestShares(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "10": 10, "20%": 6, "1%": 1, "100%": 30} {
		s, err := ParseShare(text)
		if err != nil || s.of(30) != want || s.String() != text {
			t.Errorf("%s: %d of 30, %v", text, s.of(30), err)
		}
	}
	for _, text := range []string{"", "0", "-1", "0%", "101%", "1.5", "%", "ten"} {
		if s, err := ParseShare(text); err == nil {
			t.Errorf("%q: got %s", text, s)
		}
	}
}
