package simulate

import (
	"slices"
	"testing"
	"time"
)

func TestAScalerSaysWhatItWouldScaleAndThatThereAreNoMetrics(t *testing.T) {
	simulated(t, func(b *bench) {
		b.create(scalerResource, "default", map[string]any{"apiVersion": "autoscaling/v2",
			"kind": "HorizontalPodAutoscaler", "metadata": map[string]any{"name": "web"}, "spec": map[string]any{
				"maxReplicas": 5, "scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
					"name": "web"}}})
		b.rest(time.Second)
		if s := at(b.get(scalerResource, "web"), "status"); str(s, "conditions", 0, "reason") != "FailedGetScale" {
			b.Errorf("without its target the status is %v", s)
		}
		b.create(deploymentResource, "default", deploymentBody("web", "web:1", 3))
		b.rest(time.Minute)
		s := at(b.get(scalerResource, "web"), "status")
		if number(s, "currentReplicas") != 3 || str(s, "conditions", 0, "reason") != "SucceededGetScale" ||
			str(s, "conditions", 1, "reason") != "FailedGetResourceMetric" {
			b.Errorf("the status is %v", s)
		}
		if have := b.reasons("HorizontalPodAutoscaler", "web"); !slices.Equal(have,
			[]string{"FailedGetResourceMetric", "FailedGetScale"}) {
			b.Errorf("the Events are %q", have)
		}
		before := str(b.get(scalerResource, "web"), "metadata", "resourceVersion")
		b.rest(time.Hour)
		if str(b.get(scalerResource, "web"), "metadata", "resourceVersion") != before {
			b.Error("the status is written again and again")
		}
	})
}
