package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
)

// get makes one request that is answered by h.
func get(t *testing.T, h http.HandlerFunc) error {
	t.Helper()
	return pipeClient(t, h).Get(t.Context(), pods, Key{"default", "web"}, nil)
}

// Rules: ERR-01, ERR-05, ERR-06, LST-06
func TestThePredicatesGoByReasonThenCode(t *testing.T) {
	const tooLarge = `,"details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1}`
	all := map[string]func(error) bool{
		"NotFound": IsNotFound, "AlreadyExists": IsAlreadyExists, "Conflict": IsConflict,
		"Gone": IsGone, "Unauthorized": IsUnauthorized, "Forbidden": IsForbidden, "Invalid": IsInvalid,
		"TooManyRequests": IsTooManyRequests, "Refused": IsRefused,
		"NamespaceTerminating": IsNamespaceTerminating, "TooLargeResourceVersion": IsTooLargeResourceVersion,
		"Transient": IsTransient, "MissingRight": IsMissingRight, "OverQuota": IsOverQuota,
		"PodSecurityViolation": IsPodSecurityViolation, "DryRunUnsupported": IsDryRunUnsupported,
		"NodePortsExhausted": IsNodePortsExhausted,
	}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string // the predicates that hold
	}{
		"object missing": {failure(404, "NotFound", `,"details":{"name":"web","kind":"pods"}`), "NotFound"},
		"route missing": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "404 page not found", 404) },
			"NotFound"},
		"taken":                 {failure(409, "AlreadyExists", ""), "AlreadyExists"},
		"conflict":              {failure(409, "Conflict", ""), "Conflict"},
		"expired":               {failure(410, "Expired", ""), "Gone"},
		"gone":                  {failure(410, "Gone", ""), "Gone"},
		"who are you":           {failure(401, "Unauthorized", ""), "Unauthorized"},
		"no right":              {failure(403, "Forbidden", ""), "Forbidden"},
		"namespace is ending":   {failure(403, "Forbidden", `,"details":{"causes":[{"reason":"NamespaceTerminating"}]}`), "Forbidden NamespaceTerminating"},
		"no right to pods":      {says(403, "Forbidden", `pods is forbidden: User "u" cannot create resource "pods" in API group ""`), "Forbidden MissingRight"},
		"a policy":              {says(403, "Forbidden", `pods "a" is forbidden: User "u" cannot have two of them`), "Forbidden"},
		"quota":                 {says(403, "Forbidden", `pods "a" is forbidden: exceeded quota: q, requested: pods=1`), "Forbidden OverQuota"},
		"pod security":          {says(403, "Forbidden", `pods "a" is forbidden: violates PodSecurity "baseline:v1.36"`), "Forbidden PodSecurityViolation"},
		"webhook acts":          {says(400, "BadRequest", `admission webhook "x" does not support dry run`), "DryRunUnsupported Refused"},
		"server knows no try":   {says(400, "BadRequest", "dryRun is disabled"), "DryRunUnsupported Refused"},
		"no node port":          {says(500, "InternalError", `Internal error occurred: failed to allocate a nodePort: range is full`), "NodePortsExhausted Transient"},
		"no address":            {says(500, "InternalError", `Internal error occurred: failed to allocate a serviceIP: range is full`), "Transient"},
		"bad field":             {failure(422, "Invalid", `,"details":{"causes":[{"field":"spec.image"}]}`), "Invalid Refused"},
		"bad request":           {failure(400, "BadRequest", ""), "Refused"},
		"too large":             {failure(413, "RequestEntityTooLarge", ""), "Refused"},
		"wrong verb":            {failure(405, "MethodNotAllowed", ""), "Refused"},
		"busy":                  {failure(429, "TooManyRequests", ""), "TooManyRequests Transient"},
		"unknown field":         {answer(500, `{"kind":"Status","status":"Failure","message":"failed to create typed patch object (default/web; /v1, Kind=Pod): .spec.x: field not declared in schema"}`), "Refused"},
		"broken":                {failure(500, "InternalError", ""), "Transient"},
		"from the future":       {failure(504, "Timeout", tooLarge), "TooLargeResourceVersion Transient"},
		"future, by cause text": {failure(504, "Timeout", `,"details":{"causes":[{"message":"Too large resource version"}]}`), "TooLargeResourceVersion Transient"},
		"future, by message":    {answer(504, `{"kind":"Status","status":"Failure","message":"Timeout: Too large resource version: 9, current: 5","reason":"Timeout"}`), "TooLargeResourceVersion Transient"},
		"slow":                  {failure(504, "Timeout", ""), "Transient"},
		"a proxy":               {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, "Transient"},
	} {
		t.Run(name, func(t *testing.T) {
			h := tc.answer
			if strings.HasPrefix(name, "from the future") { // a named time would be waited for
				h = func(w http.ResponseWriter, r *http.Request) {
					failure(504, "Timeout", strings.Replace(tooLarge, `,"retryAfterSeconds":1`, "", 1))(w, r)
				}
			}
			err := get(t, h)
			for is, f := range all {
				if want := strings.Contains(" "+tc.want+" ", " "+is+" "); f(err) != want {
					t.Errorf("Is%s is %v for %v", is, !want, err)
				}
			}
		})
	}
}

