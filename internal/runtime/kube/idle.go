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

// idleTimer ends a request that stands still. It belongs to the goroutine that reads the answer.
type idleTimer struct {
	d       time.Duration
	t       *time.Timer
	least   int // how many bytes start it anew
	arrived int // since it was
}

// startIdle starts a timer that cancels with ErrIdle after d; d of 0 means never. Any byte starts it anew.
func startIdle(d time.Duration, cancel context.CancelCauseFunc) *idleTimer {
	if d <= 0 {
		return &idleTimer{}
	}
	return &idleTimer{d: d, t: time.AfterFunc(d, func() { cancel(ErrIdle) }), least: 1}
}

// startListIdle is startIdle for a list: the first byte starts the timer anew, and then only minList bytes do.
func startListIdle(cancel context.CancelCauseFunc) *idleTimer {
	i := startIdle(listIdle, cancel)
	i.least, i.arrived = minList, minList-1
	return i
}

func (i *idleTimer) stop() {
	if i.t != nil {
		i.t.Stop()
	}
}

// shorten makes the timeout d if it is longer, and starts it anew.
func (i *idleTimer) shorten(d time.Duration) {
	if i.t != nil && d < i.d {
		i.listed(d)
	}
}

// listed makes the timer one of startIdle(d): the list that it watched over has ended, and a watch follows it.
func (i *idleTimer) listed(d time.Duration) {
	i.d, i.least = d, 1
	if i.t.Stop(); d > 0 {
		i.t.Reset(d)
	}
}

// reader passes r through and starts the timer anew when enough has arrived.
func (i *idleTimer) reader(r io.Reader) io.Reader { return &idleReader{r: r, idle: i} }

type idleReader struct {
	r    io.Reader
	idle *idleTimer
}

func (r *idleReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	i := r.idle
	if i.arrived += n; i.arrived >= i.least && i.d > 0 {
		i.arrived = 0
		i.t.Reset(i.d)
	}
	return n, err
}
