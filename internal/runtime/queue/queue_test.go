package queue

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

func key(name string) kube.Key { return kube.Key{Namespace: "default", Name: name} }

// next returns the key that is due, or "" if none is.
func next(q *Queue) string {
	item, _, _ := q.take()
	return item.Key.Name
}

// run takes the key that is due and ends its run, and returns its name, or "" if none is due.
func run(q *Queue) string {
	item, ok, _ := q.take()
	if ok {
		q.Done(item.Key)
	}
	return item.Key.Name
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// Rules: WQ-01, WQ-02
func TestThirtyTwoWorkersNeverHaveTheSameKeyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(0)
		var running, overlaps, runs atomic.Int32
		var workers sync.WaitGroup
		for range 32 {
			workers.Go(func() {
				for {
					item, ok := q.Get(t.Context())
					if !ok {
						return
					}
					if running.Add(1) > 1 {
						overlaps.Add(1)
					}
					runs.Add(1)
					time.Sleep(time.Second) // virtual: the other workers have every chance
					running.Add(-1)
					q.Done(item.Key)
				}
			})
		}
		q.Add(key("a"), "first")
		synctest.Wait()
		for i := range 1000 {
			q.Add(key("a"), fmt.Sprint("during ", i))
		}
		time.Sleep(time.Minute)
		q.ShutDown()
		workers.Wait()
		expect(t, "overlaps", overlaps.Load(), 0)
		expect(t, "runs", runs.Load(), 2)
	})
}

func TestCausesAreMergedOnceEachAndBounded(t *testing.T) {
	q := New(0)
	for range 3 {
		for i := range 11 {
			q.Add(key("a"), fmt.Sprint("c", i))
		}
	}
	q.Add(key("a"), "")
	item, _, _ := q.take()
	expect(t, "kept", len(item.Causes), maxCauses)
	expect(t, "more", item.More, 9)
	expect(t, "text", item.Cause(), "c0, c1, c2, c3, c4, c5, c6, c7 and 9 more")

	// What arrives during a run belongs to the next one.
	q.Add(key("a"), "later")
	q.Done(key("a"))
	item, _, _ = q.take()
	expect(t, "causes of the second run", item.Cause(), "later")
}

// Rules: WQ-11
func TestALowKeyRunsDuringAnEndlessStreamOfChanges(t *testing.T) {
	q := New(0)
	for i := range 4 {
		q.AddLow(key(fmt.Sprint("low", i)), "")
	}
	var lows []int
	for i := range 5 * (maxOvertakes + 1) {
		q.Add(key(fmt.Sprint("high", i)), "")
		q.Add(key(fmt.Sprint("high", i, "b")), "")
		if strings.HasPrefix(run(q), "low") {
			lows = append(lows, i)
		}
	}
	if want := []int{7, 15, 23, 31}; !slices.Equal(lows, want) {
		t.Fatalf("low keys ran at %v, want %v", lows, want)
	}
}

// Rules: WQ-14
func TestShutDownWakesAHundredWaitingWorkersAndRefusesFurtherKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(0)
		var workers sync.WaitGroup
		var served atomic.Int32
		for range 100 {
			workers.Go(func() {
				for {
					item, ok := q.Get(t.Context())
					if !ok {
						return
					}
					served.Add(1)
					q.Done(item.Key)
				}
			})
		}
		synctest.Wait()
		stop := make(chan struct{})
		var adders sync.WaitGroup
		for i := range 100 {
			adders.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					q.Add(key(fmt.Sprint(i)), "")
					q.AddAfter(key(fmt.Sprint(i, n)), time.Hour, "")
					time.Sleep(time.Millisecond)
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		q.ShutDown()
		q.ShutDown()
		workers.Wait()
		time.Sleep(20 * time.Millisecond)
		close(stop)
		adders.Wait()
		if served.Load() == 0 {
			t.Fatal("nothing was served before the shutdown")
		}
		expect(t, "waiting", q.Len(), 0)
		expect(t, "keys kept", len(q.entries), 0)
		time.Sleep(2 * time.Hour) // delayed keys are dropped too
		_, ok := q.Get(t.Context())
		expect(t, "Get after the shutdown", ok, false)
	})
}

// Rules: WQ-14
func TestShutDownDropsWaitingKeysAndLeavesRunsAlone(t *testing.T) {
	q := New(0)
	q.Add(key("a"), "")
	q.Add(key("b"), "")
	next(q)
	q.Add(key("a"), "again")
	q.ShutDown()
	if got := q.Processing(); !slices.Equal(got, []kube.Key{key("a")}) {
		t.Fatalf("processing %v", got)
	}
	expect(t, "waiting", q.Len(), 0)
	q.Done(key("a"))
	expect(t, "keys kept", len(q.entries), 0)
}

