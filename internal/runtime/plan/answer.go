package plan

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// hasNoDryRun says whether the server gives no dry run of a possibly valid write: we may not write, a webhook has side
// effects, or the namespace does not exist yet. Then the sent object stands for the answer. Other errors refuse the
// write itself.
func hasNoDryRun(err error) bool {
	return kube.IsMissingRight(err) || kube.IsDryRunUnsupported(err) ||
		kube.IsNotFound(err) && kube.AsStatus(err).Details.Kind == "namespaces"
}

// answerOf returns the stand-in for the answer to a write: the sent object laid over the object before.
func answerOf(w *kube.Write) (kube.Raw, bool) {
	if w.Verb == "delete" {
		return nil, true
	}
	body, err := patch.Decode(w.Body)
	if err != nil {
		return nil, false
	}
	before, _ := decoded(w.Before)
	schema := patch.SchemaFor(w.Resource.APIVersion(), w.Resource.Kind)
	var after any
	switch sent, _ := body.(map[string]any); {
	case w.Type == kube.JSONPatch:
		after = withPatch(before, body)
	case before == nil && w.Verb == "patch":
		return nil, false
	case before == nil:
		after = newborn(sent, w)
	case w.Type == kube.ApplyPatch:
		o := owners(managersOf(w.Before), w.Manager, nil)
		after = overlay(schema, pruned(schema, before, sent, o, false), sent)
	case w.Type == kube.StrategicMergePatch && schema != nil:
		after, err = patch.StrategicMerge(schema, before, sent)
	default:
		after = merged(before, sent)
	}
	if err != nil {
		return nil, false
	}
	text, err := patch.Encode(after)
	return text, err == nil
}

// decoded returns an object in the form of package patch, nil for none.
func decoded(text kube.Raw) (map[string]any, error) {
	if len(text) == 0 {
		return nil, nil
	}
	v, err := patch.Decode(text)
	object, _ := v.(map[string]any)
	return object, err
}

// newborn returns a new object as sent, with the fields every server adds. The uid is provisional.
func newborn(sent map[string]any, w *kube.Write) map[string]any {
	out := maps.Clone(sent)
	meta, _ := sent["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	sum := sha256.Sum256([]byte(w.Resource.String() + " " + w.Key.String()))
	meta["uid"] = fmt.Sprintf("%x-%x-4%03x-8%03x-%x", sum[:4], sum[4:6], int(sum[6])<<4, int(sum[7])<<4, sum[8:14])
	meta["generation"], meta["resourceVersion"] = int64(1), "1"
	meta["creationTimestamp"] = "2000-01-01T00:00:00Z" // compared with nothing, and printed nowhere
	if meta["name"] = w.Key.Name; !w.Resource.ClusterScoped {
		meta["namespace"] = w.Key.Namespace
	}
	out["metadata"] = meta
	return out
}

// overlay lays a declaration over a value, as server-side apply does, except that nothing is removed.
func overlay(n *patch.Node, live, want any) any {
	switch want := want.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		if !ok || n.IsAtomicObject() {
			return want
		}
		out := maps.Clone(have)
		for name, v := range want {
			out[name] = overlay(n.Field(name), have[name], v)
		}
		return out
	case []any:
		have, ok := live.([]any)
		if !ok || n.ListType() == patch.ListAtomic {
			return want
		}
		return overlayItems(n, have, want)
	}
	if n != nil && n.Quantity {
		a, known := patch.CanonicalQuantity(live)
		if b, too := patch.CanonicalQuantity(want); known && too && a == b {
			return live
		}
	}
	return want
}

// overlayItems is overlay for the items of a set or a map.
func overlayItems(n *patch.Node, have, want []any) []any {
	out := slices.Clone(have)
	for _, item := range want {
		if at := indexOf(n, out, item); at < 0 {
			out = append(out, item)
		} else {
			out[at] = overlay(n.Item(), out[at], item)
		}
	}
	return out
}

// indexOf returns the index of an item in a set or a map, -1 if missing.
func indexOf(n *patch.Node, list []any, item any) int {
	return slices.IndexFunc(list, func(other any) bool {
		if n.ListType() == patch.ListSet {
			return patch.Equal(item, other)
		}
		return patch.Equal(n.ItemKey(item), n.ItemKey(other))
	})
}

// merged applies a merge patch (RFC 7386).
func merged(live any, sent map[string]any) map[string]any {
	have, _ := live.(map[string]any)
	out := maps.Clone(have)
	if out == nil {
		out = map[string]any{}
	}
	for name, v := range sent {
		below, isObject := v.(map[string]any)
		switch {
		case v == nil:
			delete(out, name)
		case isObject:
			out[name] = merged(out[name], below)
		default:
			out[name] = v
		}
	}
	return out
}

// withPatch applies the operations of a JSON patch that set a field of an object: skiff sets a status so. The
// remaining operations are about managedFields, which nothing reads later.
func withPatch(before map[string]any, operations any) map[string]any {
	out := maps.Clone(before)
	list, _ := operations.([]any)
	for _, one := range list {
		o, _ := one.(map[string]any)
		path, _ := o["path"].(string)
		if name := strings.TrimPrefix(path, "/"); o["op"] == "add" && name != "" && !strings.Contains(name, "/") {
			out[name] = o["value"]
		}
	}
	return out
}
