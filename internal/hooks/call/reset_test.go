package call_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"skiff/internal/hooks/call"
)

// An endpoint that answers before it has read the request, and closes, resets the connection.
//
// Rules: HK-107
func TestACallIsRepeatedOnceWhereTheConnectionWasReset(t *testing.T) {
	for name, begun := range map[string]string{"before the answer": "",
		"in the answer": "HTTP/1.1 200 OK\r\nContent-Length: 600000\r\n\r\n{" + strings.Repeat(" ", 500_000)} {
		t.Run(name, func(t *testing.T) {
			var requests, resets atomic.Int64
			_, hook := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				if resets.Add(-1) < 0 {
					_, _ = io.Copy(w, r.Body)
					return
				}
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn, begun)
				_ = conn.(*net.TCPConn).SetLinger(0)
				_ = conn.Close()
			})
			c, _ := newCaller(t, hook)
			room, err := call.NewMemory(64<<20).Room("a", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer room.Leave()
			resets.Store(1)
			reply, err := c.Call(room.WithRoom(t.Context()), call.Call{Body: []byte(large)})
			if err != nil || string(reply.Body) != large || requests.Load() != 2 || room.Taken() != 16<<20 {
				t.Errorf("%d bytes after %d requests, %d are taken: %v", len(reply.Body), requests.Load(),
					room.Taken(), err)
			}
			resets.Store(3)
			err = refused(t, c, "twice; an endpoint that answers before it has read the whole request causes this")
			if requests.Load() != 4 || !call.IsUnavailable(err) {
				t.Errorf("%d requests: %v", requests.Load(), err)
			}
		})
	}
}

// torn is a connection that was reset with a request half sent. The system says so once, here to the one who writes;
// who reads finds nothing but its end.
type torn struct {
	net.Conn
	answer       io.Reader // that came before
	begin, found func()    // of the request, of the reset
	begun, reset <-chan struct{}
}

func tear(conn net.Conn, answer string) net.Conn {
	begun, reset := make(chan struct{}), make(chan struct{})
	return &torn{conn, strings.NewReader(answer), sync.OnceFunc(func() { close(begun) }),
		sync.OnceFunc(func() { close(reset) }), begun, reset}
}

func (c *torn) Write(p []byte) (int, error) {
	select {
	case <-c.begun:
		c.found()
		return 0, syscall.ECONNRESET
	default:
		c.begin()
		return len(p), nil
	}
}

func (c *torn) Read(p []byte) (int, error) {
	<-c.begun
	if n, _ := c.answer.Read(p); n > 0 {
		return n, nil
	}
	<-c.reset
	return 0, io.EOF
}

// Rules: HK-107
func TestACallIsRepeatedOnceWhereOnlyItsWriterLearnsOfTheReset(t *testing.T) {
	for name, begun := range map[string]string{"before the answer": "",
		"in the answer": "HTTP/1.1 200 OK\r\nContent-Length: 600000\r\n\r\n{"} {
		t.Run(name, func(t *testing.T) {
			_, hook := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
			resets := 1
			c, _ := newCaller(t, hook, func(o *call.Options) {
				o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
					if resets--; err == nil && resets >= 0 {
						conn = tear(conn, begun)
					}
					return conn, err
				}
			})
			if reply := ask(t, c, large); string(reply.Body) != large {
				t.Errorf("got %d bytes", len(reply.Body))
			}
		})
	}
}
