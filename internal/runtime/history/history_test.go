package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

func every(*Run) bool { return true }

// Rules: LP-06
func TestTheLastRunsAreKeptTheNewestFirst(t *testing.T) {
	l := new(Log)
	for i := range maxRuns + 10 {
		l.Add(Run{Name: fmt.Sprint(i)})
	}
	l.Quiet()
	runs, kept, quiet := l.Runs(3, every)
	if len(runs) != 3 || runs[0].Name != "1009" || runs[2].Name != "1007" || runs[0].ID != 1010 {
		t.Errorf("the last runs are %+v", runs)
	}
	if kept != maxRuns+10 || quiet != 1 {
		t.Errorf("%d runs and %d quiet ones", kept, quiet)
	}
	runs, _, _ = l.Runs(2*maxRuns, every)
	if oldest := runs[len(runs)-1].Name; len(runs) != maxRuns || oldest != "10" {
		t.Errorf("%d are kept, the oldest is %s", len(runs), oldest)
	}
	runs, _, _ = l.Runs(5, func(r *Run) bool { return r.Name == "500" })
	if len(runs) != 1 {
		t.Errorf("%d runs match", len(runs))
	}
	l = nil
	l.Add(Run{})
	l.Quiet()
	if runs, _, _ := l.Runs(1, every); runs != nil || l.Samples() != nil {
		t.Error("a nil Log has runs or samples")
	}
}

// Rules: LP-06, LP-08, LP-09
func TestTextsOfOthersAreBoundedAndAnErrorHasFieldsWithoutTheirText(t *testing.T) {
	l := new(Log)
	causes := make([]string, 3*maxCauses)
	for i := range causes {
		causes[i] = "a\x1b[31m" + strings.Repeat("b", 3*maxText)
	}
	refused := &kube.Status{Code: 422, Reason: "Invalid", Message: "canary", Details: kube.StatusDetails{
		Kind: "Deployment", Causes: []kube.StatusCause{{Field: "spec.replicas", Message: "canary"}}}}
	l.Add(Run{Causes: causes, Error: ErrorOf(fmt.Errorf("patch: %w", refused), "Invalid")})
	runs, _, _ := l.Runs(1, every)
	r := runs[0]
	if len(r.Causes) != maxCauses || r.MoreCauses != 2*maxCauses || len(r.Causes[0]) > maxText+10 ||
		strings.Contains(r.Causes[0], "\x1b") {
		t.Errorf("its causes are %d and %d more, %.300q", len(r.Causes), r.MoreCauses, r.Causes[0])
	}
	if r.Error.Code != 422 || r.Error.Kind != "Deployment" || fmt.Sprint(r.Error.Fields) != "[spec.replicas]" {
		t.Errorf("its error is %+v", r.Error)
	}
	r.Error.Text = ""
	if text, err := json.Marshal(r); err != nil || strings.Contains(string(text), "canary") {
		t.Errorf("without the text of the error: %s, %v", text, err)
	}
}

// Rules: LP-07
func TestSamplesAreThoseOfAQuarterOfAnHour(t *testing.T) {
	l := new(Log)
	for i := range maxSamples + 5 {
		l.Sample(Sample{Due: i})
	}
	samples := l.Samples()
	if len(samples) != 180 || samples[0].Due != 5 || samples[179].Due != 184 {
		t.Errorf("%d samples from %d to %d", len(samples), samples[0].Due, samples[len(samples)-1].Due)
	}
}

// Rules: LP-04
func TestAFullHistoryOfTheLargestRunsTakesFourMegabytes(t *testing.T) {
	long := strings.Repeat("n", 253) // the longest name
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l := new(Log)
	for i := range 2 * maxRuns {
		r := Run{Name: fmt.Sprint(long, i), Error: ErrorOf(errors.New(strings.Repeat("e", 5000)), "Error")}
		for j := range 3 * maxCauses {
			r.Causes = append(r.Causes, fmt.Sprint(long, j, i))
		}
		for range MaxWrites {
			r.Writes = append(r.Writes, Write{Verb: "patch", Object: fmt.Sprint("deployments.apps default/", long, i)})
		}
		l.Add(r)
	}
	for range 2 * maxSamples {
		l.Sample(Sample{At: time.Now()})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if took := int64(after.HeapAlloc) - int64(before.HeapAlloc); took > 4<<20 {
		t.Errorf("%d bytes", took)
	}
	runtime.KeepAlive(l)
}

func TestAWriteThatWasSentAgainAndDoneIsNotRefusedInTheEnd(t *testing.T) {
	l := new(Log)
	l.Add(Run{Writes: []Write{{Verb: "apply", Object: "deployments.apps default/d", Code: 500},
		{Verb: "apply", Object: "deployments.apps default/e", Code: 500},
		{Verb: "apply", Object: "deployments.apps default/d", Code: 200},
		{Verb: "patch", Object: "deployments.apps default/e", Code: 200},
		{Verb: "apply", Object: "deployments.apps default/d", Code: 409}}})
	runs, _, _ := l.Runs(1, every)
	var refused []bool
	for _, w := range runs[0].Writes {
		refused = append(refused, w.Refused())
	}
	if fmt.Sprint(refused) != "[false true false false true]" {
		t.Errorf("refused: %v", refused)
	}
}