// Rules: ERR-02, NET-11
func TestAnAnswerThatIsNoStatusKeepsItsCode(t *testing.T) {
	err := get(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(502)
		fmt.Fprint(w, "<html>\n<b>bad gateway</b>", strings.Repeat("x", 1<<20))
	})
	var s *Status
	if !errors.As(err, &s) || s.Code != 502 || s.Reason != "BadGateway" {
		t.Fatalf("got %#v", err)
	}
	if msg := err.Error(); !strings.HasPrefix(msg,
		"get pods default/web: the server answered 502 Bad Gateway (text/html): <html> <b>bad gateway</b>x") ||
		len(msg) > 1000 {
		t.Errorf("got %d bytes: %.200s", len(msg), msg)
	}
	for code, reason := range map[int]string{401: "Unauthorized", 404: "NotFound", 409: "Conflict", 410: "Gone",
		422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"} {
		err := get(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		if s := AsStatus(err); s == nil || s.Code != code || s.Reason != reason {
			t.Errorf("an empty %d gave %v, want the reason %s", code, err, reason)
		}
	}
}

// Rules: ERR-03
func TestA202IsSuccessAndA200WithAFailureIsNot(t *testing.T) {
	c := pipeClient(t, answer(202, `{"kind":"Status","status":"Success"}`))
	if err := c.Delete(t.Context(), pods, Key{"a", "b"}, DeleteOptions{}); err != nil {
		t.Errorf("202 gave %v", err)
	}
	if err := get(t, failureIn200); !IsNotFound(err) {
		t.Errorf("a failure in a 200 gave %v", err)
	}
}

func TestAPageOfAProxyIsNoSuccess(t *testing.T) {
	c := pipeClient(t, func200HTML)
	for verb, err := range map[string]error{
		"get":    c.Get(t.Context(), pods, Key{"a", "b"}, &pod{}),
		"create": c.Create(t.Context(), pods, "a", &pod{}, nil, WriteOptions{}),
		"delete": c.Delete(t.Context(), pods, Key{"a", "b"}, DeleteOptions{}),
	} {
		if s := AsStatus(err); s == nil || !strings.Contains(err.Error(), "please log in") {
			t.Errorf("%s: got %v", verb, err)
		}
	}
}

var func200HTML = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, "<html>please log in</html>")
})

func TestWhatIsNoAnswerOfTheServerIsNotTransientAndIsCalledByItsName(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	away := &NoAnswerError{Err: errors.New("dial tcp 10.0.0.1:6443->10.0.0.2:54321: connection refused")}
	for _, test := range []struct {
		err       error
		transient bool
		text      string
	}{
		{fmt.Errorf("get pods web: %w", away), true, "the API server cannot be reached"},
		{&unknownOutcome{away}, true, "the API server cannot be reached"},
		{&NoAnswerError{Err: context.Cause(ctx)}, false, "the API server cannot be reached"},
		{fmt.Errorf("get pods web: %w", &Status{Code: 503, Message: "starting"}), true, "starting"},
		{fmt.Errorf("patch: %w", &Status{Code: 401, Message: "Unauthorized"}), false, "the server refused " +
			"the credential (401)"},
		{fmt.Errorf("patch: %w", &Status{Code: 401, credential: Credential{"the token of the pod", "delete the pod"}}),
			false, "the server refused the token of the pod (401); delete the pod"},
		{errors.New("encode body: unsupported value"), false, "encode body: unsupported value"},
		{context.Canceled, false, "context canceled"},
	} {
		if got := IsTransient(test.err); got != test.transient {
			t.Errorf("IsTransient(%v) is %v", test.err, got)
		}
		if got := Explain(test.err); got != test.text {
			t.Errorf("Explain(%v) is %q, want %q", test.err, got, test.text)
		}
	}
	if IsTransient(nil) || IsRefused(nil) {
		t.Error("no error is of a kind")
	}
}

func failureIn200(w http.ResponseWriter, r *http.Request) {
	answer(200, `{"kind":"Status","status":"Failure","code":404,"reason":"NotFound"}`)(w, r)
}

