package cli

import (
	"os"
	"runtime/debug"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/cache"
)

// limitMemory makes the memory limit of the process's control group that of the Go runtime, less a tenth for what Go
// does not count: garbage is then collected more often when memory gets short, instead of an OOM kill. GOMEMLIMIT in
// the environment wins.
func limitMemory(log logr.Logger) {
	limit, limited := cache.MemoryLimit()
	if !limited || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(limit / 10 * 9)
	log.V(1).Info("memory limit set", "bytes", limit/10*9)
}
