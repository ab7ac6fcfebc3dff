package controller

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"skiff/internal/runtime/kube"
)

// Fault is something that is wrong with the mirrors of a controller.
type Fault struct {
	Reason string // one word
	Text   string // what it is about, and the next step
	Since  time.Time
}

// faults are those of Faults: mirrors that are not up to date, watches that are silent, and what takes too much
// memory. say puts an error into words.
func (c *Controller) faults(say func(error) string) (out []Fault) {
	names := map[string][]string{}
	for _, m := range c.mirrors {
		for _, s := range m.State() {
			if !s.Synced || s.Parked || s.Err == nil || time.Since(s.ErrSince) < statusAfter {
				continue
			}
			text := say(s.Err)
			if names[text] == nil {
				out = append(out, Fault{Reason: "NotUpToDate", Text: text, Since: s.ErrSince})
			}
			names[text] = append(names[text], scopeName(m.Resource(), s))
			i := slices.IndexFunc(out, func(f Fault) bool { return f.Text == text })
			if s.ErrSince.Before(out[i].Since) {
				out[i].Since = s.ErrSince
			}
		}
	}
	for i := range out {
		out[i].Text = few(names[out[i].Text]) + ": " + out[i].Text + "; skiff tries again"
	}
	for _, m := range c.mirrors {
		for _, s := range m.State() {
			if s.Quarantined > 0 {
				text := fmt.Sprintf("%s: %d objects cannot be read, so that what is known of them may be old: the "+
					"log names them", scopeName(m.Resource(), s), s.Quarantined)
				out = append(out, Fault{Reason: "NotRead", Text: text})
			}
		}
	}
	for _, text := range c.silent() {
		out = append(out, Fault{Reason: "SilentWatch", Text: text})
	}
	for _, text := range c.describeSheds() {
		out = append(out, Fault{Reason: "NotInMemory", Text: text})
	}
	return out
}

// Faults returns what is wrong beside parts that are not worked on and objects that are there. Only with quoted does
// it repeat what the server has said.
func (c *Controller) Faults(quoted bool) []Fault {
	if quoted {
		return c.faults(reason)
	}
	return c.faults(brief)
}

// brief is reason without what others have written: an error may quote an object.
func brief(err error) string {
	s := kube.AsStatus(err)
	switch {
	case errors.As(err, new(*kube.CredentialError)):
		return "skiff has no credential for the API server"
	case s != nil && s.Code != 0:
		return fmt.Sprintf("the server answers %d %s", s.Code, kube.Printable(s.Reason, 100))
	case errors.As(err, new(*kube.NoAnswerError)):
		return "the API server cannot be reached"
	}
	return "the list or the watch failed"
}
