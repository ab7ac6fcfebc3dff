package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// budget is the part of a PodDisruptionBudget that the controller reads.
type budget struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		Selector       *labels.Selector `json:"selector"`
		MinAvailable   kube.Raw         `json:"minAvailable"` // a number or a percentage
		MaxUnavailable kube.Raw         `json:"maxUnavailable"`
	} `json:"spec"`
	Status kube.Raw `json:"status"`
}

type budgetStatus struct {
	DisruptedPods object     `json:"disruptedPods"`
	Conditions    conditions `json:"conditions"`
}

// selects reports whether the budget guards a pod: without a selector none, with an empty selector all.
func (b *budget) selects(p *setPod) bool {
	return b.Spec.Selector != nil && b.Spec.Selector.Requirements().Match(p.Labels)
}

// unconfirmed is how long an evicted pod counts as disrupted if not deleted.
const unconfirmed = 2 * time.Minute

// budgets is the controller of PodDisruptionBudgets: the status says how many pods may be evicted.
type budgets struct {
	controllerOf[*budget]
	pods *cache.Store[*setPod]
}

func newBudgets(s *shared) runner {
	c := &budgets{newController[*budget](s, budgetResource, "controllermanager"), mirrorOf[*setPod](s, podResource)}
	return c.forEach("disruption", c.sync, controller.Watches(c.pods, selecting(c.mirror)))
}

func (c *budgets) sync(ctx context.Context, b *budget) (time.Duration, error) {
	var was budgetStatus
	if err := readStatus(budgetResource, b, b.Status, &was); err != nil {
		return 0, err
	}
	pods, err := c.pods.List(b.Namespace)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	pods = slices.DeleteFunc(pods, func(p *setPod) bool { return !b.selects(p) })
	if len(pods) == 0 {
		c.record(b, events.Normal, "NoPods", "No matching pods found")
	}
	disrupted, again := object{}, time.Duration(0)
	for name := range was.DisruptedPods {
		disrupted[name] = nil // removed by the patch
	}
	healthy := 0
	for _, p := range pods {
		if p.Deleting() {
			continue
		}
		text, _ := was.DisruptedPods[p.Name].(string)
		at, err := time.Parse(time.RFC3339, text)
		if left := at.Add(unconfirmed).Sub(now); err == nil && left > 0 {
			disrupted[p.Name], again = text, cmp.Or(min(again, left), left)
		} else if p.ready() {
			healthy++
		}
	}
	status := c.statusOf(ctx, b, was, pods, healthy)
	status["disruptedPods"] = disrupted
	// With the version: an eviction since then has taken an allowed disruption.
	return again, c.writeStatus(ctx, b, true, b.Status, status)
}

// statusOf returns the status of a budget, of whose pods so many are healthy.
func (c *budgets) statusOf(ctx context.Context, b *budget, was budgetStatus, pods []*setPod,
	healthy int) object {
	expected, desired, err := c.expect(ctx, b, pods)
	allowed := max(0, healthy-desired)
	if expected == 0 || err != nil {
		allowed = 0
	}
	is, reason, message := "True", "SufficientPods", ""
	if allowed == 0 {
		is, reason = "False", "InsufficientPods"
	}
	status := object{"disruptionsAllowed": int64(allowed)}
	if err == nil {
		maps.Copy(status, object{"currentHealthy": int64(healthy), "desiredHealthy": int64(desired),
			"expectedPods": int64(expected), "observedGeneration": b.Generation})
	} else {
		c.record(b, events.Warning, "CalculateExpectedPodCountFailed",
			"Failed to calculate the number of expected pods: "+err.Error())
		reason, message = "SyncFailed", err.Error()
	}
	condition := was.Conditions.next("DisruptionAllowed", is, reason, message)
	condition["observedGeneration"] = b.Generation
	status["conditions"] = []any{condition}
	return status
}

// expect returns how many pods there should be, and how many healthy pods.
func (c *budgets) expect(ctx context.Context, b *budget, pods []*setPod) (expected, desired int, err error) {
	bound, most := b.Spec.MinAvailable, len(b.Spec.MaxUnavailable) > 0
	if most {
		bound = b.Spec.MaxUnavailable
	}
	if expected = len(pods); most || strings.HasSuffix(string(bound), `%"`) {
		if expected, err = c.scaleOf(ctx, pods); err != nil {
			return 0, 0, err
		}
	}
	if len(bound) == 0 {
		return expected, 0, nil
	}
	if desired, err = intOrPercent(bound, expected, true); most {
		desired = max(0, expected-desired)
	}
	return expected, desired, err
}

