package conditions

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"skiff/internal/runtime/events"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

var (
	noon  = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	later = noon.Add(90 * time.Minute)
)

// Rules: MGR-13
func TestTransitionTimeMovesOnlyWithTheStatus(t *testing.T) {
	old := []Condition{{Type: Ready, Status: False, ObservedGeneration: 1, LastTransitionTime: noon,
		Reason: "RollingOut", Message: "1 of 3"}}
	same := Update(old, []Condition{{Type: Ready, Status: False, Reason: "Invalid", Message: "2 of 3"}}, 2, later)
	if got := same[0]; !got.LastTransitionTime.Equal(noon) || got.ObservedGeneration != 2 || got.Reason != "Invalid" ||
		got.Message != "2 of 3" {
		t.Errorf("same status: got %+v, want everything new but the time", got)
	}
	turned := Update(same, []Condition{{Type: Ready, Status: True, Reason: "Complete"}}, 2, later)
	if !turned[0].LastTransitionTime.Equal(later) {
		t.Errorf("other status: time %s, want %s", turned[0].LastTransitionTime, later)
	}
	if old[0].Message != "1 of 3" {
		t.Error("Update changed its argument")
	}
}

func TestUpdateKeepsOneConditionPerTypeAndThoseOfOthers(t *testing.T) {
	old := []Condition{{Type: "Paused", Status: True, LastTransitionTime: noon},
		{Type: Ready, Status: True, LastTransitionTime: noon}}
	got := Update(old, []Condition{{Type: Ready, Status: True}, {Type: Degraded, Status: False}}, 1, later)
	var types []string
	for _, c := range got {
		types = append(types, c.Type)
	}
	if want := []string{Ready, Degraded, "Paused"}; !reflect.DeepEqual(types, want) {
		t.Errorf("types %v, want %v", types, want)
	}
}

