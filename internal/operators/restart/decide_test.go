package restart

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func ruleOf(t *testing.T, spec string) *rule {
	t.Helper()
	r, err := newRule(triggerOf(t, spec))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func triggerOf(t *testing.T, spec string) *RestartTrigger {
	t.Helper()
	rt := &RestartTrigger{}
	rt.Namespace, rt.Name, rt.UID = "default", "rt", "uid-of-rt"
	if err := json.Unmarshal([]byte("{"+spec+"}"), &rt.Spec); err != nil {
		t.Fatal(err)
	}
	return rt
}

// settled is a target that nothing speaks against restarting.
func settled(ref TargetRef, uid string) target {
	two := int32(2)
	w := &liveTarget{}
	w.UID, w.Name, w.Generation = uid, ref.Name, 1
	w.Spec.Replicas = &two
	w.Status.ObservedGeneration = 1
	w.Status.Replicas, w.Status.UpdatedReplicas, w.Status.ReadyReplicas, w.Status.AvailableReplicas = 2, 2, 2, 2
	return target{TargetRef: ref, reading: reading{live: w, at: noon.AddDate(1, 0, 0)}}
}

// annotated is the same after a restart.
func annotated(t target, at time.Time) target {
	w := *t.live
	w.Spec.Template.Metadata.Annotations = kube.Labels{{Key: restartedAt, Value: at.Format(time.RFC3339)}}
	return target{TargetRef: t.TargetRef, reading: reading{live: &w, at: t.at}}
}

func TestBadSpecsAreRefusedWithTheField(t *testing.T) {
	for spec, want := range map[string]string{
		toPredixy: "spec.source.selector: must not be empty",
		`"source":{"selector":{"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}},` + toPredixy: "spec.source.selector: would match every pod",
		`"source":{"selector":{"matchExpressions":[{"key":"a","operator":"In"}]}},` + toPredixy:           "spec.source.selector: a: In needs at least one value",
		`"source":{"selector":{"matchExpressions":[{"key":"a","operator":"Like"}]}},` + toPredixy:         "a: operator: must be",
		`"source":{"selector":{"matchLabels":{"a":"b"}},"reasons":["Never"]},` + toPredixy:                `spec.source.reasons: "Never" is none of`,
		selectRedis: "spec.targets: want 1 to 16",
		selectRedis + `,"targets":[{"kind":"Job","name":"x"}]`:                                                                                    `spec.targets[0].kind: must be Deployment, StatefulSet or DaemonSet, is "Job"`,
		selectRedis + `,"targets":[{"kind":"Deployment"}]`:                                                                                        `spec.targets[0].name: "" is not the name of an object`,
		selectRedis + `,"targets":[{"kind":"Deployment","name":"x"},{"kind":"Deployment","name":"x"}]`:                                            "spec.targets: deployment/x is there twice",
		selectRedis + "," + toPredixy + `,"debounce":"soon"`:                                                                                      `spec.debounce: "soon" is not a duration`,
		selectRedis + "," + toPredixy + `,"debounce":"-1s"`:                                                                                       `spec.debounce: "-1s" is too short; at least 0s`,
		selectRedis + "," + toPredixy + `,"cooldown":"1y"`:                                                                                        "spec.cooldown",
		`"source":{"selector":{"matchLabels":{"a/b/c":"x"}}},` + toPredixy:                                                                        "is not the key of a label",
		`"source":{"selector":{"matchExpressions":[{"key":"a","operator":"In","values":["v"` + strings.Repeat(`,"v"`, 200) + `]}]}},` + toPredixy: "names 201 values, at most 200 are allowed",
		`"source":{"namespace":"../x","selector":{"matchLabels":{"app":"redis"}}},` + toPredixy:                                                   `spec.source.namespace: "../x" is not the name of a namespace`,
		selectRedis + `,"targets":[{"kind":"Deployment","name":"../../victim/deployments/app"}]`:                                                  "spec.targets[0].name",
		selectRedis + "," + toPredixy + `,"cooldown":"99999999h"`:                                                                                 `spec.cooldown: "99999999h" is too long; at most 24h`,
		selectRedis + "," + toPredixy + `,"cooldown":"1000h"`:                                                                                     `spec.cooldown: "1000h" is too long; at most 24h`,
		selectRedis + "," + toPredixy + `,"budget":{"max":0,"per":"1h"}`:                                                                          "spec.budget.max: must be within 1..100, is 0",
		selectRedis + "," + toPredixy + `,"budget":{"max":3,"per":""}`:                                                                            "spec.budget.per",
		selectRedis + "," + toPredixy + `,"budget":{"max":3}`:                                                                                     "spec.budget.per",
		`"source":{"selector":{"matchExpressions":[{"key":"a","operator":"Exists","values":["x"]}]}},` + toPredixy:                                "Exists takes no values",
	} {
		if _, err := newRule(triggerOf(t, spec)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}

// sourcePod is a pod in few words.
type sourcePod struct {
	name, uid, ip    string
	restarts         int32
	running, lasting bool
	created          time.Time
}

func podsOf(list ...sourcePod) (out []*pod) {
	for _, s := range list {
		p := &pod{}
		p.Name, p.UID, p.CreationTimestamp, p.Status.PodIP = s.name, s.uid, s.created, s.ip
		p.Status.Containers = append(p.Status.Containers, struct {
			RestartCount int32 `json:"restartCount"`
		}{s.restarts})
		if s.running {
			p.Status.Phase = "Running"
		}
		if !s.lasting {
			p.OwnerReferences = []kube.OwnerReference{{Kind: "ReplicaSet", Controller: true}}
		}
		out = append(out, p)
	}
	return out
}

func TestWhatHappenedToAPod(t *testing.T) {
	old := sourcePod{name: "a-0", uid: "1", ip: "10.0.0.1", restarts: 1, running: true, lasting: true, created: noon}
	with := func(f func(*sourcePod)) []sourcePod { p := old; f(&p); return []sourcePod{p} }
	all := `"reasons":["NewPodRunning","PodReplaced","ContainerRestarted","PodIPChanged","PodDeleted"]`
	for _, test := range []struct {
		name   string
		on     string
		now    []sourcePod
		reason Reason
		note   string
	}{
		{"nothing", all, []sourcePod{old}, "", ""},
		{"a container restarted", all, with(func(p *sourcePod) { p.restarts++ }), ContainerRestarted,
			"a container of pod a-0 restarted"},
		{"a container restarted, which does not count", `"reasons":["PodReplaced"]`, with(func(p *sourcePod) { p.restarts++ }), "", ""},
		{"another address", all, with(func(p *sourcePod) { p.ip = "10.0.0.2" }), PodIPChanged, "pod a-0, new IP"},
		{"no address for a moment", all, with(func(p *sourcePod) { p.ip = "" }), "", ""},
		{"replaced", all, with(func(p *sourcePod) { p.uid, p.ip = "2", "10.0.0.2" }), PodReplaced,
			"pod a-0 replaced, new IP"},
		{"replaced, by default", `"reasons":[]`, with(func(p *sourcePod) { p.uid, p.ip = "2", "10.0.0.2" }), NewPodRunning, "pod a-0 replaced, new IP"},
		{"replaced with the same address", `"reasons":["PodIPChanged"]`, with(func(p *sourcePod) { p.uid = "2" }), "", ""},
		{"its successor does not run yet", all, with(func(p *sourcePod) { p.uid, p.running = "2", false }), PodDeleted,
			"pod a-0 deleted"},
		{"its successor does not run yet, by default", `"reasons":[]`, with(func(p *sourcePod) { p.uid, p.running = "2", false }), "", ""},
		{"it is being deleted", all, with(func(p *sourcePod) { p.running = false }), "", ""},
		{"deleted", all, nil, PodDeleted, "pod a-0 deleted"},
		{"deleted, by default", `"reasons":[]`, nil, "", ""},
		{"a new one", all, []sourcePod{old, {name: "a-1", uid: "3", running: true}}, NewPodRunning,
			"pod a-1 is new and runs"},
		{"a new one that waits", all, []sourcePod{old, {name: "a-1", uid: "3"}}, "", ""},
		{"a new one that has restarted", `"reasons":["ContainerRestarted"]`, []sourcePod{old, {name: "a-1", uid: "3", running: true, restarts: 2}}, ContainerRestarted, "pod a-1 is new and runs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := ruleOf(t, `"source":{"selector":{"matchLabels":{"app":"redis"}},`+test.on+`},`+toPredixy)
			first, changes, store := notice(r, digest{}, podsOf(old))
			if len(changes) != 0 || !store {
				t.Fatalf("the first list gives %v, to be stored: %t", changes, store)
			}
			known, ok := decodeDigest(first.encode(maxPods))
			if !ok || !reflect.DeepEqual(known, first) {
				t.Fatalf("stored as %s", first.encode(maxPods))
			}
			now, changes, store := notice(r, known, podsOf(test.now...))
			var got Change
			if len(changes) > 0 {
				got = changes[0]
			}
			if got.Reason != test.reason || got.Note != test.note || len(changes) > 1 {
				t.Errorf("got %v, want %s: %s", changes, test.reason, test.note)
			}
			if len(changes) > 0 && !store {
				t.Error("a change that is not stored would be one again")
			}
			if _, again, _ := notice(r, now, podsOf(test.now...)); len(again) > 0 {
				t.Errorf("seen once more: %v", again)
			}
		})
	}
}

// A process that is killed between the deletion and the successor still knows the name, and a scaled-down set comes
// back as it was.
func TestANameThatComesBackIsAReplacedPodAndAGeneratedOneIsForgotten(t *testing.T) {
	r := ruleOf(t, `"source":{"selector":{"matchLabels":{"app":"redis"}},"reasons":["PodReplaced"]},`+toPredixy)
	known, _, _ := notice(r, digest{}, podsOf([]sourcePod{{name: "a-0", uid: "1", running: true, lasting: true},
		{name: "web-x7k2p", uid: "2", running: true}}...))
	known, changes, _ := notice(r, known, nil)
	if len(changes) > 0 || len(known.pods) != 1 {
		t.Errorf("after their deletion: %v, known %v", changes, known.pods)
	}
	_, changes, _ = notice(r, known, podsOf([]sourcePod{{name: "a-0", uid: "3", running: true, lasting: true},
		{name: "web-q8zzx", uid: "4", running: true}}...))
	if len(changes) != 1 || changes[0].Reason != PodReplaced || changes[0].Pod != "a-0" {
		t.Errorf("got %v, want that a-0 is replaced", changes)
	}
}

func manyPods(n int, prefix string, created time.Time) []sourcePod {
	var out []sourcePod
	for i := range n {
		name := fmt.Sprintf("%s-%04d", prefix, i)
		out = append(out, sourcePod{name: name, uid: name, ip: "10.0.0.1", running: true, lasting: true,
			created: created})
	}
	return out
}

func TestTheDigestIsBounded(t *testing.T) {
	r := ruleOf(t, `"source":{"selector":{"matchLabels":{"app":"redis"}},"reasons":["NewPodRunning","ContainerRestarted"]},`+toPredixy)
	limit := manyPods(maxPods, "redis", noon)
	d, _, _ := notice(r, digest{}, podsOf(limit...))
	text := d.encode(maxPods)
	t.Logf("%d pods take %d bytes", maxPods, len(text))
	if back, ok := decodeDigest(text); !ok || len(back.pods) != maxPods || len(text) > 20<<10 {
		t.Errorf("%d pods: %d are left in %d bytes", maxPods, len(back.pods), len(text))
	}
	long := manyPods(maxPods, strings.Repeat("x", 240), noon)
	if d, _, _ := notice(r, digest{}, podsOf(long...)); len(d.encode(maxPods)) > maxDigest {
		t.Errorf("long names take %d bytes", len(d.encode(maxPods)))
	}

	// One more: after a time without a process only new pods are noticed.
	many := append(limit, sourcePod{name: "one-more", uid: "x", running: true, created: noon.Add(time.Minute)})
	d, changes, store := notice(r, d, podsOf(many...))
	if len(changes) != 1 || !store || len(d.pods) != maxPods+1 {
		t.Fatalf("one more: %v, store %t, %d known", changes, store, len(d.pods))
	}
	summary := d.encode(maxPods)
	if len(summary) > 100 {
		t.Errorf("more than %d pods take %d bytes", maxPods, len(summary))
	}
	late, _ := decodeDigest(summary)
	if _, changes, _ := notice(r, late, podsOf(many...)); len(changes) > 0 {
		t.Errorf("a new process finds changes where there are none: %v", changes)
	}
	many[0].restarts++
	many = append(many, sourcePod{name: "newer", uid: "y", running: true, created: noon.Add(2 * time.Minute)})
	if _, changes, _ := notice(r, late, podsOf(many...)); len(changes) != 1 || changes[0].Pod != "newer" {
		t.Errorf("after a time without a process: %v, want the new pod", changes)
	}
	if _, changes, _ := notice(r, d, podsOf(many...)); len(changes) != 2 {
		t.Errorf("a process that runs on finds %v, want the restart and the new pod", changes)
	}
	// And back below the limit, everything is known again.
	few, _, store := notice(r, late, podsOf(limit...))
	if back, ok := decodeDigest(few.encode(maxPods)); !store || !ok || len(back.pods) != maxPods {
		t.Errorf("below the limit again: store %t, %d pods", store, len(back.pods))
	}
}

func TestTargetsAreReadAsKubectlRolloutStatusDoes(t *testing.T) {
	for _, test := range []struct{ name, kind, live, want string }{
		{"a settled deployment", "Deployment", `{"metadata":{"generation":2},"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"availableReplicas":2}}`, ""},
		{"without pods", "Deployment", `{"metadata":{"generation":2},"spec":{"replicas":0},"status":{"observedGeneration":2}}`, ""},
		{"an old status", "Deployment", `{"metadata":{"generation":3},"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"availableReplicas":2}}`, rollingOut},
		{"updating", "Deployment", `{"metadata":{"generation":2},"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":3,"updatedReplicas":1,"availableReplicas":2}}`, rollingOut},
		{"old pods left", "Deployment", `{"metadata":{"generation":2},"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":3,"updatedReplicas":2,"availableReplicas":2}}`, rollingOut},
		{"lacking pods", "Deployment", `{"metadata":{"generation":2},"spec":{"replicas":2},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"availableReplicas":1}}`, unavailable},
		{"paused", "Deployment", `{"metadata":{"generation":2},"spec":{"replicas":2,"paused":true},"status":{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"availableReplicas":2}}`, targetPaused},
		{"a settled set", "StatefulSet", `{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"currentRevision":"a","updateRevision":"a"}}`, ""},
		{"a set between revisions", "StatefulSet", `{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"currentRevision":"a","updateRevision":"b"}}`, rollingOut},
		{"a set with a partition", "StatefulSet", `{"metadata":{"generation":2},"spec":{"replicas":3,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":2}}},"status":{"observedGeneration":2,"replicas":3,"updatedReplicas":1,"readyReplicas":3,"currentRevision":"a","updateRevision":"b"}}`, ""},
		{"a set with the largest partition", "StatefulSet", `{"metadata":{"generation":2},"spec":{"replicas":3,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":2147483647}}},"status":{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"currentRevision":"a","updateRevision":"b"}}`, ""},
		{"a set that waits for hands", "StatefulSet", `{"metadata":{"generation":2},"spec":{"replicas":3,"updateStrategy":{"type":"OnDelete"}},"status":{"observedGeneration":2}}`, onDelete},
		{"a settled daemon set", "DaemonSet", `{"metadata":{"generation":1},"status":{"observedGeneration":1,"desiredNumberScheduled":3,"updatedNumberScheduled":3,"numberAvailable":3}}`, ""},
		{"an updating daemon set", "DaemonSet", `{"metadata":{"generation":1},"status":{"observedGeneration":1,"desiredNumberScheduled":3,"updatedNumberScheduled":1,"numberAvailable":3}}`, rollingOut},
		{"a daemon set that lacks pods", "DaemonSet", `{"metadata":{"generation":1},"status":{"observedGeneration":1,"desiredNumberScheduled":3,"updatedNumberScheduled":3,"numberAvailable":2}}`, unavailable},
	} {
		w := &liveTarget{}
		if err := json.Unmarshal([]byte(test.live), w); err != nil {
			t.Fatal(err)
		}
		read := target{TargetRef: TargetRef{test.kind, "x"}, reading: reading{live: w}}
		if got, message := read.busy(); got != test.want {
			t.Errorf("%s: %q (%s), want %q", test.name, got, message, test.want)
		}
	}
}

func TestPodsAreTracedToTheirWorkloads(t *testing.T) {
	for _, test := range []struct{ owner, kind, hash, want string }{
		{"web-7c5ddbdf54", "ReplicaSet", "7c5ddbdf54", "deployment/web"},
		{"a-b-c-123", "ReplicaSet", "123", "deployment/a-b-c"},
		{"web", "ReplicaSet", "", ""},      // by hand
		{"web-123", "ReplicaSet", "4", ""}, // not made by a Deployment
		{"db", "StatefulSet", "", "statefulset/db"},
		{"log", "DaemonSet", "", "daemonset/log"},
		{"once", "Job", "", ""},
	} {
		p := &pod{}
		p.OwnerReferences = []kube.OwnerReference{{Kind: test.kind, Name: test.owner, Controller: true}}
		if test.hash != "" {
			p.Labels = kube.Labels{{Key: templateHashLabel, Value: test.hash}}
		}
		got := ""
		if ref, ok := ownerOf(&p.Meta); ok {
			got = ref.String()
		}
		if got != test.want {
			t.Errorf("a pod of %s %s belongs to %q, want %q", test.kind, test.owner, got, test.want)
		}
	}
}

func TestAClockThatGoesBackMakesNoWaitLonger(t *testing.T) {
	r := ruleOf(t, selectRedis+","+toPredixy+`,"budget":{"max":1,"per":"1h"}`)
	tomorrow := noon.Add(24 * time.Hour)
	s := State{Pending: &Pending{First: tomorrow, Last: tomorrow}, LastRestart: &Restart{Time: tomorrow},
		Recent: []time.Time{tomorrow}}
	if got, _ := s.due(r, noon); got > time.Hour {
		t.Errorf("due in %s, want at most the budget's window", got)
	}
}

// A clock that was ahead for a while, here or where somebody restarts a target by hand, leaves times behind that come
// in years.
func TestATimeFarAheadStopsNoRestart(t *testing.T) {
	r := ruleOf(t, selectRedis+","+toPredixy+`,"budget":{"max":1,"per":"1h"}`)
	far := noon.AddDate(73, 0, 0)
	round := &Round{Time: noon, Change: Change{Reason: NewPodRunning}}
	waits := func() *Pending { return &Pending{First: noon, Last: noon} }
	for name, c := range map[string]struct {
		state State
		set   time.Time // the annotation
		not   bool      // nothing is restarted
	}{
		"a debounce":                       {state: State{Pending: &Pending{First: far, Last: far}}},
		"a cooldown":                       {state: State{Pending: waits(), LastRestart: &Restart{Time: far}}},
		"a budget":                         {state: State{Pending: waits(), Recent: []time.Time{far}}},
		"an annotation":                    {state: State{Round: round}, set: far},
		"an annotation of a restart by us": {state: State{Round: &Round{Time: far}}, set: far, not: true},
		"an annotation a bit ahead":        {state: State{Round: round}, set: noon.Add(time.Minute), not: true},
		"an annotation that should be there": {set: noon, state: State{Pending: waits(),
			Targets: []TargetStatus{{TargetRef: r.targets[0], UID: "1", RestartedAt: &far}}}},
	} {
		live, now, s := settled(r.targets[0], "1"), noon, c.state
		if !c.set.IsZero() {
			live = annotated(live, c.set)
		}
		var d decision
		for again := true; again; again = d.restart < 0 && d.wait > 0 && now.Before(noon.Add(2*time.Hour)) {
			live.at = now
			d = decide(r, s, []target{live}, now)
			s, now = d.state, now.Add(d.wait)
		}
		if restarted := d.restart == 0 && d.state.Round != nil; restarted == c.not || d.problem != nil {
			t.Errorf("%s: restarted %t at %s, problem %v", name, restarted, now, d.problem)
		} else if !c.not && !d.state.Round.Time.Before(noon.Add(2*time.Hour)) {
			t.Errorf("%s: restarted with time %s", name, d.state.Round.Time)
		}
	}
}

// Somebody restarts the target by hand while our round waits for it: to put our time in the place of a later one would
// be one more rollout, and a process that was killed after its restart finds it done.
func TestATargetThatWasRestartedSinceTheRoundBeganIsNotRestartedAgain(t *testing.T) {
	r := ruleOf(t, selectRedis+","+toPredixy)
	for _, set := range []time.Time{noon, noon.Add(time.Minute)} {
		s := State{Round: &Round{Time: noon, Change: Change{Reason: NewPodRunning}}}
		d := decide(r, s, []target{annotated(settled(r.targets[0], "1"), set)}, noon.Add(2*time.Minute))
		if d.restart >= 0 || d.state.Round != nil || d.state.Restarts != 1 {
			t.Errorf("annotated at %s: restart %d, round %v, %d restarts", set, d.restart, d.state.Round,
				d.state.Restarts)
		}
	}
	s := State{Round: &Round{Time: noon, Change: Change{Reason: NewPodRunning}}}
	if d := decide(r, s,
		[]target{annotated(settled(r.targets[0], "1"), noon.Add(-time.Minute))}, noon); d.restart != 0 {
		t.Errorf("annotated before: restart %d", d.restart)
	}
}

func TestNothingIsDoneToATargetThatWasNotReadJustNow(t *testing.T) {
	r := ruleOf(t, selectRedis+","+toPredixy)
	earlier := noon.Add(-time.Hour)
	due := State{Pending: &Pending{First: earlier, Last: earlier}}
	under := State{Round: &Round{Time: earlier}}
	set := State{Targets: []TargetStatus{{TargetRef: r.targets[0], UID: "1", RestartedAt: &noon}}}
	restarts := func(d decision) bool { return d.restart == 0 }
	complains := func(d decision) bool { return d.problem != nil }
	there, missing := settled(r.targets[0], "1"), target{TargetRef: r.targets[0]}
	now := noon.Add(time.Second)
	for name, c := range map[string]struct {
		state  State
		target target
		read   time.Time             // long ago
		then   func(d decision) bool // what a reading of this moment leads to
	}{
		"a restart":             {due, there, earlier, restarts},
		"a restart under way":   {under, there, earlier, restarts},
		"an annotation removed": {set, there, earlier, complains},
		"a target never read":   {State{}, missing, time.Time{}, complains},
		"a target long missing": {State{}, missing, now.Add(-recheck), complains},
		"a target gone meanwhile": {under, missing, now.Add(-time.Second),
			func(d decision) bool { return d.state.Round == nil }},
		"no target to restart": {due, missing, now.Add(-time.Second),
			func(d decision) bool { return d.state.Pending == nil }},
		"a target made again": {set, settled(r.targets[0], "2"), earlier,
			func(d decision) bool { return d.state.Targets[0].RestartedAt == nil }},
	} {
		c.target.at = c.read
		if d := decide(r, c.state, []target{c.target}, now); !d.stale || d.restart >= 0 {
			t.Errorf("%s, by an old reading: stale %t, restart %d", name, d.stale, d.restart)
		}
		c.target.at = now
		if d := decide(r, c.state, []target{c.target}, now); d.stale || !c.then(d) {
			t.Errorf("%s, by a new reading: %+v", name, d)
		}
	}
}

// A target that rolls out is read after a second, and then ever more rarely, however many events there are.
func TestATargetThatIsWaitedForIsNotReadForEachEvent(t *testing.T) {
	r := ruleOf(t, selectRedis+","+toPredixy)
	began := noon.Add(-80 * time.Second)
	busy := settled(r.targets[0], "1")
	busy.live.Status.UpdatedReplicas, busy.at = 1, noon
	s := State{Round: &Round{Time: began}}
	for after, stale := range map[time.Duration]bool{0: false, 9 * time.Second: false, 10 * time.Second: true} {
		d := decide(r, s, []target{busy}, noon.Add(after))
		if d.stale != stale || !stale && d.wait != 10*time.Second-after {
			t.Errorf("after %s: stale %t, wait %s", after, d.stale, d.wait)
		}
	}
}

// Random changes at random times, restarts of the process in between: whatever comes, decisions are as documented. The
// model is that of a reader of the documentation: it knows nothing of the code but when it restarted.
func TestDecisionsRespectDebounceCooldownAndBudgetAndMissNoChange(t *testing.T) {
	for seed := range uint64(300) {
		playDecisions(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func playDecisions(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 11))
	r := ruleOf(t, selectRedis+","+toPredixy)
	r.debounce = time.Duration(dice.IntN(3)) * 5 * time.Second
	r.cooldown = time.Duration(dice.IntN(4)) * 30 * time.Second
	if dice.IntN(2) == 0 {
		r.budget, r.per = 1+dice.IntN(3), time.Duration(1+dice.IntN(10))*time.Minute
	}
	now := noon
	live := settled(r.targets[0], "1")
	var s State
	var restarts []time.Time
	var changes int64
	first, last := time.Time{}, time.Time{} // of the changes that wait
	// run is a reconcile; it returns how long to wait.
	run := func(news int) time.Duration {
		for range news {
			if first.IsZero() {
				first = now
			}
			last = now
			changes++
			s.absorb([]Change{{Reason: NewPodRunning, Pod: "p", Note: "pod p is new and runs"}}, now)
		}
		s.align(r)
		for range 5 {
			live.at = now
			d := decide(r, s, []target{live}, now)
			s = d.state
			if d.restart < 0 {
				return d.wait
			}
			switch quiet := now.Sub(last); {
			case r.suspended:
				t.Error("restarted while suspended")
			case quiet < r.debounce && now.Sub(first) < maxQuiet*r.debounce:
				t.Errorf("restarted %s after a change", quiet)
			// times are whole seconds
			case len(restarts) > 0 && now.Sub(restarts[len(restarts)-1]) < r.cooldown-time.Second:
				t.Errorf("restarted %s after the one before", now.Sub(restarts[len(restarts)-1]))
			case r.budget > 0 && len(restarts) >= r.budget &&
				now.Sub(restarts[len(restarts)-r.budget]) < r.per-time.Second:
				t.Errorf("%d restarts within %s", r.budget+1, now.Sub(restarts[len(restarts)-r.budget]))
			case first.IsZero():
				t.Error("restarted for nothing")
			}
			first, last = time.Time{}, time.Time{}
			restarts = append(restarts, now)
			s.restarted(r, 0, "1")
			live = annotated(live, s.Round.Time)
		}
		t.Error("restarts without end")
		return 0
	}
	wait := run(0)
	for range 60 {
		next := time.Duration(dice.IntN(40000)) * time.Millisecond
		for wait > 0 && wait <= next { // it asked to run again
			now, next = now.Add(wait), next-wait
			wait = run(0)
		}
		now = now.Add(next)
		switch dice.IntN(10) {
		case 0:
			r.suspended = !r.suspended
		case 1: // the process dies, and the state comes back from the server
			s = throughJSON(t, s)
		}
		wait = run(dice.IntN(3))
	}
	r.suspended = false
	for wait = run(0); wait > 0 && now.Before(noon.Add(24*time.Hour)); wait = run(0) {
		now = now.Add(wait)
	}
	if s.Pending != nil || s.Round != nil || !first.IsZero() {
		t.Errorf("the last change was never acted on: pending %v, round %v", s.Pending, s.Round)
	}
	if got := int64(len(restarts)); s.Restarts != got || s.Restarts+s.Suppressed != changes {
		t.Errorf("%d restarts are counted as %d, with %d changes suppressed of %d",
			got, s.Restarts, s.Suppressed, changes)
	}
}

func throughJSON(t *testing.T, s State) State {
	t.Helper()
	b, err := json.Marshal(Status{State: s})
	if err != nil {
		t.Fatal(err)
	}
	var back Status
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	return back.State
}
