package restart

import (
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
)

// newRestarts returns the counters of restarts by their results.
func newRestarts() *metrics.Counts {
	return metrics.NewCounts(&metrics.Family{Name: "skiff_restart_total", Kind: metrics.CounterKind,
		Help: "Restarts of targets that were sent, by result; one that failed is tried again."},
		"result", "restarted", "target_changed", "failed")
}

// resultOf is the result of a restart that was sent.
func resultOf(err error) string {
	switch {
	case err == nil:
		return "restarted"
	case kube.IsNotFound(err), kube.IsConflict(err):
		return "target_changed"
	}
	return "failed"
}
