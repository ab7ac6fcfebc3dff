package controller

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/queue"
)

func TestCausesAreCountedWithoutNamesAndBounded(t *testing.T) {
	var c causes
	c.count(queue.Item{Causes: []string{"Deployment default/web MODIFIED", initialList,
		"waits for deployment/secret-name"}})
	c.count(queue.Item{Causes: []string{"Deployment other/web2 MODIFIED", "Namespace team DELETED", retryCause}})
	for i := range 2 * maxCauses {
		c.count(queue.Item{Causes: []string{fmt.Sprintf("Kind%d a/b ADDED", i)}})
	}
	got := c.all()
	for cause, n := range map[string]uint64{"Deployment MODIFIED": 2, initialList: 1, "Namespace DELETED": 1,
		retryCause: 1, "Kind0 ADDED": 1} {
		expect(t, cause, got[cause], n)
	}
	if len(got) > maxCauses {
		t.Errorf("%d causes have a counter", len(got))
	}
	total := uint64(0)
	for _, n := range got {
		total += n
	}
	expect(t, "causes", total, uint64(6+2*maxCauses))
}

// A process may be told to stop in the moment in which it becomes the leader.
func TestLeadReturnsWhenRunHasEndedBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New("idle", func(context.Context, kube.Key) (Outcome, error) { return Done, nil }, Options{Elected: true})
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.Lead(ctx, t.Context()); err != nil { // a deadlock before
			t.Fatal(err)
		}
	})
}