// Rules: WCH-23
func TestRetryAfterIsReadInBothForms(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"7": 7 * time.Second, " 7 ": 7 * time.Second, "": 0, "-3": 0, "soon": 0,
		"Thu, 01 Jan 2026 00:00:30 GMT": 30 * time.Second,
		"Wed, 31 Dec 2025 23:59:00 GMT": 0,
	} {
		if got := retryAfter(in, now); got != want {
			t.Errorf("Retry-After %q gives %s, want %s", in, got, want)
		}
	}
}

// A Status names each invalid field twice, and an object may have a thousand of them.
func TestALongStatusIsNoPageOfAProxy(t *testing.T) {
	line := `.spec.rules[name="a-rule-with-a-long-name"].port: field not declared in schema, `
	cause := `{"reason":"FieldValueInvalid","field":"spec.rules","message":"` + strings.Repeat("x", 200) + `"},`
	for name, h := range map[string]http.HandlerFunc{
		"unknown fields": says(500, "InternalError",
			"failed to create typed patch object (a; v1, Kind=A): "+strings.Repeat(line, 1500)),
		"causes": failure(422, "Invalid", `,"details":{"name":"web","causes":[`+strings.Repeat(cause, 1500)+`{}]}`),
		"empty causes": failure(422, "Invalid", `,"details":{"name":"`+strings.Repeat("web", 30_000)+`","causes":[`+
			strings.Repeat("{},", 300_000)+`{}]}`),
	} {
		c := pipeClient(t, h)
		err := c.Get(t.Context(), pods, Key{"default", "web"}, nil)
		s := AsStatus(err)
		if !IsRefused(err) || s.Foreign() != nil || !c.Contact().Since.IsZero() {
			t.Errorf("%s: refused %v, %d bytes of a foreign program, no contact since %s", name, IsRefused(err),
				len(s.Foreign()), c.Contact().Since)
		}
		n := 0
		for _, c := range s.Details.Causes {
			n += int(reflect.TypeOf(c).Size()) + len(c.Message)
		}
		if len(s.Message) > maxErrorBody || n > maxErrorBody || len(s.Details.Name) > maxErrorBody ||
			name == "causes" && (n == 0 || s.Details.Name != "web") {
			t.Errorf("%s: %d bytes of message, %d of causes, about %q", name, len(s.Message), n, s.Details.Name)
		}
	}
}

// FuzzStatus reads an answer of any code, Retry-After and body: the wait is bounded, and the text fit for a terminal.
func FuzzStatus(f *testing.F) {
	f.Add(429, "9223372037", `{"kind":"Status","details":{"retryAfterSeconds":9223372037}}`)
	f.Add(503, "-99999999999999999999", `{"kind":"Status","message":"\u001b]52;c;aGk=\u0007\u202e\nlevel=0 forged"}`)
	f.Add(500, "Fri, 31 Dec 9999 23:59:59 GMT", "<html>\x1b[2J\xff")
	f.Add(200, "0x7", `{"kind":"Status","status":"Failure","code":"x","details":[]}`)
	f.Fuzz(func(t *testing.T, code int, retryAfter, body string) {
		resp := &http.Response{StatusCode: code, Header: http.Header{"Retry-After": {retryAfter}},
			Body: io.NopCloser(strings.NewReader(body))}
		s := readStatus(resp)
		if d := s.RetryAfter(); d < 0 || d > MaxRetryAfter {
			t.Errorf("wait %s", d)
		}
		retryIn(s)
		text := s.Error()
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) || len(text) > 8*maxText {
			t.Errorf("text %q", text)
		}
		IsTransient(s)
		IsRefused(s)
	})
}

// Rules: NET-18
func TestAnErrorKnowsItsIDInTheAuditLogAndItsTextStaysTheSame(t *testing.T) {
	const id = "0b7f4a53-6d9b-4b62-a1a4-9d7f5b1c3e2d"
	for sent, want := range map[string]string{id: id, "": "",
		strings.Repeat("x", 1000): strings.Repeat("x", maxAuditID) + "..."} {
		err := get(t, func(w http.ResponseWriter, r *http.Request) {
			if sent != "" {
				w.Header().Set("Audit-Id", sent)
			}
			failure(403, "Forbidden", "")(w, r)
		})
		if got := AuditID(fmt.Errorf("more: %w", err)); got != want {
			t.Errorf("audit ID %q, want %q", got, want)
		}
		if text := fmt.Sprint(err, Explain(err)); sent != "" && strings.Contains(text, sent[:8]) {
			t.Errorf("the text differs with each try: %s", text)
		}
	}
	if got := AuditID(errors.New("no answer")); got != "" {
		t.Errorf("audit ID %q of no answer", got)
	}
}
