package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Reasons of a Status that skiff acts on (meta/v1 StatusReason).
const (
	ReasonAlreadyExists = "AlreadyExists"
	ReasonConflict      = "Conflict"
	ReasonExpired       = "Expired"
	ReasonGone          = "Gone"
	ReasonNotFound      = "NotFound"
)

// Causes of a Status that skiff acts on.
const (
	causeResourceVersionTooLarge = "ResourceVersionTooLarge"
	causeNamespaceTerminating    = "NamespaceTerminating"
)

const (
	// maxErrorBody is how much of an error answer is read: a Status is a few KiB, a proxy's page may be
	// endless.
	maxErrorBody = 64 << 10
	// maxErrorText is how much of a body that is not a Status goes into the message.
	maxErrorText = 512
)

// Status is the API's error (meta/v1 Status). Every answer that is not a success comes back as one, found
// with errors.As, also where a proxy answered with HTML: then Code is the HTTP code, Reason follows from it
// and Message quotes the beginning of the body.
type Status struct {
	Status  string        `json:"status"` // "Failure"
	Code    int           `json:"code"`   // the HTTP code
	Reason  string        `json:"reason"` // "NotFound", "AlreadyExists" ...
	Message string        `json:"message"`
	Details StatusDetails `json:"details"`

	retryAfter time.Duration // from the Retry-After header
	foreign    bool          // the body was no Status
}

// StatusDetails names the object at fault and the causes of a refusal.
type StatusDetails struct {
	Name              string        `json:"name"`
	Group             string        `json:"group"`
	Kind              string        `json:"kind"`
	UID               string        `json:"uid"`
	Causes            []StatusCause `json:"causes"`
	RetryAfterSeconds int           `json:"retryAfterSeconds"`
}

// StatusCause is one of several reasons, for example one invalid field.
type StatusCause struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Field   string `json:"field"`
}

// Error returns the server's message, or the code and reason where it sent none.
func (s *Status) Error() string {
	if s.Message != "" {
		return s.Message
	}
	if s.Reason != "" {
		return fmt.Sprintf("%d %s", s.Code, s.Reason)
	}
	return fmt.Sprintf("%d %s", s.Code, http.StatusText(s.Code))
}

// RetryAfter returns how long the server asked us to wait: the larger of header and details, 0 if neither.
func (s *Status) RetryAfter() time.Duration {
	return max(s.retryAfter, time.Duration(s.Details.RetryAfterSeconds)*time.Second)
}

func (s *Status) hasCause(reason string) bool {
	for _, c := range s.Details.Causes {
		if c.Reason == reason {
			return true
		}
	}
	return false
}

// AsStatus returns the Status in err's chain, or nil.
func AsStatus(err error) *Status {
	var s *Status
	if errors.As(err, &s) {
		return s
	}
	return nil
}

func hasCode(err error, code int) bool {
	s := AsStatus(err)
	return s != nil && s.Code == code
}

// IsNotFound says that the object, its namespace or the whole resource does not exist (404).
func IsNotFound(err error) bool { return hasCode(err, http.StatusNotFound) }

// IsNoResource says that the server does not serve the resource at all: a 404 that is no Status, as the
// server answers for a path that no API group and no CRD claims.
func IsNoResource(err error) bool {
	s := AsStatus(err)
	return s != nil && s.Code == http.StatusNotFound && (s.foreign || s.Details.Name == "" && s.Details.Kind == "")
}

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

// IsForbidden says that we lack a right (403).
func IsForbidden(err error) bool { return hasCode(err, http.StatusForbidden) }

// IsInvalid says that the object broke a rule of its schema (422); Details.Causes name the fields.
func IsInvalid(err error) bool { return hasCode(err, http.StatusUnprocessableEntity) }

// IsBadRequest says that the request itself made no sense (400).
func IsBadRequest(err error) bool { return hasCode(err, http.StatusBadRequest) }

// IsMethodNotSupported says that the resource does not serve this verb (405).
func IsMethodNotSupported(err error) bool { return hasCode(err, http.StatusMethodNotAllowed) }

// IsTooManyRequests says that the server sheds load (429).
func IsTooManyRequests(err error) bool { return hasCode(err, http.StatusTooManyRequests) }

// IsNamespaceTerminating says that nothing can be created in a namespace that is being deleted (403 with a
// cause; the NamespaceLifecycle admission plugin).
func IsNamespaceTerminating(err error) bool {
	s := AsStatus(err)
	return s != nil && s.Code == http.StatusForbidden && s.hasCause(causeNamespaceTerminating)
}

