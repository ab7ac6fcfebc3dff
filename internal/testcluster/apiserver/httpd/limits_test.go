package httpd

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// limited serves over TLS on pipes with limits while test runs. connections counts those that were made.
func limited(t *testing.T, limits Limits, h http.HandlerFunc, test func(client *http.Client,
	connections *atomic.Int32)) {
	cert, _, err := NewCertificate()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // net/http closes some connections half a second later
		p := &Pipe{accept: make(chan net.Conn), done: make(chan struct{})}
		p.frozen.forget = limits.Forget
		p.server = serverOf(h, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }, nil, limits)
		p.serve((*pipeListener)(p), p.serveTLS)
		defer p.Close()
		var connections atomic.Int32
		tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				connections.Add(1)
				return p.Dial(ctx, network, address)
			}}
		defer tr.CloseIdleConnections()
		test(&http.Client{Transport: tr}, &connections)
	})
}

func get(client *http.Client, header string) string {
	req, err := http.NewRequest("GET", "https://apiserver.test/", nil)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("X-Padding", header)
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err.Error()
	}
	return fmt.Sprint(resp.Proto, " ", resp.StatusCode)
}

func ok(http.ResponseWriter, *http.Request) {}

// Rules: FI-15, FI-17
func TestConnectionsHaveTheLimitsOfAServerOrOfAProxy(t *testing.T) {
	limited(t, Limits{}, ok, func(client *http.Client, connections *atomic.Int32) {
		for range 3 {
			if got := get(client, ""); got != "HTTP/2.0 200" {
				t.Error(got)
			}
			time.Sleep(time.Hour)
		}
		if connections.Load() != 1 {
			t.Errorf("%d connections without limits, want 1", connections.Load())
		}
	})
	limited(t, Limits{HTTP1: true}, ok, func(client *http.Client, _ *atomic.Int32) {
		if got := get(client, ""); got != "HTTP/1.1 200" {
			t.Errorf("without HTTP/2: %s", got)
		}
	})
	limited(t, Limits{HTTP1: true, HeaderBytes: 1000}, ok, func(client *http.Client, _ *atomic.Int32) {
		if got := get(client, strings.Repeat("x", 10_000)); got != "HTTP/1.1 431" {
			t.Errorf("a large header: %s", got)
		}
	})
	for name, limits := range map[string]Limits{"idle": {Idle: time.Minute}, "old": {Age: time.Minute}} {
		limited(t, limits, ok, func(client *http.Client, connections *atomic.Int32) {
			for range 3 {
				if got := get(client, ""); got != "HTTP/2.0 200" {
					t.Errorf("%s: %s", name, got)
				}
				time.Sleep(2 * time.Minute)
			}
			if connections.Load() < 2 {
				t.Errorf("%s: one connection serves for six minutes", name)
			}
		})
	}
	limited(t, Limits{Forget: time.Minute}, ok, func(client *http.Client, _ *atomic.Int32) {
		get(client, "")
		time.Sleep(2 * time.Minute)
		client.Timeout = time.Hour
		if got := get(client, ""); !strings.Contains(got, "deadline exceeded") {
			t.Errorf("a connection that a firewall forgot: %s", got)
		}
	})
	many := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		time.Sleep(time.Minute)
	}
	limited(t, Limits{Streams: 2}, many, func(client *http.Client, connections *atomic.Int32) {
		var done sync.WaitGroup
		for range 6 {
			done.Go(func() {
				if got := get(client, ""); got != "HTTP/2.0 200" {
					t.Error(got)
				}
			})
		}
		done.Wait()
		if connections.Load() < 3 {
			t.Errorf("%d connections for 6 requests at the same time, want one for each two", connections.Load())
		}
	})
}
