package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/process"
)

// terminalError marks an error that only a change can help.
type terminalError struct{ error }

func (e *terminalError) Unwrap() error { return e.error }

// reasonedError is an error with a reason; see WithReason.
type reasonedError struct {
	error
	reason string
}

func (e *reasonedError) Unwrap() error { return e.error }

// WithReason gives an error a reason of one word, which a condition has as well. A status has a line for each reason.
func WithReason(reason string, err error) error { return &reasonedError{err, reason} }

// timeoutError is the failure of a run after its deadline.
type timeoutError struct {
	limit time.Duration
	err   error
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("reconcile: not done within its deadline of %v: %v", e.limit, e.err)
}

func (e *timeoutError) Unwrap() error { return e.err }

// Terminal marks err as an error that no retry helps: the declaration must change first. The key runs again at the
// next change, and without a change after SlowDelay, because the obstacle need not be the object itself (another
// team's webhook, a quota). Errors of the server are classified without Terminal.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

// HookFailed is the reason of an error of a hook, and of the condition that says so.
const HookFailed = "HookFailed"

// TerminalFor is Terminal with a reason.
func TerminalFor(reason string, err error) error { return Terminal(WithReason(reason, err)) }

// ReasonOf is one word for the reason of err, equal for two errors with the same reason.
func ReasonOf(err error) string {
	if r := new(reasonedError); errors.As(err, &r) {
		return r.reason
	}
	if s := kube.AsStatus(err); s != nil && s.Reason != "" {
		return kube.Printable(s.Reason, maxReasonWord)
	}
	if errors.As(err, new(*kube.NoAnswerError)) {
		return "NoAnswer"
	}
	return "Error"
}

// maxReasonWord bounds a word that the server chooses.
const maxReasonWord = 40

// IsTerminal says whether trying again does not help: all of err is marked by Terminal, or is a refusal of
// the server that the same request will meet again.
func IsTerminal(err error) bool { return err != nil && classify(err) == terminal }

// class says what kind of retry an error deserves, the hardest of a joined error's parts counting.
type class int

const (
	terminal class = iota // waits for a change
	passing               // backoff for as long as it takes: not the object's fault, or over with the next event
	// a right is missing: half a minute between two tries at most, and after ten minutes as failing
	forbidden
	failing // backoff, then the longest interval
)

// classify finds the class of err. errors.As would take the first part of a joined error for the whole, so classify
// walks the chain by hand.
func classify(err error) class {
	switch e := err.(type) {
	case nil, *terminalError:
		return terminal
	case *process.Panic:
		return failing
	case *timeoutError:
		// The cause shows in the request under way: a server without an answer is no fault of the key.
		if kube.IsTransient(e.err) {
			return classify(e.err)
		}
		return failing
	case *kube.Status:
		return classOf(e)
	case *kube.NoAnswerError:
		return passing
	case interface{ Unwrap() []error }:
		hardest := terminal
		for _, part := range e.Unwrap() {
			hardest = max(hardest, classify(part))
		}
		return hardest
	}
	if err == context.DeadlineExceeded {
		return passing // there was no time left to ask again
	}
	if inner := errors.Unwrap(err); inner != nil {
		return classify(inner)
	}
	return failing
}

// classOf finds the class of an answer. 401 is about skiff, not about the object: a token renewed too late must not
// park every key. 403 is no terminal error: a grant may come at any time, and changes nothing in the object. In a
// namespace under deletion nothing can be created, though.
func classOf(s *kube.Status) class {
	switch {
	case kube.IsRefused(s), kube.IsNamespaceTerminating(s):
		return terminal
	case kube.IsTransient(s), s.Code == http.StatusConflict, s.Code == http.StatusUnauthorized:
		return passing
	case s.Code == http.StatusForbidden:
		return forbidden
	}
	return failing
}

const (
	// stallAfter is the number of failures in a row after which a key is tried only every SlowDelay, if the failures
	// are not of the class passing and have gone on for stallTime: an API server fails in many ways for a while after
	// its start, and ten failures take a few seconds.
	stallAfter = 10
	stallTime  = 2 * time.Minute
	// A missing right (403) is asked for every forbiddenDelay for forbiddenTime: long enough for a person to notice
	// and grant the right. The first quickForbidden failures have a shorter backoff.
	forbiddenDelay = 30 * time.Second
	forbiddenTime  = 10 * time.Minute
	quickForbidden = 12
	// newsAfter is the number of failures in a row after which a failure of the class passing is worth reporting to a
	// user: a few hundred milliseconds of backoff, less than a restart of the API server's leader takes.
	newsAfter = 6
	// SlowDelay is the longest pause, and the pause after a terminal error, plus up to half at random. A write refused
	// by the server is then sent less than once per five minutes. A change of the object runs at once all the same.
	SlowDelay = 5 * time.Minute
)

// retries are the pauses of a key that fails. The first pause is long enough for a cache one event behind to catch up,
// and too short to be noticed. With the longest pause, however long an outage of the server was, the last key is tried
// again within two minutes, and ten thousand failing keys make about a hundred requests per second.
var retries = backoff.Backoff{Min: 5 * time.Millisecond, Max: 2 * time.Minute, Jitter: 0.5}

// Next is the decision after a failed run.
type Next struct {
	Brief   bool // it is of the class passing, and too recent to report
	Stalled bool // the key is tried at the longest interval, or waits for a change
	// Step is for the end of a condition's message. Step follows from the error alone: an interval, or a count of
	// failures, would differ between processes, and two processes that work for one object would write in turn.
	Step string

	class class
	delay time.Duration // at least; up to half of it is added
	cause string        // of the run that follows
}

// Severity returns the severity of a Problem for the failure.
func (n Next) Severity() health.Severity {
	if n.Stalled {
		return health.Stalled
	}
	return health.Failing
}

// NextOf returns the decision for a run, given its ctx, that ends with err, all errors of the run joined.
func NextOf(ctx context.Context, err error) Next {
	before, _ := ctx.Value(streakKey{}).(streak)
	return next(err, before, time.Now())
}

// next returns the decision after err and the earlier failures.
func next(err error, before streak, now time.Time) Next {
	n := Next{class: classify(err), cause: retryCause, delay: kube.RetryAfter(err), Step: "skiff tries again"}
	n.Brief = n.class == passing && before.failures < newsAfter
	all := before.and(n.class, now)
	switch {
	case n.class == terminal:
		n.Stalled, n.delay, n.cause = true, SlowDelay, refusedCause
	case n.class == failing && all.failing >= stallAfter && now.Sub(all.since) >= stallTime,
		n.class == forbidden && now.Sub(all.forbidden) >= forbiddenTime:
		n.Stalled, n.delay, n.cause = true, SlowDelay, manyErrorsCause
	}
	return n
}

// pause returns how long the key waits, given the number of earlier failures: at least as long as the error asks for.
func (n Next) pause(failures int) time.Duration {
	if n.class == forbidden && n.delay == 0 && failures >= quickForbidden {
		return forbiddenDelay*2/3 + rand.N(forbiddenDelay/3)
	}
	return max(retries.After(failures), backoff.Spread(n.delay, retries.Jitter))
}
