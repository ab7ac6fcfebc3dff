package page

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/history"
)

// began is when the stories of these tests begin.
var began = time.Now().Add(-3 * time.Hour).Truncate(time.Second)

// runAt is a run of WebServer shop/web that became due at a time after the beginning, waited for 2 ms and took 20.
func runAt(after time.Duration, failed bool, writes ...history.Write) history.Run {
	due := began.Add(after)
	run := history.Run{ID: uint64(after), Kind: "WebServer", Namespace: "shop", Name: "web", Due: due,
		Causes: []string{"Deployment shop/web MODIFIED"}, Began: due.Add(2 * time.Millisecond),
		Ended: due.Add(22 * time.Millisecond), Outcome: "done", Writes: writes}
	for i := range run.Writes {
		run.Writes[i].Sent, run.Writes[i].Millis = run.Began.Add(time.Duration(i)*5*time.Millisecond), 3
	}
	if failed {
		run.Error, run.Outcome = history.ErrorOf(errors.New("no"), "Forbidden"), "error, again in 8s"
	}
	return run
}

var (
	creates = history.Write{Verb: "create", Object: "deployments.apps shop/web", Code: 201}
	denied  = history.Write{Verb: "create", Object: "services shop/web", Code: 403}
	status  = history.Write{Verb: "patch status", Object: "webservers.skiff.dev shop/web", Code: 200}
	tries   = history.Write{Verb: "create", Object: "pods shop/web-0", Code: 409, DryRun: true}
)

// newest reverses runs, as a Timeline has them.
func newest(runs ...history.Run) (out []history.Run) {
	for i := len(runs) - 1; i >= 0; i-- {
		out = append(out, runs[i])
	}
	return out
}

// pictured is the page of an object with these runs, the newest first.
func pictured(runs []history.Run, conditions ...ConditionWord) string {
	var w writer
	showObject(&w, ObjectAnswer{Started: began, Timeline: Timeline{Runs: runs}, Owner: Owner{
		Trouble: Trouble{State: well, Kind: "WebServer", Namespace: "shop", Name: "web"}, Conditions: conditions}})
	return w.String()
}

// Rules: LP-15, LP-18
func TestThePictureOfAnObjectSaysWhatHappenedAndHowLongItTook(t *testing.T) {
	ready := ConditionWord{Type: "Ready", Status: "True", Reason: "Complete", Since: began.Add(3 * time.Second)}
	not := ConditionWord{Type: "Ready", Status: "False", Reason: "Rollout", Since: began}
	var storm, waits []history.Run
	for i := range 50 {
		storm = append(storm, runAt(time.Duration(i)*30*time.Millisecond, i%7 == 0, creates))
	}
	for i, after := range []time.Duration{0, 1, 3, 7, 15, 31} {
		waits = append(waits, runAt(after*time.Second, i < 5, denied))
	}
	for name, row := range map[string]struct {
		runs      []history.Run
		condition ConditionWord
		want      []string
		lacks     string
	}{
		"no run": {nil, ready, []string{"Nothing yet, because no run since " + clock(began)}, "<svg"},
		"one run, and not ready": {newest(runAt(0, false, creates, denied)), not,
			[]string{"1 run: not ready since", "… not ready for 3 h: Rollout", "Deployment web MODIFIED", ">2.0 ms<",
				">20 ms<", "✖2", ">1</text>", "create services web <span class=\"bad\">✖ 403</span>"},
			"all 1 run"},
		"until it is ready": {newest(runAt(0, false, creates, status), runAt(3200*time.Millisecond, false, status)),
			ready, []string{"2 runs: ready 3.2 s after the first cause.", "✔ ready after 3.2 s", ">3.2 s</text>"},
			"✖"},
		"a child that is no Event": {newest(runAt(0, false, history.Write{Verb: "create", Code: 201,
			Object: "eventsources.argoproj.io shop/web"})), not, []string{"not ready since the last change"},
			"none of these runs has changed anything"},
		"a storm": {newest(storm...), ready, []string{"all 50 runs", "below in detail: the last 6", "✖"}, ""},
		"a dry run, whose name is taken": {newest(runAt(0, false, tries)), not,
			[]string{"dry run: create pods web-0 409", "none of these runs has changed anything"}, "✖"},
		"hours between": {newest(runAt(0, false, creates), runAt(2*time.Hour, false, creates)), ready,
			[]string{">3.0 s</text>", ">119 min</text>"}, "all 2 runs"},
		"failures": {newest(waits...), not, []string{"6 runs: 5 failed, the last one did not.", ">15 s</text>",
			"✖ 20 ms", "MODIFIED ×5, every 3.8 s", "none of these runs has changed anything"}, "✖2"},
	} {
		page := pictured(row.runs, row.condition)
		for _, want := range row.want {
			if !strings.Contains(page, want) {
				t.Errorf("%s: %q is not in %s", name, want, page)
			}
		}
		if row.lacks != "" && strings.Contains(page, row.lacks) {
			t.Errorf("%s: %q is in %s", name, row.lacks, page)
		}
		for _, m := range regexp.MustCompile(` (?:x|x1|x2|cx)="(-?[0-9.]+)%"`).FindAllStringSubmatch(page, -1) {
			if at, err := strconv.ParseFloat(m[1], 64); err != nil || at < 0 || at > 100 {
				t.Errorf("%s: something is drawn at %s %% of the width", name, m[1])
			}
		}
		if strings.Contains(page, "NaN") || strings.Contains(page, "%!") {
			t.Errorf("%s: %s", name, page)
		}
	}
}

