package controller

import (
	"context"
	"math/rand/v2"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/queue"
)

const (
	// stallAfter is the number of failures in a row after which a key is tried only every SlowDelay, if they do not
	// pass by themselves and have gone on for stallTime: an API server that has just started fails in many ways for a
	// while, and ten failures take it a few seconds.
	stallAfter = 10
	stallTime  = 2 * time.Minute
	// A missing right (403) is asked for every forbiddenDelay for forbiddenTime: long enough for the person who sees
	// that it is missing. Until then the queue's backoff is shorter for quickForbidden failures.
	forbiddenDelay = 30 * time.Second
	forbiddenTime  = 10 * time.Minute
	quickForbidden = 12
	// newsAfter is the number of failures in a row after which one that should pass by itself is worth telling a user:
	// a few hundred milliseconds of backoff, which a restart of the API server's leader takes longer than.
	newsAfter = 6
	// SlowDelay is the longest pause, and that after a terminal error, plus up to half of it at random. A write that
	// the server refuses is then sent less than once per five minutes (ERR-08). A change of the object runs at once
	// all the same.
	SlowDelay = 5 * time.Minute
)

// Next is what follows from a run that fails.
type Next struct {
	Brief   bool // it should pass by itself, and is too recent to report
	Stalled bool // the key is tried at the longest interval, or waits for a change
	// Step is for the end of a condition's message. It is the same for each attempt, because a new message is a write.
	Step string

	class class
	delay time.Duration // at least; up to half of it is added
	cause string        // of the run that follows
}

// NextOf returns what follows if the run that ctx belongs to ends with err, all that went wrong in it.
func NextOf(ctx context.Context, err error) Next {
	before, _ := ctx.Value(streakKey{}).(streak)
	return next(err, before, time.Now())
}

// next returns what follows from err after the failures before it.
func next(err error, before streak, now time.Time) Next {
	n := Next{class: classify(err), cause: retryCause, delay: kube.RetryAfter(err)}
	n.Brief = n.class == passing && before.failures < newsAfter
	all := before.and(n.class, now)
	switch {
	case n.class == terminal:
		n.Stalled, n.delay, n.cause = true, SlowDelay, refusedCause
		n.Step = "skiff tries again when something changes, and every 5 to 8 minutes"
	case n.class == failing && all.failing >= stallAfter && now.Sub(all.since) >= stallTime,
		n.class == forbidden && now.Sub(all.forbidden) >= forbiddenTime:
		n.Stalled, n.delay, n.cause = true, SlowDelay, manyErrorsCause
		n.Step = "skiff tries again every 5 to 8 minutes, and at once when something changes"
	case n.class == forbidden && n.delay == 0:
		n.Step = "skiff tries again within 30 seconds"
	default:
		n.Step = "skiff tries again within 2 minutes"
	}
	return n
}

// retry queues the run that follows, and returns how long it has to wait.
func (c *Controller) retry(item queue.Item, n Next, err error) time.Duration {
	c.streaks.add(item.Key, n, err)
	if n.class == forbidden && n.delay == 0 && item.Failures >= quickForbidden {
		d := forbiddenDelay*2/3 + rand.N(forbiddenDelay/3)
		c.queue.AddAfter(item.Key, d, n.cause)
		return d
	}
	return c.queue.RetryAfter(item.Key, n.delay, n.cause)
}
