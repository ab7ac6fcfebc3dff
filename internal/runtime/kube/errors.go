package kube

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// AsStatus returns the Status in err's chain, or nil.
func AsStatus(err error) *Status {
	var s *Status
	errors.As(err, &s)
	return s
}

func hasCode(err error, code int) bool {
	s := AsStatus(err)
	return s != nil && s.Code == code
}

// IsNotFound says that the object, its namespace or the whole resource does not exist (404).
func IsNotFound(err error) bool { return hasCode(err, http.StatusNotFound) }

// IsAlreadyExists says that a create met an object of the same name (409 AlreadyExists).
func IsAlreadyExists(err error) bool {
	s := AsStatus(err)
	return s != nil && s.Reason == ReasonAlreadyExists
}

// IsConflict says that a precondition failed: resourceVersion, uid, or an apply against another manager's
// field (409, other than AlreadyExists).
func IsConflict(err error) bool {
	s := AsStatus(err)
	return s != nil && s.Code == http.StatusConflict && s.Reason != ReasonAlreadyExists
}

// IsGone says that a resource version or continue token is too old (410 Gone or Expired).
func IsGone(err error) bool {
	s := AsStatus(err)
	return s != nil && (s.Code == http.StatusGone || s.Reason == ReasonGone || s.Reason == ReasonExpired)
}

// IsUnauthorized says that the server does not know us (401).
func IsUnauthorized(err error) bool { return hasCode(err, http.StatusUnauthorized) }

// Refused says which credential the server refused (401), and what to do about it, "" where that is not known.
func Refused(err error) (what, next string) {
	name := "the credential"
	if s := AsStatus(err); s != nil && s.credential.Name != "" {
		name, next = s.credential.Name, s.credential.Next
	}
	return "the server refused " + name + " (401)", next
}

// IsForbidden says that we lack a right (403).
func IsForbidden(err error) bool { return hasCode(err, http.StatusForbidden) }

// forbiddenUser finds the user in what a server says to a request that it forbids.
var forbiddenUser = regexp.MustCompile(`User "([A-Za-z0-9][A-Za-z0-9:._@/-]{0,250})" cannot `)

// ForbiddenUser returns the user to whom a request was forbidden; "" where the server does not say it, or with
// characters that a shell would not take as they are.
func ForbiddenUser(err error) string {
	if m := forbiddenUser.FindStringSubmatch(err.Error()); m != nil && IsForbidden(err) {
		return m[1]
	}
	return ""
}

// IsInvalid says that the object broke a rule of its schema (422); Details.Causes name the fields.
func IsInvalid(err error) bool { return hasCode(err, http.StatusUnprocessableEntity) }

// nodePortsExhausted is the API server's sentence about a cluster without a free node port.
const nodePortsExhausted = "failed to allocate a nodePort: range is full"

// IsNodePortsExhausted says that a Service cannot have a node port because all are in use. The server answers 500
// (seen on v1.36), after which other requests are worth a retry.
func IsNodePortsExhausted(err error) bool {
	s := AsStatus(err)
	return s != nil && strings.Contains(s.Message, nodePortsExhausted)
}

// IsMissingRight says that the user of a request has no right to send it (403). Admission plugins, webhooks and
// policies answer 403 as well, to what the request says.
func IsMissingRight(err error) bool {
	return isForbiddenWith(err, `User "`) && isForbiddenWith(err, " cannot ") && isForbiddenWith(err, ` resource "`)
}

// IsOverQuota says that an object is more than a ResourceQuota of its namespace leaves (403).
func IsOverQuota(err error) bool { return isForbiddenWith(err, "exceeded quota") }

// IsPodSecurityViolation says that a pod breaks the Pod Security Standard of its namespace (403).
func IsPodSecurityViolation(err error) bool { return isForbiddenWith(err, "violates PodSecurity") }

func isForbiddenWith(err error, text string) bool {
	return IsForbidden(err) && strings.Contains(AsStatus(err).Message, text)
}

// IsDryRunUnsupported says that the server, or a webhook with side effects, does not try writes (400).
func IsDryRunUnsupported(err error) bool {
	s := AsStatus(err)
	return s != nil && s.Code == http.StatusBadRequest &&
		(strings.Contains(s.Message, "does not support dry run") || strings.Contains(s.Message, "dryRun"))
}

// IsTooManyRequests says that the server sheds load (429).
func IsTooManyRequests(err error) bool { return hasCode(err, http.StatusTooManyRequests) }

// IsNamespaceTerminating says that nothing can be created in a namespace that is being deleted (403 with a
// cause; the NamespaceLifecycle admission plugin).
func IsNamespaceTerminating(err error) bool {
	terminating := func(c StatusCause) bool { return c.Reason == causeNamespaceTerminating }
	return IsForbidden(err) && slices.ContainsFunc(AsStatus(err).Details.Causes, terminating)
}

