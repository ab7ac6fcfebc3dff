package cache

import (
	"sync"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/kube"
)

const (
	// floodLines is how many lines of one message are logged within floodTime: enough to see what is wrong.
	floodLines = 10
	floodTime  = time.Minute
)

// flood bounds the lines of each message. The first line after some were left out says how many.
type flood struct {
	mu sync.Mutex // guards of
	of map[string]*floodOf
}

// floodOf is what is known of one message.
type floodOf struct {
	since   time.Time
	lines   int
	leftOut int
}

// Error logs, or leaves out. msg is the cause that lines are counted by; it must be one of a fixed set.
func (f *flood) Error(log logr.Logger, err error, msg string, keysAndValues ...any) {
	ok, leftOut := f.pass(msg)
	if !ok {
		return
	}
	if leftOut > 0 {
		keysAndValues = append(keysAndValues, "leftOut", leftOut)
	}
	log.Error(err, msg, keysAndValues...)
}

func (f *flood) pass(msg string) (ok bool, leftOut int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.of[msg]
	if one == nil {
		one = &floodOf{}
		if f.of == nil {
			f.of = map[string]*floodOf{}
		}
		f.of[msg] = one
	}
	if time.Since(one.since) >= floodTime {
		leftOut = one.leftOut
		*one = floodOf{since: time.Now()}
	}
	if one.lines >= floodLines {
		one.leftOut++
		return false, 0
	}
	one.lines++
	return true, leftOut
}

// maxBadLogged bounds the lines that one list may cost: enough to go through by hand. Quarantined has all.
const maxBadLogged = 10

// logBad names the objects of a list that do not decode.
func (r *Reflector[T]) logBad(bad map[kube.Key]*kube.DecodeError) {
	logged := 0
	for _, err := range bad {
		if logged == maxBadLogged {
			r.log.Info("more objects do not decode", "objects", len(bad)-logged)
			return
		}
		r.log.Error(err, "object does not decode; its last good copy stays")
		logged++
	}
}
