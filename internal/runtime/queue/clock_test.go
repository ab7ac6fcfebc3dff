package queue

import (
	"strings"
	"testing"
	"time"
	"unsafe"
)

// moveClock has the wall clock move by d while the queue waits, and the monotonic clock not: in the times that it
// keeps, the wall clock's part is d earlier.
func (q *Queue) moveClock(t *testing.T, d time.Duration) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	times := []*time.Time{&q.timerAt}
	for _, e := range q.entries {
		times = append(times, &e.due)
	}
	for _, at := range times {
		if !strings.Contains(at.String(), " m=") {
			t.Fatalf("%s is kept without the monotonic clock", at)
		}
		const secondBit = 30 // of the first word of such a time.Time
		*(*uint64)(unsafe.Pointer(at)) -= uint64(int64(d/time.Second)) << secondBit
	}
}

// The times in a bubble of synctest have no monotonic part: this test runs in real time.
//
// Rules: FI-16
func TestDelaysAreKeptWhenTheClockJumps(t *testing.T) {
	const step = 10 * time.Millisecond
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		q := New(0)
		began := time.Now()
		q.AddAfter(key("a"), step, "")
		q.AddAfter(key("c"), 50*step, "") // late: this thread may lose the processor before b is added
		q.moveClock(t, jump)
		q.AddAfter(key("b"), 2*step, "") // only it knows the new time of day
		for i, want := range []string{"a", "b", "c"} {
			item, _ := q.Get(t.Context())
			if item.Key.Name != want || time.Since(began) < time.Duration(i+1)*step {
				t.Errorf("after %s and a jump of %s: %s, want %s", time.Since(began), jump, item.Key.Name, want)
			}
			q.Done(item.Key)
		}
		q.ShutDown()
	}
}
