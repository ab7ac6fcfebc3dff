package e2e

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"skiff/internal/testcluster/apiserver"
)

// Hostile is an API server that is out to harm its clients: the embedded server, some of whose requests an attack
// answers instead, until Calm.
type Hostile struct {
	Server string // URL
	CAFile string
	API    *API // of the embedded server, which goes on behind the attack

	attack   attack
	embedded *apiserver.Server
	http     *httptest.Server
	calm     chan struct{}
	calmOnce sync.Once
	attacks  atomic.Int64
}

// attack is one way to harm a client.
type attack struct {
	name string
	// on are the resources whose reads it answers; "writes": all writes.
	on string
	// stream answers a list that is streamed, watch a watch, list a paged list. What is nil is answered like a list,
	// and a streamed list without an answer is refused, so that a paged one is asked for.
	stream, watch, list func(w *assault)
	standby             bool // skiff has to wait for a lease that another process holds
}

// StartHostile starts a server with an attack under way.
func StartHostile(a attack, dir string) (*Hostile, error) {
	h := &Hostile{attack: a, embedded: apiserver.New(apiserver.Options{}), calm: make(chan struct{}),
		CAFile: filepath.Join(dir, "hostile.crt")}
	h.http = httptest.NewUnstartedServer(h)
	h.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.http.EnableHTTP2 = true
	h.http.StartTLS()
	h.Server = h.http.URL
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.http.Certificate().Raw})
	if err := os.WriteFile(h.CAFile, certificate, 0o600); err != nil {
		return nil, fmt.Errorf("write the certificate of the hostile server: %w", err)
	}
	var err error
	h.API, err = NewAPI(h.Server, h.CAFile, admin.Token)
	return h, err
}

// Calm ends the attack, and breaks the connections of its answers.
func (h *Hostile) Calm() { h.calmOnce.Do(func() { close(h.calm) }) }

// Attacks is how many requests the attack has answered.
func (h *Hostile) Attacks() int { return int(h.attacks.Load()) }

// Close ends the server. The attack must have ended before.
func (h *Hostile) Close() {
	h.embedded.Close()
	h.http.CloseClientConnections()
	h.http.Close()
}

// ServeHTTP attacks skiff, and no other client.
func (h *Hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := h.answer(r)
	if answer == nil {
		h.embedded.ServeHTTP(w, r)
		return
	}
	h.attacks.Add(1)
	w.Header().Set("Content-Type", "application/json")
	a := &assault{w: w, r: r, calm: h.calm}
	answer(a)
	if a.over() {
		panic(http.ErrAbortHandler) // the client sees the connection break
	}
}

// answer is what the attack does to a request; nil: nothing.
func (h *Hostile) answer(r *http.Request) func(*assault) {
	select {
	case <-h.calm:
		return nil
	default:
	}
	query := r.URL.Query()
	attacked := false
	for _, on := range strings.Fields(h.attack.on) {
		attacked = attacked || on == lastSegment(r) || on == "writes" && r.Method != http.MethodGet
	}
	a := h.attack
	switch {
	case !attacked || !strings.HasPrefix(r.UserAgent(), "skiff"):
		return nil
	case query.Get("sendInitialEvents") == "true" && a.stream == nil:
		return func(w *assault) {
			w.w.WriteHeader(http.StatusBadRequest)
			w.writes(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":400,"reason":"BadRequest"}`)
		}
	case query.Get("sendInitialEvents") == "true":
		return a.stream
	case query.Get("watch") == "true" && a.watch != nil:
		return a.watch
	}
	return a.list
}

// assault is one hostile answer.
type assault struct {
	w      http.ResponseWriter
	r      *http.Request
	calm   chan struct{}
	failed bool // the client has gone
}

// over says that the client has gone, or the attack has ended.
func (a *assault) over() bool {
	select {
	case <-a.calm:
		return true
	case <-a.r.Context().Done():
		return true
	default:
		return a.failed
	}
}

// writes sends text.
func (a *assault) writes(text string) {
	if _, err := io.WriteString(a.w, text); err != nil {
		a.failed = true
	}
}

// forever calls f with 0, 1, 2 ... and sends what it returns, until the attack is over.
func (a *assault) forever(f func(i int) string) {
	for i := 0; !a.over(); i++ {
		a.writes(f(i))
	}
}

// drips is forever with a second between two answers.
func (a *assault) drips(f func(i int) string) {
	a.forever(func(i int) string {
		_ = http.NewResponseController(a.w).Flush() // a client that has gone shows in the next write
		a.rests(time.Second)
		return f(i)
	})
}

// rests waits, or until the attack is over.
func (a *assault) rests(d time.Duration) {
	_ = http.NewResponseController(a.w).Flush()
	select {
	case <-a.calm:
	case <-a.r.Context().Done():
	case <-time.After(d):
	}
}

// kind is the kind of the resource that is asked for.
func (a *assault) kind() string {
	return map[string]string{"pods": "Pod", "services": "Service", "deployments": "Deployment", "redis": "Redis",
		"webservers": "WebServer", "restarttriggers": "RestartTrigger"}[lastSegment(a.r)]
}

func lastSegment(r *http.Request) string {
	return r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
}
