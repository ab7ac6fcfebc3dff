package apply

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// atOnce bounds how many children of one owner are written at a time: enough to hide the round trips, and few for the
// server.
const atOnce = 8

// sideBySide calls f for 0 to n-1, at most atOnce at a time, and returns when all calls have. A panic in one of them
// is a panic of the caller, who can contain it: on a goroutine of its own it would end the process.
func sideBySide(n int, f func(i int)) {
	switch n {
	case 0:
		return
	case 1:
		f(0)
		return
	}
	var running sync.WaitGroup
	var first sync.Once
	var panicked any
	var next atomic.Int32
	call := func(i int) {
		defer func() {
			if p := recover(); p != nil {
				first.Do(func() { panicked = fmt.Sprintf("%v\n%s", p, debug.Stack()) })
			}
		}()
		f(i)
	}
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			call(i)
		}
	}
	for range min(n, atOnce) - 1 {
		running.Go(work)
	}
	work() // the caller would only wait
	running.Wait()
	if panicked != nil {
		panic(panicked)
	}
}
