package restart

import (
	"fmt"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// Rules: LP-12
func TestATriggerShowsWhatItWatchesTheLastRestartAndWhenTheNextMayBe(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	in, ago := func(d time.Duration) *time.Time { at := now.Add(d); return &at }, now.Add(-20*time.Second)
	pending := &Pending{Change: Change{Reason: PodReplaced, Pod: "cache-1"}, First: now, Last: now}
	invalid, second := "later", "1s"
	for name, row := range map[string]struct {
		change func(t *RestartTrigger)
		last   string
		next   string
		at     *time.Time
	}{
		"nothing has happened": {func(*RestartTrigger) {}, "none yet", "10s after the next change of a pod", nil},
		"a debounce below the floor": {func(t *RestartTrigger) { t.Spec.Debounce = &second }, "none yet",
			"2s after the next change of a pod", nil},
		"within the cooldown": {func(t *RestartTrigger) {
			t.Status.LastRestart = &Restart{Time: ago, Reason: PodReplaced, Pod: "cache-0", Target: "deployment/web"}
		}, "deployment/web for PodReplaced of pod cache-0", "after a change of a pod, when the cooldown is over",
			in(40 * time.Second)},
		"within the budget's window": {func(t *RestartTrigger) {
			t.Spec.Budget = &BudgetSpec{Max: 1, Per: "1h"}
			t.Status.Recent = []time.Time{ago}
		}, "none yet", "after a change of a pod, when the budget window is over", in(time.Hour - 20*time.Second)},
		"one is pending": {func(t *RestartTrigger) {
			t.Status.Pending, t.Status.NextRestartTime = pending, in(5*time.Second)
		}, "none yet", "for PodReplaced of pod cache-1", in(5 * time.Second)},
		"one waits for a target": {func(t *RestartTrigger) { t.Status.Pending = pending }, "none yet",
			"for PodReplaced of pod cache-1, when what the conditions name is over", nil},
		"one is under way": {func(t *RestartTrigger) { t.Status.Round = &Round{now, pending.Change} }, "none yet",
			"under way for PodReplaced of pod cache-1", in(0)},
		"for a ConfigMap": {func(t *RestartTrigger) {
			t.Status.LastRestart = &Restart{Time: ago, Reason: ConfigChanged, Source: "configmap/app",
				Target: "deployment/web"}
			t.Spec.Source.ConfigMaps = []ConfigSource{{Name: "app"}}
		}, "deployment/web for ConfigChanged of configmap/app",
			"after a change of a source, when the cooldown is over", in(40 * time.Second)},
		"suspended": {func(t *RestartTrigger) { t.Spec.Suspend = true }, "none yet",
			"none: the trigger is suspended", nil},
		"the spec is wrong": {func(t *RestartTrigger) { t.Spec.Debounce = &invalid }, "none yet",
			"none: the spec is invalid", nil},
	} {
		trigger := new(RestartTrigger)
		trigger.Namespace, trigger.Name = "shop", "web"
		trigger.Spec.Source.Selector = labels.Selector{MatchLabels: kube.Labels{{Key: "app", Value: "cache"}}}
		trigger.Spec.Targets = []TargetRef{{"Deployment", "web"}}
		trigger.Status.Selector, trigger.Status.TargetNames = "app=cache", "deployment/web"
		trigger.Status.MatchingPods = 3
		row.change(trigger)
		r := &reconciler{floors: Floors{Debounce: 2 * time.Second}}
		facts := append(r.facts(trigger)[:3:3], r.nextRestart(trigger, now))
		var got []string
		for _, fact := range facts {
			got = append(got, fact.Name+": "+fact.Value)
		}
		want := []string{"Watches: 3 pods in shop: app=cache", "Restarts: deployment/web", "Last restart: " + row.last,
			"Next restart: " + row.next}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		trigger.Status.ConfigNames = "configmap/app"
		both := watched(trigger)
		trigger.Status.Selector = ""
		if got := watched(trigger); both != "3 pods in shop: app=cache; configmap/app" || got != "configmap/app" {
			t.Errorf("%s: watches %q, and without pods %q", name, both, got)
		}
		if at := facts[3].At; row.at == nil != at.IsZero() || row.at != nil && !at.Equal(*row.at) {
			t.Errorf("%s: at %s, want %v", name, at, row.at)
		}
	}
}
