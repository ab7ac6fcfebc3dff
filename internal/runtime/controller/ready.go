package controller

import (
	"fmt"
	"math"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Ready returns nil when nothing is NotReady.
func (c *Controller) Ready() error {
	if problems := c.NotReady(); len(problems) > 0 {
		return fmt.Errorf("%s: %s", c.name, health.Texts(problems, time.Now()))
	}
	return nil
}

// NotReady returns the mirrors that are not synced, or have not been in touch with the server for long: a dead watch
// must not hide behind a green probe. Parked ones are left out: a right or a resource is missing, waiting may not cure
// that, and one wrong namespace must not hold up a rollout.
func (c *Controller) NotReady() []health.Problem { return c.outOfTouch(staleAfter) }

// Unsynced returns the mirrors that have never been synced and are not parked. Unsynced stands for NotReady while the
// API server answers nothing: a replica that is not ready would not bring the server back.
func (c *Controller) Unsynced() []health.Problem { return c.outOfTouch(math.MaxInt64) }

// notSynced is the Reason of a mirror that has never been listed.
const notSynced = "NotSynced"

// outOfTouch returns the mirrors that are not synced, or have not been up to date for longer than that, those with the
// same cause as one Problem.
func (c *Controller) outOfTouch(longer time.Duration) (out []health.Problem) {
	type cause struct {
		health.Problem
		synced bool
	}
	at := map[string]int{}
	var causes []cause
	var names [][]string
	for _, m := range c.mirrors {
		for _, s := range m.State() {
			fails := s.Synced && !s.ErrSince.IsZero()
			if s.Parked || s.Synced && (s.Err == nil || !fails || time.Since(s.ErrSince) < longer) {
				continue
			}
			is := cause{synced: s.Synced}
			if s.Err != nil {
				is.Problem = health.OfError(s.Err)
			}
			id := fmt.Sprintf("%t %q %q", is.synced, is.Public, is.Quoted)
			i, ok := at[id]
			if !ok {
				i = len(causes)
				at[id], causes, names = i, append(causes, is), append(names, nil)
			}
			names[i] = append(names[i], scopeName(m.Resource(), s))
			if since := &causes[i].Since; fails && (since.IsZero() || s.ErrSince.Before(*since)) {
				*since = s.ErrSince
			}
		}
	}
	for i, is := range causes {
		p := is.Problem
		p.Controller, p.Reason = c.name, notSynced
		state := "have not been listed yet"
		if is.synced {
			p.Reason, state = "NotUpToDate", "have not been up to date"
		}
		if p.Public != "" {
			p.Public += "; "
		}
		p.Public += health.Few(names[i]) + " " + state
		if p.Next == "" && is.synced {
			p.Next = "skiff tries again"
		}
		out = append(out, p)
	}
	return out
}

// Faults returns the Problems of the controller itself: namespaces without the controller, mirrors that are not up to
// date, silent watches, and objects that are not in memory.
func (c *Controller) Faults() []health.Problem {
	out := c.notWorking()
	for i := range out {
		out[i].Public = "not working: " + out[i].Public
	}
	for _, p := range c.outOfTouch(statusAfter) {
		if p.Reason != notSynced { // a mirror that was never listed is among those above
			out = append(out, p)
		}
	}
	out = append(out, c.notRead()...)
	out = append(out, c.silent()...)
	return append(out, c.notInMemory()...)
}

// Problems returns Faults and the objects that fail.
func (c *Controller) Problems() []health.Problem {
	return append(c.Faults(), c.streaks.problems(c.name, c.kind)...)
}

// Mirrors describes each mirror with its last contact with the server, a line each.
func (c *Controller) Mirrors() (lines []string) {
	for _, m := range c.everyMirror() {
		for _, s := range m.State() {
			lines = append(lines, describe(m.Resource(), s))
		}
	}
	return lines
}

// notRead returns the mirrors with objects that do not decode.
func (c *Controller) notRead() (out []health.Problem) {
	for _, m := range c.mirrors {
		for _, s := range m.State() {
			if s.Quarantined > 0 {
				out = append(out, health.Problem{Controller: c.name, Reason: "NotRead",
					Public: scopeName(m.Resource(), s) + ": " + health.Count(s.Quarantined, "object", "objects") +
						" cannot be read, and the last state is used", Next: "the log names what is wrong"})
			}
		}
	}
	return out
}

// silentAfter is how long a watch may be silent before it is a Problem: two of the bookmarks that a kube-apiserver
// sends about every minute.
const silentAfter = 2*time.Minute + 15*time.Second

// silent returns the watches that have been silent for long although bookmarks have come on them: the server hangs, or
// the connection is dead. A silent watch is given up after some time, and its renewal shows more.
func (c *Controller) silent() []health.Problem {
	var names []string
	var since time.Time
	for _, m := range c.mirrors {
		for _, s := range m.State() {
			untold := s.Err == nil || time.Since(s.ErrSince) < statusAfter
			if !s.Synced || !untold || !s.LastBookmark.After(s.Opened) || time.Since(s.LastContact) <= silentAfter {
				continue
			}
			names = append(names, scopeName(m.Resource(), s))
			if since.IsZero() || s.LastContact.Before(since) {
				since = s.LastContact
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []health.Problem{{Controller: c.name, Reason: "SilentWatch", Since: since,
		Public: health.Few(names) + ": nothing received",
		Next:   "the API server may hang, or the connection be dead; skiff renews the watch"}}
}

// statusAfter is how long requests of a mirror may fail before that is a Problem: most often the next one succeeds.
const statusAfter = 5 * time.Second

// describe is the line of one mirror.
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

// maxReason bounds the text of one error in a line.
const maxReason = 300

func scopeName(r kube.Resource, s cache.ScopeState) string {
	if s.Namespace == "" {
		return r.GroupResource()
	}
	return r.GroupResource() + " in " + s.Namespace
}
