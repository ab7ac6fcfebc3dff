package simulate

import (
	"context"
	"time"

	"skiff/internal/cache"
	"skiff/internal/controller"
	"skiff/internal/events"
	"skiff/internal/kube"
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
type scalers struct {
	client *kube.Client
	mirror *cache.Store[*scaler]
	record recordFunc
}

func newScalers(client *kube.Client, o Options) *controller.Controller {
	c := &scalers{client: client, mirror: cache.New[*scaler](o.mirror(client, scalerResource)),
		record: o.recorder(client, "horizontal-pod-autoscaler")}
	return controller.New("simulate-scalers", retryStale(c.reconcile), o.controller(), controller.For(c.mirror))
}

func (c *scalers) reconcile(ctx context.Context, k kube.Key) (controller.Outcome, error) {
	h, ok, err := c.mirror.Get(k)
	if err != nil || !ok {
		return controller.Done, err
	}
	var was struct {
		Conditions []map[string]any `json:"conditions"`
	}
	if err := readStatus(scalerResource, &h.Meta, h.Status, &was); err != nil {
		return controller.Done, err
	}
	var conditions []any
	condition := func(kind, status, reason, message string) {
		since := any(wireTime(time.Now()))
		for _, old := range was.Conditions {
			if old["type"] == kind && old["status"] == status {
				since = old["lastTransitionTime"]
			}
		}
		conditions = append(conditions, map[string]any{"type": kind, "status": status, "reason": reason,
			"message": message, "lastTransitionTime": since})
	}
	status := map[string]any{}
	if n, err := replicas(ctx, c.client, k.Namespace, h.Spec.Target); err != nil {
		condition("AbleToScale", "False", "FailedGetScale",
			"the HPA controller was unable to get the target's current scale: "+err.Error())
		c.record(scalerResource, h, events.Warning, "FailedGetScale", err.Error())
	} else {
		condition("AbleToScale", "True", "SucceededGetScale",
			"the HPA controller was able to get the target's current scale")
		condition("ScalingActive", "False", "FailedGetResourceMetric",
			"the HPA was unable to compute the replica count: failed to get cpu utilization: "+noMetrics)
		c.record(scalerResource, h, events.Warning, "FailedGetResourceMetric",
			"failed to get cpu utilization: "+noMetrics)
		status["currentReplicas"] = int64(n)
	}
	status["conditions"], status["desiredReplicas"] = conditions, int64(0)
	if err := writeStatus(ctx, c.client, scalerResource, &h.Meta, false, h.Status, status); err != nil {
		return controller.Done, err
	}
	return controller.After(scalerSync), nil
}
