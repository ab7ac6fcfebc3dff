package simulate

import (
	"context"
	"time"

	"skiff/internal/runtime/kube"
)

// policies writes into the status of ValidatingAdmissionPolicies what Options.TypeCheck says of each generation.
type policies struct{ controllerOf[*object] }

func newPolicies(w *world) runner {
	c := &policies{newController[*object](w, policyResource, "")}
	return c.forEach("policies", c.sync)
}

func (c *policies) sync(ctx context.Context, o *object) (time.Duration, error) {
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
	checked := map[string]any{}
	if warnings := c.TypeCheck(p.Spec); len(warnings) > 0 {
		checked["expressionWarnings"] = warnings
	}
	body := map[string]any{"apiVersion": policyResource.APIVersion(), "kind": policyResource.Kind,
		"metadata": map[string]any{"name": p.Name},
		"status":   map[string]any{"observedGeneration": p.Generation, "typeChecking": checked}}
	return 0, c.client.Patch(ctx, policyResource, p.Key(), kube.ApplyPatch, body, nil,
		kube.WriteOptions{FieldManager: "validatingadmissionpolicy-status", Force: true, Subresource: "status"})
}
