package manager

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/history"
)

// Rules: LP-19
func TestAStreamOfTheLivePageLastsUntilTheProcessStopsOrItsReaderStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := newServer(t)
		var j journal
		l := newPipeListener()
		m := New(Options{Controllers: []*controller.Controller{j.noting("maps", client, configMaps)}, Client: client,
			PageAddr: "page", History: new(history.Log)})
		m.listen = func(string, string) (net.Listener, error) { return l, nil }
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		synctest.Wait()
		open := func() net.Conn {
			conn, err := l.dial(t.Context(), "", "")
			expectNoError(t, err)
			_, err = io.WriteString(conn, "GET /debug/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
			expectNoError(t, err)
			return conn
		}
		stalled, reader := open(), open() // nothing is read from the first one
		events, over := 0, make(chan time.Time, 1)
		go func() {
			for in := bufio.NewScanner(reader); in.Scan(); {
				if strings.HasPrefix(in.Text(), "data: ") {
					events++
				}
			}
			over <- time.Now()
		}()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if events < 30 {
			t.Errorf("%d events within three minutes: the server cut the stream", events)
		}
		if _, err := stalled.Write([]byte("x")); err == nil {
			t.Error("a reader that took nothing for three minutes is still served")
		}
		began := time.Now()
		stop()
		expectNoError(t, <-ended)
		if took := (<-over).Sub(began); took > closeTimeout {
			t.Errorf("the stream ended %s after the stop", took)
		}
		stalled.Close()
	})
}
