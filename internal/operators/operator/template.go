package operator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/runtime/podpolicy"
)

// Decode returns a raw field of a spec in the types of package patch, nil if not set.
func Decode(field string, raw kube.Raw) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := patch.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return v, nil
}

// Overlay returns a pod template with the user's spec.template laid over; schema says which lists are merged, and by
// which key. The labels of the template, which the selector needs, cannot be changed.
func Overlay(schema *patch.Node, template map[string]any, raw kube.Raw) (map[string]any, error) {
	v, err := Decode("spec.template", raw)
	if err != nil || v == nil {
		return template, err
	}
	overlay, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("spec.template: must be an object with metadata and spec, as in a pod")
	}
	owned := labelsOf(template)
	changed := labelsOf(overlay)
	for _, key := range slices.Sorted(maps.Keys(owned)) {
		if v, ok := changed[key]; ok && v != owned[key] {
			return nil, fmt.Errorf("spec.template.metadata.labels: %s is skiff's own label, by which pods are "+
				"found; remove it", key)
		}
	}
	merged, err := patch.StrategicMerge(schema, template, overlay)
	if path, key := unnamed(schema, overlay, "spec.template"); err != nil && path != "" {
		return nil, fmt.Errorf("%s has no %s; %s", path, key, existing(path, template))
	}
	if err != nil {
		return nil, fmt.Errorf("spec.template: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(owned)) {
		if labelsOf(merged)[key] != owned[key] { // metadata: null, or a directive
			return nil, fmt.Errorf("spec.template.metadata: must not remove the label %s, by which pods are found",
				key)
		}
	}
	return merged, nil
}

// unnamed returns the path of the first item without the key by which the items of the list are merged, and the key.
func unnamed(schema *patch.Node, v any, path string) (at, key string) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if at, key := unnamed(schema.Field(name), v[name], patch.Join(path, name)); at != "" {
				return at, key
			}
		}
	case []any:
		if schema == nil || !schema.Merge || schema.MergeKey == "" {
			return "", ""
		}
		for i, item := range v {
			at := fmt.Sprintf("%s[%d]", path, i)
			if m, ok := item.(map[string]any); ok && m[schema.MergeKey] == nil && m["$patch"] == nil {
				return at, schema.MergeKey
			}
			if at, key := unnamed(schema.Item(), item, at); at != "" {
				return at, key
			}
		}
	}
	return "", ""
}

// existing says which item may have been meant by an item without a name.
func existing(path string, template map[string]any) string {
	spec, _ := template["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	rest, ok := strings.CutPrefix(path, "spec.template.spec.containers[")
	if ok && !strings.Contains(rest, ".") && len(containers) > 0 {
		if c, ok := containers[0].(map[string]any); ok {
			return fmt.Sprintf("the server's own container is named %v", c["name"])
		}
	}
	return "by it an item is merged with the one that is there"
}

func labelsOf(template map[string]any) map[string]any {
	meta, _ := template["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	return labels
}

// checkTemplates returns an error if the policy does not allow the pod templates of children: with skiff's rights,
// users could otherwise have pods that they may not create themselves.
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

// podTemplate returns the pod template in the spec of a workload, or a pod itself; nil: there is none.
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
