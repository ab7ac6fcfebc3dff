package operator

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// Labels of children, the recommended ones.
const (
	nameLabel     = "app.kubernetes.io/name"
	instanceLabel = "app.kubernetes.io/instance"
)

// SelectorLabels select the pods of one custom resource of an application. They can never change: selectors are
// immutable.
func SelectorLabels(app, name string) map[string]any {
	return map[string]any{nameLabel: app, instanceLabel: name}
}

// SelectorKeys are the keys of SelectorLabels.
var SelectorKeys = []string{nameLabel, instanceLabel}

// Selector is SelectorLabels in the form of `kubectl get -l`, keys in order.
func Selector(app, name string) string {
	return instanceLabel + "=" + name + "," + nameLabel + "=" + app
}

// Body returns a child with the labels and the owner that every child has, and nothing else yet.
func Body(owner apply.Owner, r kube.Resource, app, name string) map[string]any {
	labels := SelectorLabels(app, owner.Name)
	labels[apply.ManagedByLabel] = apply.ManagedBy
	return map[string]any{
		"apiVersion": r.APIVersion(),
		"kind":       r.Kind,
		"metadata": map[string]any{
			"name":            name,
			"namespace":       owner.Namespace,
			"labels":          labels,
			"ownerReferences": []any{owner.Reference()},
		},
	}
}

// Decode returns a raw field of a spec as package patch has it, nil if it is not set.
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

// Overlay returns a pod template with what the user has in spec.template laid over it; schema says which lists are
// merged, and by which key. The labels of the template that the selector needs cannot be changed.
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

// unnamed returns the path of the first item without the key by which the items of its list are merged, and that key.
func unnamed(schema *patch.Node, v any, path string) (at, key string) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if at, key := unnamed(schema.Field(name), v[name], path+"."+name); at != "" {
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

// existing says what an item without a name may have been meant to change.
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

// DeletingSurplus says that surplus pods are being deleted.
func DeletingSurplus(pods int) string {
	if pods == 1 {
		return "deleting 1 surplus pod"
	}
	return fmt.Sprintf("deleting %d surplus pods", pods)
}

func labelsOf(template map[string]any) map[string]any {
	meta, _ := template["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	return labels
}

// namePattern is that of a DNS label which begins with a letter, as the name of a Service must be.
var namePattern = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// CheckName checks the name of a custom resource whose longest child is named NAME and suffix.
func CheckName(name, suffix, child string) error {
	longest := 63 - len(suffix)
	if len(name) <= longest && namePattern.MatchString(name) {
		return nil
	}
	return fmt.Errorf("metadata.name: must be a DNS label that begins with a letter, of at most %d characters, "+
		"because %s is named NAME%s",
		longest, child, strings.TrimSpace(suffix))
}
