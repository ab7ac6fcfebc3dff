package kube

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrIdle says that a stream brought no byte for longer than it may, or a list too few: the connection or the server
// is dead, or stuck. Nothing is lost by reading on from the last resource version.
var ErrIdle = errors.New("nothing, or too little, arrived within the idle timeout")

// idleTimer ends a request that stands still.
type idleTimer struct {
	d time.Duration
	t *time.Timer
}

// startIdle starts a timer that cancels with ErrIdle after d; d of 0 means never.
func startIdle(d time.Duration, cancel context.CancelCauseFunc) *idleTimer {
	if d <= 0 {
		return &idleTimer{}
	}
	return &idleTimer{d: d, t: time.AfterFunc(d, func() { cancel(ErrIdle) })}
}

func (i *idleTimer) stop() {
	if i.t != nil {
		i.t.Stop()
	}
}

// shorten makes the timeout d if it is longer, and starts it anew.
func (i *idleTimer) shorten(d time.Duration) {
	if i.t != nil && d < i.d {
		i.d = d
		i.t.Reset(d)
	}
}

// reader passes r through and starts the timer anew whenever something arrives.
func (i *idleTimer) reader(r io.Reader) io.Reader { return &idleReader{r: r, idle: i, least: 1} }

// rateReader starts the timer anew with the first byte, and then only when minList bytes have arrived since.
func (i *idleTimer) rateReader(r io.Reader) io.Reader {
	return &idleReader{r: r, idle: i, least: minList, arrived: minList - 1}
}

type idleReader struct {
	r       io.Reader
	idle    *idleTimer
	least   int // how many bytes start the timer anew
	arrived int // since it was
}

func (r *idleReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if r.arrived += n; r.arrived >= r.least && r.idle.t != nil {
		r.arrived = 0
		r.idle.t.Reset(r.idle.d)
	}
	return n, err
}
