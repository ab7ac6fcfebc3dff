package redis

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"skiff/internal/apply"
	"skiff/internal/conditions"
	"skiff/internal/kube"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// slotsOf makes slots of words, one per ordinal: an optional revision (n is the wanted one, o an old one) and a state:
// + ready for an hour, ? ready for a second, - not ready, . being deleted, ! failed; _ is no pod and f a foreign one.
func slotsOf(words string) []*slot {
	var out []*slot
	for i, word := range strings.Fields(words) {
		s := &slot{ordinal: i, name: podName("cache", i)}
		out = append(out, s)
		if word == "_" {
			continue
		}
		if word == "f" {
			s.foreign = "Pod default/" + s.name + " exists and was not made by skiff"
			continue
		}
		p := &pod{}
		p.Name, p.UID, p.CreationTimestamp = s.name, "uid-"+s.name, noon.Add(-time.Hour)
		p.Labels = kube.Labels{{Key: RevisionLabel, Value: word[:1]}}
		p.Status.Phase, p.Status.PodIP = "Running", fmt.Sprint("10.0.0.", i)
		ready := podCondition{Type: "Ready", Status: "True", LastTransitionTime: noon.Add(-time.Hour)}
		switch word[1:] {
		case "?":
			ready.LastTransitionTime = noon.Add(-time.Second)
		case "-":
			ready.Status, ready.Message = "False", "containers with unready status: [redis]"
		case "~": // has not been ready for a second
			ready.Status, ready.LastTransitionTime = "False", noon.Add(-time.Second)
		case ".":
			s.ending = true
		case "!":
			p.Status.Phase, p.Status.Reason, p.Status.Message = "Failed", "Evicted", "low on memory"
			ready.Status = "False"
		}
		p.Status.Conditions = []podCondition{ready}
		s.pod = p
	}
	return out
}

func stepsIn(steps []step) string {
	var out []string
	for _, s := range steps {
		out = append(out, fmt.Sprint(s.reason, " ", s.slot.ordinal))
	}
	return strings.Join(out, ", ")
}

func TestPlan(t *testing.T) {
	for _, test := range []struct {
		num         int
		slots, want string
	}{
		{0, "", ""},
		{3, "n+ n+ n+", ""},
		{3, "_ _ _", "CreatePod 0, CreatePod 1, CreatePod 2"},
		{3, "n+ _ n+", "CreatePod 1"},
		{3, "n+ f _", "CreatePod 2"},
		{3, "n+ n. n+", ""},
		{3, "n! n+ n!", "ReplacePod 0, ReplacePod 2"},
		{3, "n- n- n-", ""}, // a crash is the kubelet's business
		// Scaling down: the highest first, one at a time, whatever the others do.
		{1, "n+ n+ n+", "DeletePod 2"},
		{1, "n+ n+ n.", ""},
		{1, "n+ n. n+", ""},
		{1, "_ n- n!", "CreatePod 0, DeletePod 2"},
		{0, "o+ o+", "DeletePod 1"},
		{2, "o+ o+ n+", "DeletePod 2"}, // no roll before that
		// A roll: the highest first, one at a time, waiting for the new ones.
		{3, "o+ o+ o+", "RollPod 2"},
		{3, "o+ o+ n+", "RollPod 1"},
		{3, "o+ n+ n+", "RollPod 0"},
		{3, "o+ o+ n-", ""},
		{3, "o+ o+ n?", ""},
		{3, "o+ o+ _", "CreatePod 2"},
		{3, "o+ o+ o.", ""},
		{3, "o+ n- o+", ""}, // wherever the new one that is not ready stands
		{3, "o+ f o+", "RollPod 2"},
		// Old pods that do not serve go first.
		{3, "o- o+ o+", "RollPod 0"},
		{3, "o- o- o+", "RollPod 1"},
		{3, "o- o+ n-", ""},
		{3, "o- n+ o+", "RollPod 0"},
	} {
		d := &desired{num: test.num, revision: "n", minReady: 10 * time.Second}
		if got := stepsIn(plan(d, slotsOf(test.slots), noon)); got != test.want {
			t.Errorf("num %d, pods %q: got %q, want %q", test.num, test.slots, got, test.want)
		}
	}
}

