package controller

import (
	"context"
	"errors"
	"net/http"

	"skiff/internal/runtime/kube"
)

// terminalError marks an error that only a change can help.
type terminalError struct {
	err    error
	reason string // one word for it, "" if there is none
}

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }

// Terminal marks err as one that trying again does not help: what is declared must change first. The key is
// looked at again at its next change, and without one after SlowDelay, because what stood in the way need not
// be the object itself (another team's webhook, a quota). Errors of the server are classified without it.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err: err}
}

// TerminalFor is Terminal with the reason of the condition that says so: what fails for the same reason is one line of
// Controller.Status.
func TerminalFor(reason string, err error) error { return &terminalError{err, reason} }

// reasonOf is one word for why err is an error: what two errors for the same reason have in common.
func reasonOf(err error) string {
	if t := new(terminalError); errors.As(err, &t) && t.reason != "" {
		return t.reason
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
// the server that the same request will meet again (ERR-08).
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

// classify finds the class of err. It walks the chain itself, because errors.As would take the first part of
// a joined error for all of it.
func classify(err error) class {
	switch e := err.(type) {
	case nil, *terminalError:
		return terminal
	case *panicError:
		return failing
	case *timeoutError:
		// Whose fault it was shows in what it was doing: a server that does not answer is no fault of the key.
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

// classOf is the table of ERR-08. 401 is about us, not about the object: a token that is not renewed in time
// must not park every key. 403 is no terminal error: a grant may come at any time, and nothing changes in the object
// when it does. Nothing can be created in a namespace that is being deleted, though
// (ERR-06).
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
