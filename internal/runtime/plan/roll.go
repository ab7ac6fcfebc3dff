package plan

import (
	"fmt"
	"strconv"
	"strings"

	"skiff/internal/runtime/health"
)

// podsOf returns how many pods a workload declares; false: not a workload.
func podsOf(kind string, object map[string]any) (int64, bool) {
	spec, _ := object["spec"].(map[string]any)
	switch kind {
	case "Deployment", "StatefulSet", "ReplicaSet":
		if n, ok := spec["replicas"].(int64); ok {
			return n, true
		}
		return 1, true
	case "DaemonSet":
		status, _ := object["status"].(map[string]any)
		n, _ := status["desiredNumberScheduled"].(int64)
		return n, true
	}
	return 0, false
}

// rollOf says how many pods roll, and how, after a change of a workload's template.
func rollOf(kind string, object map[string]any) (pods int, how string) {
	n, ok := podsOf(kind, object)
	if !ok || n == 0 || kind == "ReplicaSet" {
		return 0, ""
	}
	spec, _ := object["spec"].(map[string]any)
	field := "updateStrategy"
	if kind == "Deployment" {
		field = "strategy"
	}
	strategy, _ := spec[field].(map[string]any)
	rolling, _ := strategy["rollingUpdate"].(map[string]any)
	name, _ := strategy["type"].(string)
	switch {
	case name == "OnDelete":
		return 0, "pods change when they are deleted (OnDelete)"
	case name == "Recreate":
		how = "Recreate, all at once"
	case kind == "StatefulSet":
		all := n
		if partition, ok := rolling["partition"].(int64); ok {
			if n -= partition; n <= 0 {
				return 0, "no pod rolls (partition " + strconv.FormatInt(partition, 10) + ")"
			}
		}
		how = fmt.Sprintf("RollingUpdate, %d unavailable", max(1, resolve(rolling["maxUnavailable"], 1, all, false)))
	default:
		surge := resolve(rolling["maxSurge"], 0, n, true)
		unavailable := resolve(rolling["maxUnavailable"], 0, n, kind == "DaemonSet")
		if surge == 0 && unavailable == 0 {
			unavailable = 1 // the controllers do so
		}
		how = fmt.Sprintf("RollingUpdate, %d unavailable, %d extra", unavailable, surge)
	}
	text := fmt.Sprintf("rolls %s (%s)", health.Count(n, "pod", "pods"), how)
	if paused, _ := spec["paused"].(bool); paused {
		text += " when it is resumed: spec.paused is true"
	}
	return int(n), text
}

// resolve returns a number of pods given as a number or as a share of n. Servers fill in a missing number, except for
// the maxUnavailable of a StatefulSet.
func resolve(v any, otherwise, n int64, up bool) int64 {
	switch v := v.(type) {
	case nil:
		return otherwise
	case int64:
		return v
	case string:
		share, err := strconv.ParseInt(strings.TrimSuffix(v, "%"), 10, 32)
		if err != nil || share < 0 {
			return 0
		}
		if up {
			return (share*n + 99) / 100
		}
		return share * n / 100
	}
	return 0
}
