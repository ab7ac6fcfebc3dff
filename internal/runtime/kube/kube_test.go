package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

var pods = Resource{Version: "v1", Plural: "pods", Kind: "Pod"}

// pod is a cached kind as an operator would declare it.
type pod struct {
	Meta `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
		Priority int    `json:"priority"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

// pipeListener hands out net.Pipe connections, so that real HTTP runs inside a synctest bubble.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	wrap  func(net.Conn) net.Conn // what the client's end becomes; nil: itself
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr {
	return &net.UnixAddr{Name: "pipe", Net: "pipe"}
}
func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		if l.wrap != nil {
			return l.wrap(ours), nil
		}
		return ours, nil
	case <-l.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pipeClient serves h over net.Pipe and returns a client of it.
func pipeClient(t *testing.T, h http.Handler, edit ...func(*Config)) *Client {
	t.Helper()
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: h}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(l) })
	cfg := Config{Server: "http://fake", DialContext: l.dial}
	for _, e := range edit {
		e(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); _ = srv.Close(); wg.Wait() })
	return c
}

// listPods reads all pods that h answers with.
func listPods(t *testing.T, h http.Handler, o ListOptions) (ListResult[*pod], error) {
	t.Helper()
	return List[*pod](t.Context(), pipeClient(t, h), Query{Resource: pods}, o)
}

// watchPods opens a watch of all pods, which ends with the test.
func watchPods(t *testing.T, c *Client, o WatchOptions) *Stream[*pod] {
	t.Helper()
	st, err := Watch[*pod](t.Context(), c, Query{Resource: pods}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// tlsClient serves h over TLS on loopback, with HTTP/2, and returns a client of it.
func tlsClient(t *testing.T, h http.Handler) *Client {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	c, err := New(Config{Server: srv.URL,
		TLS: &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// script answers the n-th request with the n-th handler, and the last one for ever; it keeps the requests.
type script struct {
	mu    sync.Mutex // guards seen
	seen  []*http.Request
	steps []http.HandlerFunc
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	n := len(s.seen)
	s.seen = append(s.seen, r)
	s.mu.Unlock()
	s.steps[min(n, len(s.steps)-1)](w, r)
}

func (s *script) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.seen...)
}

func scripted(steps ...http.HandlerFunc) *script { return &script{steps: steps} }

// answer is a JSON answer.
func answer(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// failure is a Status answer.
func failure(code int, reason, more string) http.HandlerFunc {
	return answer(code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"it is so: %s"%s}`,
		code, reason, reason, more))
}

// says is a Status answer with a message.
func says(code int, reason, message string) http.HandlerFunc {
	return answer(code, fmt.Sprintf(`{"kind":"Status","status":"Failure","reason":%q,"message":%q}`, reason, message))
}

func names(items []*pod) []string {
	var out []string
	for _, p := range items {
		out = append(out, p.Name)
	}
	return out
}

// decodePage decodes a list of a kind as readPage does, decodeProtoPage one in protobuf.
func decodePage[T Object](s *scanner, kind string, all *ListResult[T]) (listMeta, error) {
	meta, got, err := decodeList(s, all)
	return meta, listError(got, kind, err)
}

func decodeProtoPage[T Object](p *protoReader, kind string, all *ListResult[T]) (listMeta, error) {
	meta, got, err := decodeProtoList(p, all)
	return meta, listError(got, kind, err)
}
