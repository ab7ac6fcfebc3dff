package apply

import (
	"fmt"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// maxDifferences is how many of a child's differences are named; of more there is the number.
const maxDifferences = 8

// noLonger stands for the fields that are no longer declared, where no declared one differs. Which they are is known
// after the apply that removes them.
const noLonger = "fields that are no longer declared"

// compare returns the paths of the declared fields that the live child does not have, nil if it has all.
func (c *child) compare() ([]string, error) {
	live := contentOf(c.live)
	all := map[string]any{}
	if len(live.Body) > 0 {
		body, err := patch.Decode(live.Body)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", c, err)
		}
		all, _ = body.(map[string]any)
	}
	references := make([]any, len(live.OwnerReferences))
	for i, o := range live.OwnerReferences {
		references[i] = map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name, "uid": o.UID,
			"controller": o.Controller, "blockOwnerDeletion": o.BlockOwnerDeletion}
	}
	all["apiVersion"], all["kind"] = c.kind.apiVersion, c.kind.resource.Kind
	all["metadata"] = map[string]any{"name": live.Name, "namespace": live.Namespace, "labels": values(live.Labels),
		"annotations": values(live.Annotations), "ownerReferences": references}
	paths, count := patch.Differences(c.kind.schema, c.want.plain, all, maxDifferences)
	if hash, _ := live.Annotations.Get(HashAnnotation); count == 0 && hash != c.want.hash {
		return []string{noLonger}, nil
	}
	return bounded(paths, count), nil
}

// bounded returns the first of count paths, and of how many there are more.
func bounded(paths []string, count int) []string {
	if more := count - len(paths); more > 0 {
		return append(paths, fmt.Sprintf("%d more fields", more))
	}
	return paths
}

// removed names the fields of an object that an apply has removed; noLonger if that cannot be seen.
func (c *child) removed(before, after kube.Raw) []string {
	was, errWas := patch.Decode(before)
	is, errIs := patch.Decode(after)
	if errWas != nil || errIs != nil { // the apply has succeeded all the same
		return []string{noLonger}
	}
	paths, count := patch.Differences(c.kind.schema, was, is, maxDifferences)
	if count == 0 {
		return []string{noLonger}
	}
	return bounded(paths, count)
}

// List joins texts as one does in a sentence: "a, b and c".
func List(texts []string) string {
	last := len(texts) - 1
	if last < 1 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

func values(labels kube.Labels) map[string]any {
	m := make(map[string]any, len(labels))
	for _, l := range labels {
		m[l.Key] = l.Value
	}
	return m
}
