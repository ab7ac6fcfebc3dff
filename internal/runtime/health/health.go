// Package health says how a process is doing. A [Problem] is something wrong, made as a value where the fault arises;
// a [Check] is a line of a probe with Problems below. The package puts both into words for probes and `skiff status`,
// and into JSON for programs; the live page lays the same fields out in its own way.
//
// The package starts no goroutine, holds no state and works on values, on the goroutine of the caller. Collecting
// Problems is the job of package manager.
package health

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
)

// Problem is something wrong that a person should look at.
type Problem struct {
	Controller string   `json:"controller,omitempty"` // whose problem; empty: the process as a whole
	Namespaces []string `json:"namespaces,omitempty"` // concerned, the first of many; empty: all, or none in particular
	Reason     string   `json:"reason"`               // one CamelCase word, for programs
	Severity   Severity `json:"severity,omitempty"`

	// Subject is the object at fault, such as "Deployment shop/web"; Public goes on from there. Empty: Public says it.
	Subject string `json:"subject,omitempty"`
	// Public is the sentence of skiff itself, a state such as "the lease is lost", with names, field paths and counts
	// and never a value: anybody may read a Public text.
	Public string `json:"message"`
	// Quoted is the text of somebody else, such as a server's answer or a program's stderr: parts of an object may be
	// in there, so readers need the right to all objects.
	Quoted string `json:"quoted,omitempty"`
	// Next is the next step, or what skiff does about the Problem. Anybody may read Next.
	Next string `json:"next,omitempty"`
	// Since is the beginning; zero: not known.
	Since time.Time `json:"since,omitzero"`
}

// Severity says who can end a Problem.
type Severity string

// The severities.
const (
	Failing Severity = ""        // skiff goes on trying, and a person should look
	Stalled Severity = "stalled" // there is no progress before a person changes something
	Passing Severity = "passing" // the end is in sight, and a person need not do anything
)

// The bounds of a rendered text, in bytes: names and advice fit into a few lines, and a server's answer may have any
// length. A note has more of the answer, which may list all wrong fields of a template.
const (
	maxReason     = 100
	maxPublic     = 1024
	maxQuoted     = 300
	maxNoteQuoted = 640
)

// Printable returns p with texts that are bounded and safe to print.
func (p Problem) Printable() Problem {
	p.Reason, p.Public = kube.Printable(p.Reason, maxReason), kube.Printable(p.Public, maxPublic)
	p.Subject = kube.Printable(p.Subject, maxQuoted)
	p.Quoted, p.Next = kube.Printable(p.Quoted, maxQuoted), kube.Printable(p.Next, maxPublic)
	return p
}

// Hidden returns p without the text of others. The rest is bounded, so that p may be kept.
func (p Problem) Hidden() Problem {
	p.Quoted = ""
	return p.Printable()
}

// Text returns p in one line for people, as seen at a time: "the lease is lost for 12s (no answer); the next step".
func (p Problem) Text(now time.Time) string {
	text := p.Message(now)
	if p.Next != "" {
		text += "; " + kube.Printable(p.Next, maxPublic)
	}
	return text
}

// Message returns the part of Text before the next step.
func (p Problem) Message(now time.Time) string {
	text := p.said()
	if !p.Since.IsZero() {
		text += " for " + max(now.Sub(p.Since), 0).Round(time.Second).String()
	}
	return quoting(text, kube.Printable(p.Quoted, maxQuoted))
}

// Note returns p for a condition or an Event: without an age, because a text that changes is a write.
func (p Problem) Note() string {
	text := quoting(p.said(), kube.Printable(p.Quoted, maxNoteQuoted))
	if p.Next != "" {
		text += "; " + kube.Printable(p.Next, maxPublic)
	}
	return text
}

// Whole returns p without age and next step, with all of a server's answer.
func (p Problem) Whole() string { return quoting(p.said(), kube.Text(p.Quoted)) }

// quoting returns the text of skiff with that of somebody else behind; either may be empty.
func quoting(text, quoted string) string {
	if text == "" || quoted == "" {
		return text + quoted
	}
	return text + " (" + quoted + ")"
}

