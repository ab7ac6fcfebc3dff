package operator

import (
	"fmt"
	"strings"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/podpolicy"
)

// checkTemplates says what in the pod templates of children the policy does not allow: with skiff's rights, users
// could otherwise have pods that they may not create themselves.
func checkTemplates(policy podpolicy.Policy, children []apply.Child) error {
	for i := range children {
		template := podTemplate(children[i].Body)
		if template == nil {
			continue
		}
		if found := policy.Check("spec.template.", template); len(found) > 0 {
			return fmt.Errorf("skiff runs with --template-policy=%s, which does not allow these pods: %s", policy,
				strings.Join(found, "; "))
		}
	}
	return nil
}

// podTemplate returns the pod template of a child: a pod is its own, and workloads have it in their spec. nil: it has
// none.
func podTemplate(body map[string]any) map[string]any {
	if body["kind"] == "Pod" {
		return body
	}
	spec, _ := body["spec"].(map[string]any)
	if job, ok := spec["jobTemplate"].(map[string]any); ok { // of a CronJob
		spec, _ = job["spec"].(map[string]any)
	}
	template, _ := spec["template"].(map[string]any)
	return template
}
