package controller

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

// No predicate stands before a controller: what changes no generation is a change all the same.
//
// Rules: MGR-14
func TestALabelAnAnnotationAndADeletionRunAnObjectWhoseGenerationStaysTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var runs atomic.Int64
		c := New("test", func(context.Context, kube.Key) (Outcome, error) {
			runs.Add(1)
			return Done, nil
		}, Options{}, For(w.store("")))
		stop := w.run(c)
		w.put("a", "parent", "1", nil)
		merge := func(what string, metadata map[string]any) {
			t.Helper()
			before := runs.Load()
			if err := w.user.Patch(t.Context(), configMaps, key("a"), kube.MergePatch,
				map[string]any{"metadata": metadata}, nil, kube.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			expect(t, what, runs.Load(), before+1)
		}
		merge("runs after a label", map[string]any{"labels": map[string]any{"x": "y"}})
		merge("runs after an annotation", map[string]any{"annotations": map[string]any{"x": "y"}})
		merge("runs after a finalizer", map[string]any{"finalizers": []string{"example.com/held"}})
		before := runs.Load()
		w.delete("a") // is held by the finalizer: what changes is its deletionTimestamp
		expect(t, "runs after the deletion", runs.Load(), before+1)
		merge("runs when it is gone", map[string]any{"finalizers": nil})
		stop()
	})
}

// Events go into the mirror at once, and a key that waits is queued once, however many of them there are.
//
// Rules: WCH-52
func TestSlowRunsHoldUpNeitherTheWatchNorTheMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var runs atomic.Int64
		store := w.store("")
		c := New("test", func(ctx context.Context, _ kube.Key) (Outcome, error) {
			runs.Add(1)
			select {
			case <-time.After(10 * time.Second):
			case <-ctx.Done():
			}
			return Done, nil
		}, Options{Workers: 2}, For(store))
		stop := w.run(c)
		w.put("a", "parent", "0", nil)
		w.api.ForgetRequests()
		const events = 1_000
		for i := 1; i <= events; i++ {
			if err := w.user.Patch(t.Context(), configMaps, key("a"), kube.MergePatch,
				map[string]any{"data": map[string]any{"value": strconv.Itoa(i)}}, nil,
				kube.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		got, found, err := store.Get(key("a"))
		if err != nil || !found || got.Data["value"] != strconv.Itoa(events) {
			t.Errorf("the mirror has %v, %v", got, err)
		}
		expect(t, "runs meanwhile", runs.Load() <= 2, true)
		time.Sleep(time.Minute)
		expect(t, "runs in all", runs.Load() <= 3, true)
		for _, r := range w.api.Requests() {
			if r.UserAgent == skiffAgent {
				t.Errorf("the watch was opened again: %s %s", r.Method, r.Path)
			}
		}
		stop()
	})
}
