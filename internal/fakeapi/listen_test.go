package fakeapi

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The kubeconfig is written by `skiff dev`; tests of internal/cli and internal/e2e use it.
//
// Rules: FD-23
func TestHTTPSHasItsOwnCAAndServesHTTP1AndHTTP2(t *testing.T) {
	s := New(Options{Token: "secret"})
	defer s.Close()
	server, err := s.ListenTLS("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(server.CA) {
		t.Fatalf("the authority is %q", server.CA)
	}
	get := func(tr *http.Transport, token string) (*http.Response, error) {
		t.Helper()
		defer tr.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+configMaps, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := (&http.Client{Transport: tr}).Do(req)
		if err == nil {
			io.Copy(io.Discard, resp.Body) // a part of an answer shows in its code and length
			resp.Body.Close()
		}
		return resp, err
	}
	for want, tr := range map[string]*http.Transport{
		"HTTP/2.0": {TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true},
		"HTTP/1.1": {TLSClientConfig: &tls.Config{RootCAs: roots}},
	} {
		resp, err := get(tr, "secret")
		if err != nil {
			t.Fatal(err)
		}
		if resp.Proto != want || resp.StatusCode != http.StatusOK {
			t.Errorf("%s %d, want %s 200", resp.Proto, resp.StatusCode, want)
		}
		if resp, err = get(tr, "guessed"); err != nil || resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("with another token: %v, %v", resp, err)
		}
	}
	if _, err := get(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool()}},
		"secret"); err == nil {
		t.Error("the certificate is good without its authority")
	}
}

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
			s := New(Options{})
			defer s.Close()
			p := &Pipe{accept: make(chan net.Conn), done: make(chan struct{})}
			p.server = s.serverOf(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil })
			p.served.Go(func() { p.server.ServeTLS((*pipeListener)(p), "", "") }) // ends by Close
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
