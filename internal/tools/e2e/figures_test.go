package e2e

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// figures asks for TestFigures, which takes minutes and whose result is a table and not a verdict.
var figures = flag.Bool("figures", false, "run TestFigures: measure memory, CPU, requests and latencies, and print "+
	"a table")

// Sizes of what is measured.
const (
	figurePods      = 10_000
	figureRedises   = 1_000
	figureDeletions = 300
	figureChurn     = 100 // status changes a second
	figureWindow    = time.Minute
)

// What skiff costs, and how fast it is. Everything is measured from outside: /proc, the audit log, a watch.
func TestFigures(t *testing.T) {
	if !*figures {
		t.Skip("only with -figures (make figures)")
	}
	fmt.Print("\n| figure | value |\n|---|---|\n")
	t.Run("AtRest", figureAtRest)
	t.Run("UnrelatedPods", figureUnrelatedPods)
	t.Run("RedisOnTheRealServer", figureRedisReal)
	t.Run("RedisOnTheEmbeddedServer", figureRedisFake)
	t.Run("ManyWebServers", figureManyWebServers)
}

// figure prints a row of the table, as Markdown.
func figure(what, format string, args ...any) { fmt.Printf("| "+what+" | "+format+" |\n", args...) }

// figureScope is a namespace on a cluster of its own, so that no other work is in the figures.
func figureScope(t *testing.T) *Scope {
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
func startMeasured(t *testing.T, c *Cluster, kubeconfig, name string, args ...string) (*Skiff, time.Duration) {
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

func usageOf(t *testing.T, sk *Skiff) Usage {
	t.Helper()
	return must(sk.Usage())(t)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// parallel calls do for 0 to n-1 from sixteen goroutines, which keeps two cores and the API server busy, and fails the
// test with the first error.
func parallel(t *testing.T, n int, do func(ctx context.Context, i int) error) {
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

// requestCounts are numbers of requests by verb and resource, such as "patch redis/status"; one that was refused has
// its code, too.
type requestCounts map[string]int

func countRequests(requests []Request) requestCounts {
	counts := requestCounts{}
	for _, r := range requests {
		kind := r.Verb + " " + r.Resource
		if r.Subresource != "" {
			kind += "/" + r.Subresource
		}
		if r.Code >= 400 {
			kind += fmt.Sprintf(" (%d)", r.Code)
		}
		counts[kind]++
	}
	return counts
}

// perObject is "1.00 create pods, 2.01 patch redis/status; 6 others", the most frequent first. The others are the
// watches and all that came to less than one request for a hundred objects.
func (c requestCounts) perObject(objects int) string {
	var parts []string
	others := 0
	for _, kind := range slices.SortedFunc(maps.Keys(c), func(a,
		b string) int {
		return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a, b))
	}) {
		if each := float64(c[kind]) / float64(objects); each >= 0.01 {
			parts = append(parts, fmt.Sprintf("%.2f %s", each, kind))
		} else {
			others += c[kind]
		}
	}
	return fmt.Sprintf("%s; %d others in all", strings.Join(parts, ", "), others)
}

// String is "none", or the number of each.
func (c requestCounts) String() string {
	if len(c) == 0 {
		return "none"
	}
	return strings.TrimPrefix(fmt.Sprint(map[string]int(c)), "map")
}

// percentile is the value that a part p of all durations does not exceed.
func percentile(all []time.Duration, p float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
