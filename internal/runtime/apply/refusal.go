package apply

import (
	"strconv"
	"time"
)

// Refusal is a request that the server refused for what is in it. A controller is woken by many things, its own status
// writes among them, and the same request would be refused again; so the answer is kept for a while. Not for ever:
// what refused it may be a webhook, a quota or an allocation. A request is told from others by a text. The zero value
// remembers nothing.
type Refusal struct {
	of    string
	err   error
	until time.Time
	wait  time.Duration
}

// A refused request is sent again after a second at the earliest, then after two, four, and once per minute in the
// end.
const (
	firstRefusal = time.Second
	maxRefusal   = time.Minute
)

// Standing returns the refusal that a request would meet again, nil if it is worth a try.
func (r *Refusal) Standing(of string) error {
	if r.of != of || !time.Now().Before(r.until) {
		return nil
	}
	return r.err
}

// Note remembers a refusal.
func (r *Refusal) Note(of string, err error) {
	wait := firstRefusal
	if r.of == of {
		wait = min(max(2*r.wait, firstRefusal), maxRefusal)
	}
	*r = Refusal{of: of, err: err, until: time.Now().Add(wait), wait: wait}
}

// requestOf is the text for a request to make a child of one state, known by its hash and fingerprint, another one; 0
// if there is no child yet.
func requestOf(hash string, content uint64) string {
	return hash + " " + strconv.FormatUint(content, 16)
}
