package redis

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/kube"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// podsOf makes pods of words, one per ordinal: an optional revision (n is the wanted one, o an old one) and a state:
// + ready for an hour, ? ready for a second, - not ready, . being deleted, ! failed; _ is no pod and f a foreign one.
func podsOf(num int, words string) operator.Seen {
	var out operator.Seen
	for i, word := range strings.Fields(words) {
		r := apply.Result{Resource: pods, Declared: "n", Key: kube.Key{Namespace: "default",
			Name: podName("cache", i)}}
		if i >= num {
			r.Declared = ""
		}
		switch {
		case word == "_":
		case word == "f":
			r.Outcome = apply.Foreign
		default:
			p := &pod{}
			p.Name, p.UID, p.CreationTimestamp = r.Key.Name, "uid-"+r.Key.Name, noon.Add(-time.Hour)
			p.Status.Phase, p.Status.PodIP = "Running", fmt.Sprint("10.0.0.", i)
			ready := operator.PodCondition{Type: "Ready", Status: "True", LastTransitionTime: noon.Add(-time.Hour)}
			switch word[1:] {
			case "?":
				r.WaitsMinReady = true
			case "-":
				ready.Status, ready.Message = "False", "containers with unready status: [redis]"
			case "~": // has not been ready for a second
				ready.Status, ready.LastTransitionTime = "False", noon.Add(-time.Second)
			case ".":
				r.Deleting = true
			case "!":
				p.Status.Phase, p.Status.Reason, p.Status.Message = "Failed", "Evicted", "low on memory"
				ready.Status, r.Ending = "False", "Evicted"
			}
			p.Status.Conditions = []operator.PodCondition{ready}
			r.Live, r.Revision = p, word[:1]
		}
		out = append(out, r)
	}
	return out
}

func TestFaultOfAPod(t *testing.T) {
	for _, test := range []struct {
		name, status    string
		reason, message string
		wait            time.Duration
	}{
		{name: "new", status: `{"phase":"Pending"}`, wait: operator.Patience},
		{name: "starting", status: `{"containerStatuses":[{"name":"redis",
			"state":{"waiting":{"reason":"ContainerCreating"}}}]}`, wait: operator.Patience},
		{name: "not ready for a while", status: `{"conditions":[{"type":"Ready","status":"False",
			"lastTransitionTime":"2026-11-20T12:00:10Z"}]}`, wait: operator.Patience + 10*time.Second},
		{name: "not ready for long", status: `{"conditions":[{"type":"Ready","status":"False",
			"message":"probe failed","lastTransitionTime":"2026-11-20T11:00:00Z"}]}`,
			wait: operator.Patience}, // it was created just now, whatever its condition says
		{name: "unschedulable", status: `{"conditions":[{"type":"PodScheduled","status":"False",
			"reason":"Unschedulable","message":"0/3 nodes."}]}`,
			reason: "Unschedulable", message: "0/3 nodes"},
		{name: "no image", status: `{"containerStatuses":[{"name":"redis",
			"state":{"waiting":{"reason":"ErrImagePull","message":"no such tag"}}}]}`,
			reason: "ErrImagePull", message: "container redis: no such tag"},
		{name: "init container", status: `{"initContainerStatuses":[{"name":"init",
			"state":{"waiting":{"reason":"CreateContainerConfigError"}}}],
			"containerStatuses":[{"name":"redis","state":{"waiting":{"reason":"PodInitializing"}}}]}`,
			reason: "CreateContainerConfigError", message: "container init"},
		{name: "crash", status: `{"containerStatuses":[{"name":"redis",
			"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 5m0s"}},
			"lastState":{"terminated":{"exitCode":1}}}]}`,
			reason: "CrashLoopBackOff", message: "container redis ended with exit code 1 (Error)"},
		{name: "odd reason", status: `{"containerStatuses":[{"name":"redis",
			"state":{"waiting":{"reason":"what is this?"}}}]}`,
			reason: "PodNotReady", message: "container redis"},
		{name: "ended", status: `{"phase":"Succeeded"}`, reason: "PodEnded", message: "Succeeded"},
		{name: "rejected", status: `{"phase":"Failed","reason":"OutOfcpu","message":"too little"}`,
			reason: "PodEnded", message: "OutOfcpu: too little"},
		{name: "failed", status: `{"phase":"Failed","containerStatuses":[{"name":"sidecar",
			"state":{"terminated":{"exitCode":0,"reason":"Completed"}}},
			{"name":"redis","state":{"terminated":{"exitCode":2,"reason":"Error"}}}]}`,
			reason: "PodEnded", message: "container redis ended with exit code 2 (Error)"},
	} {
		p := decodeAs[pod](t, `{"metadata":{"creationTimestamp":"2026-11-20T12:00:00Z"},"status":`+test.status+`}`)
		reason, message, wait := operator.FaultOf(p, noon)
		if reason != test.reason || message != test.message || wait != test.wait {
			t.Errorf("%s: got %q %q %v, want %q %q %v", test.name, reason, message, wait, test.reason, test.message,
				test.wait)
		}
	}
	old := decodeAs[pod](t, `{"metadata":{"creationTimestamp":"2026-11-20T11:00:00Z"},
		"status":{"conditions":[{"type":"Ready","status":"False","message":"probe failed",
			"lastTransitionTime":"2026-11-20T11:58:00Z"}]}}`)
	if reason, message, _ := operator.FaultOf(old, noon); reason != "PodNotReady" || message != "probe failed" {
		t.Errorf("a pod that has not been ready for two minutes: %q %q", reason, message)
	}
}

