package kubeconfig

import (
	"context"
	"net"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
)

// closeWait bounds how long closeAll waits for the transport, which notices at once that a connection is closed.
const closeWait = time.Second

// connTracker dials as kube does and remembers what is open.
type connTracker struct {
	mu   sync.Mutex // guards open
	open map[*trackedConn]struct{}
}

type trackedConn struct {
	net.Conn
	tracker *connTracker
	once    sync.Once
	dropped chan struct{} // closed when the transport has closed the connection
}

func (t *connTracker) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := kube.Dialer().DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tracked := &trackedConn{Conn: conn, tracker: t, dropped: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[*trackedConn]struct{}{}
	}
	t.open[tracked] = struct{}{}
	return tracked, nil
}

func (c *trackedConn) Close() error {
	c.tracker.mu.Lock()
	delete(c.tracker.open, c)
	c.tracker.mu.Unlock()
	c.once.Do(func() { close(c.dropped) })
	return c.Conn.Close()
}

// closeAll closes all connections and waits until the transport has noticed, so that the next request opens a new
// one.
func (t *connTracker) closeAll() {
	t.mu.Lock()
	open := t.open
	t.open = nil
	t.mu.Unlock()
	for c := range open {
		_ = c.Conn.Close() // its reader gets the error and tells the requests on it
	}
	timeout := time.NewTimer(closeWait)
	defer timeout.Stop()
	for c := range open {
		select {
		case <-c.dropped:
		case <-timeout.C:
			return
		}
	}
}