func TestPlanOfARemoval(t *testing.T) {
	for slots, want := range map[string]string{"": "", "n+ o-": "DeletePod 1", "n+ n.": "", "n. n+": "", "n+ _": "DeletePod 0", "n!": "DeletePod 0", "_ f": ""} {
		if got := stepsIn(planRemoval(slotsOf(slots))); got != want {
			t.Errorf("pods %q: got %q, want %q", slots, got, want)
		}
	}
}

func TestFaultOfAPod(t *testing.T) {
	for _, test := range []struct {
		name, status    string
		reason, message string
		wait            time.Duration
	}{
		{name: "new", status: `{"phase":"Pending"}`, wait: patience},
		{name: "starting", status: `{"containerStatuses":[{"name":"redis","state":{"waiting":{"reason":"ContainerCreating"}}}]}`, wait: patience},
		{name: "not ready for a while", status: `{"conditions":[{"type":"Ready","status":"False","lastTransitionTime":"2026-11-20T12:00:10Z"}]}`, wait: patience + 10*time.Second},
		{name: "not ready for long", status: `{"conditions":[{"type":"Ready","status":"False","message":"probe failed","lastTransitionTime":"2026-11-20T11:00:00Z"}]}`,
			wait: patience}, // it was created just now, whatever its condition says
		{name: "unschedulable", status: `{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes"}]}`,
			reason: "Unschedulable", message: "0/3 nodes"},
		{name: "no image", status: `{"containerStatuses":[{"name":"redis","state":{"waiting":{"reason":"ErrImagePull","message":"no such tag"}}}]}`,
			reason: "ErrImagePull", message: "container redis: no such tag"},
		{name: "init container", status: `{"initContainerStatuses":[{"name":"init","state":{"waiting":{"reason":"CreateContainerConfigError"}}}],"containerStatuses":[{"name":"redis","state":{"waiting":{"reason":"PodInitializing"}}}]}`,
			reason: "CreateContainerConfigError", message: "container init"},
		{name: "crash", status: `{"containerStatuses":[{"name":"redis","state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 5m0s"}},"lastState":{"terminated":{"exitCode":1}}}]}`,
			reason: "CrashLoopBackOff", message: "container redis ended with exit code 1 (Error)"},
		{name: "odd reason", status: `{"containerStatuses":[{"name":"redis","state":{"waiting":{"reason":"what is this?"}}}]}`,
			reason: "PodNotReady", message: "container redis"},
		{name: "ended", status: `{"phase":"Succeeded"}`, reason: "PodEnded", message: "Succeeded"},
	} {
		p := decodeAs[pod](t, `{"metadata":{"creationTimestamp":"2026-11-20T12:00:00Z"},"status":`+test.status+`}`)
		reason, message, wait := faultOf(p, noon)
		if reason != test.reason || message != test.message || wait != test.wait {
			t.Errorf("%s: got %q %q %v, want %q %q %v", test.name, reason, message, wait, test.reason, test.message, test.wait)
		}
	}
	old := decodeAs[pod](t, `{"metadata":{"creationTimestamp":"2026-11-20T11:00:00Z"},"status":{"conditions":[{"type":"Ready","status":"False","message":"probe failed","lastTransitionTime":"2026-11-20T11:58:00Z"}]}}`)
	if reason, message, _ := faultOf(old, noon); reason != "PodNotReady" || message != "probe failed" {
		t.Errorf("a pod that has not been ready for two minutes: %q %q", reason, message)
	}
}

