package cache

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"skiff/internal/runtime/backoff"
	"skiff/internal/runtime/health"
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
	// A request called wrong twice by the server (an unknown field selector) becomes right only by a new server or
	// new options: every minute or two.
	whileRejected = backoff.Backoff{Min: 2 * time.Minute, Max: 2 * time.Minute, Jitter: 0.5}
)

// fail ends a step with a pause before the next phase.
func (r *Reflector[T]) fail(s state[T], err error, next phase) state[T] {
	if s.silent && !offline(err) {
		s.failures = min(s.failures, answeredFailures)
	}
	s.silent = false
	s = r.report(s, err)
	switch {
	case !missing(err):
		s.pause, s.missing = pauseAfter(err, s.failures), 0
		s.failures++
	case s.missing < quickMissing: // not counted as a failure of the server
		s.pause = retries.After(s.missing)
		s.missing++
	default:
		s.pause = pauseAfter(err, s.failures)
	}
	s.phase, s.next = backingOff, next
	return s
}

// failSilent is fail after a request without any answer.
func (r *Reflector[T]) failSilent(s state[T], err error, next phase) state[T] {
	s = r.fail(s, err, next)
	s.silent = true
	return s
}

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

// report notes a failure and logs a problem once: again only after a change of the problem, or after a recovery. A
// failure that the next tries will probably solve is logged at level 1: each restart of a server breaks each watch
// once.
func (r *Reflector[T]) report(s state[T], err error) state[T] {
	if s.err == nil {
		s.since = time.Now()
	}
	s.err = err
	if offline(err) || kube.IsUnauthorized(err) {
		s.away = true
		r.store.o.contact.lost(r.scope)
	} else if s.away {
		s = r.inContact(s)
	}
	first := s.failures == 0 && (offline(err) || busy(err)) || s.failures <= quietExpired && expired(err)
	passes := !common(err) && kube.IsTransient(err) && time.Since(s.since) < logAfter
	if first || passes {
		r.log.V(1).Info("trying again", "reason", err.Error())
		return s
	}
	if missing(err) && r.store.o.QuietParking {
		return s
	}
	if common(err) {
		o := &r.store.o
		o.contact.log(o, err, time.Since(s.since) >= logAfter && r.alone())
		return s
	}
	if class := problemClass(err); class != s.logged {
		s.logged = class
		if next := health.OfError(err).Next; kube.IsTransient(err) || missing(err) {
			r.log.Info("cannot list or watch, trying again", kube.Warn("hint", next, "error", err)...)
		} else {
			r.log.Error(err, "cannot list or watch, trying again", "hint", next)
		}
	}
	return s
}

// alone reports whether lists and watches fail while other requests do not: then nothing else logs the failure.
func (r *Reflector[T]) alone() bool { return r.store.o.Client.Contact().Since.IsZero() }

// inContact notes an answer of the server.
func (r *Reflector[T]) inContact(s state[T]) state[T] {
	s.away, s.met = false, true
	r.store.o.contact.back(r.store.o.Log, r.scope)
	return s
}

// recovered notes a watch that works again.
func (r *Reflector[T]) recovered(s state[T]) state[T] {
	if s.away || !s.met {
		s = r.inContact(s)
	}
	if s.logged != "" {
		s.logged = ""
		r.log.Info("watch recovered", "resourceVersion", s.rv)
	}
	return s
}

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
