package simulate

import (
	"slices"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

func budgetBody(name string, spec map[string]any) map[string]any {
	spec["selector"] = map[string]any{"matchLabels": map[string]any{"app": name}}
	return map[string]any{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
		"metadata": map[string]any{"name": name}, "spec": spec}
}

func (b *bench) evict(pod string) error {
	return b.client.Create(b.Context(), podResource, "default", map[string]any{"apiVersion": "policy/v1",
		"kind": "Eviction", "metadata": map[string]any{"name": pod}}, nil, kube.WriteOptions{Subresource: "eviction"})
}

func TestABudgetAllowsEvictionsAsLongAsEnoughPodsAreHealthy(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(budgetResource, "default", budgetBody("web", map[string]any{"maxUnavailable": "34%"}))
		b.rest(time.Second)
		b.wantStatus(budgetResource, "web", map[string]int64{"disruptionsAllowed": 0, "expectedPods": 0,
			"observedGeneration": 1})
		b.create(deploymentResource, "default", deploymentBody("web", "web:1", 3))
		b.rest(10 * time.Second)
		b.wantStatus(budgetResource, "web", map[string]int64{"currentHealthy": 3, "desiredHealthy": 1,
			"disruptionsAllowed": 2, "expectedPods": 3})
		if c := at(b.get(budgetResource, "web"), "status", "conditions", 0); str(c, "reason") != "SufficientPods" ||
			str(c, "status") != "True" || str(c, "lastTransitionTime") == "" {
			b.Errorf("the condition is %v", c)
		}
		pods := b.names(podResource)
		for i, pod := range pods {
			if err := b.evict(pod); (err == nil) != (i < 2) {
				b.Errorf("eviction %d: %v", i, err)
			}
		}
		b.rest(500 * time.Millisecond)
		b.wantStatus(budgetResource, "web", map[string]int64{"currentHealthy": 1, "disruptionsAllowed": 0})
		if have := b.reasons("PodDisruptionBudget", "web"); !slices.Equal(have, []string{"NoPods"}) {
			b.Errorf("the Events are %q", have)
		}
		b.rest(10 * time.Second) // the pods were replaced
		b.wantStatus(budgetResource, "web", map[string]int64{"currentHealthy": 3, "disruptionsAllowed": 2})
		if have := at(b.get(budgetResource, "web"), "status", "disruptedPods"); len(mapOf(have)) != 0 {
			b.Errorf("disrupted pods are %v", have)
		}
	})
}

func mapOf(v any) map[string]any { m, _ := v.(map[string]any); return m }

func TestABudgetCannotCountPodsOfControllersWithoutAScale(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(daemonSetResource, "default", body(daemonSetResource, "agent", "agent:1", map[string]any{}))
		b.create(budgetResource, "default", budgetBody("agent", map[string]any{"maxUnavailable": 1}))
		b.rest(10 * time.Second)
		if c := at(b.get(budgetResource, "agent"), "status", "conditions", 0); str(c, "reason") != "SyncFailed" {
			b.Errorf("the condition is %v", c)
		}
		b.patch(budgetResource, "agent", map[string]any{"spec": map[string]any{"maxUnavailable": nil,
			"minAvailable": 2}})
		b.rest(time.Second)
		b.wantStatus(budgetResource, "agent", map[string]int64{"currentHealthy": 3, "desiredHealthy": 2,
			"disruptionsAllowed": 1, "expectedPods": 3, "observedGeneration": 2})
	})
}
