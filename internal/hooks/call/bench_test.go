package call_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
)

// request is of the size of one for a parent with three children.
var request = []byte(`{"controller":{},"parent":{"a":"` + string(bytes.Repeat([]byte("x"), 6<<10)) + `"}}`)

// BenchmarkOneshot is a hook that is a shell script, and beside it the same process without the hook around it.
func BenchmarkOneshot(b *testing.B) {
	hook := shell(b, spec.Oneshot, `cat`)
	var alone, through time.Duration
	c, _ := newCaller(b, hook)
	for b.Loop() {
		start := time.Now()
		cmd := exec.Command(hook.Exec.Command[0], hook.Exec.Command[1:]...)
		cmd.Stdin, cmd.Dir = bytes.NewReader(request), hook.Exec.Dir
		if out, err := cmd.Output(); err != nil || !bytes.Equal(out, request) {
			b.Fatal(err)
		}
		alone += time.Since(start)
		start = time.Now()
		reply, err := c.Call(b.Context(), call.Call{Body: request})
		if err != nil || !bytes.Equal(reply.Body, request) {
			b.Fatal(err)
		}
		through += time.Since(start)
	}
	b.ReportMetric(float64(alone.Microseconds())/float64(b.N), "us/process")
	b.ReportMetric(float64((through-alone).Microseconds())/float64(b.N), "us/beside-it")
}

func perSecond(b *testing.B) { b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s") }

func BenchmarkLines(b *testing.B) {
	for _, workers := range []int{1, 5} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			c, _ := newCaller(b, echo(), func(o *call.Options) { o.Workers = workers })
			parallel(b, c, workers)
		})
	}
}

func BenchmarkWebhook(b *testing.B) {
	_, hook := serve(b, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	c, _ := newCaller(b, hook)
	parallel(b, c, 5)
}

// parallel has workers call.
func parallel(b *testing.B, c *call.Caller, workers int) {
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	done := make(chan error, workers)
	for range workers {
		go func() {
			for left.Add(-1) >= 0 {
				if _, err := c.Call(b.Context(), call.Call{Body: request}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range workers {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b)
}