// Rules: MGR-12
func TestConditionsSayWhatWasSeen(t *testing.T) {
	const none = "False/AsExpected"
	for _, test := range []struct {
		name, pods                   string
		ready, progressing, degraded string
		wait                         time.Duration
	}{
		{"complete", "n+ n+ n+", "True/Complete", "False/Complete", none, 0},
		{"just ready", "n+ n+ n?", "False/PodsNotReady", "True/PodsNotReady", none, 0},
		{"ends again and again", "n+ n+ n!", "False/PodEnded", "False/PodEnded", "True/PodEnded", 0},
		{"about to be created after an end", "n+ _ n!", "False/PodEnded", "False/PodEnded", "True/PodEnded", 0},
		{"starting", "n+ n~ n+", "False/PodsNotReady", "True/PodsNotReady", none, operator.Patience - time.Second},
		{"stuck", "o+ o+ n-", "False/PodNotReady", "False/PodNotReady", "True/PodNotReady", 0},
		{"rolling", "o+ o+ n+", "False/RollingOut", "True/RollingOut", none, 0},
		{"missing", "n+ _ n+", "False/PodsMissing", "True/PodsMissing", none, 0},
		{"going", "n+ n. n+", "False/PodsMissing", "True/PodsMissing", none, 0},
		{"too many", "n+ n+ n+ n.", "False/ScalingDown", "True/ScalingDown", none, 0},
		{"foreign", "n+ f n+", "False/NameTaken", "False/NameTaken", "True/NameTaken", 0},
		{"foreign while rolling", "o+ f n+", "False/RollingOut", "True/RollingOut", none, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, progress := observe(redisOf(t, `{"port":6379,"num":3}`), podsOf(3, test.pods), noon)
			set := progress.Set()
			got := map[string]string{}
			for _, c := range []conditions.Condition{set.Ready, set.Progressing, set.Degraded} {
				got[c.Type] = string(c.Status) + "/" + c.Reason
				if c.Message == "" {
					t.Errorf("condition %+v has no message", c)
				}
			}
			want := map[string]string{conditions.Ready: test.ready, conditions.Progressing: test.progressing,
				conditions.Degraded: test.degraded}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if set.Recheck != test.wait {
				t.Errorf("look again after %v, want %v", set.Recheck, test.wait)
			}
		})
	}
}

func TestStatusCountsAndNamesThePods(t *testing.T) {
	seen := append(podsOf(3, "o+ n- f n."), apply.Result{Resource: pods, Outcome: apply.Released, Live: &pod{}})
	s, _ := observe(redisOf(t, `{"port":6379,"num":3}`), seen, noon)
	selector := operator.Selector(app, "cache")
	if s.Replicas != 3 || s.ReadyReplicas != 1 || s.UpdatedReplicas != 1 || s.Selector != selector {
		t.Errorf("got %+v", s)
	}
	want := []Member{
		{"cache-0", "uid-cache-0", "10.0.0.0", true, "o"},
		{"cache-1", "uid-cache-1", "10.0.0.1", false, "n"},
		{"cache-3", "uid-cache-3", "10.0.0.3", false, "n"},
	}
	if !reflect.DeepEqual(s.Members, want) {
		t.Errorf("members %+v, want %+v", s.Members, want)
	}
}