// IsTooLargeResourceVersion says that the server has not yet reached the resource version that was asked for.
// Servers said so in three ways over time: by a cause, and before that by the message alone, with either
// wording.
func IsTooLargeResourceVersion(err error) bool {
	s := AsStatus(err)
	if s == nil || s.Code != http.StatusGatewayTimeout {
		return false
	}
	if s.hasCause(causeResourceVersionTooLarge) {
		return true
	}
	for _, c := range s.Details.Causes {
		if strings.Contains(c.Message, "Too large resource version") {
			return true
		}
	}
	return strings.Contains(s.Message, "Too large resource version")
}

// RetryAfter returns how long the server asked us to wait before the next try, or 0.
func RetryAfter(err error) time.Duration {
	if s := AsStatus(err); s != nil {
		return s.RetryAfter()
	}
	return 0
}

// NoAnswerError is a request that got no answer, or not all of it: the connection could not be made or broke, the time
// was over, or there was no token to ask with. Nothing is wrong with the request. Its text is that of Err.
type NoAnswerError struct{ Err error }

func (e *NoAnswerError) Error() string { return e.Err.Error() }
func (e *NoAnswerError) Unwrap() error { return e.Err }

// unknownOutcome marks a write whose connection died after the request was sent.
type unknownOutcome struct{ err error }

func (e *unknownOutcome) Error() string {
	return "the outcome is unknown, the connection ended before the answer: " + e.err.Error()
}
func (e *unknownOutcome) Unwrap() error { return e.err }

// UnknownOutcome says that err left it open whether a write happened: read before writing again.
func UnknownOutcome(err error) bool {
	var u *unknownOutcome
	return errors.As(err, &u)
}

// IsTransient says that the same request may well succeed later: the connection failed, or the server was
// too busy, overloaded or restarting.
func IsTransient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	s := AsStatus(err)
	return s == nil || s.Code == http.StatusTooManyRequests || s.Code >= 500
}

// readStatus makes a Status of an answer that is not a success. It reads at most maxErrorBody of the body and
// leaves the closing to the caller.
func readStatus(resp *http.Response) *Status {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a broken body still leaves the code
	s := decodeStatus(body)
	if s == nil {
		s = &Status{Message: foreignMessage(resp, body), foreign: true}
	}
	// The HTTP code is what was answered, whatever the body says.
	s.Status, s.Code = "Failure", resp.StatusCode
	if s.Reason == "" {
		s.Reason = reasonOf(s.Code)
	}
	s.retryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	return s
}

// decodeStatus returns the Status that body holds, or nil where it is something else.
func decodeStatus(body []byte) *Status {
	var in struct {
		Kind string `json:"kind"`
		Status
	}
	if err := json.Unmarshal(body, &in, decodeOptions); err != nil || in.Kind != "Status" {
		return nil
	}
	return &in.Status
}

// foreignMessage describes an answer that did not come from a Kubernetes API, or not from its API code.
func foreignMessage(resp *http.Response, body []byte) string {
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		mediaType = "no content type"
	}
	text := strings.Join(strings.Fields(string(body)), " ")
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "..."
	}
	msg := fmt.Sprintf("the server answered %d %s (%s)", resp.StatusCode, http.StatusText(resp.StatusCode), mediaType)
	if loc := resp.Header.Get("Location"); loc != "" {
		return msg + " with a redirect, which is not followed; check the server address for a proxy or login page"
	}
	if text != "" {
		msg += ": " + text
	}
	return msg
}

func reasonOf(code int) string {
	switch code {
	case http.StatusUnauthorized:
		return "Unauthorized"
	case http.StatusForbidden:
		return "Forbidden"
	case http.StatusNotFound:
		return ReasonNotFound
	case http.StatusMethodNotAllowed:
		return "MethodNotAllowed"
	case http.StatusConflict:
		return ReasonConflict
	case http.StatusGone:
		return ReasonGone
	case http.StatusUnprocessableEntity:
		return "Invalid"
	case http.StatusTooManyRequests:
		return "TooManyRequests"
	case http.StatusInternalServerError:
		return "InternalError"
	case http.StatusServiceUnavailable:
		return "ServiceUnavailable"
	case http.StatusGatewayTimeout:
		return "Timeout"
	}
	return strings.ReplaceAll(http.StatusText(code), " ", "")
}

// retryAfter reads a Retry-After header in either form of RFC 9110 section 10.2.3: seconds or a date.
func retryAfter(header string, now time.Time) time.Duration {
	if header == "" {
		return 0
	}
	if n, err := strconv.Atoi(strings.TrimSpace(header)); err == nil && n >= 0 {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(header); err == nil && t.After(now) {
		return t.Sub(now)
	}
	return 0
}
