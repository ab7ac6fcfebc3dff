package httpd

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAClientThatNeverEndsItsHeaderIsHungUpOn(t *testing.T) {
	cert, _, err := NewCertificate()
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func(net.Conn) io.ReadWriter{
		"no handshake": func(c net.Conn) io.ReadWriter { return c },
		"HTTP/1.1":     func(c net.Conn) io.ReadWriter { return tls.Client(c, &tls.Config{InsecureSkipVerify: true}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &Pipe{accept: make(chan net.Conn), done: make(chan struct{})}
			p.server = serverOf(http.NotFoundHandler(),
				func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }, nil, Limits{})
			p.serve((*pipeListener)(p), p.serveTLS)
			defer p.Close()
			c, err := p.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			began, client := time.Now(), open(c)
			var dripping sync.WaitGroup
			if name != "no handshake" {
				dripping.Go(func() {
					_, err := io.WriteString(client, "GET /version HTTP/1.1\r\n")
					for i := 0; err == nil && i < 100; i++ {
						time.Sleep(time.Second)
						_, err = io.WriteString(client, "X: y\r\n")
					}
					c.Close()
				})
			}
			_, err = io.Copy(io.Discard, client)
			if took := time.Since(began); took > readHeaderTimeout+time.Second {
				t.Errorf("%s: hung up on after %s: %v", name, took, err)
			}
			c.Close()
			dripping.Wait()
		})
	}
}