// said returns the sentence of skiff.
func (p Problem) said() string {
	if p.Subject == "" {
		return kube.Printable(p.Public, maxPublic)
	}
	return kube.Printable(p.Subject+" "+p.Public, maxPublic)
}

// Error makes a Problem an error, for a log.
func (p Problem) Error() string { return p.Message(time.Now()) }

// Check is one line of a probe, with more about its subject below.
type Check struct {
	Name     string    `json:"name"`
	Excluded bool      `json:"excluded,omitempty"` // by the one who asks
	Failed   []Problem `json:"failed,omitempty"`   // empty: it passes
	Problems []Problem `json:"problems,omitempty"` // beside those of Failed
	Notes    []string  `json:"notes,omitempty"`    // facts that are no problem, in words for people
}

// Hidden returns c without the texts of others.
func (c Check) Hidden() Check {
	c.Failed, c.Problems = each(c.Failed, Problem.Hidden), each(c.Problems, Problem.Hidden)
	return c
}

func each(all []Problem, f func(Problem) Problem) []Problem {
	var out []Problem
	for _, p := range all {
		out = append(out, f(p))
	}
	return out
}

// Format names the form of a Report.
const Format = "skiff-health/1"

// Report is the answer of a probe as JSON.
type Report struct {
	Format string  `json:"format"` // [Format]
	Passed bool    `json:"passed"`
	Page   string  `json:"page,omitempty"` // the URL of the live page, where one is served
	Checks []Check `json:"checks"`
}

// NewReport returns the Report of some checks, whose texts it bounds.
func NewReport(checks []Check, passed bool, page string) *Report {
	r := &Report{Format: Format, Passed: passed, Page: page, Checks: []Check{}}
	for _, c := range checks {
		c.Failed, c.Problems = each(c.Failed, Problem.Printable), each(c.Problems, Problem.Printable)
		c.Notes = slices.Clone(c.Notes)
		for i := range c.Notes {
			c.Notes[i] = kube.Printable(c.Notes[i], maxPublic)
		}
		r.Checks = append(r.Checks, c)
	}
	return r
}

// Problems returns how many Problems the Report has.
func (r *Report) Problems() (n int) {
	for _, c := range r.Checks {
		n += len(c.Failed) + len(c.Problems)
	}
	return n
}

// WriteText writes checks in the form of a kube-apiserver's own probes, a line each; if verbose with the Problems and
// notes of each below it.
func WriteText(w io.Writer, checks []Check, verbose bool, now time.Time) {
	for _, c := range checks {
		name := kube.Printable(c.Name, 100)
		switch {
		case c.Excluded:
			fmt.Fprintf(w, "[+]%s excluded: ok\n", name)
		case len(c.Failed) > 0:
			fmt.Fprintf(w, "[-]%s failed: %s\n", name, Texts(c.Failed, now))
		default:
			fmt.Fprintf(w, "[+]%s ok\n", name)
		}
		if !verbose {
			continue
		}
		for _, p := range c.Problems {
			fmt.Fprintf(w, "    ! %s\n", p.Text(now))
		}
		for _, note := range c.Notes {
			fmt.Fprintf(w, "    %s\n", kube.Printable(note, maxPublic))
		}
	}
}

// OfError returns why a list or a watch of skiff fails: the Reason, the words of skiff, those of the server, and the
// next step; no step where skiff goes on as soon as the server answers. Equal causes have equal texts.
func OfError(err error) Problem {
	p, s, credential := Problem{Next: nextStep(err)}, kube.AsStatus(err), new(kube.CredentialError)
	switch {
	case errors.As(err, &credential):
		p.Reason, p.Public, p.Quoted = "NoCredential", "skiff has no credential for the API server",
			credential.Err.Error()
	case kube.IsUnauthorized(err):
		p.Reason = "Unauthorized"
		p.Public, _ = kube.Refused(err)
	case s != nil && s.Code != 0:
		p.Reason, p.Quoted = "Refused", s.Error()
		p.Public = fmt.Sprintf("the server answers %d %s", s.Code, kube.Printable(s.Reason, 100))
	case errors.As(err, new(*kube.NoAnswerError)):
		p.Reason, p.Public, p.Quoted = "NoAnswer", kube.Explain(err), innermost(err).Error()
	default:
		p.Reason, p.Public, p.Quoted = "Failed", "the request failed", err.Error()
	}
	return p
}

