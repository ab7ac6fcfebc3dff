package manager

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxConnections is how many connections a server keeps: a kubelet, some Prometheus and people need a few. Each costs
// a file descriptor and some KiB, so that whoever can open connections could take all there is.
const maxConnections = 100

// crowd bounds the connections of a server. The oldest one is closed for a new one: a probe that is answered within
// milliseconds gets through, however many others wait.
type crowd struct {
	mu   sync.Mutex // guards open
	open []net.Conn // the oldest first
}

// connState is for http.Server.
func (c *crowd) connState(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open = append(c.open, conn)
		if len(c.open) > maxConnections {
			_ = c.open[0].Close() // what was to be read from it or written to it fails
			c.open = slices.Delete(c.open, 0, 1)
		}
	case http.StateClosed, http.StateHijacked:
		if i := slices.Index(c.open, conn); i >= 0 {
			c.open = slices.Delete(c.open, i, i+1)
		}
	}
}