// Rules: LP-14
func TestOnlyStatusesAndEventsAreFoldedInTheTimeline(t *testing.T) {
	for object, folded := range map[string]bool{"events shop/web.1": true, "events.events.k8s.io shop/web.1": true,
		"eventsources.argoproj.io shop/web": false, "events.example.com shop/web": false, "pods shop/web": false} {
		run := runAt(0, false, status, history.Write{Verb: "create", Object: object, Code: 201})
		if isUpdate(&run) != folded {
			t.Errorf("%s: folded is %v, want %v", object, !folded, folded)
		}
	}
}

// Rules: LP-15
func TestTheAxisNeverRunsBackwardsAndFillsItsWidth(t *testing.T) {
	var times []time.Time
	for i := range 40 {
		times = append(times, began.Add(time.Duration(i*i*i)*7*time.Millisecond))
	}
	a := newAxis(times, leftEdge, rightEdge, func(at time.Time) float64 {
		return float64(at.Sub(began).Milliseconds() % 3)
	})
	before := 0.0
	for at := began.Add(-time.Second); at.Before(times[39].Add(time.Second)); at = at.Add(time.Second / 3) {
		x := a.x(at)
		if x < before || x < leftEdge || x > rightEdge+0.001 {
			t.Fatalf("%s is at %f, what was before it at %f", at.Sub(began), x, before)
		}
		before = x
	}
	if before < rightEdge-0.001 {
		t.Errorf("it ends at %f", before)
	}
}

// Rules: LP-15
func TestTextsOfCausesDoNotCoverEachOther(t *testing.T) {
	rows := make([]causeRow, causeRows)
	for i := range 12 {
		ends := fmt.Sprint(rows)
		row, x, end, room := place(rows, leftEdge+float64(i)*40, 30)
		if !end && room > 0 && (x < leftEdge || x+float64(room)*letter > rightEdge+letter) || end && x != rightEdge {
			t.Errorf("text %d has %d letters at %f in row %d; the rows were %s", i, room, x, row, ends)
		}
	}
}

// Rules: LP-09
func TestThePictureHasNoHTMLOfOthers(t *testing.T) {
	const evil = `<img src=x onerror=alert(1)>"'`
	run := runAt(0, true, history.Write{Verb: evil, Object: evil}, history.Write{Verb: evil, Object: evil, Code: 200})
	run.Causes = []string{evil}
	page := pictured([]history.Run{run}, ConditionWord{Type: "Ready", Status: "False", Reason: evil},
		ConditionWord{Type: evil, Status: evil, Reason: evil})
	if strings.Contains(page, "<img") || strings.Count(page, `"`)%2 != 0 {
		t.Error(page)
	}
}
