package kube

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// resetting is an HTTP/2 server that answers the first request with a reset and any later one with an object. It
// speaks in raw frames, because net/http's own server does not say which code it resets a stream with.
func resetting(t *testing.T, code uint32) (c *Client, streams *atomic.Int32) {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.EnableHTTP2 = true
	streams = new(atomic.Int32)
	write := func(conn io.Writer, kind, flags byte, stream uint32, payload []byte) {
		head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
		_, _ = conn.Write(append(binary.BigEndian.AppendUint32(append(head, flags), stream), payload...))
	}
	srv.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
			_, _ = io.CopyN(io.Discard, conn, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
			write(conn, 4, 0, 0, nil) // our settings: none
			for {
				var head [9]byte
				if _, err := io.ReadFull(conn, head[:]); err != nil {
					return
				}
				if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[:])>>8)); err != nil {
					return
				}
				stream := binary.BigEndian.Uint32(head[5:])
				switch {
				case head[3] == 4 && head[4] == 0: // settings
					write(conn, 4, 1, 0, nil)
				case head[3] == 1 && streams.Add(1) == 1: // headers
					write(conn, 3, 0, stream, binary.BigEndian.AppendUint32(nil, code))
				case head[3] == 1:
					// RFC 7541, table entries 8 and 31
					const status200, contentType = "\x88", "\x0f\x10\x10application/json"
					write(conn, 1, 4, stream, []byte(status200+contentType))
					write(conn, 0, 1, stream, []byte(item("a", "5")))
				}
			}
		}}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	c, err := New(Config{Server: srv.URL,
		TLS: &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, streams
}

// Rules: NET-07
func TestAResetStreamIsTriedAgainOnlyWhereItWasRefused(t *testing.T) {
	const internalError, refusedStream, enhanceYourCalm = 2, 7, 11
	for _, code := range []uint32{internalError, refusedStream, enhanceYourCalm} {
		for _, write := range []bool{false, true} {
			c, streams := resetting(t, code)
			var p pod
			var err error
			if write {
				err = c.Create(t.Context(), pods, "default", map[string]any{"metadata": map[string]any{"name": "a"}},
					&p, WriteOptions{})
			} else {
				err = c.Get(t.Context(), pods, Key{"default", "a"}, &p)
			}
			switch {
			case code == refusedStream: // the server has not looked at it (RFC 9113, section 8.7)
				if err != nil || p.Name != "a" || streams.Load() != 2 {
					t.Errorf("refused, write %v: got %v after %d requests, want an answer to the second", write, err,
						streams.Load())
				}
			case !IsTransient(err) || UnknownOutcome(err) != write || streams.Load() != 1:
				t.Errorf("reset with code %d, write %v: got %v after %d requests, want one, "+
					"and the outcome unknown of a write", code, write, err, streams.Load())
			}
		}
	}
}
