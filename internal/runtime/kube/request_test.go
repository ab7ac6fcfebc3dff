package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counter counts connections.
type counter struct{ n atomic.Int64 }

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

func (c *counter) count(d dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c.n.Add(1)
		return d(ctx, network, addr)
	}
}

// pipeTLSClient serves h over TLS and HTTP/2 over net.Pipe.
func pipeTLSClient(t *testing.T, h http.Handler, wrap func(net.Conn) net.Conn) *Client {
	t.Helper()
	// The certificate is borrowed from a server that is never used.
	lender := httptest.NewUnstartedServer(nil)
	lender.StartTLS()
	cert, roots := lender.TLS.Certificates[0], x509.NewCertPool()
	roots.AddCert(lender.Certificate())
	lender.Close()

	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{}), wrap: wrap}
	srv := &http.Server{Handler: h,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.ServeTLS(l, "", "") })
	c, err := New(Config{Server: "https://fake", DialContext: l.dial, TLS: &tls.Config{
		RootCAs: roots, ServerName: "example.com",
		// The bubble's clock starts in the year 2000, when the certificate was not yet valid.
		Time: func() time.Time { return lender.Certificate().NotBefore.Add(time.Hour) },
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); _ = srv.Close(); wg.Wait() })
	return c
}

// Rules: NET-04, NET-05
func TestManyWatchesDoNotHoldUpAGet(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !r.URL.Query().Has("watch") {
			fmt.Fprint(w, `{"metadata":{"name":"a","namespace":"default"}}`)
			return
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	srv := httptest.NewUnstartedServer(h)
	srv.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 10}
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	c, err := New(Config{Server: srv.URL, TLS: srv.Client().Transport.(*http.Transport).TLSClientConfig})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for range 35 {
		watchPods(t, c, WatchOptions{ResourceVersion: "1"})
	}
	began := time.Now()
	if err := c.Get(t.Context(), pods, Key{"default", "a"}, nil); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a get beside 35 watches took %s", took)
	}
}

// Rules: NET-15, NET-17, AUTH-22, AUTH-25
func TestWhatEachRequestCarries(t *testing.T) {
	s := scripted(answer(200, `{}`))
	c := pipeClient(t, s, func(cfg *Config) {
		cfg.Server = "http://fake/k8s/clusters/c1/?x=1#y"
		cfg.Impersonate = Impersonation{User: "jane", Groups: []string{"a", "b"},
			Extra: map[string][]string{"Acme/Scope": {"x"}}}
	})
	if err := c.Get(t.Context(), pods, Key{"default", "a"}, nil); err != nil {
		t.Fatal(err)
	}
	r := s.requests()[0]
	if r.URL.RequestURI() != "/k8s/clusters/c1/api/v1/namespaces/default/pods/a" {
		t.Errorf("asked for %s", r.URL.RequestURI())
	}
	if ua := r.UserAgent(); !strings.HasPrefix(ua, "skiff/") ||
		!strings.Contains(ua, "("+runtime.GOOS+"/"+runtime.GOARCH+") ") {
		t.Errorf("user agent is %q", ua)
	}
	if r.Header.Get("Impersonate-User") != "jane" || len(r.Header["Impersonate-Group"]) != 2 ||
		r.Header.Get("Impersonate-Extra-Acme%2fscope") != "x" {
		t.Errorf("impersonation headers are %v", r.Header)
	}
	if _, err := New(Config{Server: "https://x", Impersonate: Impersonation{Groups: []string{"a"}}}); err == nil {
		t.Error("impersonation of a group without a user was accepted")
	}
	for _, bad := range []string{"", "host:6443", "ftp://host", "https://", "%"} {
		if _, err := New(Config{Server: bad}); err == nil {
			t.Errorf("server address %q was accepted", bad)
		}
	}
}

// rotating is a credential that is read anew once invalidated.
type rotating struct {
	mu     sync.Mutex // guards what follows
	tokens []string
	reads  int
	readAt time.Time
	valid  bool
}

func (r *rotating) Authorization(context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.valid {
		r.valid, r.readAt = true, time.Now()
		r.reads++
	}
	return "Bearer " + r.tokens[min(r.reads, len(r.tokens))-1], nil
}

func (r *rotating) Invalidate(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.readAt.Before(t) {
		r.valid = false
	}
}