// Rules: WRT-33
func TestTimesSurviveTheWireUnchanged(t *testing.T) {
	zone := time.FixedZone("somewhere", 3600)
	in := Update(nil, []Condition{{Type: Ready, Status: True, Reason: "Complete"}}, 1,
		noon.Add(123456789*time.Nanosecond).In(zone))
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"lastTransitionTime":"2026-11-20T12:00:00Z"`) {
		t.Errorf("got %s, want whole seconds in UTC", text)
	}
	var out []Condition
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(Update(out, in, 1, later))
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(text) {
		t.Errorf("after a round trip and an equal observation: %s, want %s", again, text)
	}
}

func TestLongMessageKeepsItsBeginningAndItsEnd(t *testing.T) {
	message := "cannot apply: " + strings.Repeat("ä", 5000) + "; correct the spec"
	got := Update(nil, []Condition{{Type: Stalled, Status: True, Message: message}}, 1, noon)[0].Message
	if len(got) > maxMessage || !utf8.ValidString(got) || !strings.HasPrefix(got, "cannot apply: ") ||
		!strings.HasSuffix(got, "; correct the spec") {
		t.Errorf("got %d bytes, valid %t: %.40s ... %s", len(got), utf8.ValidString(got), got, got[len(got)-30:])
	}
}

func TestAProblemShowsInTheConditionsThatItIsAbout(t *testing.T) {
	refused, away := &kube.Status{Code: 422, Message: "spec.x: no"},
		&kube.NoAnswerError{Err: errors.New("10.0.0.1:54321: reset")}
	forbidden := func(text string) *kube.Status { return &kube.Status{Code: 403, Reason: "Forbidden", Message: text} }
	quota := forbidden(`pods "a" is forbidden: exceeded quota: q`)
	security := forbidden(`pods "a" is forbidden: violates PodSecurity "x"`)
	right := forbidden(`pods is forbidden: User "u" cannot create resource "pods"`)
	const none = "False/AsExpected"
	failed := func(err error, severity health.Severity) *health.Problem {
		return health.OfWrite("Pod", err, "skiff tries again", severity)
	}
	for _, test := range []struct {
		problem                               *health.Problem
		ready, progressing, degraded, stalled string
	}{
		{nil, "True/Complete", "False/Complete", none, none},
		{&health.Problem{Reason: "Waiting", Public: "m", Severity: health.Passing}, "False/Waiting", "False/Complete",
			none, none},
		{failed(refused, ""), "False/PodRefused", "False/PodRefused", "True/PodRefused", "True/PodRefused"},
		{failed(away, ""), "False/PodFailed", "False/Complete", "True/PodFailed", none},
		{failed(quota, ""), "False/PodRefused", "False/Complete", "True/PodRefused", none},
		{failed(security, ""), "False/PodRefused", "False/Complete", "True/PodRefused", none},
		{failed(right, ""), "False/PodFailed", "False/Complete", "True/PodFailed", none},
		{failed(errors.New("local"), health.Stalled), "False/PodFailed", "False/PodFailed", "True/PodFailed",
			"True/PodFailed"},
	} {
		s := NewSet(nil)
		s.Ready, s.Progressing = New(Ready, true, "Complete", "all there"),
			New(Progressing, false, "Complete", "all there")
		s.Report(test.problem)
		var got []string
		for _, c := range s.After(nil, 7, noon) {
			got = append(got, string(c.Status)+"/"+c.Reason)
			if c.ObservedGeneration != 7 {
				t.Errorf("%s is of generation %d, want 7", c.Type, c.ObservedGeneration)
			}
		}
		if want := []string{test.ready, test.progressing, test.degraded, test.stalled,
			"False/NotAnnotated"}; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: got %v, want %v", test.problem, got, want)
		}
		message := "all there"
		if test.problem != nil {
			message = test.problem.Note()
		}
		if s.Ready.Message != message || s.Problem != test.problem {
			t.Errorf("message %q of %+v, want %q", s.Ready.Message, s.Problem, message)
		}
		want := map[string]string{Degraded: "nothing is wrong", Stalled: "not stalled", Paused: "not paused"}
		if s.Degraded.Status == True {
			want[Stalled] = "not stalled: skiff keeps trying"
		}
		for _, c := range s.After(nil, 7, noon) {
			if text := want[c.Type]; text != "" && c.Status == False && c.Message != text {
				t.Errorf("%+v: %s=False says %q, want %q", test.problem, c.Type, c.Message, text)
			}
		}
	}
}

func TestAMessageStandsInOneCondition(t *testing.T) {
	s := NewSet(nil)
	s.Report(&health.Problem{Reason: "NameTaken", Public: "m", Severity: health.Stalled})
	list := s.After(nil, 1, noon)
	for _, c := range list {
		if (c.Message == "m") != (c.Type == Ready) {
			t.Errorf("%s says %q", c.Type, c.Message)
		}
		if c.Status == True && Message(list, c.Type) != "m" {
			t.Errorf("%s leads to %q", c.Type, Message(list, c.Type))
		}
	}
	if news := EventsOf(nil, list); len(news) != 1 || news[0].Note != "m" {
		t.Errorf("news: %+v", news)
	}
}

func TestTheStateIsThatOfTheWorstCondition(t *testing.T) {
	paused := kube.Labels{{Key: PausedAnnotation, Value: "true"}}
	rolling := Progress{Problem: health.Problem{Reason: "RollingOut"}}
	for _, test := range []struct {
		name     string
		set      Set
		problem  *health.Problem
		annotate kube.Labels
		want     string
	}{
		{"done", Progress{Done: true, Problem: health.Problem{Reason: "Complete"}}.Set(), nil, nil, Ready},
		{"rolling out", rolling.Set(), nil, nil, Progressing},
		{"waiting", rolling.Set(), &health.Problem{Reason: "Waiting", Severity: health.Passing}, nil, Progressing},
		{"degraded", rolling.Set(), &health.Problem{Reason: "PodFailed"}, nil, "PodFailed"},
		{"stalled", rolling.Set(), &health.Problem{Reason: "NameTaken", Severity: health.Stalled}, nil, "NameTaken"},
		{"paused", Progress{Done: true}.Set(), nil, paused, Paused},
		{"paused and degraded", rolling.Set(), &health.Problem{Reason: "PodFailed"}, paused, "PodFailed"},
		{"stuck", Progress{Stuck: true, Problem: health.Problem{Reason: "Deleting"}}.Set(), nil, nil, "Deleting"},
		{"deleted", HeldBy(nil, []string{"example.com/a"}), nil, nil, Terminating},
		{"deleted, and degraded", HeldBy(nil, nil), &health.Problem{Reason: "PodFailed"}, paused, Terminating},
		{"not watched", NotWatched(nil, "no right"), nil, nil, "NotWatched"},
	} {
		test.set.Paused = PausedFor(test.annotate)
		test.set.Report(test.problem)
		if got := test.set.State(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestNewsAreToldOnce(t *testing.T) {
	list := func(ready, degraded, paused bool, reason string) []Condition {
		return []Condition{New(Ready, ready, reason, "m"), New(Degraded, degraded, reason, "m"),
			New(Paused, paused, "r", "m")}
	}
	for _, test := range []struct {
		before, after []Condition
		want          []string
	}{
		{nil, list(false, false, false, "x"), nil},
		{nil, list(true, false, false, "x"), []string{"Ready"}},
		{list(true, false, false, "x"), list(true, false, false, "x"), nil},
		{list(true, false, false, "x"), list(false, true, false, "Bad"), []string{"! Bad"}},
		{list(false, true, false, "Bad"), list(false, true, false, "Bad"), nil},
		{list(false, true, false, "Bad"), list(false, true, false, "Worse"), []string{"! Worse"}},
		{list(true, false, false, "x"), list(true, false, true, "x"), []string{"Paused"}},
		{list(true, false, true, "x"), list(true, false, false, "x"), []string{"Resumed"}},
	} {
		var got []string
		for _, n := range EventsOf(test.before, test.after) {
			if n.Type == events.Warning {
				n.Reason = "! " + n.Reason
			}
			got = append(got, n.Reason)
		}
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v -> %v: got %q, want %q", test.before, test.after, got, test.want)
		}
	}
}

func TestPausedTakesEveryBooleanAndReportsAnythingElse(t *testing.T) {
	for value, want := range map[string]string{"true": "True/Annotated", "True": "True/Annotated",
		"1": "True/Annotated", "false": "False/NotAnnotated", "0": "False/NotAnnotated", "yes": "Unknown/NotABoolean",
		"": "Unknown/NotABoolean"} {
		annotations := kube.Labels{{Key: PausedAnnotation, Value: value}}
		c := PausedFor(annotations)
		if got := string(c.Status) + "/" + c.Reason; got != want || IsPaused(annotations) != (c.Status == True) {
			t.Errorf("%q: %s (%s), want %s", value, got, c.Message, want)
		}
	}
	news := EventsOf(nil, []Condition{PausedFor(kube.Labels{{Key: PausedAnnotation, Value: "yes"}})})
	if len(news) != 1 || news[0].Type != events.Warning || !strings.Contains(news[0].Note, `is "yes" and has to be`) {
		t.Errorf("news %+v, want one warning", news)
	}
}

func TestConditionsFollowFromTheCountsOfARollout(t *testing.T) {
	for _, test := range []struct {
		name               string
		rollout            Rollout
		ready, progressing string
		message            string
	}{
		{"complete", Rollout{Want: 3, Updated: 3, Total: 3, Available: 3, Observed: true}, "True/Complete",
			"False/Complete", "3 of 3 pods are available"},
		{"none is wanted", Rollout{Observed: true}, "True/Complete", "False/Complete", "0 of 0 pods are available"},
		{"of an older spec", Rollout{Want: 3, Updated: 3, Total: 3, Available: 3}, "False/RollingOut",
			"True/RollingOut", "the Deployment controller has not seen the change yet; follow"},
		{"not all updated", Rollout{Want: 3, Updated: 1, Total: 4, Available: 3, Observed: true}, "False/RollingOut",
			"True/RollingOut", "1 of 3 pods are updated; follow"},
		{"one too many", Rollout{Want: 3, Updated: 3, Total: 4, Available: 4, Observed: true}, "False/RollingOut",
			"True/RollingOut", "deleting 1 surplus pod; follow"},
		{"one is not available", Rollout{Want: 3, Updated: 3, Total: 3, Available: 2, Observed: true},
			"False/PodsUnavailable", "True/PodsUnavailable", "2 of 3 pods are available; look"},
	} {
		test.rollout.Kind, test.rollout.Follow, test.rollout.Look = "Deployment", "follow", "look"
		p := test.rollout.Progress()
		set := p.Set()
		ready, progressing := string(set.Ready.Status)+"/"+set.Ready.Reason,
			string(set.Progressing.Status)+"/"+set.Progressing.Reason
		if ready != test.ready || progressing != test.progressing || set.Ready.Message != test.message ||
			set.Degraded.Status != False || set.Stalled.Status != False {
			t.Errorf("%s: Ready=%s Progressing=%s, %q", test.name, ready, progressing, set.Ready.Message)
		}
		p.Failed, p.Stuck = !p.Done, true
		if set = p.Set(); set.Progressing.Status != False || (set.Degraded.Status == True) == p.Done {
			t.Errorf("%s, and stuck: %+v", test.name, set)
		}
	}
}
