package kubeconfig

import (
	"context"
	"sync"
	"time"
)

// rereadWait bounds how long a request waits for a file. A working disk takes milliseconds; a hanging disk (NFS
// without its server, a stuck mount, a pipe) may never answer.
const rereadWait = time.Second

// rotated is a value read from files which another program replaces. A request that finds the value too old starts
// a read and waits for the result. The read has its own goroutine, because a read of a hanging disk cannot be
// cancelled: requests still end with their context, and the elector with its deadline (rules FI-16, LE-02). While
// files are missing, broken or slow, the last good value is used.
type rotated[T any] struct {
	env     Env
	where   string              // for warnings
	kept    string              // for warnings: "the last good token is used"
	read    func() (T, error)   // errors name the field and the file
	changed func(before, now T) // called after each read that succeeded; may be nil
	age     time.Duration       // how long a value is used before the files are read again
	retry   time.Duration       // the same after a failure
	refused time.Duration       // the same after a failure and a 401

	mu      sync.Mutex // guards the rest; never held during a read
	value   T
	at      time.Time     // start of the last read
	next    time.Time     // when to read again
	failed  time.Time     // end of the last read if it failed, else zero
	reading chan struct{} // closed when the running read ends or has taken rereadWait; nil: no read is running
}

// current returns the last value that was read.
func (r *rotated[T]) current() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value
}

// get reads the files again if due, and returns the value. Both ctx and rereadWait bound the wait.
func (r *rotated[T]) get(ctx context.Context) T {
	r.mu.Lock()
	if r.reading == nil && !time.Now().Before(r.next) {
		r.reading = make(chan struct{})
		go r.refresh(r.reading)
	}
	reading := r.reading
	r.mu.Unlock()
	if reading != nil {
		select {
		case <-reading:
		case <-ctx.Done():
		}
	}
	return r.current()
}

// refresh reads the files, and warns once if that takes longer than rereadWait.
func (r *rotated[T]) refresh(reading chan struct{}) {
	slow := time.AfterFunc(rereadWait, func() {
		r.env.warnf("%s: takes longer than %s to read: does its disk hang? Until then %s", r.where, rereadWait, r.kept)
		close(reading)
	})
	r.env.contained(r.where, func() {
		if err := r.load(); err != nil {
			r.warn(err)
		}
	})
	r.mu.Lock()
	r.reading = nil
	r.mu.Unlock()
	if slow.Stop() {
		close(reading)
	}
}

func (r *rotated[T]) warn(err error) { r.env.warnf("%s; %s", err, r.kept) }

// load reads the files now.
func (r *rotated[T]) load() error {
	began := time.Now()
	value, err := r.read()
	r.mu.Lock()
	r.at = began
	if err != nil {
		r.failed = time.Now()
		r.next = r.failed.Add(r.retry)
		r.mu.Unlock()
		return err
	}
	before := r.value
	r.value, r.next, r.failed = value, began.Add(r.age), time.Time{}
	r.mu.Unlock()
	if r.changed != nil {
		r.changed(before, value)
	}
	return nil
}

// Invalidate has the files read before the next request, unless a read began after t or has just failed.
func (r *rotated[T]) Invalidate(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.Before(t) {
		r.next = r.failed.Add(r.refused)
	}
}