// Rules: WCH-24, AUTH-03
func TestA401ReadsTheTokenAgainAndReplaysOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := "new"
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+want {
				failure(401, "Unauthorized", "")(w, r)
				return
			}
			answer(200, podList("5", ""))(w, r)
		})
		cred := &rotating{tokens: []string{"old", "new"}}
		s := scripted(h.ServeHTTP)
		c := pipeClient(t, s, func(cfg *Config) { cfg.Credentials = cred })
		if _, err := cred.Authorization(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // virtual
		if _, err := List[*pod](t.Context(), c, Query{Resource: pods}, ListOptions{}); err != nil {
			t.Fatal(err)
		}
		if n := len(s.requests()); n != 2 || cred.reads != 2 {
			t.Errorf("%d requests and %d reads, want two of each: one 401, one replay", n, cred.reads)
		}
		want = "never"
		if err := c.Get(t.Context(), pods, Key{"a", "b"}, nil); !IsUnauthorized(err) || len(s.requests()) != 4 {
			t.Errorf("got %v after %d requests, want Unauthorized after two more", err, len(s.requests())-2)
		}
		if err := c.Get(t.Context(), pods, Key{"a", "b"}, nil); err == nil || strings.Contains(err.Error(), "old") ||
			strings.Contains(err.Error(), "new") {
			t.Errorf("the error %v shows a token", err)
		}
	})
}

// Rules: NET-09, NET-19, WCH-23, ERR-04
func TestALaterIsObeyedWithTheSameBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		later := func(code int, header, more string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(b))
				if header != "" {
					w.Header().Set("Retry-After", header)
				}
				failure(code, "TooManyRequests", more)(w, r)
			}
		}
		s := scripted(later(429, "7", ""), later(503, "", `,"details":{"retryAfterSeconds":9}`),
			func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(b))
				answer(201, `{"metadata":{"name":"a","namespace":"default","resourceVersion":"5"}}`)(w, r)
			})
		began := time.Now()
		var got pod
		obj := map[string]any{"metadata": map[string]any{"name": "a"}}
		if err := pipeClient(t, s).Create(t.Context(), pods, "default", obj, &got,
			WriteOptions{FieldManager: "skiff"}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 16*time.Second || took > 18*time.Second {
			t.Errorf("waited %s, want 7 s and 9 s and at most a tenth more", took)
		}
		if len(bodies) != 3 || bodies[0] == "" || bodies[1] != bodies[0] || bodies[2] != bodies[0] ||
			got.ResourceVersion != "5" {
			t.Errorf("bodies %q, answer at %q", bodies, got.ResourceVersion)
		}
	})
}

// Rules: NET-10, NET-20
func TestWhatIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(failure(500, "InternalError", ""))
		if err := pipeClient(t, s).Patch(t.Context(), pods, Key{"a", "b"}, MergePatch, map[string]any{}, nil,
			WriteOptions{}); AsStatus(err) == nil || len(s.requests()) != 1 {
			t.Errorf("got %v after %d requests, want the 500 after one", err, len(s.requests()))
		}
		s = scripted(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "50")
			failure(429, "TooManyRequests", "")(w, r)
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		began := time.Now()
		err := pipeClient(t, s).Get(ctx, pods, Key{"a", "b"}, nil)
		if !IsTooManyRequests(err) || !errors.Is(err, context.Canceled) || time.Since(began) != 5*time.Second {
			t.Errorf("got %v after %s, want both errors when the caller gives up", err, time.Since(began))
		}
	})
}

func TestALaterThatTheCallerCannotWaitForIsHandedToIt(t *testing.T) {
	for name, limit := range map[string]time.Duration{"60": 30 * time.Second, "7200": 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := scripted(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", name)
				failure(429, "TooManyRequests", "")(w, r)
			})
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			err := pipeClient(t, s).Get(ctx, pods, Key{"a", "b"}, nil)
			if !IsTooManyRequests(err) || RetryAfter(err) == 0 || time.Since(began) != 0 || len(s.requests()) != 1 {
				t.Errorf("Retry-After %s: got %v after %s and %d requests, want the 429 at once", name, err,
					time.Since(began), len(s.requests()))
			}
		})
	}
}

// Rules: NET-08
func TestAWriteWhoseAnswerIsLostHasAnUnknownOutcome(t *testing.T) {
	created := 0
	cut := func(w http.ResponseWriter, r *http.Request) {
		created++
		panic(http.ErrAbortHandler) // the server acted, and the connection ends before a byte of the answer
	}
	c := pipeClient(t, scripted(cut))
	err := c.Create(t.Context(), pods, "default", map[string]any{}, nil, WriteOptions{})
	if !UnknownOutcome(err) || created != 1 {
		t.Errorf("got %v after %d creates, want an unknown outcome after one", err, created)
	}
	if err := c.Get(t.Context(), pods, Key{"a", "b"}, nil); err == nil || UnknownOutcome(err) {
		t.Errorf("a get gave %v, want a plain error", err)
	}
	refused, err := New(Config{Server: "http://fake",
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("connection refused")
		}})
	if err != nil {
		t.Fatal(err)
	}
	err = refused.Create(t.Context(), pods, "default", map[string]any{}, nil, WriteOptions{})
	if err == nil || UnknownOutcome(err) || !IsTransient(err) {
		t.Errorf("got %v, want a known, transient failure: nothing was sent", err)
	}
}

// Rules: NET-21
func TestAServerThatNeverAnswersDoesNotHoldACallForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		began := time.Now()
		err := c.Get(t.Context(), pods, Key{"default", "web"}, nil)
		if err == nil || !strings.Contains(err.Error(), "get pods default/web: no answer from fake within 30s") ||
			time.Since(began) != 30*time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

