package kube_test

import (
	"slices"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

func TestTheWritesOfAContextAreCountedAndTheFirstOnesKept(t *testing.T) {
	inWorld(t, apiserver.Options{}, func(t *testing.T, c *kube.Client) {
		create(t, c, "a")
		ctx, writes := kube.CountWrites(t.Context(), 3)
		key := kube.Key{Namespace: "default", Name: "a"}
		send := func(err error, wantCode int) {
			t.Helper()
			if s := kube.AsStatus(err); (s == nil) != (wantCode < 300) || s != nil && s.Code != wantCode {
				t.Errorf("got %v, want %d", err, wantCode)
			}
		}
		send(c.Get(ctx, configMaps, key, nil), 200)
		send(c.Patch(ctx, configMaps, key, kube.MergePatch, struct{}{}, nil, kube.WriteOptions{DryRun: true}), 200)
		send(c.Patch(ctx, configMaps, key, kube.MergePatch, struct{}{}, nil, kube.WriteOptions{Subresource: "status"}),
			404)
		send(c.Delete(ctx, configMaps, key, kube.DeleteOptions{}), 200)
		send(c.Delete(ctx, configMaps, key, kube.DeleteOptions{}), 404)
		if writes.Sent() != 4 || kube.WritesOf(ctx) != writes || kube.WritesOf(t.Context()).Sent() != 0 {
			t.Errorf("%d writes were counted, want 4", writes.Sent())
		}
		kept := writes.Kept()
		for i := range kept {
			if kept[i].Sent.IsZero() {
				t.Errorf("%s has no time", kept[i].Verb)
			}
			kept[i].Sent = kept[0].Sent
		}
		const what = "configmaps default/a"
		if want := []kube.CountedWrite{
			{Verb: "patch", What: what, Code: 200, Sent: kept[0].Sent, DryRun: true},
			{Verb: "patch status", What: what, Code: 404, Sent: kept[0].Sent},
			{Verb: "delete", What: what, Code: 200, Sent: kept[0].Sent},
		}; !slices.Equal(kept, want) {
			t.Errorf("kept %+v, want %+v", kept, want)
		}
	})
}