// IsTooLargeResourceVersion says that the server has not yet reached the resource version that was asked for.
// Servers report it in three ways: newer ones by a cause, older ones by the message alone, with either
// wording.
func IsTooLargeResourceVersion(err error) bool {
	s := AsStatus(err)
	if s == nil || s.Code != http.StatusGatewayTimeout {
		return false
	}
	const text = "Too large resource version"
	return strings.Contains(s.Message, text) || slices.ContainsFunc(s.Details.Causes, func(c StatusCause) bool {
		return c.Reason == causeResourceVersionTooLarge || strings.Contains(c.Message, text)
	})
}

// RetryAfter returns how long the server asked us to wait before the next try, or 0.
func RetryAfter(err error) time.Duration {
	if s := AsStatus(err); s != nil {
		return s.RetryAfter()
	}
	return 0
}

// AuditID returns under which ID the server's audit log has the request that it refused, or "". It is no part of the
// text of an error, because it differs with each try.
func AuditID(err error) string {
	if s := AsStatus(err); s != nil {
		return s.auditID
	}
	return ""
}

// NoAnswerError is a request that got no answer, or not all of it: the connection could not be made or broke, the
// time was over, or there was no token to ask with. Nothing is wrong with the request. Its text is that of Err.
type NoAnswerError struct {
	Err   error
	alone bool // the server has served others since this request began
}

func (e *NoAnswerError) Error() string { return e.Err.Error() }
func (e *NoAnswerError) Unwrap() error { return e.Err }

// IsOutage says that err is about the process and not about its request: the server answers nothing, or does not take
// the credential. A request that gets no answer while others get theirs is no outage.
func IsOutage(err error) bool {
	noAnswer := new(NoAnswerError)
	return IsUnauthorized(err) || errors.As(err, &noAnswer) && !noAnswer.alone
}

// CredentialError is a request that was not sent because there is no credential to send with it: a credential plugin
// failed, or a token file cannot be read. It comes within a NoAnswerError.
type CredentialError struct{ Err error }

func (e *CredentialError) Error() string { return "get a credential: " + e.Err.Error() }
func (e *CredentialError) Unwrap() error { return e.Err }

// unknownOutcome marks a write without an answer although the request was sent.
type unknownOutcome struct{ err error }

func (e *unknownOutcome) Error() string { return e.err.Error() + "; the change may have been made" }
func (e *unknownOutcome) Unwrap() error { return e.err }

// lateError ends a request that the server has not answered in time. It is a context.DeadlineExceeded, whose own text
// says nothing more.
type lateError struct{ text string }

func (e *lateError) Error() string        { return e.text }
func (e *lateError) Is(target error) bool { return target == context.DeadlineExceeded }

// UnknownOutcome says that err left it open whether a write happened: read before writing again.
func UnknownOutcome(err error) bool {
	var u *unknownOutcome
	return errors.As(err, &u)
}

// IsTransient says that the same request may well succeed later: there was no answer, or the server was too busy,
// overloaded or restarting.
func IsTransient(err error) bool {
	if noAnswer := new(NoAnswerError); errors.As(err, &noAnswer) {
		return !errors.Is(err, context.Canceled)
	}
	s := AsStatus(err)
	return s != nil && (s.Code == http.StatusTooManyRequests || s.Code >= 500) && !IsRefused(s)
}

// IsRefused says that the server would refuse the same request again: what it says is wrong, and only a change of it
// helps. Besides the codes for that it is a 500 for an apply of a field that is not in the schema, or is there twice
// (seen on v1.36).
func IsRefused(err error) bool {
	s := AsStatus(err)
	if s == nil {
		return false
	}
	switch s.Code {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
		http.StatusNotImplemented:
		return true
	case http.StatusInternalServerError:
		return strings.HasPrefix(s.Message, "failed to create typed patch object")
	}
	return false
}

// Explain returns the text of err for people who read a status: the server's own words, or that there was no answer,
// in words that are the same each time. The full text of an error of the connection has ports that differ.
func Explain(err error) string {
	if IsUnauthorized(err) { // the server says only "Unauthorized"
		what, next := Refused(err)
		if next != "" {
			next = "; " + next
		}
		return what + next
	}
	if s := AsStatus(err); s != nil {
		return s.Error()
	}
	if errors.As(err, new(*CredentialError)) {
		return "skiff has no credential for the API server"
	}
	if errors.Is(err, errBusy) {
		return errBusy.Error()
	}
	if noAnswer := new(NoAnswerError); errors.As(err, &noAnswer) && noAnswer.alone {
		return "the API server answers, but not this request"
	} else if noAnswer.Err != nil {
		return "the API server cannot be reached"
	}
	return err.Error()
}
