package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

// One tenant with a thousand bad objects, of many kinds of bad, beside others with one each.
func TestNoNamespaceHidesTheFailuresOfAnother(t *testing.T) {
	var s streaks
	add := func(namespace, name string, err error) {
		s.add(kube.Key{Namespace: namespace, Name: name}, next(err, streak{}, time.Now()), err)
	}
	for i := range 1000 {
		add("t3", fmt.Sprintf("o%03d", i), TerminalFor("TemplateRefused", fmt.Errorf("privileged in o%03d", i)))
	}
	for i := range 100 {
		add("t3", fmt.Sprintf("p%03d", i), &kube.Status{Code: 422, Reason: fmt.Sprintf("Odd%d", i), Message: "odd"})
	}
	for _, namespace := range []string{"a", "b", "c", "z"} {
		add(namespace, "one", TerminalFor("InvalidSpec", errors.New("no image")))
	}
	var lines []string
	for _, p := range s.problems("webserver", "WebServer") {
		lines = append(lines, p.Text(time.Now()))
	}
	if len(lines) != maxFailing+1 || lines[maxFailing] != "failing: 85 more" {
		t.Fatalf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
	for i, want := range []string{"refused: a/one, once: InvalidSpec for 0s (no image)",
		"refused: b/one, ", "refused: c/one, ",
		"refused: 1000 WebServers in t3, first t3/o000, once: TemplateRefused for 0s (privileged in o000)",
		"refused: z/one, ", "refused: t3/p"} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
}

// A key that fails waits when only the status of its object changes; what changes while its next try runs is not lost.
func TestAChangeOfAStatusDuringATryLeadsToARunOnceTheTrySucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		deployments := kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
		store := cache.New[*configMap](cache.Options{Resource: deployments, Client: w.skiff})
		var works, changes atomic.Bool
		var runs atomic.Int64
		status := func() {
			body := map[string]any{"status": map[string]any{"observedGeneration": 100 + runs.Load()}}
			err := w.user.Patch(t.Context(), deployments, key("x"), kube.MergePatch, body, nil,
				kube.WriteOptions{Subresource: "status"})
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second) // until the change was seen
		}
		c := New("test", func(context.Context, kube.Key) (Outcome, error) {
			runs.Add(1)
			if changes.CompareAndSwap(true, false) {
				status()
			}
			if works.Load() {
				return Done, nil
			}
			return Done, errors.New("no luck")
		}, Options{Workers: 1}, For(store))
		stop := w.run(c)
		type object = map[string]any
		pods := object{"metadata": object{"labels": object{"a": "b"}},
			"spec": object{"containers": []object{{"name": "c", "image": "i"}}}}
		err := w.user.Create(t.Context(), deployments, "default", object{"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": object{"name": "x"}, "spec": object{"selector": object{"matchLabels": object{"a": "b"}},
				"template": pods}}, nil, kube.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Minute) // it waits for longer than this test now
		synctest.Wait()
		before := runs.Load()
		status()
		synctest.Wait()
		expect(t, "runs for a change of the status alone", runs.Load(), before)
		works.Store(true)
		changes.Store(true)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		expect(t, "runs with the try that succeeds, and for the change during it", runs.Load(), before+2)
		stop()
	})
}
