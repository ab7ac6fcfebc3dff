package kube

import (
	"context"
	"errors"
	"net/http"
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

// IsNotFound reports whether the object, its namespace or the whole resource does not exist (404).
func IsNotFound(err error) bool { return hasCode(err, http.StatusNotFound) }

// IsAlreadyExists reports whether a create met an object of the same name (409 AlreadyExists).
func IsAlreadyExists(err error) bool {
	s := AsStatus(err)
	return s != nil && s.Reason == ReasonAlreadyExists
}

// IsConflict reports whether a precondition failed: resourceVersion, uid, or an apply against another manager's
// field (409, other than AlreadyExists). The 409 of a webhook is a refusal: Crossplane's protects objects in use.
func IsConflict(err error) bool {
	s := AsStatus(err)
	return s != nil && s.Code == http.StatusConflict && s.Reason != ReasonAlreadyExists && !s.ofWebhook()
}

// ofWebhook reports whether an admission webhook refused the request.
func (s *Status) ofWebhook() bool { return strings.HasPrefix(s.Message, "admission webhook ") }

// IsGone reports whether a resource version or continue token is too old (410 Gone or Expired).
func IsGone(err error) bool {
	s := AsStatus(err)
	return s != nil && (s.Code == http.StatusGone || s.Reason == ReasonGone || s.Reason == ReasonExpired)
}

// IsUnauthorized reports whether the server does not know us (401).
func IsUnauthorized(err error) bool { return hasCode(err, http.StatusUnauthorized) }

// Refused returns the credential refused by the server (401) and the next step, "" if not known.
func Refused(err error) (what, next string) {
	name := "the credential"
	if s := AsStatus(err); s != nil && s.credential.Name != "" {
		name, next = s.credential.Name, s.credential.Next
	}
	return "the server refused " + name + " (401)", next
}

// IsForbidden reports whether we lack a right (403).
func IsForbidden(err error) bool { return hasCode(err, http.StatusForbidden) }

// forbiddenUser matches the user in the message of a 403.
var forbiddenUser = late(`User "([A-Za-z0-9][A-Za-z0-9:._@/-]{0,250})" cannot `)

// ForbiddenUser returns the user of a forbidden request; "" if the message has no user, or a user with characters
// special to a shell.
func ForbiddenUser(err error) string {
	if m := forbiddenUser().FindStringSubmatch(err.Error()); m != nil && IsForbidden(err) {
		return m[1]
	}
	return ""
}

// IsInvalid reports whether the object broke a rule of its schema (422); Details.Causes name the fields.
func IsInvalid(err error) bool { return hasCode(err, http.StatusUnprocessableEntity) }

// IsTestFailed reports whether a test of a JSON patch did not hold. The server answers 422 without naming an object or
// a cause (seen on v1.36), unlike the 422 for an object refused by a rule. A webhook may name neither.
func IsTestFailed(err error) bool {
	if !IsInvalid(err) {
		return false
	}
	s := AsStatus(err)
	return s.Details.Name == "" && len(s.Details.Causes) == 0 && !s.ofWebhook()
}

// nodePortsExhausted is the API server's sentence about a cluster without a free node port.
const nodePortsExhausted = "failed to allocate a nodePort: range is full"

// IsNodePortsExhausted reports whether all node ports are in use. The server answers 500 (seen on v1.36), a code worth
// a retry for other requests.
func IsNodePortsExhausted(err error) bool {
	s := AsStatus(err)
	return s != nil && strings.Contains(s.Message, nodePortsExhausted)
}

// IsMissingRight reports whether the user has no right to send the request (403). Admission plugins, webhooks and
// policies answer 403 as well, because of the content of a request.
func IsMissingRight(err error) bool {
	return isForbiddenWith(err, `User "`) && isForbiddenWith(err, " cannot ") && isForbiddenWith(err, ` resource "`)
}

// IsOverQuota reports whether an object exceeds a ResourceQuota of the namespace (403).
func IsOverQuota(err error) bool { return isForbiddenWith(err, "exceeded quota") }

// IsPodSecurityViolation reports whether a pod breaks the Pod Security Standard of the namespace (403).
func IsPodSecurityViolation(err error) bool { return isForbiddenWith(err, "violates PodSecurity") }

func isForbiddenWith(err error, text string) bool {
	return IsForbidden(err) && strings.Contains(AsStatus(err).Message, text)
}

// IsDryRunUnsupported reports whether the server, or a webhook with side effects, does not try writes (400).
func IsDryRunUnsupported(err error) bool {
	s := AsStatus(err)
	return s != nil && s.Code == http.StatusBadRequest &&
		(strings.Contains(s.Message, "does not support dry run") || strings.Contains(s.Message, "dryRun"))
}

// IsTooManyRequests reports whether the server sheds load (429).
func IsTooManyRequests(err error) bool { return hasCode(err, http.StatusTooManyRequests) }

// IsNamespaceTerminating reports whether a create failed because the namespace is being deleted (403 with a cause; the
// NamespaceLifecycle admission plugin).
func IsNamespaceTerminating(err error) bool {
	terminating := func(c StatusCause) bool { return c.Reason == causeNamespaceTerminating }
	return IsForbidden(err) && slices.ContainsFunc(AsStatus(err).Details.Causes, terminating)
}

// IsTooLargeResourceVersion reports whether the server has not yet reached the requested resource version. Servers
// report the state in three ways: newer servers by a cause, older servers by the message alone, in either wording.
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

// AuditID returns the ID of the refused request in the server's audit log, or "". Error texts leave the ID out,
// because each try has another.
func AuditID(err error) string {
	if s := AsStatus(err); s != nil {
		return s.auditID
	}
	return ""
}

// NoAnswerError is a request without an answer, or with an incomplete answer: no connection, a broken connection, a
// timeout, or no token. Nothing is wrong with the request. The text is the text of Err.
type NoAnswerError struct {
	Err   error
	alone bool // the server has served other requests since the request began
}

func (e *NoAnswerError) Error() string { return e.Err.Error() }
func (e *NoAnswerError) Unwrap() error { return e.Err }

// IsOutage reports whether err concerns the process and not the request: the server answers nothing, or refuses the
// credential. A single request without an answer, beside answered requests, is no outage.
func IsOutage(err error) bool {
	noAnswer := new(NoAnswerError)
	return IsUnauthorized(err) || errors.As(err, &noAnswer) && !noAnswer.alone
}

// CredentialError is a request not sent for lack of a credential: a credential plugin failed, or a token file cannot
// be read. A NoAnswerError wraps the CredentialError.
type CredentialError struct{ Err error }

func (e *CredentialError) Error() string { return "get a credential: " + e.Err.Error() }
func (e *CredentialError) Unwrap() error { return e.Err }

// unknownOutcome marks a write without an answer although the request was sent.
type unknownOutcome struct{ err error }

func (e *unknownOutcome) Error() string { return e.err.Error() + "; the change may have been made" }
func (e *unknownOutcome) Unwrap() error { return e.err }

// lateError ends a request without an answer in time. The error is a context.DeadlineExceeded with a text of its own.
type lateError struct{ text string }

func (e *lateError) Error() string        { return e.text }
func (e *lateError) Is(target error) bool { return target == context.DeadlineExceeded }

// UnknownOutcome reports whether err leaves open if a write happened: read before another write.
func UnknownOutcome(err error) bool {
	var u *unknownOutcome
	return errors.As(err, &u)
}

// IsTransient reports whether the same request may succeed later: no answer, or a busy, overloaded or restarting
// server.
func IsTransient(err error) bool {
	if noAnswer := new(NoAnswerError); errors.As(err, &noAnswer) {
		return !errors.Is(err, context.Canceled)
	}
	s := AsStatus(err)
	return s != nil && (s.Code == http.StatusTooManyRequests || s.Code >= 500) && !IsRefused(s)
}

// IsRefused reports whether the server would refuse the same request again, until the content changes. Besides the
// codes for a bad request, a 500 for an apply of a field that is unknown to the schema, or there twice, is a refusal
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

// Explain returns the text of err for readers of a status: the server's own words, or a fixed text for a missing
// answer. The full text of a connection error has ports, which differ each time.
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
