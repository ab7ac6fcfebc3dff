package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// tokens are credentials that cannot be read.
type tokens struct{}

func (tokens) Authorization(context.Context) (string, error) {
	return "", errors.New("exec plugin: exit status 1")
}
func (tokens) Invalidate(time.Time) {}

// Whatever keeps a request from being answered is not the fault of the key that it was sent for, and no reason to
// park it: when the server is back, so is the key, within the two minutes of the backoff.
//
// Rules: ERR-08
func TestARequestWithoutAnAnswerIsNoFailureOfItsKey(t *testing.T) {
	slow := make(chan struct{})
	defer close(slow)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/namespaces/default/pods/body":
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind":`))
			w.(http.Flusher).Flush()
		case "/api/v1/namespaces/default/pods/slow":
			<-slow
		}
		panic(http.ErrAbortHandler) // over HTTP/2: RST_STREAM
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	trusted := &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	get := func(ctx context.Context, name string, c kube.Config) error {
		c.Server = server.URL
		client, err := kube.New(c)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		return fmt.Errorf("read pod: %w", client.Get(ctx, kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"},
			key(name), nil))
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	cut := get(t.Context(), "web", kube.Config{TLS: trusted})
	for name, err := range map[string]error{
		"stream reset":        cut,
		"reset in the answer": get(t.Context(), "body", kube.Config{TLS: trusted}),
		"unknown certificate": get(t.Context(), "web", kube.Config{}),
		"no token":            get(t.Context(), "web", kube.Config{TLS: trusted, Credentials: tokens{}}),
		"run out of time":     &timeoutError{time.Minute, get(short, "slow", kube.Config{TLS: trusted})},
		"token refused":       &kube.Status{Code: http.StatusUnauthorized},
	} {
		if got := classify(err); got != passing {
			t.Errorf("%s: class %d of %v, want %d", name, got, err, passing)
		}
	}
	if got := classify(errors.Join(cut, errors.New("plain"))); got != failing {
		t.Errorf("with another error beside it: class %d, want %d", got, failing)
	}
	if got := classify(fmt.Errorf("reconcile: %w", errors.Join(cut, errors.New("plain")))); got != failing {
		t.Errorf("with another error beside it, wrapped: class %d, want %d", got, failing)
	}
}