// Rules: WCH-47
func TestARedirectIsNotFollowed(t *testing.T) {
	s := scripted(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://login.example/", http.StatusFound)
	})
	err := pipeClient(t, s).Get(t.Context(), pods, Key{"a", "b"}, nil)
	if AsStatus(err) == nil || AsStatus(err).Code != 302 || !strings.Contains(err.Error(), "redirect") ||
		len(s.requests()) != 1 {
		t.Errorf("got %v after %d requests", err, len(s.requests()))
	}
}

// Rules: ERR-09
func TestEachWarningIsHandedOnOnce(t *testing.T) {
	var got []string
	s := scripted(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Warning", `299 - "old \"thing\"", 299 - "other"`)
		w.Header().Add("Warning", `299 - "old \"thing\""`)
		w.Header().Add("Warning", `nonsense`)
		w.Header().Add("Warning", `299 - "no end`)
		answer(200, `{}`)(w, r)
	})
	c := pipeClient(t, s, func(cfg *Config) { cfg.OnWarning = func(text string) { got = append(got, text) } })
	for range 3 {
		if err := c.Get(t.Context(), pods, Key{"a", "b"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Join(got, "|") != `old "thing"|other` {
		t.Errorf("got %q", got)
	}
}

// Rules: WRT-01, WRT-05, WRT-08, WRT-11, WRT-16, WRT-18, WRT-20, WRT-21
func TestWhatEachWriteSends(t *testing.T) {
	type sent struct{ method, uri, contentType, body string }
	var got sent
	c := pipeClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = sent{r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), string(b)}
		answer(200, `{}`)(w, r)
	}))
	const path = "/api/v1/namespaces/ns/pods"
	const body = `{"metadata":{"name":"web","resourceVersion":"7"}}`
	k, obj := Key{"ns", "web"}, Raw(body) // a map would be written in any order
	for _, tc := range []struct {
		name string
		do   func() error
		want sent
	}{
		{"create", func() error {
			return c.Create(t.Context(), pods, "ns", obj, nil,
				WriteOptions{FieldManager: "skiff", FieldValidation: "Strict"})
		}, sent{"POST", path + "?fieldManager=skiff&fieldValidation=Strict", "application/json", body}},
		{"merge patch", func() error {
			return c.Patch(t.Context(), pods, k, MergePatch, map[string]any{"a": nil}, nil, WriteOptions{DryRun: true})
		}, sent{"PATCH", path + "/web?dryRun=All", "application/merge-patch+json", `{"a":null}`}},
		{"apply", func() error {
			return c.Patch(t.Context(), pods, k, ApplyPatch, map[string]any{}, nil,
				WriteOptions{FieldManager: "skiff", Force: true})
		}, sent{"PATCH", path + "/web?fieldManager=skiff&force=true", "application/apply-patch+yaml", `{}`}},
		{"delete", func() error {
			return c.Delete(t.Context(), pods, k, DeleteOptions{UID: "u", Propagation: Background})
		}, sent{"DELETE", path + "/web", "application/json", `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u"},"propagationPolicy":"Background"}`}},
		{"delete without preconditions", func() error {
			return c.Delete(t.Context(), pods, k, DeleteOptions{})
		}, sent{"DELETE", path + "/web", "application/json", `{"kind":"DeleteOptions","apiVersion":"v1"}`}},
	} {
		if err := tc.do(); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if got != tc.want {
			t.Errorf("%s sent\n     %q\nwant %q", tc.name, got, tc.want)
		}
	}
	got = sent{}
	if err := c.Patch(t.Context(), pods, k, ApplyPatch, obj, nil, WriteOptions{}); err == nil || got.method != "" {
		t.Errorf("an apply without field manager gave %v and sent %v", err, got)
	}
}

// Rules: LE-10
func TestAGuardedClientAsksBeforeEachWriteAndNeverBeforeARead(t *testing.T) {
	s := scripted(answer(200, `{"metadata":{"namespace":"default","name":"a"}}`))
	var refused error
	c := pipeClient(t, s).Guard(func() error { return refused })
	guarded := c.Limit([]Right{{Resource: pods, Verbs: []string{"get", "patch"}}}) // keeps the guard
	patch := func() error {
		return guarded.Patch(t.Context(), pods, Key{"default", "a"}, MergePatch, map[string]any{}, nil, WriteOptions{})
	}
	if err := patch(); err != nil {
		t.Fatal(err)
	}
	refused = errors.New("this process does not lead")
	err := patch()
	if !errors.Is(err, refused) || UnknownOutcome(err) || len(s.requests()) != 1 {
		t.Errorf("error %v after %d requests", err, len(s.requests()))
	}
	var none *NoAnswerError
	if !errors.As(err, &none) {
		t.Errorf("error %v is held against the object", err)
	}
	if err := guarded.Get(t.Context(), pods, Key{"default", "a"}, nil); err != nil {
		t.Error(err)
	}
}