// OfRequest is OfError for a request about one object, with the step that skiff takes. The texts are equal for each
// attempt: the error of a connection may name a port or a time.
func OfRequest(err error, step string) Problem {
	p := OfError(err)
	switch p.Reason {
	case "NoAnswer", "NoCredential":
		p.Quoted, p.Next = "", step
	case "Unauthorized":
		p.Next = join(p.Next, step)
	default:
		p.Next = step
	}
	if kube.IsMissingRight(err) {
		p.Next = "grant it, " + step
	}
	return p
}

// OfWrite returns the Problem of a failed write of an object of a kind. A refusal of the API server is about the
// content, so that only a person can end the Problem.
func OfWrite(kind string, err error, step string, severity Severity) *Problem {
	p := OfRequest(err, step)
	p.Reason, p.Severity = kind+"Failed", severity
	if remedy := admission(err); remedy != "" {
		p.Reason, p.Public, p.Next = kind+"Refused", "the API server refuses the "+kind, remedy+", "+step
	}
	if kube.IsRefused(err) {
		p.Reason, p.Severity = kind+"Refused", Stalled
		p.Public, p.Next = "the API server refuses the "+kind, "correct the spec"
	}
	return &p
}

// admission returns what to do about a 403 that is about the content and not about a right of skiff; "" for any other
// error.
func admission(err error) string {
	switch {
	case !kube.IsForbidden(err), kube.IsMissingRight(err):
		return ""
	case kube.IsOverQuota(err):
		return "raise the quota or ask for less"
	case kube.IsPodSecurityViolation(err):
		return "set securityContext under spec.template.spec"
	}
	return "correct the spec, or change what refuses it"
}

// join returns two steps as one sentence; the first may be empty.
func join(first, second string) string {
	if first == "" {
		return second
	}
	return first + "; " + second
}

// nextStep is what a person can do about an error of a list or a watch; "" where nothing is to be done.
func nextStep(err error) string {
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, new(*kube.CredentialError)):
		return "log in again with the plugin by hand, or correct the place that the error names; skiff runs the " +
			"plugin again within seconds"
	case kube.IsNotFound(err):
		return "the server does not have this resource; install its CRD"
	case kube.IsForbidden(err):
		return "grant list and watch on this resource"
	case kube.IsUnauthorized(err):
		_, next := kube.Refused(err)
		return next
	case kube.IsRefused(err):
		return "check the selectors, and the address of the server"
	case errors.Is(err, kube.ErrFrameTooLarge):
		return "find the object and make it smaller"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "correct the clock of this machine, or renew the certificate of the server"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "check the address of the server and the certificate authority (--certificate-authority, or " +
			"certificate-authority-data in the kubeconfig)"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not speak TLS; check its address"
	}
	return ""
}

// innermost is the error at the end of a chain: the event, without the request around it.
func innermost(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}

// Texts returns some Problems as one line.
func Texts(all []Problem, now time.Time) string {
	var out []string
	for _, p := range all {
		out = append(out, p.Text(now))
	}
	return strings.Join(out, "; ")
}

// Count returns a number with its word: "1 pod", "1,204 pods".
func Count[N int | int32 | int64 | uint64](n N, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	digits := fmt.Sprint(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits + " " + more
}

// Few returns a list of names in words, the first six of many.
func Few(names []string) string {
	const most = 6
	if more := len(names) - most; more > 1 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// Ago returns a time of the day and its distance: "15:04:05, 3s ago".
func Ago(t, now time.Time) string {
	return fmt.Sprintf("%s, %s ago", t.Format(time.TimeOnly), now.Sub(t).Round(time.Second))
}
