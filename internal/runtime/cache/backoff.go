package cache

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/kube"
)

const (
	// The pause after a failure grows from 0.8 s to 30 s by factors of 2, with full jitter: client-go's numbers. At
	// the end a server that is down gets four requests a minute on average.
	minBackoff = 800 * time.Millisecond
	maxBackoff = 30 * time.Second
	// healthy is how long a watch must live to make past failures forgotten.
	healthy = 2 * time.Minute
	// shortWatch is the age of a watch below which even a clean end is a failure. Otherwise a server that ends each
	// watch at once would be asked more than a thousand times a second.
	shortWatch = time.Second

	maxMissing = 10 * time.Second
	// quickMissing is how many requests for a missing resource have the ordinary pauses first: a server just started
	// answers 403 and 404 until its own rules and CRDs are loaded (seen on v1.36, a second).
	quickMissing = 3
	// answeredFailures is how many failures remain counted after an answer: those without an answer were about the
	// connection, and the first answers are retried quickly again.
	answeredFailures = 2
)

var (
	retries = backoff.Backoff{Min: minBackoff, Max: maxBackoff, Jitter: 1}
	// A missing right or CRD is asked for every 5 to 10 s without growth, so that the appearance is noticed within 15
	// s and 60 waiting mirrors are still below 12 requests a second.
	whileMissing = backoff.Backoff{Min: maxMissing, Max: maxMissing, Jitter: 0.5}
	// An optional resource that is not there is asked for again soon, as a server just started may not know yet, and
	// then once a minute, so that an installation is noticed before much depends on the new objects.
	whileUnserved = backoff.Backoff{Min: 5 * time.Second, Max: time.Minute, Jitter: 0.2}
	// A request called wrong twice by the server (an unknown field selector) becomes right only by a new server or
	// new options: every minute or two.
	whileRejected = backoff.Backoff{Min: 2 * time.Minute, Max: 2 * time.Minute, Jitter: 0.5}
)

// pauseAfter returns the pause after err and a number of failures before.
func pauseAfter(err error, failures int) time.Duration {
	pause := retries.After(failures)
	switch {
	case missing(err):
		pause = whileMissing.After(0)
	case kube.IsRefused(err) && failures > 0:
		pause = whileRejected.After(0)
	}
	if after := kube.RetryAfter(err); after > 0 {
		// At least as long as asked, and not all at once.
		pause = max(pause, after+retries.After(0))
	}
	return pause
}

// missing says that a right is missing, or the resource on the server. Retrying alone does not help, and yet a grant
// or an installation must be noticed.
func missing(err error) bool { return kube.IsForbidden(err) || kube.IsNotFound(err) }

// expired says that the version asked for cannot be served: no longer there, or not yet reached.
func expired(err error) bool { return kube.IsGone(err) || kube.IsTooLargeResourceVersion(err) }

// busy says that the server asks to wait. The request and the resource version are fine.
func busy(err error) bool {
	s := kube.AsStatus(err)
	return kube.IsTooManyRequests(err) || s != nil && s.Code == http.StatusServiceUnavailable
}

// failing says that the server could not serve a version because of a fault of its own: an internal error, or a
// version not reached yet.
func failing(err error) bool {
	s := kube.AsStatus(err)
	return s != nil && (s.Code == http.StatusInternalServerError || s.Code == http.StatusGatewayTimeout)
}

// offline says that there was no answer at all.
func offline(err error) bool { return kube.AsStatus(err) == nil }

// logAfter is how long a server may fail by a fault of its own before a line of the log: a server just started
// answers with 429, 500 and 503 for some seconds, and then no more.
const logAfter = 10 * time.Second

// quietExpired is how many failures may go before an expired version without a line of the log. While a definition is
// updated, the server answers 429 and then 410; after another update the version of the next list has expired, too
// (seen on v1.36). No update explains five in a row.
const quietExpired = 4

// problemClass is the common part of two equal problems: the innermost error, without the request around and without
// the numbers of a single try (ports, versions).
func problemClass(err error) string {
	if s := kube.AsStatus(err); s != nil {
		return fmt.Sprintf("%d %s", s.Code, s.Reason)
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, err.Error())
}

// problem is an error as text, with the HTTP code first.
func problem(err error) string {
	if err == nil {
		return ""
	}
	if s := kube.AsStatus(err); s != nil && s.Code != 0 {
		return fmt.Sprintf("%d %s: %v", s.Code, s.Reason, err)
	}
	return err.Error()
}
