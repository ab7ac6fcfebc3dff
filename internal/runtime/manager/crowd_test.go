package manager

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever reaches the port may open connections without end, and send a byte now and then.
func TestAThousandConnectionsAreNotKeptAndDoNotKeepAProbeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeListener()
		m := New(Options{HealthAddr: "pipe"})
		m.listen = func(string, string) (net.Listener, error) { return l, nil }
		p, err := m.open(served{what: "probes", address: "pipe", handler: m.probes()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var open atomic.Int32
		for range 1000 {
			conn, err := l.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			open.Add(1)
			go func() {
				defer open.Add(-1)
				_, _ = conn.Write([]byte("GET /healthz HTTP/1.1\r\nX: "))
				_, _ = io.Copy(io.Discard, conn) // ends when the server closes it
			}()
		}
		time.Sleep(time.Second)
		if n := open.Load(); n > maxConnections {
			t.Errorf("%d connections are open", n)
		}
		code, body := newProber(t, l).get("/healthz")
		expect(t, "/healthz "+body, code, 200)
		time.Sleep(serverTimeout)
		expect(t, "connections after the time for a header", open.Load(), 0)
		p.close()
	})
}
