package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// Sizes of what is measured.
const (
	figurePods      = 10_000
	figureRedises   = 1_000
	figureDeletions = 300
	figureChurn     = 100 // status changes a second
	figureWindow    = time.Minute
)

// figure is a row of the table: a benchmark of its own, whose metrics are what was measured. Everything is measured
// from outside: /proc, the audit log, a watch.
func figure(b *testing.B, name string, metrics ...map[string]float64) {
	b.Run(name, func(b *testing.B) {
		b.ReportMetric(0, "ns/op") // leaves it out
		for _, some := range metrics {
			for unit, value := range some {
				b.ReportMetric(value, unit)
			}
		}
	})
}

// memory is a row's part of what a process holds.
func memory(u Usage) map[string]float64 {
	return map[string]float64{"RSS-MB": mb(u.RSS), "anonymous-MB": mb(u.Anonymous), "peak-MB": mb(u.Peak)}
}

// took is a row's part of how long something took, and of the CPU that a process spent on it.
func took(wall, cpu time.Duration) map[string]float64 {
	return map[string]float64{"s": wall.Seconds(), "CPU-s": cpu.Seconds()}
}

func mb(n int64) float64 { return float64(n) / 1e6 }

// figureScope is a namespace on a cluster of its own, so that no other work is in the figures.
func figureScope(t testing.TB) *Scope {
	t.Helper()
	bins := must(binaries())(t)
	c, err := StartCluster(t.Context(), bins, func(c *Cluster) error {
		return applyFiles(c,
			filepath.Join(repository, "crds"))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(t.Failed()) })
	return scopeOn(t, c)
}

// startMeasured starts a command of skiff as the administrator, and returns when it is ready, with how long that took.
func startMeasured(t testing.TB, c *Cluster, kubeconfig, name string, args ...string) (*Skiff, time.Duration) {
	t.Helper()
	binary := must(skiffBinary())(t)
	start := time.Now()
	sk := must(c.StartSkiffCommand(binary, name, kubeconfig, args...))(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(sk.Tail(60))
		}
	})
	waitReady(t, sk)
	return sk, time.Since(start)
}

func usageOf(t testing.TB, sk *Skiff) Usage {
	t.Helper()
	return must(sk.Usage())(t)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", mb(n)) }

// parallel calls do for 0 to n-1 from sixteen goroutines, which keeps two cores and the API server busy, and fails the
// test with the first error.
func parallel(t testing.TB, n int, do func(ctx context.Context, i int) error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	noError(t, context.Cause(ctx))
}

// requestsFor is a row's part of the requests for each of so many objects, by verb and resource, such as
// "patch-redis/status"; one that was refused has its code, too. "requests" are all of them.
func requestsFor(objects int, requests []Request) map[string]float64 {
	metrics := map[string]float64{"requests": float64(len(requests)) / float64(objects)}
	for _, r := range requests {
		kind := r.Verb + "-" + r.Resource
		if r.Subresource != "" {
			kind += "/" + r.Subresource
		}
		if r.Code >= 400 {
			kind += fmt.Sprintf("-%d", r.Code)
		}
		metrics[kind] += 1 / float64(objects)
	}
	return metrics
}

// percentile is the value that a part p of all durations does not exceed.
func percentile(all []time.Duration, p float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
