package apiserver

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"

	"skiff/internal/testcluster/apiserver/faults"
)

// port is a server on a port, for what net.Pipe has not: the ends of TCP connections, and HTTP/2.
type port struct {
	t  *testing.T
	s  *Server
	to string
	tr *http.Transport
}

func newPort(t *testing.T) *port {
	t.Helper()
	s := New(Options{})
	t.Cleanup(s.Close)
	server, err := s.ListenTLS("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &port{t, s, server.URL, tr}
}

// do sends a request and returns its answer, and whether an older connection was used for it.
func (p *port) do(method, path, body string) (resp *http.Response, reused bool, err error) {
	p.t.Helper()
	ctx := httptrace.WithClientTrace(p.t.Context(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
	req, err := http.NewRequestWithContext(ctx, method, p.to+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err = (&http.Client{Transport: p.tr}).Do(req)
	return resp, reused, err
}

// read returns what remains of an answer.
func read(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// A watch on the same connection sees what ends.
//
// Rules: FI-03
func TestACutEndsTheStreamOrTheWholeConnection(t *testing.T) {
	for by, whole := range map[faults.By]bool{faults.ByStream: false, ByClose: true, ByReset: true} {
		for name, f := range map[string]Fault{"before": {Cut: CutBefore}, "after": {Cut: CutAfter},
			"in the body": {Cut: CutBody, At: 10}} {
			p := newPort(t)
			watch, _, err := p.do("GET", configMaps+"?watch=true", "")
			if err != nil {
				t.Fatal(err)
			}
			f.Verb, f.By = "list", by
			p.s.Inject(f)
			resp, _, err := p.do("GET", configMaps, "")
			if read(resp, err) == nil {
				t.Errorf("by %d %s: the answer is complete", by, name)
			}
			resp, _, err = p.do("POST", configMaps, configMap("a"))
			if err := read(resp, err); err != nil {
				t.Errorf("by %d %s: the next request: %v", by, name, err)
			}
			_, err = io.ReadFull(watch.Body, make([]byte, 10)) // of the event, if it comes
			if (err != nil) != whole {
				t.Errorf("by %d %s: the watch: %v, want its end: %t", by, name, err, whole)
			}
			watch.Body.Close()
		}
	}
}

// Rules: FI-03
func TestAResetIsSeenAsOne(t *testing.T) {
	p := newPort(t)
	p.tr.ForceAttemptHTTP2, p.tr.TLSClientConfig.NextProtos = false, []string{"http/1.1"}
	for by, want := range map[faults.By]error{ByReset: syscall.ECONNRESET, ByClose: io.ErrUnexpectedEOF} {
		remove := p.s.Inject(Fault{Verb: "list", Cut: CutBody, At: 10, By: by})
		resp, _, err := p.do("GET", configMaps, "")
		if err := read(resp, err); !errors.Is(err, want) {
			t.Errorf("by %d: %v, want %v", by, err, want)
		}
		remove()
	}
}

// Rules: FI-03
func TestAGoAwayEndsTheConnectionOnceItsRequestsAreAnswered(t *testing.T) {
	p := newPort(t)
	remove := p.s.Inject(Fault{Verb: "list", GoAway: true})
	resp, _, err := p.do("GET", configMaps, "")
	if err := read(resp, err); err != nil || resp.Header.Get("Connection") != "" {
		t.Errorf("%v, %v", err, resp.Header)
	}
	remove()
	for _, want := range []bool{false, true} { // on a new connection, which stays
		resp, reused, err := p.do("GET", configMaps, "")
		if err := read(resp, err); err != nil || reused != want {
			t.Errorf("%v, on an old connection: %t, want %t", err, reused, want)
		}
	}
}
