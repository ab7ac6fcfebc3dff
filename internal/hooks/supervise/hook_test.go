package supervise

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
)

// Rules: HK-95
func TestCallsThatFailTogetherPauseAHookOnce(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	caller, err := call.New(&spec.Controller{Kind: spec.Composite, Name: "web",
		Places: map[string]string{"sync": "c.yaml:16"}}, wire.Sync,
		&spec.Hook{Version: 1, Webhook: &spec.Webhook{URL: gone.URL}}, call.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	_, failure := caller.Call(t.Context(), call.Call{Body: []byte(`{}`)})
	if !call.IsUnavailable(failure) {
		t.Fatalf("the hook is not there, and the error is %v", failure)
	}
	h := &hook{name: wire.Sync, tell: func(events.Type, string, string) {}}
	parent := func(i int) kube.Key { return kube.Key{Namespace: "shop", Name: fmt.Sprint(i)} }
	for i := range 20 {
		if wait := h.begin(parent(i), time.Now()); wait > 0 {
			t.Fatalf("call %d waits %s", i, wait)
		}
	}
	for i := range 20 {
		h.end(parent(i), failure, false)
	}
	const next = "start it, or correct the url of c.yaml:16; "
	if p := h.problems(); len(p) != 1 || !strings.HasPrefix(p[0].Next, next) ||
		strings.Contains(p[0].Quoted, "c.yaml") {
		t.Errorf("problems %+v", p)
	}
	if wait := h.begin(parent(0), time.Now()); wait <= 0 || wait > parks.Min {
		t.Errorf("after one outage the next call waits %s, want at most %s", wait, parks.Min)
	}
}

// A hook hangs for a namespace of a thousand parents: each run makes a request with all children of the parent.
//
// Rules: HK-95
func TestParentsThatWaitForTheCallUnderWayAskOneAfterTheOther(t *testing.T) {
	_, failure := callLines(t, "exit 1")
	h := &hook{name: wire.Sync, tell: func(events.Type, string, string) {}}
	parent := func(i int) kube.Key { return kube.Key{Namespace: "shop", Name: fmt.Sprint(i)} }
	now := time.Now()
	for i := range parkAfter {
		h.begin(parent(i), now)
		h.end(parent(i), failure, false)
	}
	now = now.Add(time.Hour)
	if wait := h.begin(parent(0), now); wait > 0 {
		t.Fatalf("the first call after an hour waits %s", wait)
	}
	asked, next := 0, make([]time.Time, 1000)
	for end := now.Add(10 * time.Second); now.Before(end); now = now.Add(10 * time.Millisecond) {
		for i := range next {
			if next[i].After(now) {
				continue
			}
			wait := h.begin(parent(parkAfter+i), now)
			if wait <= 0 {
				t.Fatal("there are two calls at a time")
			}
			next[i], asked = now.Add(wait), asked+1
		}
	}
	if asked > 2*len(next) {
		t.Errorf("%d parents have run %d times in ten seconds", len(next), asked)
	}
	h.end(parent(0), failure, false)
	if soonest := slices.MinFunc(next, time.Time.Compare); soonest.Sub(now) > busy {
		t.Errorf("the next parent runs %s after the call has ended", soonest.Sub(now))
	}
}

// Nobody calls the hook for a namespace whose parents are gone, so no answer ends what is said of the namespace.
//
// Rules: HK-95
func TestANamespaceWithoutCallsIsForgotten(t *testing.T) {
	_, failure := callLines(t, "exit 1")
	if !call.IsUnavailable(failure) {
		t.Fatalf("the hook ends at once, and the error is %v", failure)
	}
	synctest.Test(t, func(t *testing.T) {
		h := &hook{name: wire.Sync, tell: func(events.Type, string, string) {}}
		fail := func(namespace string) {
			for i := range parkAfter {
				parent := kube.Key{Namespace: namespace, Name: fmt.Sprint(i)}
				if h.begin(parent, time.Now()) == 0 {
					h.end(parent, failure, false)
				}
			}
		}
		for i := range maxFailing {
			fail(fmt.Sprint("dead", i))
		}
		for range 60 { // an hour
			fail("alive")
			fail("dead0")
			<-time.After(time.Minute)
		}
		if in := h.failsIn(); !slices.Equal(in, []string{"alive", "dead0"}) {
			t.Errorf("it fails in %d namespaces", len(in))
		}
		<-time.After(time.Hour)
		if p := h.problems(); len(p) > 0 {
			t.Errorf("problems %+v", p)
		}
	})
}

func TestAnErrorNamesTheLineToWhichAnAddressWasMoved(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	at := func(line string) *spec.Controller {
		return &spec.Controller{Kind: spec.Composite, Name: "web", Places: map[string]string{"sync": "c.yaml:" + line},
			Sync: &spec.Hook{Version: 1, Webhook: &spec.Webhook{URL: gone.URL}}}
	}
	s := New(Options{Log: logr.Discard()})
	s.Put(at("16"))
	is := s.wanted[nameOf(spec.Composite, "web")]
	said := func(place string) {
		t.Helper()
		_, err := is.currentHooks()[0].caller.Call(t.Context(), call.Call{Body: []byte(`{}`)})
		if err == nil || !strings.HasPrefix(err.Error(), place+": ") {
			t.Errorf("error %v, want one of %s", err, place)
		}
	}
	s.Put(at("17")) // before it runs
	if err := is.connect(); err != nil {
		t.Fatal(err)
	}
	defer is.close()
	said("c.yaml:17")
	s.Put(at("18"))
	if s.wanted[nameOf(spec.Composite, "web")] != is {
		t.Error("it was started anew")
	}
	said("c.yaml:18")
}

// Each run of all parents would otherwise lead to the next.
//
// Rules: HK-102
func TestAProgramThatEndsAfterEachCallRunsAllParentsOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		h := &hook{name: wire.Sync, version: "a " + call.Restarts + "0", changes: new(atomic.Int64),
			runAll: func(string, string) { runs++ }}
		for i := range 600 {
			time.Sleep(time.Second)
			h.look(fmt.Sprint("a "+call.Restarts, i))
		}
		if runs < 9 || runs > 11 {
			t.Errorf("%d runs of all parents in ten minutes", runs)
		}
		runs = 0
		if h.look("b " + call.Restarts + "0"); runs != 1 {
			t.Errorf("%d runs of all parents for another file", runs)
		}
	})
}

