package restart

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/runtime/patch"
)

// JSONOf returns a trigger as it is stored.
func (w *env) JSONOf(name string) []byte {
	w.Helper()
	text, err := patch.Encode(w.API.Get(resource, in(name)))
	if err != nil {
		w.Fatal(err)
	}
	return text
}

// 300 pods that were replaced at once made 292 writes of the status: nearly one for each.
func TestManyPodsThatAreReplacedAtOnceMakeFewWrites(t *testing.T) {
	story(t, func(w *env) {
		for i := range 40 {
			w.pod(fmt.Sprint("many-", i))
		}
		w.Pass(10 * time.Second)
		w.trigger("rt", selectRedis+","+toPredixy)
		w.Pass(10 * time.Second)
		w.Want("pods", w.status("rt", "matchingPods"), 42)
		w.Forget()
		for i := range 40 { // within ten seconds
			w.Delete(pods, fmt.Sprint("many-", i))
		}
		w.Pass(2 * time.Second)
		for i := range 40 {
			w.pod(fmt.Sprint("many-", i))
			w.Pass(190 * time.Millisecond)
		}
		if n := w.Count(statusWrite); n > 12 {
			t.Errorf("%d writes of the status", n)
		}
		w.wantRestarts(0)
		w.Stop() // and nothing of it is lost
		w.Start()
		w.Pass(time.Minute)
		w.wantRestarts(1)
		w.Want("pods", w.status("rt", "matchingPods"), 42)
	})
}

func TestATriggerWithoutPodsIsArmedWhenItHasSome(t *testing.T) {
	story(t, func(w *env) {
		w.trigger("rt", `"source":{"selector":{"matchLabels":{"app":"later"}}},`+toPredixy)
		w.trigger("exists", `"source":{"selector":{"matchExpressions":[{"key":"late","operator":"Exists"}]}},`+toPredixy)
		w.Pass(time.Second)
		w.WantCondition("rt", "Ready", "False/NoMatchingPods", "no pod in namespace default matches", "app=later")
		w.WantCondition("rt", "Degraded", "False/AsExpected")
		w.WantCondition("exists", "Ready", "False/NoMatchingPods")
		w.Want("pods", w.status("rt", "matchingPods"), 0)
		w.pod("late-0")
		w.Patch(pods, "late-0", `{"metadata":{"labels":{"app":"later","late":"yes"}}}`)
		w.Pass(time.Second)
		w.WantCondition("rt", "Ready", "True/Armed")
		w.WantCondition("exists", "Ready", "True/Armed")
		w.Want("pods", w.status("rt", "matchingPods"), 1)
		w.Forget()
		w.Delete(pods, "late-0") // replaced: for a moment there is none
		w.Pass(2 * time.Second)
		w.WantCondition("rt", "Ready", "True/Armed")
		w.pod("late-0")
		w.Patch(pods, "late-0", `{"metadata":{"labels":{"app":"later","late":"yes"}}}`)
		w.Pass(5 * time.Second)
		w.WantCondition("rt", "Ready", "True/Armed")
		w.Delete(pods, "late-0")
		w.Pass(5 * time.Minute)
		w.WantCondition("rt", "Ready", "False/NoMatchingPods")
	})
}

func TestWhatDelaysARestartIsSaidInTheConditionAndInAnEvent(t *testing.T) {
	story(t, func(w *env) {
		w.trigger("rt", selectRedis+","+toPredixy+`,"debounce":"1s","cooldown":"5m","budget":{"max":2,"per":"1h"}`)
		w.Pass(time.Second)
		w.replace("redis-0")
		w.Pass(30 * time.Second)
		w.wantRestarts(1)
		w.replace("redis-0")
		w.Pass(10 * time.Second)
		w.WantCondition("rt", "Progressing", "True/Pending",
			"pod redis-0 replaced, new IP; cooldown 5m: the restart is due at 2")
		w.Pass(5 * time.Minute)
		w.wantRestarts(2)
		for range 2 {
			w.replace("redis-0")
			w.Pass(10 * time.Minute)
		}
		w.WantCondition("rt", "Progressing", "True/Pending",
			"the budget of 2 per 1h is used up: the restart is due at 2")
		var told []string
		for _, n := range w.notes("RestartTrigger", "rt") {
			if strings.HasPrefix(n, "RestartDelayed") {
				told = append(told, n)
			}
		}
		if len(told) != 2 || !strings.Contains(told[0], "cooldown 5m") ||
			!strings.Contains(told[1], "the budget of 2 per 1h is used up") {
			t.Errorf("Events: %q", told)
		}
	})
}

// Two triggers with one target wait for each other. The log names what for, and the causes of runs name their timers.
func TestATriggerSaysThatItWaitsForAnothersRestart(t *testing.T) {
	var log bytes.Buffer
	var mu sync.Mutex // guards log
	o := options
	story := func(w *env) {
		w.Log = funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			log.WriteString(args + "\n")
		}, funcr.Options{Verbosity: 1})
		w.deploy("predixy", 2)
		w.pod("redis-0")
		w.Start()
		w.Pass(10 * time.Second)
		w.trigger("one", selectRedis+","+toPredixy+`,"debounce":"5s"`)
		w.trigger("two", selectRedis+","+toPredixy+`,"debounce":"6s"`)
		w.Pass(time.Second)
		w.replace("redis-0")
		w.Pass(2 * time.Minute)
		w.Stop()
	}
	storyWith(t, o, story)
	for _, want := range []string{`"msg"="the restart waits"`, "RestartTrigger one is restarting it", `"cause"="debounce over"`,
		`"cause"="waits for deployment/predixy"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, log.String())
		}
	}
}
