package reload

import (
	"testing"
	"time"

	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// changed returns the facts about a workload of which a source has changed.
func changed(t *testing.T) *facts {
	t.Helper()
	w := workloadOf(t, map[string]string{ConfigMapsAnnotation: "a"}, `{}`)
	e := entry{kind: "configmap", name: "a"}
	text, err := state{UID: "u",
		Sources: map[string]string{"configmap/a": hashOf("shop", e, digests("k", "1"))}}.encode()
	if err != nil {
		t.Fatal(err)
	}
	w.Annotations = append(w.Annotations, kube.Label{Key: StateAnnotation, Value: text})
	return &facts{kind: "Deployment", w: w, wants: w.wants(w.Annotations),
		contents: map[string]*content{"configmap/a": digests("k", "2")},
		failed:   func([]change) *failure { return nil }, debounce: DefaultDebounce, now: start}
}

func TestWhatARestartWaitsFor(t *testing.T) {
	annotate := func(f *facts, key, value string) {
		f.w.Annotations = append(kube.Labels{{Key: key, Value: value}}, f.w.Annotations...)
	}
	reloaded := func(f *facts, at time.Time) {
		f.w.Spec.Template.Metadata.Annotations = kube.Labels{{Key: RestartAnnotation, Value: at.Format(time.RFC3339)}}
	}
	quiet := &pending{}
	first := func(o other) func(f *facts) {
		o.ref = ref{"Deployment", "b"}
		return func(f *facts) { f.others = []other{o} }
	}
	for name, c := range map[string]struct {
		change func(f *facts)
		reason string // "": it is restarted
		wait   time.Duration
	}{
		"nothing":          {func(*facts) {}, "", 0},
		"the pause":        {func(f *facts) { annotate(f, conditions.PausedAnnotation, "true") }, held, 0},
		"a paused rollout": {func(f *facts) { f.w.Spec.Paused = true }, held, 0},
		"the cooldown": {func(f *facts) { reloaded(f, start.Add(-45*time.Second)) },
			coolingDown, 15 * time.Second},
		"no cooldown that is over": {func(f *facts) { reloaded(f, start.Add(-time.Hour)) }, "", 0},
		"no longer than the cooldown": {func(f *facts) { reloaded(f, start.Add(time.Minute)) },
			coolingDown, time.Minute},
		"no time far ahead":    {func(f *facts) { reloaded(f, start.AddDate(73, 0, 0)) }, "", 0},
		"one that comes first": {first(other{exists: true, changed: true}), ordered, recheck},
		"one that rolls out":   {first(other{exists: true, rolls: true}), ordered, recheck},
		"one that has failed":  {first(other{exists: true, fails: true}), stopped, recheck},
		"none that is done":    {first(other{exists: true}), "", 0},
		"none that is missing": {first(other{changed: true}), "", 0},
		"none in a circle":     {first(other{exists: true, circular: true, changed: true}), "", 0},
		"another's failure": {func(f *facts) {
			f.failed = func([]change) *failure { return &failure{at: start} }
		}, stopped, recheck},
		"the debounce, from the start": {func(f *facts) { f.now = start.Add(-time.Hour) },
			debouncing, DefaultDebounce},
		"Reloader, for a time": {func(f *facts) {
			f.wants.rival, f.now = new(kube.Key), start.Add(10*time.Second-time.Hour)
		}, rivalRuns, rivalPatience},
		"no Reloader that does nothing": {func(f *facts) { f.wants.rival = new(kube.Key) }, "", 0},
	} {
		f, p := changed(t), *quiet
		c.change(f)
		before := *f
		if before.now.Equal(start) {
			before.now = start.Add(-time.Hour) // seen before: the debounce is over
			decide(&before, &p)
		}
		d := decide(f, &p)
		reason := ""
		if d.problem != nil && !d.restart {
			reason = d.problem.Reason
		}
		if d.restart != (c.reason == "") || reason != c.reason || d.wait != c.wait {
			t.Errorf("waits for %s: got restart %t, reason %q, wait %s", name, d.restart, reason, d.wait)
		}
		if d.restart != (d.write != nil) {
			t.Errorf("waits for %s: restart %t, and writes %+v", name, d.restart, d.write)
		}
	}
}

func TestADebounceEndsAlsoWhereChangesDoNot(t *testing.T) {
	f, p := changed(t), &pending{}
	for i := range 100 {
		f.now = start.Add(time.Duration(i) * time.Second)
		f.contents = map[string]*content{"configmap/a": digests("k", string(rune('a'+i%26)))}
		if d := decide(f, p); d.restart {
			if i != int(maxQuiet*DefaultDebounce/time.Second) {
				t.Errorf("restarted after %d s", i)
			}
			return
		}
	}
	t.Error("never restarted")
}

func TestAWorkloadWithoutPodsIsNotRestarted(t *testing.T) {
	f, none := changed(t), int32(0)
	f.w.Spec.Replicas = &none
	d := decide(f, &pending{})
	if d.restart || d.write == nil || d.write.same(f.w) {
		t.Errorf("got %+v", d)
	}
}

// rolling has facts of a Rollout whose source has changed an hour ago, at revision 1.
func rolling(t *testing.T, change func(f *facts)) (*facts, *pending) {
	t.Helper()
	f, p, one := changed(t), &pending{}, int32(1)
	f.kind, f.w.Spec.Replicas = rollouts.Kind, &one
	s := &f.w.Status
	s.Phase, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas = "Healthy", 1, 1, 1
	revision := kube.Label{Key: "rollout.argoproj.io/revision", Value: "1"}
	before := *f.w
	before.Annotations = append(kube.Labels{revision}, before.Annotations...)
	first := *f
	first.w, first.now = &before, start.Add(-time.Hour)
	p.settle(first.contents)
	decide(&first, p)
	f.w.Annotations = append(kube.Labels{revision}, f.w.Annotations...)
	change(f)
	return f, p
}

// A new process does not know which came first.
func TestStepsFoundTogetherWithAChangeAreNotBegunAnew(t *testing.T) {
	f, _ := rolling(t, func(f *facts) { f.w.Status.Phase = "Paused" })
	p := &pending{}
	decide(f, p)
	f.now = f.now.Add(24 * time.Hour)
	if d := decide(f, p); d.restart || d.problem.Reason != stepping {
		t.Errorf("got restart %t, problem %+v", d.restart, d.problem)
	}
	if f.w.Status.Phase = "Healthy"; !decide(f, p).restart {
		t.Error("not restarted when the steps are over")
	}
}

func TestWhatARestartOfARolloutWaitsFor(t *testing.T) {
	release := func(revision, phase string) func(f *facts) {
		return func(f *facts) {
			f.w.Annotations[0].Value, f.w.Status.Phase, f.w.Status.UpdatedReplicas = revision, phase, 0
		}
	}
	abort := func(inPlace bool) func(f *facts) {
		return func(f *facts) {
			release("2", "Degraded")(f)
			f.w.Status.Abort, f.wants.inPlace = true, inPlace
		}
	}
	restart := func(after time.Duration, inPlace, done bool, now time.Duration) func(f *facts) {
		return func(f *facts) {
			f.now, f.wants.inPlace = start.Add(now), inPlace
			if f.w.Spec.RestartAt = timeText(start.Add(after)); done {
				f.w.Status.RestartedAt = f.w.Spec.RestartAt
			}
		}
	}
	for name, c := range map[string]struct {
		change func(f *facts)
		reason string // of the wait; "": it is restarted, or need not be
		writes bool   // that it need not be
	}{
		"nothing":                      {func(*facts) {}, "", false},
		"the steps of a release":       {release("2", "Progressing"), stepping, false},
		"a pause between them":         {release("2", "Paused"), stepping, false},
		"the steps of the next one":    {release("3", "Progressing"), stepping, false},
		"no release that has failed":   {release("2", "Degraded"), "", false},
		"no release with old pods":     {release("2", "Healthy"), "", false},
		"no pause from before":         {func(f *facts) { f.w.Status.Phase = "Paused" }, "", false},
		"an aborted release":           {abort(false), aborted, false},
		"no aborted one, in place":     {abort(true), "", false},
		"a user's restart":             {restart(-58*time.Minute, true, false, -55*time.Minute), rollingOut, false},
		"a user's long restart":        {restart(-50*time.Minute, true, false, 0), rollingOut, false},
		"no restart that does not end": {restart(-50*time.Minute, true, false, 20*time.Minute), "", false},
		"no restart that is done":      {restart(-50*time.Minute, true, true, 0), "", true},
		"none, with steps otherwise":   {restart(-50*time.Minute, false, true, 0), "", true},
		"no restart from before":       {restart(-2*time.Hour, true, true, 0), "", false},
		"no planned restart":           {restart(2*time.Hour, true, true, 0), "", false},
	} {
		f, p := rolling(t, c.change)
		d := decide(f, p)
		reason := ""
		if d.problem != nil && !d.restart {
			reason = d.problem.Reason
		}
		restarts := c.reason == "" && !c.writes
		if d.restart != restarts || reason != c.reason || (d.write != nil) != (restarts || c.writes) {
			t.Errorf("waits for %s: got restart %t, reason %q, writes %t", name, d.restart, reason, d.write != nil)
		}
		if reason == aborted && d.problem.Severity != health.Stalled {
			t.Errorf("waits for %s: the problem is %q", name, d.problem.Severity)
		}
	}
}

// A source may be named ahead of its creation: nothing is wrong yet.
func TestAMissingSourceHidesNoContest(t *testing.T) {
	f, p := changed(t), &pending{}
	f.wants = f.w.wants(kube.Labels{{Key: ConfigMapsAnnotation, Value: "a,none"}})
	f.contents["configmap/a"] = digests("k", "1")
	d := decide(f, p)
	if d.problem == nil || d.problem.Reason != missing || d.problem.Severity != health.Passing || d.write == nil {
		t.Fatalf("got %+v, %+v", d, d.problem)
	}
	p.wrote, p.at, p.fights = &state{Sources: map[string]string{}, name: StateAnnotation}, f.now, 1
	if d := decide(f, p); d.problem == nil || d.problem.Reason != contested {
		t.Errorf("beside a contest, got %+v", d.problem)
	}
}
