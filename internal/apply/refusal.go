package apply

import "time"

// Refusal is a request that the server refused for what is in it. A controller is woken by many things, its own status
// writes among them, and the same request would be refused again; so the answer is kept for a while. Not for ever: what
// refused it may be a webhook, a quota or an allocation. T says what the request was. The zero value remembers nothing.
type Refusal[T comparable] struct {
	of    T
	err   error
	until time.Time
	wait  time.Duration
}

// A refused request is sent again after a second at the earliest, then after two, four, and once per minute in the end.
const (
	firstRefusal = time.Second
	maxRefusal   = time.Minute
)

// Standing returns the refusal that a request would meet again, nil if it is worth a try.
func (r *Refusal[T]) Standing(of T) error {
	if r.of != of || !time.Now().Before(r.until) {
		return nil
	}
	return r.err
}

// Note remembers a refusal.
func (r *Refusal[T]) Note(of T, err error) {
	wait := firstRefusal
	if r.of == of {
		wait = min(max(2*r.wait, firstRefusal), maxRefusal)
	}
	*r = Refusal[T]{of: of, err: err, until: time.Now().Add(wait), wait: wait}
}

// request is what an Applier has asked for.
type request struct {
	hash    string // of the desired state
	content uint64 // of the live child; 0: there was none
}
