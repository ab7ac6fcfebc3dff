package controller

import (
	"context"
	"errors"
	"testing"

	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
)

// What a live page costs in time depends on the machine; BenchmarkReconcile and that of WebServers measure it.
//
// Rules: LP-04
func TestALivePageCostsARunThatDoesNothingNoAllocationAndOneThatFailsFew(t *testing.T) {
	allocations := func(past *history.Log, err error) float64 {
		c := New("test", func(context.Context, kube.Key) (Outcome, error) { return Done, err }, Options{History: past})
		k := kube.Key{Namespace: "default", Name: "web"}
		return testing.AllocsPerRun(1000, func() {
			c.queue.Add(k, "Service default/web-service DELETED")
			item, _ := c.queue.Get(t.Context())
			c.reconcile(t.Context(), item)
			c.streaks.Forget(k)
		})
	}
	for _, test := range []struct {
		name string
		err  error
		most float64
	}{{"nothing to do", nil, 0}, {"fails", errors.New("x"), 16}} {
		without, with := allocations(nil, test.err), allocations(new(history.Log), test.err)
		if with-without > test.most {
			t.Errorf("%s: %v allocations, and %v with a page: at most %v more are wanted", test.name, without, with,
				test.most)
		}
		t.Log(test.name, without, with)
	}
}
