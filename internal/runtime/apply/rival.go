package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// maxRival bounds the name of another field manager, which anybody chooses.
const maxRival = 100

// rival says which other field manager last changed a child in one of these fields. It asks the server once for each
// fight: the cache keeps no managedFields.
func (c *child) rival(ctx context.Context, fields []string) string {
	fight := &c.mem.trouble().contest
	if fight.rival != "" {
		return fight.rival
	}
	fight.rival = "another field manager"
	if _, err := c.get(ctx); err != nil {
		fight.rival += " (which one is not known: " + kube.Explain(err) + ")"
	} else if name := rivalOf(c.managed.Metadata.ManagedFields, c.options.Manager, fields); name != "" {
		fight.rival = fmt.Sprintf("field manager %q", kube.Printable(name, maxRival))
	}
	return fight.rival
}

// rivalOf returns the manager, other than ours, that owns one of the fields; or, where nobody does because they were
// removed, the one that wrote last.
func rivalOf(all []managedFields, ours string, fields []string) string {
	var owner, last managedFields
	for _, m := range all {
		if m.Manager == ours || m.Subresource != "" {
			continue
		}
		if m.Time >= last.Time {
			last = m
		}
		set, err := patch.Decode(m.FieldsV1)
		owned, _ := set.(map[string]any)
		if err != nil || m.Time < owner.Time {
			continue
		}
		for _, f := range fields {
			if ownsPath(owned, f) {
				owner = m
			}
		}
	}
	if owner.Manager != "" {
		return owner.Manager
	}
	return last.Manager
}

// ownsPath says whether a set of owned fields (FieldsV1) has a path such as spec.containers[name="a"].image.
func ownsPath(set map[string]any, path string) bool {
	path = strings.TrimPrefix(path, ".")
	if path == "" || path[0] == ' ' { // " (order)"
		return true
	}
	for key, below := range set {
		inner, _ := below.(map[string]any)
		rest, ok := "", false
		if name, field := strings.CutPrefix(key, "f:"); field {
			rest, ok = strings.CutPrefix(path, name)
			ok = ok && (rest == "" || strings.IndexByte(".[ ", rest[0]) >= 0)
		} else if id, item := strings.CutPrefix(key, "k:"); item && path[0] == '[' {
			ok = isItem(id, path)
			_, rest, _ = strings.Cut(path, "]")
		}
		if ok && (len(inner) == 0 || ownsPath(inner, rest)) {
			return true
		}
	}
	return false
}

// isItem says whether the key of an item, {"name":"a"}, is the one that a path begins with: [name="a"].
func isItem(id, path string) bool {
	var key map[string]any
	if json.Unmarshal([]byte(id), &key) != nil {
		return false
	}
	at, _, _ := strings.Cut(path, "]")
	for _, v := range key {
		if !strings.Contains(at, fmt.Sprint(v)) {
			return false
		}
	}
	return true
}
