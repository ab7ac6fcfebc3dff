package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/runtime/kube"
)

// sized runs controllers whose objects take so much by their namespace, and notes when runs begin and end.
type sized struct {
	mu      sync.Mutex // guards all below
	now     map[string]int
	most    map[string]int // runs at a time
	atOnce  int64          // bytes of all runs at a time that do not fit always, at most
	bytes   int64
	ended   map[string][]time.Duration // since the start
	started time.Time
}

// runs runs n keys of each namespace, which take a second each, and returns when all are done. sizes are those of the
// objects.
func (s *sized) runs(t *testing.T, limit int64, n int, sizes map[string]int64) {
	s.now, s.most, s.ended, s.started = map[string]int{}, map[string]int{}, map[string][]time.Duration{}, time.Now()
	inFlight := NewInFlight(limit)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, name := range []string{"one", "other"} {
		c := New(name, func(_ context.Context, k kube.Key) (Outcome, error) {
			s.note(k.Namespace, 1, runFactor*sizes[k.Namespace])
			time.Sleep(time.Second)
			s.note(k.Namespace, -1, -runFactor*sizes[k.Namespace])
			return Done, nil
		}, Options{InFlight: inFlight})
		c.size = func(k kube.Key) int64 { return sizes[k.Namespace] }
		for i := range n {
			for _, namespace := range slices.Sorted(maps.Keys(sizes)) {
				c.queue.Add(kube.Key{Namespace: namespace, Name: fmt.Sprint(i)}, "changed")
			}
		}
		running.Go(func() {
			if err := c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for range 1000 {
		if time.Sleep(time.Second); s.done() == 2*n*len(sizes) {
			break
		}
	}
	cancel()
	running.Wait()
	if s.done() != 2*n*len(sizes) || inFlight.taken != 0 || len(inFlight.by) > 0 {
		t.Errorf("%d runs have ended, want %d; still taken: %v", s.done(), 2*n*len(sizes), inFlight.by)
	}
}

func (s *sized) note(namespace string, runs int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now[namespace] += runs; runs < 0 {
		s.ended[namespace] = append(s.ended[namespace], time.Since(s.started))
	}
	s.most[namespace] = max(s.most[namespace], s.now[namespace])
	if bytes > fitsAlways || bytes < -fitsAlways {
		s.bytes += bytes
	}
	s.atOnce = max(s.atOnce, s.bytes)
}

func (s *sized) done() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ended := range s.ended {
		n += len(ended)
	}
	return n
}

func TestRunsOfLargeObjectsWaitForEachOtherAndForNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 128 << 20
		var s sized
		s.runs(t, limit, 20, map[string]int64{"attacker": 250 << 10, "victim": 2 << 10})
		if s.atOnce > max(limit/shareOfMemory, runFactor*250<<10) || s.most["attacker"] != 1 {
			t.Errorf("%d MiB at a time, %d runs of the attacker", s.atOnce>>20, s.most["attacker"])
		}
		if last := slices.Max(s.ended["victim"]); last > 8*time.Second {
			t.Errorf("the last of 40 small runs ended after %s", last)
		}
	})
}

func TestNamespacesWithLargeObjectsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sized
		s.runs(t, 128<<20, 10, map[string]int64{"a": 200 << 10, "b": 200 << 10, "c": 150 << 10})
		for namespace, ended := range s.ended {
			if first := slices.Min(ended); first > 5*time.Second {
				t.Errorf("the first run of %s ended after %s", namespace, first)
			}
			if fifth := slices.Sorted(slices.Values(ended))[4]; fifth > 18*time.Second {
				t.Errorf("the fifth run of %s ended after %s", namespace, fifth)
			}
		}
	})
}

func TestANamespaceTakesAtMostHalfOfWhatIsThereForRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sized
		s.runs(t, 128<<20, 10, map[string]int64{"a": 20 << 10, "b": 30 << 10})
		if s.most["a"] != 4 || s.most["b"] != 2 || s.atOnce > 128<<20/shareOfMemory {
			t.Errorf("%d runs of a, %d of b and %d MiB at a time, want 4, 2 and 16", s.most["a"], s.most["b"],
				s.atOnce>>20)
		}
	})
}

// Each run of the attacker takes a minute, as with a server that answers slowly for its objects.
func TestANamespaceWhoseRunsTakeLongNeverHasAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attackers, most atomic.Int32
		victim := make(chan time.Time, 1)
		c, stop := start(t, func(_ context.Context, k kube.Key) (Outcome, error) {
			if k.Namespace == "victim" {
				victim <- time.Now()
				return Done, nil
			}
			most.Store(max(most.Load(), attackers.Add(1)))
			defer attackers.Add(-1)
			time.Sleep(50 * time.Second)
			return Done, nil
		}, Options{Workers: 3})
		for i := range 10 {
			c.queue.Add(kube.Key{Namespace: "attacker", Name: fmt.Sprint(i)}, "changed")
		}
		for range 10 {
			time.Sleep(7 * time.Second)
			changed := time.Now()
			c.queue.Add(kube.Key{Namespace: "victim", Name: "a"}, "changed")
			if began := <-victim; began.Sub(changed) > 0 {
				t.Errorf("the victim's run began after %s", began.Sub(changed))
			}
		}
		time.Sleep(5 * time.Minute)
		expect(t, "stop", stop(), nil)
		expect(t, "runs of the attacker at a time", most.Load(), 3)
		expect(t, "runs", c.Stats().Done, 20)
	})
}

// A key whose object has gone while it waited must not hold up the others.
func TestATurnThatIsNotTakenIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewInFlight(128 << 20)
		expect(t, "the first", admits(f, "a", 16<<20), true)
		expect(t, "the second", admits(f, "gone", 16<<20), false)
		f.End("a", 16<<20)
		expect(t, "ahead of its turn", admits(f, "b", 16<<20), false)
		time.Sleep(2 * forgetAfter)
		expect(t, "after it", admits(f, "b", 16<<20), true)
		expect(t, "small", admits(f, "c", fitsAlways), true)
	})
}

func admits(f *InFlight, namespace string, bytes int64) bool { return f.Begin(namespace, bytes) == 0 }

// Hundreds of large objects that wait for the run of one must not keep the queue busy, nor forget why they wait.
func TestRunsThatWaitForRoomAskSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 300
		var causes runTimes
		c := New("test", func(_ context.Context, k kube.Key) (Outcome, error) {
			time.Sleep(10 * time.Second)
			return Done, nil
		}, Options{InFlight: NewInFlight(128 << 20), Log: funcr.New(func(_, args string) {
			if strings.Contains(args, "12, 13, 14, 15, 16, 17, 18, 19 and 4 more") {
				causes.note()
			}
		}, funcr.Options{Verbosity: 1})})
		c.size = func(kube.Key) int64 { return 250 << 10 }
		for i := range n {
			for cause := range 12 {
				c.queue.Add(key(fmt.Sprint(i)), fmt.Sprint(12+cause))
			}
		}
		stop := run(t, c)
		time.Sleep(5 * time.Minute)
		done := c.Stats().Done
		if postponed := c.queue.Stats().Postponed; done < 25 || postponed > 5*60*2*n+n {
			t.Errorf("%d runs in five minutes, %d keys asked", done, postponed)
		}
		expect(t, "runs that name all their causes", int64(causes.count()), int64(done))
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
