package controller

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

// Ready returns nil when the mirror of each namespace is synced and in touch with the server, or parked because a
// right or a resource is missing, which waiting may not cure: one wrong namespace must not hold up a rollout. Else it
// says what is missing, why, and what to do about it: a watch that is dead must not hide behind a green probe.
func (c *Controller) Ready() error {
	if problems := c.outOfTouch(staleAfter, reason); len(problems) > 0 {
		return fmt.Errorf("%s: %s", c.name, strings.Join(problems, "; "))
	}
	return nil
}

// Synced returns nil when the mirror of each namespace has been synced once, or is parked. It is Ready for the time in
// which the API server answers nothing: readiness would not bring that back.
func (c *Controller) Synced() error {
	if problems := c.outOfTouch(math.MaxInt64, reason); len(problems) > 0 {
		return fmt.Errorf("%s: %s", c.name, strings.Join(problems, "; "))
	}
	return nil
}

// outOfTouch says which mirrors are not synced, or have not been up to date for longer than that, with one text for
// all that have the same problem. say puts an error into words.
func (c *Controller) outOfTouch(longer time.Duration, say func(error) string) []string {
	var order []string
	names, longest := map[string][]string{}, map[string]time.Duration{}
	for _, m := range c.mirrors {
		for _, s := range m.State() {
			stale := time.Duration(0)
			if s.Synced && !s.ErrSince.IsZero() {
				stale = time.Since(s.ErrSince)
			}
			if s.Parked || s.Synced && (s.Err == nil || stale < longer) {
				continue
			}
			problem := "not listed yet"
			if s.Err != nil {
				problem = say(s.Err)
			}
			if names[problem] == nil {
				order = append(order, problem)
			}
			names[problem] = append(names[problem], scopeName(m.Resource(), s))
			longest[problem] = max(longest[problem], stale)
		}
	}
	out := make([]string, 0, len(order))
	for _, problem := range order {
		text := few(names[problem]) + ": " + problem
		if stale := longest[problem]; stale > 0 {
			text = "not up to date for " + stale.Round(time.Second).String() + ": " + text
		}
		out = append(out, text)
	}
	return out
}

// Status describes how the controller is doing in lines for people. First come those that need attention, which begin
// with Attention: what it does not work on, and why, and the objects that fail. Then each of its mirrors follows, with
// its last contact with the server.
func (c *Controller) Status() []string { return c.status(true) }

// BriefStatus is Status without the texts of errors, which may quote an object.
func (c *Controller) BriefStatus() []string { return c.status(false) }

func (c *Controller) status(quoted bool) []string {
	say := reason
	if !quoted {
		say = brief
	}
	var lines []string
	lines = append(lines, c.notWorking(say)...)
	lines = append(lines, c.outOfTouch(statusAfter, say)...)
	lines = append(lines, c.silent()...)
	lines = append(lines, c.describeSheds()...)
	lines = append(lines, c.streaks.describe(c.kind, time.Now(), quoted)...)
	for i := range lines {
		lines[i] = Attention + lines[i]
	}
	for _, m := range c.everyMirror() {
		for _, s := range m.State() {
			lines = append(lines, describe(m.Resource(), s))
		}
	}
	return lines
}

// silentAfter is how long a watch may be silent before Status says it: two of the bookmarks that a kube-apiserver
// sends about every minute.
const silentAfter = 2*time.Minute + 15*time.Second

// silent says which watches have been silent for long although bookmarks have come on them: the server is frozen, or
// the connection dead. The watch is given up after some time, and its renewal shows more.
func (c *Controller) silent() []string {
	var names []string
	longest := time.Duration(0)
	for _, m := range c.mirrors {
		for _, s := range m.State() {
			age := time.Since(s.LastContact)
			untold := s.Err == nil || time.Since(s.ErrSince) < statusAfter
			if s.Synced && untold && s.LastBookmark.After(s.Opened) && age > silentAfter {
				names, longest = append(names, scopeName(m.Resource(), s)), max(longest, age)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("nothing received for %s: %s: the API server may hang, or the connection be dead; "+
		"skiff renews the watch", longest.Round(time.Second), few(names))}
}

// statusAfter is how long requests of a mirror may fail before Status says it: most often the next one succeeds.
const statusAfter = 5 * time.Second

// Attention is how the lines of Status begin that need attention.
const Attention = "! "

// describe is the line of one mirror in Status.
func describe(r kube.Resource, s cache.ScopeState) string {
	contact := "never"
	if !s.LastContact.IsZero() {
		contact = time.Since(s.LastContact).Round(time.Second).String() + " ago"
	}
	objects := "objects"
	if s.Objects == 1 {
		objects = "object"
	}
	line := fmt.Sprintf("%s: %s, %d %s, last contact %s", scopeName(r, s), s.Phase, s.Objects, objects, contact)
	if s.Quarantined > 0 {
		line += fmt.Sprintf(", %d objects do not decode", s.Quarantined)
	}
	return line
}

// maxNames bounds a list of names in a text.
const maxNames = 6

func few(names []string) string {
	if more := len(names) - maxNames; more > 1 {
		return strings.Join(names[:maxNames], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// maxReason bounds the text of one error in a line.
const maxReason = 300

// reason is why a list or watch fails, in words that are the same for all that fail for that reason.
func reason(err error) string {
	s := kube.AsStatus(err)
	credential := new(kube.CredentialError)
	switch {
	case errors.As(err, &credential):
		return "skiff has no credential for the API server (" + kube.Printable(credential.Err.Error(), maxReason) + ")"
	case s == nil && errors.As(err, new(*kube.NoAnswerError)):
		return "the API server cannot be reached (" + kube.Printable(innermost(err).Error(), maxReason) + ")"
	case s == nil:
		return kube.Printable(err.Error(), maxReason)
	case kube.IsUnauthorized(err):
		return kube.Explain(err)
	case s.Code != 0 && !strings.Contains(s.Error(), strconv.Itoa(s.Code)):
		return kube.Printable(fmt.Sprintf("%d %s: %v", s.Code, s.Reason, s), maxReason)
	}
	return kube.Printable(s.Error(), maxReason)
}

// innermost is the error at the end of a chain: what happened, without the request that it happened to.
func innermost(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}

func scopeName(r kube.Resource, s cache.ScopeState) string {
	if s.Namespace == "" {
		return r.GroupResource()
	}
	return r.GroupResource() + " in " + s.Namespace
}
