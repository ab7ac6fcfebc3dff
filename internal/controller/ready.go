package controller

import (
	"fmt"
	"strings"
	"time"

	"skiff/internal/cache"
	"skiff/internal/kube"
)

// Ready returns nil when the mirror of each namespace is synced and in touch with the server, or parked because a
// right or a resource is missing, which waiting may not cure: one wrong namespace must not hold up a rollout. Else it
// says what is missing, why, and what to do about it: a watch that is dead must not hide behind a green probe.
func (c *Controller) Ready() error {
	var problems []string
	for _, m := range c.mirrors {
		for _, s := range m.State() {
			switch stale := time.Since(s.ErrSince); {
			case s.Parked:
			case !s.Synced && s.Err == nil:
				problems = append(problems, scopeName(m.Resource(), s)+": not listed yet")
			case !s.Synced:
				problems = append(problems, scopeName(m.Resource(), s)+": "+s.Problem)
			case s.Err != nil && stale >= staleAfter:
				problems = append(problems, fmt.Sprintf("not up to date for %s: %s: %s", stale.Round(time.Second),
					scopeName(m.Resource(), s), s.Problem))
			}
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", c.name, strings.Join(problems, "; "))
}

// Status describes how the controller is doing in lines for people: what it does not work on, and why, and then each
// of its mirrors with its last contact with the server.
func (c *Controller) Status() []string {
	var lines []string
	for _, one := range c.parts.all {
		if problem := c.problemOf(one); problem != "" {
			lines = append(lines, "not working: "+problem)
		}
	}
	for _, m := range c.mirrors {
		for _, s := range m.State() {
			lines = append(lines, describe(m.Resource(), s))
		}
	}
	return lines
}

// describe is the line of one mirror in Status.
func describe(r kube.Resource, s cache.ScopeState) string {
	contact := "never"
	if !s.LastContact.IsZero() {
		contact = time.Since(s.LastContact).Round(time.Second).String() + " ago"
	}
	line := fmt.Sprintf("%s: %s, %d objects, last contact %s", scopeName(r, s), s.Phase, s.Objects, contact)
	if s.Quarantined > 0 {
		line += fmt.Sprintf(", %d objects do not decode", s.Quarantined)
	}
	if s.Err != nil {
		line += ": " + s.Problem
	}
	return line
}

// problemOf says what keeps the controller from working on a part, and the next step; "" if nothing does. Mirrors with
// the same problem share a sentence.
func (c *Controller) problemOf(one *part) string {
	var forbidden, absent, other []string
	for _, m := range c.mirrors {
		for _, s := range m.State() {
			ours := s.Namespace == "" || s.Namespace == one.namespace
			switch name := m.Resource().GroupResource(); {
			case !ours, s.Synced && !s.Parked:
			case kube.IsForbidden(s.Err):
				forbidden = append(forbidden, name)
			case kube.IsNotFound(s.Err) && m.Resource().Group == ownGroup:
				absent = append(absent, name)
			case kube.IsNotFound(s.Err):
				other = append(other, name+": the server does not have this resource; install its CRD")
			case s.Err != nil:
				other = append(other, name+": "+s.Problem)
			default:
				other = append(other, name+": not listed yet")
			}
		}
	}
	var out []string
	switch len(absent) {
	case 0:
	case 1:
		out = append(out, absent[0]+" is not installed; run `skiff crds install`")
	default:
		out = append(out, strings.Join(absent, ", ")+" are not installed; run `skiff crds install`")
	}
	if len(forbidden) > 0 {
		manifests := "skiff manifests"
		if one.namespace != "" {
			manifests += " --namespaced " + one.namespace
		}
		out = append(out, "may not list and watch "+strings.Join(forbidden, ", ")+"; `"+manifests+
			"` prints the role that grants it")
	}
	text := strings.Join(append(out, other...), "; ")
	if text != "" && one.namespace != "" {
		return "namespace " + one.namespace + ": " + text
	}
	return text
}

// ownGroup is the API group of skiff's own resources, whose CRDs skiff can install.
const ownGroup = "skiff.dev"

func scopeName(r kube.Resource, s cache.ScopeState) string {
	if s.Namespace == "" {
		return r.GroupResource()
	}
	return r.GroupResource() + " in " + s.Namespace
}