// Rules: HK-102
func TestAParentForWhichAHookPrintsOtherLinesWaitsUntilItOrTheHookChanges(t *testing.T) {
	script := filepath.Join(t.TempDir(), "hook.sh")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`while read -r line; do case $line in *noisy*) echo '{"level":"info"}';; esac; echo '{"children":[]}'; done`)
	caller, err := call.New(&spec.Controller{Kind: spec.Composite, Name: "web"}, wire.Sync,
		&spec.Hook{Version: 1, Exec: &spec.Exec{Command: []string{"sh", script}, Mode: spec.Lines}}, call.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	h := &hook{name: wire.Sync, caller: caller, version: caller.Version(), changes: new(atomic.Int64),
		counts: counts{took: metrics.NewHistogram(hookBounds)}, runAll: func(string, string) {}}
	ask := func(name string, generation int64, text string) error {
		parent := kube.Meta{Namespace: "shop", Name: name, UID: name, Generation: generation}
		_, err := h.call(t.Context(), &parent, []byte(text))
		return err
	}
	waits := func(err error) bool { return errors.As(err, new(*call.Later)) }
	if err := ask("a", 1, `{"noisy":1}`); !call.IsMixed(err) {
		t.Fatalf("got %v", err)
	}
	if err := ask("a", 1, `{"noisy":1}`); !waits(err) || !strings.Contains(err.Error(), "print logs to stderr") {
		t.Errorf("asked again: %v", err)
	}
	if err := ask("b", 1, `{"a":1}`); err != nil {
		t.Errorf("another parent: %v", err)
	}
	if all := h.problems(); len(all) != 1 || all[0].Reason != "MixedAnswers" ||
		!strings.Contains(all[0].Public, "1 parent, such as shop/a,") {
		t.Errorf("problems %+v", all)
	}
	if err := ask("a", 2, `{"noisy":1}`); !call.IsMixed(err) {
		t.Errorf("the parent has changed: %v", err)
	}
	write(`while read -r line; do echo '{"children":[]}'; done`)
	for deadline := time.Now().Add(10 * time.Second); h.changes.Load() == 0; {
		if h.changed(caller.Version(), 0); time.Now().After(deadline) {
			t.Fatal("the change of the hook was not seen")
		}
	}
	if err := ask("a", 2, `{"noisy":1}`); err != nil {
		t.Errorf("the hook has changed: %v", err)
	}
	if all := h.problems(); len(all) > 0 {
		t.Errorf("problems %+v", all)
	}
}

