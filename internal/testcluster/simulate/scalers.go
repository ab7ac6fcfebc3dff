package simulate

import (
	"context"
	"time"

	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// scaler is the part of a HorizontalPodAutoscaler that its controller reads.
type scaler struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		Target kube.OwnerReference `json:"scaleTargetRef"`
	} `json:"spec"`
	Status kube.Raw `json:"status"`
}

// scalerSync is how often the real controller looks at each HorizontalPodAutoscaler.
const scalerSync = 15 * time.Second

// noMetrics is what the real controller says in a cluster without a metrics server.
const noMetrics = "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the " +
	"server could not find the requested resource (get pods.metrics.k8s.io)"

// scalers writes the status of HorizontalPodAutoscalers. Without metrics it scales nothing.
type scalers struct{ controllerOf[*scaler] }

func newScalers(w *world) runner {
	c := &scalers{newController[*scaler](w, scalerResource, "horizontal-pod-autoscaler")}
	return c.forEach("scalers", c.sync)
}

func (c *scalers) sync(ctx context.Context, h *scaler) (time.Duration, error) {
	var was struct {
		Conditions conditions `json:"conditions"`
	}
	if err := readStatus(scalerResource, h, h.Status, &was); err != nil {
		return 0, err
	}
	var list []any
	status := map[string]any{}
	if n, err := c.replicas(ctx, h.Namespace, h.Spec.Target); err != nil {
		list = []any{was.Conditions.next("AbleToScale", "False", "FailedGetScale",
			"the HPA controller was unable to get the target's current scale: "+err.Error())}
		c.record(h, events.Warning, "FailedGetScale", err.Error())
	} else {
		list = []any{was.Conditions.next("AbleToScale", "True", "SucceededGetScale",
			"the HPA controller was able to get the target's current scale"),
			was.Conditions.next("ScalingActive", "False", "FailedGetResourceMetric",
				"the HPA was unable to compute the replica count: failed to get cpu utilization: "+noMetrics)}
		c.record(h, events.Warning, "FailedGetResourceMetric", "failed to get cpu utilization: "+noMetrics)
		status["currentReplicas"] = int64(n)
	}
	status["conditions"], status["desiredReplicas"] = list, int64(0)
	return scalerSync, c.writeStatus(ctx, h, false, h.Status, status)
}
