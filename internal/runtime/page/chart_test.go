package page

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/history"
)

// Rules: LP-16
func TestTheEndOfAnAxisIsRoundAndSoIsItsMiddle(t *testing.T) {
	for most, want := range map[float64]float64{0: 2, 1: 2, 2: 2, 3: 4, 4: 4, 5: 10, 10: 10, 11: 20, 50: 100, 400: 400,
		401: 1000} {
		if got := axisTop(most); got != want {
			t.Errorf("%g: the axis ends at %g, want %g", most, got, want)
		}
	}
}

// Rules: LP-16
func TestAChartHasItsValuesWithUnitsAndItsTimesBesideIt(t *testing.T) {
	within(t, Options{}, fails, func(w *world) {
		w.log.Sample(history.Sample{At: time.Now(), RunP99: 12})
		time.Sleep(time.Minute)
		w.log.Sample(history.Sample{At: time.Now(), RunP99: 3})
		body := w.get("/debug/queue").Body.String()
		for _, want := range []string{"3 ms now, at most 12 ms in the last 60 s.",
			"<span>20 ms</span><span>10 ms</span><span>0 ms</span>",
			"<span>00:00:00</span><span>00:01:00 UTC</span>"} {
			if !strings.Contains(body, want) {
				t.Errorf("%q is missing in %s", want, body)
			}
		}
	})
}

// Rules: LP-10, LP-14, LP-16, LP-17
func TestThePageOfAllPanelsIsShortAndThePageOfEachHasAll(t *testing.T) {
	within(t, Options{}, fails, func(w *world) {
		w.create("ok", nil)
		time.Sleep(time.Second)
		for i := range 2 * shortRows {
			w.log.Add(history.Run{Kind: "ConfigMap", Namespace: "default", Name: fmt.Sprint("web-", i),
				Error: &history.Error{Reason: "Broken"}, Began: time.Now(), Ended: time.Now()})
		}
		rows := func(body string) int { return strings.Count(body, "✖ Broken") }
		body := w.get("/debug/").Body.String()
		for _, want := range []string{`<details data-is="calm"><summary><h2 tabindex="-1" id="queue">`, "1 controller, 0 due, 0 failing",
			`<details data-is="calm"><summary><h2 tabindex="-1" id="watches">`, "1 watch, 0 with a problem",
			`<a href="/debug/timeline?">the last 20</a>`} {
			if !strings.Contains(body, want) {
				t.Errorf("%q is missing in %s", want, body)
			}
		}
		if n := rows(body); n != shortRows {
			t.Errorf("%d runs are on the page of all panels", n)
		}
		if n := rows(w.get("/debug/timeline").Body.String()); n != 2*shortRows {
			t.Errorf("%d runs are on the page of the timeline", n)
		}
		if body := w.get("/debug/queue").Body.String(); strings.Contains(body, "<details") {
			t.Errorf("the page of the queue is folded: %s", body)
		}
	})
}

// Rules: LP-10, LP-16
func TestAQueueWithOldKeysOrAHookThatFailsIsUnfolded(t *testing.T) {
	now := time.Now()
	for name, row := range map[string]struct {
		answer QueueAnswer
		calm   bool
		words  string
	}{
		"calm": {QueueAnswer{Controllers: []Queue{{Due: 2, OldestDue: now.Add(-time.Second)}, {Failing: 1}}}, true,
			"2 controllers, 2 due, 1 failing"},
		"old keys": {QueueAnswer{Controllers: []Queue{{Due: 1, OldestDue: now.Add(-longDue)}}}, false,
			"1 controller, 1 due, 0 failing"},
		"a hook": {QueueAnswer{Controllers: []Queue{{}}, Hooks: []Hook{{}, {Failing: true}}}, false,
			"1 controller, 0 due, 0 failing; 1 of 2 hooks failing"},
	} {
		var w writer
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/?short=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		showQueue(&w, row.answer, r)
		if words, calm := row.answer.inWords(now); calm != row.calm || words != row.words ||
			strings.Contains(w.String(), "<details data-is=\"busy\" open>") == row.calm {
			t.Errorf("%s: %q, calm: %t; shown as %s", name, words, calm, w.String())
		}
	}
}

// Rules: LP-15, LP-18
func TestAnObjectOfWhichNoRunIsInMemoryIsNotSaidToHaveNone(t *testing.T) {
	within(t, Options{}, fails, func(w *world) {
		w.create("ok", nil)
		time.Sleep(time.Second)
		const path = "/debug/object/ConfigMap/default/ok"
		if body := w.get(path).Body.String(); !strings.Contains(body, "Nothing yet, because") {
			t.Errorf("at first: %s", body)
		}
		for range 1001 {
			w.log.Add(history.Run{Kind: "ConfigMap", Namespace: "default", Name: "other"})
		}
		body := w.get(path).Body.String()
		if !strings.Contains(body, "none of the last 1,000 runs that wrote or failed was for this object") ||
			strings.Contains(body, "Nothing yet") {
			t.Errorf("after a storm: %s", body)
		}
	})
}
