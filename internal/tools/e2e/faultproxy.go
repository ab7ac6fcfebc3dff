package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// FaultProxy is an HTTPS proxy in front of an API server that does to requests and answers what bad networks, load
// balancers and overloaded servers do. It does so until Calm is called.
type FaultProxy struct {
	Server string // URL
	CAFile string

	http     *httptest.Server
	upstream *http.Transport

	mu     sync.Mutex // guards what follows
	rng    *rand.Rand
	calm   bool
	owed   bool           // a request was to be repeated that cannot be
	counts map[string]int // by fault
}

// The faults, each for three requests in a hundred.
var faults = []string{
	"refused",     // the connection breaks before the server has the request
	"lost",        // the server does it, the answer does not arrive
	"truncated",   // half of the answer arrives
	"delayed",     // the request waits for up to a second
	"slow",        // the answer waits for up to a second
	"unavailable", // 503 with a Status and Retry-After
	"bad gateway", // 502 with a page for browsers
	"internal",    // 500 with a Status
	"repeated",    // a GET or DELETE reaches the server twice, as HTTP allows a proxy
}

const faultPercent = 3

// StartFaultProxy starts one. seed decides the faults, as far as the order of requests repeats itself. caFile is the
// target's; its own goes into a file of the directory.
func StartFaultProxy(target, caFile, dir string, seed uint64) (*FaultProxy, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("start the fault proxy: %w", err)
	}
	api, err := NewAPI(target, caFile, "")
	if err != nil {
		return nil, err
	}
	p := &FaultProxy{rng: rand.New(rand.NewPCG(seed, 0)), counts: map[string]int{}, CAFile: dir + "/fault-proxy.crt"}
	p.upstream = &http.Transport{TLSClientConfig: api.http.Transport.(*http.Transport).TLSClientConfig,
		ForceAttemptHTTP2: true}
	p.http = httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     p,
		FlushInterval: -1, // watches
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:      log.New(io.Discard, "", 0),
	})
	p.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.http.EnableHTTP2 = true
	p.http.TLS = &tls.Config{}
	p.http.StartTLS()
	p.Server = p.http.URL
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.http.Certificate().Raw})
	if err := os.WriteFile(p.CAFile, certificate, 0o600); err != nil {
		p.Close()
		return nil, fmt.Errorf("start the fault proxy: %w", err)
	}
	return p, nil
}

// Close breaks all connections.
func (p *FaultProxy) Close() {
	p.http.CloseClientConnections()
	p.http.Close()
	p.upstream.CloseIdleConnections()
}

// Calm ends the faults.
func (p *FaultProxy) Calm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calm = true
}

// Counts is how often each fault was played.
func (p *FaultProxy) Counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// draw chooses what happens to a request, "" for nothing, and a number below n for those that need one.
func (p *FaultProxy) draw(r *http.Request, n int) (fault string, number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.rng.IntN(100) / faultPercent
	repeatable := (r.Method == http.MethodGet || r.Method == http.MethodDelete) && !r.URL.Query().Has("watch")
	switch {
	case p.calm:
		return "", 0
	case repeatable && p.owed && p.counts["repeated"] == 0:
		fault = "repeated" // such requests are so few that each draw of it may have met another one
	case i >= len(faults):
		return "", 0
	case faults[i] == "repeated" && !repeatable:
		p.owed = true
		return "", 0
	default:
		fault = faults[i]
	}
	p.counts[fault]++
	return fault, p.rng.IntN(n)
}

// errFault makes the proxy break the connection.
var errFault = errors.New("a fault of the proxy's")

// RoundTrip sends a request to the API server, and does the fault.
func (p *FaultProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	fault, number := p.draw(r, 1000)
	switch fault {
	case "refused":
		return nil, errFault
	case "unavailable":
		return statusAnswer(r, http.StatusServiceUnavailable, "the server is currently unable to handle the request"),
			nil
	case "internal":
		return statusAnswer(r, http.StatusInternalServerError,
			"an error on the server has prevented the request from succeeding"), nil
	case "bad gateway":
		resp := answer(r, http.StatusBadGateway, "<html><body><h1>502 Bad Gateway</h1></body></html>")
		resp.Header.Set("Content-Type", "text/html")
		return resp, nil
	case "delayed":
		if err := pause(r.Context(), number); err != nil {
			return nil, err
		}
	case "repeated":
		if err := p.repeat(r); err != nil {
			return nil, err
		}
	}
	resp, err := p.upstream.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch fault {
	case "lost":
		resp.Body.Close()
		return nil, errFault
	case "slow":
		return resp, pause(r.Context(), number)
	case "truncated":
		// Of an answer whose length is known a half, of a stream a few frames.
		n := int64(number) * 10
		if resp.ContentLength > 0 {
			n = resp.ContentLength / 2
		}
		resp.Body = &cutBody{ReadCloser: resp.Body, left: n}
	}
	return resp, nil
}

// repeat sends a request once more than the client did, and drops that answer.
func (p *FaultProxy) repeat(r *http.Request) error {
	first := r.Clone(r.Context())
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		first.Body, r.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
	}
	resp, err := p.upstream.RoundTrip(first)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// cutBody breaks off after some bytes.
type cutBody struct {
	io.ReadCloser
	left int64
}

func (b *cutBody) Read(into []byte) (int, error) {
	if b.left <= 0 {
		return 0, errFault
	}
	n, err := b.ReadCloser.Read(into[:min(int64(len(into)), b.left)])
	b.left -= int64(n)
	return n, err
}

func pause(ctx context.Context, milliseconds int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(milliseconds) * time.Millisecond):
		return nil
	}
}

func answer(r *http.Request, code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(body)),
		Body: io.NopCloser(strings.NewReader(body))}
}

func statusAnswer(r *http.Request, code int, message string) *http.Response {
	resp := answer(r, code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":%d,"message":%q}`, code, message))
	if code == http.StatusServiceUnavailable {
		resp.Header.Set("Retry-After", "1")
	}
	return resp
}