// Rules: HK-102
func TestAParentThatWaitsBecauseOfOtherLinesSaysNothingOfAHookThatIsDown(t *testing.T) {
	parent := func(name string) *kube.Meta {
		return &kube.Meta{Namespace: "shop", Name: name, UID: "u-" + name, Generation: 1}
	}
	ran := 0
	h := &hook{name: wire.Sync, returns: new(atomic.Int64), tell: func(events.Type, string, string) {},
		runAll: func(string, string) { ran++ },
		failing: map[string]*failing{"shop": {parents: map[kube.Key]bool{{Namespace: "shop", Name: "b"}: true},
			inARow: parkAfter, parked: time.Now(), pause: parks.Max, next: time.Now().Add(parks.Max)}}}
	_, mixed := callLines(t, `echo '{"level":"info"}'; echo '{"children":[]}'`)
	h.noteMixed(parent("a"), mixed)
	if _, err := h.call(t.Context(), parent("a"), []byte(`{}`)); !errors.As(err, new(*call.Later)) {
		t.Fatalf("the parent is asked about: %v", err)
	}
	if ran > 0 || h.returns.Load() > 0 || h.begin(parent("b").Key(), time.Now()) == 0 {
		t.Errorf("%d runs of all parents, %d returns: a hook that was not asked counts as one that answers", ran,
			h.returns.Load())
	}
}

// A change of the hook would have all parents compared anew, and only those that waited are run.
//
// Rules: HK-63, HK-95
func TestAHookThatAnswersAgainHasNotChanged(t *testing.T) {
	var ran []string
	h := &hook{name: wire.Sync, changes: new(atomic.Int64), returns: new(atomic.Int64), log: logr.Discard(),
		runAll:  func(namespace, _ string) { ran = append(ran, namespace) },
		failing: map[string]*failing{"shop": {inARow: parkAfter, parked: time.Now()}}}
	h.end(kube.Key{Namespace: "shop", Name: "a"}, nil, false)
	if h.changes.Load() != 0 || h.returns.Load() != 1 || !slices.Equal(ran, []string{"shop"}) {
		t.Errorf("%d changes, %d returns, run: %q", h.changes.Load(), h.returns.Load(), ran)
	}
}

// An object that is made anew begins at the generation of the one before, and one of a kind without generations has
// none: both are others than the one that was asked about.
//
// Rules: HK-102
func TestAnotherParentUnderTheSameNameIsAskedAbout(t *testing.T) {
	_, err := callLines(t, `echo '{"level":"info"}'; echo '{"children":[]}'`)
	was := kube.Meta{Namespace: "shop", Name: "a", UID: "1", Generation: 1, ResourceVersion: "5"}
	for name, change := range map[string]func(m *kube.Meta){
		"made anew":           func(m *kube.Meta) { m.UID = "2" },
		"of another kind":     func(m *kube.Meta) { m.UID = "3" },
		"without generations": func(m *kube.Meta) { m.ResourceVersion = "6" },
	} {
		h, before := &hook{name: wire.Sync}, was
		if name == "without generations" {
			before.Generation = 0
		}
		h.noteMixed(&before, err)
		is := before
		change(&is)
		if held := h.mixedLater(&before, time.Now()); held == nil {
			t.Errorf("%s: the parent itself is asked about", name)
		}
		if held := h.mixedLater(&is, time.Now()); held != nil {
			t.Errorf("%s: %v", name, held)
		}
	}
}

// callLines calls a hook in lines mode that runs a shell command for each line.
func callLines(t *testing.T, command string) (call.Reply, error) {
	t.Helper()
	caller, err := call.New(&spec.Controller{Kind: spec.Composite, Name: "web"}, wire.Sync, &spec.Hook{Version: 1,
		Exec: &spec.Exec{Command: []string{"sh", "-c", "while read -r line; do " + command + "; done"},
			Mode: spec.Lines}}, call.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	return caller.Call(t.Context(), call.Call{Body: []byte(`{"a":1}`)})
}
