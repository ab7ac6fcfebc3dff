package controller

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// label gives a namespace the label role, or takes it away.
func (w *world) label(namespace string, role any) {
	w.t.Helper()
	body := map[string]any{"metadata": map[string]any{"labels": map[string]any{"role": role}}}
	if err := w.user.Patch(w.t.Context(), namespaces, kube.Key{Name: namespace}, kube.MergePatch, body, nil,
		kube.WriteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(time.Second)
}

func TestAControllerFollowsTheNamespacesThatASelectorSelects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log logLines
		for _, name := range []string{"a", "b"} {
			w.createIn("", namespaces, name)
			w.createIn(name, configMaps, "one")
		}
		w.label("b", nil)
		s := Setup{Client: w.skiff, NamespaceSelector: "role=x", Mirrors: cache.NewMirrors(), Log: log.logger()}
		r, failing := &runs{}, errors.New("always")
		selecting := SelectNamespaces(s)
		c := s.New("test", r.count, For(Mirror[*configMap](s, configMaps, "")))
		fails := s.New("fails", func(context.Context, kube.Key) (Outcome, error) { return Done, failing },
			For(Mirror[*configMap](s, configMaps, "")))
		for _, one := range []*Controller{selecting, c, fails} {
			defer w.run(one)()
		}
		r.expect(t, "runs in a, which has the label", "a/one", 1)
		r.expect(t, "runs in b, which has not", "b/one", 0)
		expect(t, "ready", c.Ready(), nil)

		w.label("b", "x")
		r.expect(t, "runs in b, which has it now", "b/one", 1)
		w.createIn("b", configMaps, "two")
		time.Sleep(time.Second)
		r.expect(t, "runs in b", "b/two", 1)
		expect(t, "status", strings.Contains(status(fails), "a/one"), true)

		w.label("a", nil)
		w.createIn("a", configMaps, "two")
		time.Sleep(20 * time.Minute) // longer than any retry
		r.expect(t, "runs in a, which has lost the label", "a/two", 0)
		r.expect(t, "runs in a of before", "a/one", 1)
		expect(t, "status of a key that failed there", strings.Contains(status(fails), "a/one"), false)
		expect(t, "ready", c.Ready(), nil)

		w.label("a", "x")
		r.expect(t, "runs in a, which has it again", "a/two", 1)
		r.expect(t, "runs in a", "a/one", 2)
		expect(t, "log lines of the selection", len(log.with("selected namespaces")), 4)
	})
}

// A standby follows the selection, and says what is in the way of it.
func TestTheSelectionWorksWithoutLeadershipAndNamesAMissingRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createIn("", namespaces, "a")
		allow := w.forbid("", namespaces)
		s := Setup{Client: w.skiff, NamespaceSelector: "role=x", Mirrors: cache.NewMirrors(), Elected: true}
		selecting := SelectNamespaces(s)
		maps := Mirror[*configMap](s, configMaps, "")
		defer w.run(selecting)()
		defer w.run(s.New("test", (&runs{}).count, For(maps)))()
		time.Sleep(time.Minute)
		expect(t, "elected", selecting.Elected(), false)
		expect(t, "status", strings.Contains(status(selecting), "may not list and watch namespaces"), true)
		allow()
		time.Sleep(15 * time.Second)
		expect(t, "namespaces", strings.Join(maps.Namespaces(), " "), "a")
		expect(t, "synced", maps.Serves("a"), true)
	})
}

// teller is a Memory that says what it is told.
type teller func(what string)

func (f teller) Forget(k kube.Key)      { f("forget " + k.String()) }
func (f teller) Leave(namespace string) { f("left " + namespace) }

func TestAKeyIsForgottenAfterARunThatEndsInGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		maps := w.store("")
		var mu sync.Mutex // guards said
		var said []string
		say := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, what)
		}
		c := New("test", func(_ context.Context, k kube.Key) (Outcome, error) {
			say("run " + k.Name)
			if _, ok, err := maps.Get(k); err != nil || ok {
				return Done, err
			}
			return Gone, nil
		}, Options{}, For(maps))
		c.Remembers(teller(say))
		defer w.run(c)()
		w.put("x", "", "one", nil)
		time.Sleep(time.Second)
		c.Report(key("x"), &health.Problem{Reason: "Odd"})
		w.delete("x")
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		expect(t, "what was said", strings.Join(said, ", "), "run x, run x, forget "+key("x").String())
		expect(t, "Problem of x", c.reports.get(key("x")).Reason, "")
	})
}

func TestANamespaceThatLeavesIsForgottenAgainAfterARunThatWasUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createIn("", namespaces, "a")
		w.createIn("a", configMaps, "slow")
		w.label("a", "x")
		s := Setup{Client: w.skiff, NamespaceSelector: "role=x", Mirrors: cache.NewMirrors()}
		var mu sync.Mutex // guards said
		var said []string
		say := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, what)
		}
		c := s.New("test", func(context.Context, kube.Key) (Outcome, error) {
			time.Sleep(time.Minute)
			say("ran")
			return Done, nil
		}, For(Mirror[*configMap](s, configMaps, "")))
		c.Remembers(teller(say))
		defer w.run(SelectNamespaces(s))()
		defer w.run(c)()
		w.label("a", nil)
		time.Sleep(2 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		expect(t, "what was said", strings.Join(said, ", "), "left a, ran, left a")
	})
}
