package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
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
	// maxStatus is how much of a Status is read: with a thousand invalid fields, each named twice, 300 KiB.
	maxStatus = 1 << 20
	// maxErrorText bounds the quoted part of a body other than a Status.
	maxErrorText = 512
	// maxAuditID cuts the ID of a request in the server's audit log, which is a UUID.
	maxAuditID = 64
)

// Status is the API's error (meta/v1 Status). Every unsuccessful answer becomes a Status, found with errors.As, also
// an HTML page of a proxy: then Code is the HTTP code, Reason follows from the code and Message quotes the beginning
// of the body.
type Status struct {
	Status  string        `json:"status"` // "Failure"
	Code    int           `json:"code"`   // the HTTP code
	Reason  string        `json:"reason"` // "NotFound", "AlreadyExists" ...
	Message string        `json:"message"`
	Details StatusDetails `json:"details"`

	retryAfter time.Duration // from the Retry-After header
	foreign    bool          // the body was no Status
	body       []byte        // of at most maxErrorBody, of a foreign program
	auditID    string        // from the Audit-Id header
	credential Credential    // refused (401)
	fields     []FieldError  // fields read with the request; nil: none, or no request
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

// StatusCause is a cause of a Status, for example an invalid field.
type StatusCause struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Field   string `json:"field"`
}

// Error returns the server's message, fit for a terminal, or else code and reason. Messages of libraries about fields
// are put into plain words.
func (s *Status) Error() string {
	if fields := s.fieldErrors(); len(fields) > 0 {
		return Text(errorText(fields))
	}
	if s.Message != "" {
		return Text(s.Message)
	}
	if s.Reason != "" {
		return fmt.Sprintf("%d %s", s.Code, Text(s.Reason))
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", s.Code, http.StatusText(s.Code))) // some codes have no text
}

// MaxRetryAfter caps the wait requested by a server: API servers request seconds, and one request a minute is no
// burden.
const MaxRetryAfter = time.Minute

// RetryAfter returns how long the server asked us to wait: the larger of header and details, 0 if neither, and
// MaxRetryAfter at most.
func (s *Status) RetryAfter() time.Duration {
	return max(s.retryAfter, seconds(s.Details.RetryAfterSeconds))
}

// seconds clamps before multiplying: an overflow is negative.
func seconds(n int) time.Duration {
	return time.Duration(min(max(n, 0), int(MaxRetryAfter/time.Second))) * time.Second
}

// readStatus makes a Status of an unsuccessful answer, from at most maxStatus of the body. The caller closes the body.
func readStatus(resp *http.Response) *Status {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a broken body still leaves the code
	whole := body
	if len(body) == maxErrorBody && (body[0] == '{' || bytes.HasPrefix(body, []byte(protoMagic))) {
		rest, _ := io.ReadAll(io.LimitReader(resp.Body, maxStatus-maxErrorBody))
		whole = slices.Concat(body, rest)
	}
	s := decodeStatus(whole)
	if s == nil {
		s = &Status{Message: foreignMessage(resp, body), foreign: true, body: body}
	}
	s.shorten()
	// The HTTP code counts, not the code in the body.
	s.Status, s.Code = "Failure", resp.StatusCode
	s.withReason()
	s.retryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	s.auditID = Printable(resp.Header.Get("Audit-Id"), maxAuditID)
	return s
}

// causeSize is the memory of a cause besides its texts: an answer may have 300,000 empty ones.
var causeSize = int(reflect.TypeFor[StatusCause]().Size())

// shorten bounds the memory of a Status, which may be kept for each of many objects.
func (s *Status) shorten() {
	for _, text := range []*string{&s.Message, &s.Reason, &s.Details.Name, &s.Details.Group, &s.Details.Kind,
		&s.Details.UID} {
		if len(*text) > maxErrorBody {
			*text = strings.ToValidUTF8(strings.Clone((*text)[:maxErrorBody]), "")
		}
	}
	size := 0
	for i, c := range s.Details.Causes {
		if size += causeSize + len(c.Reason) + len(c.Message) + len(c.Field); size > maxErrorBody {
			s.Details.Causes = slices.Clone(s.Details.Causes[:i])
			return
		}
	}
}

// Foreign returns the first 64 KiB of an answer other than a Status: from a program behind the API server, or from a
// proxy. The content is untrusted.
func (s *Status) Foreign() []byte { return s.body }

// withReason adds a missing reason.
func (s *Status) withReason() *Status {
	if s.Reason == "" {
		s.Reason = reasonOf(s.Code)
	}
	return s
}

// decodeStatus returns the Status in body, or nil. Requests for protobuf get errors in protobuf.
func decodeStatus(body []byte) *Status {
	if bytes.HasPrefix(body, []byte(protoMagic)) {
		s, err := protoStatus(body)
		if err != nil {
			return nil
		}
		return s
	}
	var in struct {
		Kind string `json:"kind"`
		Status
	}
	if err := Unmarshal(body, &in); err != nil || in.Kind != "Status" {
		return nil
	}
	return &in.Status
}

// foreignMessage describes an answer from outside of the Kubernetes API, or of its API code.
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

// reasonOf is the reason of a code: the API's own word, or that of HTTP without blanks, which is most often the same.
func reasonOf(code int) string {
	switch code {
	case http.StatusUnprocessableEntity:
		return "Invalid"
	case http.StatusInternalServerError:
		return "InternalError"
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
	if n, err := strconv.Atoi(strings.TrimSpace(header)); err == nil || errors.Is(err, strconv.ErrRange) {
		return seconds(n) // Atoi returns the largest or smallest number if out of range
	}
	if t, err := http.ParseTime(header); err == nil {
		return min(max(t.Sub(now), 0), MaxRetryAfter)
	}
	return 0
}