// Rules: MGR-12
func TestConditionsSayWhatWasSeen(t *testing.T) {
	none := "False/AsExpected"
	for _, test := range []struct {
		name, slots                           string
		problem                               *conditions.Problem
		ready, progressing, degraded, stalled string
		wait                                  time.Duration
	}{
		{"complete", "n+ n+ n+", nil, "True/Complete", "False/Complete", none, none, 0},
		{"just ready", "n+ n+ n?", nil, "False/PodsNotReady", "True/PodsNotReady", none, none, 9 * time.Second},
		{"starting", "n+ n~ n+", nil, "False/PodsNotReady", "True/PodsNotReady", none, none, patience - time.Second},
		{"stuck", "o+ o+ n-", nil, "False/PodNotReady", "False/PodNotReady", "True/PodNotReady", none, 0},
		{"rolling", "o+ o+ n+", nil, "False/RollingOut", "True/RollingOut", none, none, 0},
		{"missing", "n+ _ n+", nil, "False/PodsMissing", "True/PodsMissing", none, none, 0},
		{"going", "n+ n. n+", nil, "False/PodsMissing", "True/PodsMissing", none, none, 0},
		{"too many", "n+ n+ n+ n.", nil, "False/ScalingDown", "True/ScalingDown", none, none, 0},
		{"foreign", "n+ f n+", nameTaken("Pod x"), "False/NameTaken", "False/NameTaken", "True/NameTaken", none, 0},
		{"foreign while rolling", "o+ f n+", nameTaken("Pod x"), "False/NameTaken", "True/RollingOut", "True/NameTaken", none, 0},
		{"refused", "o+ o+ o+", &conditions.Problem{Reason: "PodRefused", Message: "m", Stalled: true}, "False/PodRefused", "False/PodRefused", "True/PodRefused", "True/PodRefused", 0},
		{"waiting", "_ _ _", &conditions.Problem{Reason: "Waiting", Message: "m", Passing: true}, "False/Waiting", "True/PodsMissing", none, none, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			rd := redisOf(t, `{"port":6379,"num":3}`)
			rd.Generation = 5
			f := &findings{want: &desired{num: 3, revision: "n", minReady: 10 * time.Second}, slots: slotsOf(test.slots), problem: test.problem}
			s, wait := observe(rd, f, noon)
			got := map[string]string{}
			for _, c := range s.Conditions {
				got[c.Type] = string(c.Status) + "/" + c.Reason
				if c.ObservedGeneration != 5 || c.Message == "" {
					t.Errorf("condition %+v: want generation 5 and a message", c)
				}
			}
			want := map[string]string{conditions.Ready: test.ready, conditions.Progressing: test.progressing, conditions.Degraded: test.degraded,
				conditions.Stalled: test.stalled, conditions.Paused: "False/NotAnnotated"}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if wait != test.wait {
				t.Errorf("look again after %v, want %v", wait, test.wait)
			}
		})
	}
}

func TestStatusCountsAndNamesThePods(t *testing.T) {
	f := &findings{want: &desired{num: 3, revision: "n"}, slots: slotsOf("o+ n- f n.")}
	s, _ := observe(redisOf(t, `{"port":6379,"num":3}`), f, noon)
	if s.Replicas != 3 || s.ReadyReplicas != 1 || s.UpdatedReplicas != 1 || s.ObservedGeneration != 1 || s.Selector != selector("cache") {
		t.Errorf("got %+v", s)
	}
	want := []Member{{"cache-0", "uid-cache-0", "10.0.0.0", true, "o"}, {"cache-1", "uid-cache-1", "10.0.0.1", false, "n"}, {"cache-3", "uid-cache-3", "10.0.0.3", false, "n"}}
	if !reflect.DeepEqual(s.Members, want) {
		t.Errorf("members %+v, want %+v", s.Members, want)
	}
}

func TestMessagesOfProblemsEndWithTheNextStep(t *testing.T) {
	for outcome, reason := range map[apply.Outcome]string{apply.Foreign: "NameTaken", apply.Contested: "Contested", apply.Waiting: "Waiting", apply.Held: conditions.Paused} {
		if p := problemOf(outcome, "what happened"); p == nil || p.Reason != reason || !strings.Contains(p.Message, "; ") {
			t.Errorf("%v: got %+v", outcome, p)
		}
	}
	if p := problemOf(apply.Created, ""); p != nil {
		t.Errorf("got %+v", p)
	}
}

func TestARedisThatWasCreatedAnewIsRememberedNothingOf(t *testing.T) {
	m := memories{of: map[kube.Key]*memory{}}
	first, second := redisOf(t, `{"port":6379,"num":1}`), redisOf(t, `{"port":6379,"num":1}`)
	second.UID = "another"
	m.get(first).released = true
	if !m.get(first).released {
		t.Error("forgotten at once")
	}
	if m.get(second).released {
		t.Error("the second Redis of the name has the memory of the first")
	}
	m.forget(second.Key())
	if len(m.of) != 0 {
		t.Errorf("%d memories are left of a Redis that is gone", len(m.of))
	}
}