// scaleOf adds up the scales of the controllers of pods; those without a controller do not count.
func (c *budgets) scaleOf(ctx context.Context, pods []*setPod) (sum int, err error) {
	seen := map[string]bool{}
	for _, p := range pods {
		owner, ok := p.Controller()
		if !ok || seen[owner.UID] {
			continue
		}
		seen[owner.UID] = true
		if owner.Kind == replicaSetResource.Kind {
			var set anyObject
			err := c.client.Get(ctx, replicaSetResource, kube.Key{Namespace: p.Namespace, Name: owner.Name}, &set)
			if err != nil && !kube.IsNotFound(err) {
				return 0, err
			}
			if above, ok := set.Controller(); ok {
				owner = above
			}
			if seen[owner.UID] && set.ControllerUID() != "" {
				continue
			}
			seen[owner.UID] = true
		}
		n, err := c.replicas(ctx, p.Namespace, owner)
		if err != nil {
			return 0, fmt.Errorf("found no controllers for pod %q", p.Name)
		}
		sum += n
	}
	return sum, nil
}

// replicas reads the scale of a controller of any kind with a scale.
func (s *shared) replicas(ctx context.Context, namespace string, owner kube.OwnerReference) (int, error) {
	served, err := s.collectable(ctx, owner.APIVersion)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(served, func(r kube.Resource) bool { return r.Kind == owner.Kind })
	if i < 0 {
		return 0, fmt.Errorf("%s %s is not served", owner.APIVersion, owner.Kind)
	}
	path, err := served[i].Path(namespace, owner.Name, "scale")
	if err != nil {
		return 0, err
	}
	var scale struct{ Spec struct{ Replicas int } }
	err = s.get(ctx, path, &scale)
	return scale.Spec.Replicas, err
}

// scaler is the part of a HorizontalPodAutoscaler that the controller reads.
type scaler struct {
	kube.Meta `json:"metadata"`
	Spec      struct {
		Target kube.OwnerReference `json:"scaleTargetRef"`
	} `json:"spec"`
	Status kube.Raw `json:"status"`
}

// scalerSync is how often the real controller looks at each HorizontalPodAutoscaler.
const scalerSync = 15 * time.Second

// noMetrics is the message of the real controller in a cluster without a metrics server.
const noMetrics = "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the " +
	"server could not find the requested resource (get pods.metrics.k8s.io)"

// scalers writes the status of HorizontalPodAutoscalers. Without metrics nothing is scaled.
type scalers struct{ controllerOf[*scaler] }

func newScalers(s *shared) runner {
	c := &scalers{newController[*scaler](s, scalerResource, "horizontal-pod-autoscaler")}
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
	status := object{}
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

// policies writes the result of Options.TypeCheck for each generation into the status of ValidatingAdmissionPolicies.
type policies struct{ controllerOf[*anyObject] }

func newPolicies(s *shared) runner {
	c := &policies{newController[*anyObject](s, policyResource, "")}
	return c.forEach("policies", c.sync)
}

func (c *policies) sync(ctx context.Context, o *anyObject) (time.Duration, error) {
	var p struct { // policies are few and rarely written: their specs are not kept
		kube.Meta `json:"metadata"`
		Spec      kube.Raw `json:"spec"`
		Status    struct {
			ObservedGeneration int64 `json:"observedGeneration"`
		} `json:"status"`
	}
	err := c.client.Get(ctx, policyResource, o.Key(), &p)
	if err != nil || p.Generation <= p.Status.ObservedGeneration {
		return 0, err
	}
	checked := object{}
	if warnings := c.TypeCheck(p.Spec); len(warnings) > 0 {
		checked["expressionWarnings"] = warnings
	}
	body := object{"apiVersion": policyResource.APIVersion(), "kind": policyResource.Kind,
		"metadata": object{"name": p.Name},
		"status":   object{"observedGeneration": p.Generation, "typeChecking": checked}}
	return 0, c.client.Patch(ctx, policyResource, p.Key(), kube.ApplyPatch, body, nil,
		kube.WriteOptions{FieldManager: "validatingadmissionpolicy-status", Force: true, Subresource: "status"})
}
