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

// Contact is what a client knows of the answers of its server.
type Contact struct {
	Heard  time.Time // when the last byte of an answer came; zero: never
	Served time.Time // when the last answer came that only a working server with its storage can give; zero: never
	Since  time.Time // since when requests have waited for such an answer; zero: none waits

	// The rest is empty while no request waits.
	Waiting      string // the request that waits for longest, or failed first: "patch leases default/skiff"
	Err          error  // how the last request without an answer ended; nil: none has ended
	NoCredential bool   // what the requests wait for is a credential
}

// cancelledEarly is how long a request may have waited that its caller cancels, for it to say nothing of the server.
// One that has waited longer would most likely have gone on waiting.
const cancelledEarly = 5 * time.Second

// contact keeps the Contact of a client. Two kinds of signs are told apart, because an API server whose etcd hangs
// still opens watches and sends bookmarks: it does that from memory.
type contact struct {
	mu     sync.Mutex // guards the rest
	heard  time.Time
	served time.Time
	waits  map[*wait]struct{} // requests under way
	logged bool               // since served, a line of the log at level WARN has said that there is no answer
	failed *wait              // the first that ended without an answer since served; nil: none
	err    error              // how the last of those ended
}

// wait is a request that has no answer yet.
type wait struct {
	began      time.Time
	verb, what string // of the request
	credential bool   // it has not been sent, because it has no credential
}

// begin notes that a request waits, for its credential at first.
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

// sending notes that a request has its credential.
func (c *contact) sending(w *wait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.credential = false
}

// drop forgets a request that was not sent, for a reason that is not the server's.
func (c *contact) drop(w *wait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waits, w)
}

// fail notes that a request got no answer.
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

// answer notes that the header of an answer has come; see serves.
func (c *contact) answer(w *wait, serves bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waits, w)
	c.heard = time.Now()
	if serves {
		c.serveLocked()
	}
}

// refuse notes an answer that a server gives before it looks: whom it does not know (401), who has no right (403) and
// who has to wait (429), it says from memory. That ends the waiting of the same request, and a 401 that of all others,
// which would get it too.
func (c *contact) refuse(w *wait, code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waits, w)
	c.heard = time.Now()
	if f := c.failed; f != nil && (code == http.StatusUnauthorized || f.verb == w.verb && f.what == w.what) {
		c.logged, c.failed, c.err = false, nil, nil
	}
}

// event notes that a change of an object has come on a watch.
func (c *contact) event() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serveLocked()
}

func (c *contact) serveLocked() {
	c.served, c.logged, c.failed, c.err = time.Now(), false, nil, nil
}

// serves says whether an answer shows that the server works with its storage: that of a short request about a resource
// does. The header of a list or watch, and a page such as /version, come from memory.
func serves(r *request) bool { return !r.long && r.resource != (Resource{}) }

// outage says whether an error answer stands for a server that is not there, or waits in vain itself: the page of a
// load balancer, a 504, or a 500 that passes on what etcd says when it has no leader or cannot be reached.
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

// refusal says whether an error answer is one that needs no storage; see refuse.
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

// reader passes an answer through and notes when its bytes come.
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

// Contact returns the state of the contact with the server. Clients that Guard and Limit derive share it.
func (c *Client) Contact() Contact { return c.contact.state() }

// FirstToLog says whether its caller is the first to log, at level WARN, that there is no answer, since the last one
// came. An outage is one such line; what other parts have to say of it is logged at level INFO.
func (c *Client) FirstToLog() bool {
	c.contact.mu.Lock()
	defer c.contact.mu.Unlock()
	first := !c.contact.logged
	c.contact.logged = true
	return first
}

// Ping asks for one object of a collection, only for an answer of any kind: Contact has what came of it. It reads from
// the storage of the server, needs no right that a list does not need, and keeps nothing of the answer.
func (c *Client) Ping(ctx context.Context, q Query) {
	r, err := q.one()
	if err != nil {
		return // the query of a mirror is valid: it has been listed
	}
	if resp, err := c.send(ctx, &r); err == nil {
		drain(resp.Body)
	}
}
