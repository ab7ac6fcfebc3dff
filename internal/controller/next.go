package controller

import (
	"context"
	"time"

	"skiff/internal/kube"
	"skiff/internal/queue"
)

const (
	// stallAfter is the number of failures in a row after which a key goes to the slow lane, if they do not pass by
	// themselves. With the queue's backoff that is after three to five seconds.
	stallAfter = 10
	// newsAfter is the number of failures in a row after which one that should pass by itself is worth telling a user: a few
	// hundred milliseconds of backoff, which a restart of the API server's leader takes longer than.
	newsAfter = 6
	// SlowDelay is the pause of the slow lane and after a terminal error, plus up to half of it at random. A
	// write that the server refuses is then sent less than once per five minutes (ERR-08). A change of the
	// object runs at once all the same.
	SlowDelay = 5 * time.Minute
	// maxRetryAfter bounds what we let a server make a key wait: a wrong number must not be for ever.
	maxRetryAfter = 10 * time.Minute
)

// Next is what follows from a run that fails.
type Next struct {
	Brief   bool   // it should pass by itself, and has not lasted long enough to bother anybody with it
	Stalled bool   // the key is in the slow lane, or waits for a change
	Step    string // for the end of a condition's message; the same for each attempt, because a new message is a write

	class class
	delay time.Duration // at least; up to half of it is added
	cause string        // of the run that follows
}

// NextOf returns what follows if the run that ctx belongs to ends with err, all that went wrong in it.
func NextOf(ctx context.Context, err error) Next {
	failures, _ := ctx.Value(failuresKey{}).(int)
	return next(err, failures)
}

// next returns what follows from err after a number of failures before it.
func next(err error, failures int) Next {
	n := Next{class: classify(err), cause: "retry after an error", delay: min(kube.RetryAfter(err), maxRetryAfter)}
	n.Brief = n.class == passing && failures < newsAfter
	switch {
	case n.class == terminal:
		n.Stalled, n.delay, n.cause = true, SlowDelay, "look again after a terminal error"
		n.Step = "skiff tries again when something changes, and every 5 to 8 minutes"
	case n.class == failing && failures+1 >= stallAfter:
		n.Stalled, n.delay, n.cause = true, SlowDelay, "retry from the slow lane"
		n.Step = "skiff tries again every 5 to 8 minutes, and at once when something changes"
	case n.delay*3/2 > queue.DefaultMaxDelay:
		n.Step = "skiff tries again within 15 minutes, as the API server asks for"
	case n.class == failing && n.delay == 0:
		n.Step = "skiff tries again within seconds"
	default:
		n.Step = "skiff tries again within 2 minutes"
	}
	return n
}