func TestAGetThatIsCancelledPassesTheBellOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(0)
		defer q.ShutDown()
		for round := range 200 {
			leaving, leave := context.WithCancel(t.Context())
			staying, done := context.WithCancel(t.Context())
			var got atomic.Int32
			for _, ctx := range []context.Context{leaving, staying} {
				go func() {
					if item, ok := q.Get(ctx); ok {
						got.Add(1)
						q.Done(item.Key)
					}
				}()
				synctest.Wait() // the one that leaves waits first, so it is the one that is woken
			}
			q.Add(key("a"), "")
			leave()
			synctest.Wait()
			expect(t, fmt.Sprint("keys taken in round ", round), got.Load(), 1)
			done()
			synctest.Wait()
		}
	})
}

// Two workers that have just found nothing, and do not yet listen, get two keys and only one value of wake:
// it holds no more. So the first to hear it must ring again. The window is too small to hit by chance.
func TestAGetThatLeavesKeysBehindRingsTheBellAgain(t *testing.T) {
	q := New(0)
	q.Add(key("a"), "")
	q.Add(key("b"), "")
	<-q.wake
	expect(t, "first", next(q), "a")
	expect(t, "rings while b waits", len(q.wake), 1)
	<-q.wake
	expect(t, "second", next(q), "b")
	expect(t, "rings while nothing waits", len(q.wake), 0)
}

func TestManyDueKeysWakeManyWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(0)
		defer q.ShutDown()
		var running atomic.Int32
		for range 32 {
			go func() {
				if _, ok := q.Get(t.Context()); ok {
					running.Add(1)
				}
			}()
		}
		synctest.Wait()
		for i := range 32 {
			q.AddAfter(key(fmt.Sprint(i)), time.Second, "")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		expect(t, "workers with a key", running.Load(), 32)
	})
}

// Rules: WQ-04, WQ-17
func TestNothingIsKeptOfForgottenKeys(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	q := New(0)
	defer q.ShutDown()
	before := heap()
	const atOnce, rounds = 10_000, 5
	for round := range rounds {
		for i := range atOnce {
			q.Add(kube.Key{Namespace: fmt.Sprint("ns", round), Name: fmt.Sprint(i)}, "deleted")
		}
		for range atOnce {
			item, _, _ := q.take()
			q.AddAfter(item.Key, time.Second, "retry") // fails ...
			q.Done(item.Key)
			q.AddLow(item.Key, "") // ... and runs again at once
			item, _, _ = q.take()
			q.Done(item.Key)
		}
	}
	expect(t, "keys kept", len(q.entries), 0)
	expect(t, "delays kept", len(q.delayed), 0)
	if grown := heap() - before; grown > 1<<20 {
		t.Fatalf("the heap grew by %d KiB", grown>>10)
	}
	runtime.KeepAlive(q)
}

func TestADelayOfDaysIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(0)
		q.AddAfter(key("later"), 96*time.Hour, "")
		q.AddAfter(key("a"), 72*time.Hour, "")
		start := time.Now()
		for _, want := range []string{"a", "later"} {
			item, _ := q.Get(t.Context())
			q.Done(item.Key)
			expect(t, "key", item.Key.Name, want)
		}
		expect(t, "after", time.Since(start), 96*time.Hour)
	})
}

// Len returns how many keys are due and wait for a worker; delayed keys are not among them.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lanes[low].len + q.lanes[high].len
}

// A clock that is set, or a machine that sleeps, loses no delayed key: each time that the queue keeps has a reading of
// the monotonic clock, by which alone Go compares it and sets the timer.
//
// Rules: WQ-18
func TestTheQueueKeepsTimesOfTheMonotonicClockOnly(t *testing.T) {
	q := New(0)
	defer q.ShutDown()
	q.AddAfter(key("after"), time.Hour, "test")
	q.Add(key("now"), "test")
	expect(t, "due", next(q), "now")
	q.mu.Lock()
	defer q.mu.Unlock()
	times := []time.Time{q.timerAt, q.running[0].began}
	for _, e := range q.entries {
		times = append(times, e.due)
	}
	expect(t, "times", len(times), 4)
	for i, at := range times {
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("time %d is %s, without the monotonic clock", i, at)
		}
	}
}

func TestAnEntryIsSmall(t *testing.T) {
	if size := reflect.TypeFor[entry]().Size(); size > 128 {
		t.Errorf("an entry takes %d bytes, want at most 128", size)
	}
}
