package operator

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/health"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// conditionsOf returns the conditions that f makes of children that are all well, or missing, in short.
func conditionsOf(f *findings, well bool, before []conditions.Condition, generation int64) ([]conditions.Condition,
	map[string]string) {
	set := conditions.NewSet(nil)
	set.Ready, set.Progressing = conditions.New(conditions.Ready, well, "Children", "m"),
		conditions.New(conditions.Progressing, !well, "Children", "m")
	f.mergeInto(&set, before, generation, conditions.PausedFor(nil))
	all := set.After(before, generation, noon)
	short := map[string]string{}
	for _, c := range all {
		short[c.Type] = string(c.Status) + "/" + c.Reason
	}
	return all, short
}

func TestWhatIsInTheWayShowsInTheConditions(t *testing.T) {
	const none = "False/AsExpected"
	there := Seen{{Live: &apply.Live[struct{}]{}}}
	missing := Seen{{}}
	taken := &health.Problem{Reason: "NameTaken", Public: "m"}
	for _, test := range []struct {
		name                                  string
		f                                     findings
		well                                  bool
		ready, progressing, degraded, stalled string
	}{
		{"nothing", findings{seen: there}, true, "True/Children", "False/Children", none, none},
		{"the name of a later child is taken", findings{seen: there, problem: taken}, true, "False/NameTaken",
			"False/Children", "True/NameTaken", none},
		{"the name of the first child is taken", findings{seen: missing, problem: taken}, false, "False/NameTaken",
			"False/NameTaken", "True/NameTaken", none},
		{"invalid spec", findings{problem: &health.Problem{Reason: "InvalidSpec", Public: "m",
			Severity: health.Stalled}}, false,
			"False/InvalidSpec", "False/InvalidSpec", "True/InvalidSpec", "True/InvalidSpec"},
		{"waiting for a deletion", findings{seen: missing, problem: &health.Problem{Reason: "Waiting",
			Public: "m", Severity: health.Passing}}, false,
			"False/Waiting", "True/Waiting", none, none},
		{"another node port", findings{seen: there, note: "m"}, true, "True/Children", "False/Children",
			"False/NodePortChanged", none},
		{"paused", findings{seen: there, paused: &health.Problem{Public: "differs"}}, true, "False/Paused",
			"False/Paused", none, none},
	} {
		_, got := conditionsOf(&test.f, test.well, nil, 5)
		want := map[string]string{conditions.Ready: test.ready, conditions.Progressing: test.progressing,
			conditions.Degraded: test.degraded, conditions.Stalled: test.stalled,
			conditions.Paused: "False/NotAnnotated"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", test.name, got, want)
		}
	}
}

func TestNodePortChangeIsNewsUntilTheSpecChanges(t *testing.T) {
	there := Seen{{Live: &apply.Live[struct{}]{}}}
	first, _ := conditionsOf(&findings{seen: there, note: "node port 1 became 2"}, true, nil, 5)
	again, _ := conditionsOf(&findings{seen: there}, true, first, 5)
	if c, _ := conditions.Get(again, conditions.Degraded); c.Reason != nodePortChanged ||
		c.Message != "node port 1 became 2" {
		t.Errorf("in the next round: %+v", c)
	}
	if _, got := conditionsOf(&findings{seen: there}, true, again, 6); got[conditions.Degraded] != "False/AsExpected" {
		t.Errorf("after a change of the spec: %v", got)
	}
}

func TestMessagesOfProblemsEndWithTheNextStep(t *testing.T) {
	for o, want := range map[apply.Outcome]string{
		apply.Foreign: "NameTaken: Service shop/web happened; delete it or give the WebServer another name, skiff " +
			"looks again",
		apply.Contested: `Contested: Service shop/web happened; stop it, or set skiff.dev/paused: "true"; skiff ` +
			"tries again",
		apply.Waiting:   "Waiting passing: Service shop/web happened; skiff looks again",
		apply.PortTaken: "NodePortRefused: Service shop/web happened; free it, skiff looks again",
		apply.NoNodePort: "NoNodePort: Service shop/web happened; delete a Service that has one, skiff tries " +
			"again",
		apply.Unchanged: "", apply.Created: "", apply.Applied: "", apply.Conflict: "",
	} {
		got := ""
		if p := problemOf("WebServer", &apply.Result{Outcome: o,
			Problem: &health.Problem{Subject: "Service shop/web", Public: "happened"}}); p != nil {
			got = strings.TrimSpace(p.Reason+" "+string(p.Severity)) + ": " + p.Note()
		}
		if got != want {
			t.Errorf("%v: got %q, want %q", o, got, want)
		}
	}
}
