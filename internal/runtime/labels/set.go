package labels

import (
	"strings"

	"skiff/internal/runtime/kube"
)

// FormatSet returns labels as one line, "app=web,tier=front": as many of the first as fit into maxBytes.
func FormatSet(set kube.Labels, maxBytes int) string {
	var parts []string
	size := 0
	for _, l := range set {
		if size += len(l.Key) + len(l.Value) + 2; size <= maxBytes {
			parts = append(parts, l.Key+"="+l.Value)
		}
	}
	return strings.Join(parts, ",")
}

// ParseSet reads what FormatSet has written.
func ParseSet(text string) (set kube.Labels) {
	for part := range strings.SplitSeq(text, ",") {
		if key, value, ok := strings.Cut(part, "="); ok {
			set = append(set, kube.Label{Key: key, Value: value})
		}
	}
	return set
}
