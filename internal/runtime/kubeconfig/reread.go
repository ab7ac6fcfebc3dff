package kubeconfig

import (
	"context"
	"sync"
	"time"
)

// rereadWait is how long requests wait for a file that is read again. A disk that works takes milliseconds; one that
// hangs (NFS without its server, a stuck mount, a pipe) may never answer.
const rereadWait = time.Second

// reread reads a file again in the background, where a disk that hangs holds up nobody. No one can end such a read,
// so there is one at a time, and what it reads in the end counts.
type reread struct {
	mu      sync.Mutex    // guards the rest; never held during a read
	running chan struct{} // closed when the read under way has ended; nil = none
	began   time.Time     // when that read began
	told    bool          // somebody was told that it is slow
}

// do runs read if due says so, and waits for the end of the read under way, but no longer than ctx and rereadWait
// allow. slow is true once for each read that takes longer than rereadWait.
func (r *reread) do(ctx context.Context, due func() bool, read func()) (slow bool) {
	r.mu.Lock()
	if r.running == nil && !due() {
		r.mu.Unlock()
		return false
	}
	if r.running == nil {
		r.running, r.began, r.told = make(chan struct{}), time.Now(), false
		go r.run(read)
	}
	running, left := r.running, rereadWait-time.Since(r.began)
	r.mu.Unlock()

	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-running:
		return false
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	slow = r.running == running && !r.told
	r.told = r.told || slow
	return slow
}

func (r *reread) run(read func()) {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		close(r.running)
		r.running = nil
	}()
	read()
}
