package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Contact is the state of the contact with a server.
type Contact struct {
	Heard  time.Time // when the last byte of an answer came; zero: never
	Served time.Time // time of the last answer that needed the storage of the server; zero: never
	Since  time.Time // since when requests have waited for such an answer; zero: none waits

	// The rest is empty while no request waits.
	Waiting      string // the request with the longest wait, or the first failure: "patch leases default/skiff"
	Err          error  // how the last request without an answer ended; nil: none has ended
	NoCredential bool   // the requests wait for a credential
}

// cancelledEarly is the longest wait of a cancelled request that tells nothing about the server. A request that waited
// longer would probably have gone on waiting.
const cancelledEarly = 5 * time.Second

// contact keeps the Contact of a client. Two kinds of signs are distinguished: an API server whose etcd hangs still
// opens watches and sends bookmarks, from memory.
type contact struct {
	mu     sync.Mutex // guards the rest
	heard  time.Time
	served time.Time
	waits  map[*wait]struct{} // requests under way
	logged bool               // the outage since served has been logged at level WARN
	failed *wait              // the first failure since served; nil: none
	err    error              // how the last of those ended
}

// wait is a request without an answer so far.
type wait struct {
	began      time.Time
	verb, what string // of the request
	credential bool   // not sent yet, for lack of a credential
}

// begin notes a new request, which waits for the credential first.
func (c *contact) begin(r *request) *wait {
	w := &wait{began: time.Now(), verb: r.verb, what: r.what, credential: true}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits == nil {
		c.waits = map[*wait]struct{}{}
	}
	c.waits[w] = struct{}{}
	return w
}

// sending notes the credential of a request.
func (c *contact) sending(w *wait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.credential = false
}

// drop forgets a request that was not sent because of the client.
func (c *contact) drop(w *wait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waits, w)
}

// fail notes a request without an answer.
func (c *contact) fail(w *wait, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waits, w)
	if errors.Is(err, context.Canceled) && time.Since(w.began) < cancelledEarly {
		return
	}
	c.err = err
	if c.failed == nil {
		c.failed = &wait{began: later(w.began, c.served), verb: w.verb, what: w.what}
	}
	c.failed.credential = w.credential
}

// answer notes the header of an answer; see serves.
func (c *contact) answer(w *wait, serves bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waits, w)
	c.heard = time.Now()
	if serves {
		c.serveLocked()
	}
}

// refuse notes an answer given from memory: an unknown user (401), a missing right (403), too many requests (429).
// Only the wait of the same request ends; a 401 ends all waits, because every request would get the same answer.
func (c *contact) refuse(w *wait, code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waits, w)
	c.heard = time.Now()
	if f := c.failed; f != nil && (code == http.StatusUnauthorized || f.verb == w.verb && f.what == w.what) {
		c.logged, c.failed, c.err = false, nil, nil
	}
}

// event notes the change of an object on a watch.
func (c *contact) event() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serveLocked()
}

func (c *contact) serveLocked() {
	c.served, c.logged, c.failed, c.err = time.Now(), false, nil, nil
}

// serves reports whether an answer shows a server with working storage: the answer to a short request about a resource
// does. The header of a list or watch, and a page such as /version, come from memory.
func serves(r *request) bool { return !r.long && r.resource != (Resource{}) }

// outage reports whether an error answer stands for a missing or a waiting server: the page of a load balancer, a 504,
// or a 500 that passes on an error of etcd without a leader or out of reach.
func outage(s *Status) bool {
	switch s.Code {
	case http.StatusGatewayTimeout:
		return s.foreign || !IsTooLargeResourceVersion(s)
	case http.StatusInternalServerError:
		return s.foreign || strings.HasPrefix(s.Message, "etcdserver: ") ||
			strings.HasPrefix(s.Message, "rpc error: code = Unavailable ")
	}
	return s.foreign && s.Code >= 500
}

// refusal reports whether an error answer needs no storage; see refuse.
func refusal(s *Status) bool {
	return s.Code == http.StatusUnauthorized || s.Code == http.StatusForbidden || s.Code == http.StatusTooManyRequests
}

func (c *contact) state() Contact {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Contact{Heard: c.heard, Served: c.served}
	first := c.failed
	for w := range c.waits {
		if first == nil || w.began.Before(first.began) {
			first = w
		}
	}
	if first == nil {
		return s
	}
	s.Since, s.Waiting = later(first.began, c.served), first.verb+" "+first.what
	s.Err, s.NoCredential = c.err, first.credential
	return s
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// reader passes an answer through and notes the arrival of bytes.
func (c *contact) reader(r io.Reader) io.Reader { return &heardReader{r, c} }

type heardReader struct {
	io.Reader
	contact *contact
}

func (r *heardReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.contact.mu.Lock()
		r.contact.heard = time.Now()
		r.contact.mu.Unlock()
	}
	return n, err
}
