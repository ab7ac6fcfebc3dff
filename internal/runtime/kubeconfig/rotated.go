package kubeconfig

import (
	"context"
	"sync"
	"time"
)

// rereadWait is how long requests wait for a file that is read again. A disk that works takes milliseconds; one that
// hangs (NFS without its server, a stuck mount, a pipe) may never answer.
const rereadWait = time.Second

// rotated is a value that is read from files which another program replaces. It is read again in the background, so
// that a disk that hangs holds up no request: such a read cannot be ended, so there is one at a time, and its result
// counts when it comes. While the files are missing or broken, the last good value is used.
type rotated[T any] struct {
	env     Env
	where   string              // for warnings
	kept    string              // for warnings: "the last good token is used"
	read    func() (T, error)   // its error names the field and the file
	changed func(before, now T) // called after each read that succeeded; may be nil
	age     time.Duration       // how long a value is used before the files are read again
	retry   time.Duration       // the same after a failure
	refused time.Duration       // the same after a failure and a 401

	mu      sync.Mutex // guards the rest; never held during a read
	value   T
	at      time.Time     // when the last read began
	next    time.Time     // when to read again
	failed  time.Time     // when the last read failed; zero: it did not
	running chan struct{} // closed when the read under way has ended; nil: none
	warned  bool          // that the read under way is slow
}

// current returns the last value that was read.
func (r *rotated[T]) current() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value
}

// get reads the files again if that is due, and returns the value. It waits for a read no longer than ctx and
// rereadWait allow.
func (r *rotated[T]) get(ctx context.Context) T {
	r.mu.Lock()
	if r.running == nil && !time.Now().Before(r.next) {
		r.running, r.at, r.warned = make(chan struct{}), time.Now(), false
		go r.refresh()
	}
	running, left := r.running, rereadWait-time.Since(r.at)
	r.mu.Unlock()
	if running == nil {
		return r.current()
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-running:
	case <-ctx.Done():
	case <-timer.C:
		r.warnSlow(running)
	}
	return r.current()
}

// warnSlow warns once of each read that takes longer than rereadWait.
func (r *rotated[T]) warnSlow(running chan struct{}) {
	r.mu.Lock()
	first := r.running == running && !r.warned
	r.warned = r.warned || first
	r.mu.Unlock()
	if first {
		r.env.warnf("%s: takes longer than %s to read: does its disk hang? Until then %s", r.where, rereadWait, r.kept)
	}
}

func (r *rotated[T]) refresh() {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		close(r.running)
		r.running = nil
	}()
	r.env.contained(r.where, func() {
		if err := r.load(); err != nil {
			r.warn(err)
		}
	})
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

// Invalidate has the files read before the next request, unless they were read after t, or failed just now.
func (r *rotated[T]) Invalidate(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.Before(t) {
		r.next = r.failed.Add(r.refused)
	}
}
