package simulate

import (
	"context"
	"time"

	"skiff/internal/kube"
)

// admissionPolicy is the part of a ValidatingAdmissionPolicy that its controller reads.
type admissionPolicy struct {
	kube.Meta `json:"metadata"`
	Spec      kube.Raw `json:"spec"`
	Status    struct {
		ObservedGeneration int64 `json:"observedGeneration"`
	} `json:"status"`
}

// policies writes into the status of ValidatingAdmissionPolicies what Options.TypeCheck says of each generation.
type policies struct{ controllerOf[*admissionPolicy] }

func newPolicies(w *world) runner {
	c := &policies{newController[*admissionPolicy](w, policyResource, "")}
	return c.forEach("policies", c.sync)
}

func (c *policies) sync(ctx context.Context, p *admissionPolicy) (time.Duration, error) {
	if p.Generation <= p.Status.ObservedGeneration {
		return 0, nil
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
