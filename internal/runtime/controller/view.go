package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
)

// Ready returns nil when nothing is NotReady.
func (c *Controller) Ready() error {
	if problems := c.NotReady(); len(problems) > 0 {
		return fmt.Errorf("%s: %s", c.name, health.Texts(problems, time.Now()))
	}
	return nil
}

// NotReady returns the mirrors that are not synced, or have not been in touch with the server for long: a dead watch
// must not hide behind a green probe. Parked mirrors are left out: a right or a resource is missing, waiting may not
// cure the lack, and one wrong namespace must not hold up a rollout.
func (c *Controller) NotReady() []health.Problem { return c.outOfTouch(staleAfter) }

// Unsynced returns the mirrors that have never been synced and are not parked. Unsynced stands for NotReady while the
// API server answers nothing: a replica that is not ready would not bring the server back.
func (c *Controller) Unsynced() []health.Problem { return c.outOfTouch(math.MaxInt64) }

// notSynced is the Reason of a mirror that has never been listed.
const notSynced = "NotSynced"

// outOfTouch returns the mirrors that are not synced, or have been out of date for longer than the given time; mirrors
// with the same cause share a Problem.
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

// Faults returns the Problems of the controller itself: namespaces not worked on, mirrors out of date, silent watches,
// and objects not in memory.
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

// silentAfter is how long a watch may be silent before the silence is a Problem: two bookmarks, as a kube-apiserver
// sends a bookmark about every minute.
const silentAfter = 2*time.Minute + 15*time.Second

// silent returns the watches with bookmarks in the past and a long silence now: the server hangs, or the connection is
// dead. The Reflector gives up a silent watch after some time, and the renewal shows more.
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

// statusAfter is how long requests of a mirror may fail before the failure is a Problem: most often the next request
// succeeds.
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

// Advice is what a user of the program can do, as the end of a message; "" adds nothing.
type Advice struct {
	cache.Advice
	Install map[string]string // a definition of this API group is missing
	Version map[string]string // it is there in another version
	// Grant is how an administrator gives a user (name, "" if not known) the rights of a controller in namespaces, or
	// everywhere if the first is "", where skiff may not list some resources; nil: no advice.
	Grant func(controller, user string, namespaces, resources []string) string
}

// reasonOfLack are the Reasons of Problems by the labels of metrics.
var reasonOfLack = map[string]string{MissingRight: "Forbidden", MissingResource: "NotFound",

	MissingContent: notSynced}

// lack is a reason why a controller does not work on a part. Equal lacks of several parts make one Problem.
type lack struct {
	reason string // of MissingReasons
	names  string // of the resources
	user   string // the name the server has for skiff, without the right; "": not known
	health.Problem
}

// same identifies the lack among those of other parts.
func (l *lack) same() string {
	return fmt.Sprintf("%s %s %s %q", l.reason, l.names, l.user, l.Problem.Text(l.Since))
}

// lacksOf returns the reasons why the controller does not work on a part: missing rights first, then missing
// definitions.
func (c *Controller) lacksOf(one *part) (out []lack) {
	var forbidden, other []lack
	absent := map[string][]string{} // by what installs them
	version := new(kube.OtherVersionError)
	for _, m := range c.mirrors {
		for _, s := range m.State() {
			if s.Namespace != "" && s.Namespace != one.namespace || s.Synced && !s.Parked {
				continue
			}
			l := lack{reason: MissingContent, names: m.Resource().GroupResource()}
			install := c.o.Advice.Install[m.Resource().Group]
			switch {
			case kube.IsForbidden(s.Err):
				l.reason, l.user = MissingRight, kube.ForbiddenUser(s.Err)
				if len(forbidden) > 0 {
					forbidden[0].names += ", " + l.names
					continue
				}
				forbidden = append(forbidden, l)
				continue
			case errors.As(s.Err, &version):
				l.reason, l.Next = MissingResource, c.o.Advice.Version[m.Resource().Group]
				l.Public = fmt.Sprintf("%s is served as %s, and this skiff needs %s", l.names,
					strings.Join(version.Served, ", "), version.Resource.Version)
			case kube.IsNotFound(s.Err) && install != "":
				absent[install] = append(absent[install], l.names)
				continue
			case kube.IsNotFound(s.Err):
				l.reason, l.Public, l.Next = MissingResource, l.names+": the server does not have this resource",
					"install its CRD"
			case s.Err != nil:
				l.Problem = health.OfError(s.Err)
				l.Public = l.names + ": " + l.Public
			default:
				l.Public = l.names + ": not listed yet"
			}
			other = append(other, l)
		}
	}
	out = forbidden
	for _, install := range slices.Sorted(maps.Keys(absent)) {
		l := lack{reason: MissingResource, names: strings.Join(absent[install], ", ")}
		l.Public, l.Next = l.names+" is not installed", install
		if len(absent[install]) > 1 {
			l.Public = l.names + " are not installed"
		}
		out = append(out, l)
	}
	return append(out, other...)
}

// maxNamespaces bounds the namespaces of one Problem: ten thousand would make an answer of a probe a megabyte.
const maxNamespaces = 100

// problem returns a lack of some namespaces, with the next step.
func (c *Controller) problem(l lack, namespaces ...string) health.Problem {
	p := l.Problem
	p.Controller, p.Reason = c.name, reasonOfLack[l.reason]
	if l.reason == MissingRight {
		p.Public = "may not list and watch " + l.names
		if grant := c.o.Advice.Grant; grant != nil {
			p.Next = grant(c.name, l.user, namespaces, strings.Split(l.names, ", "))
		}
	}
	switch {
	case namespaces[0] == "":
		return p
	case len(namespaces) == 1:
		p.Public = "namespace " + namespaces[0] + ": " + p.Public
	default:
		p.Public = "namespaces " + health.Few(namespaces) + ": " + p.Public
	}
	p.Namespaces = namespaces[:min(len(namespaces), maxNamespaces)]
	return p
}

// problemsOf returns why the controller does not work on a part.
func (c *Controller) problemsOf(one *part) (out []health.Problem) {
	for _, l := range c.lacksOf(one) {
		out = append(out, c.problem(l, one.namespace))
	}
	return out
}

// notWorking returns the lacks of all parts as Problems; parts with an equal lack share a Problem.
func (c *Controller) notWorking() (out []health.Problem) {
	type group struct {
		same  string
		doing doing
	}
	var order []group
	lacks, namespaces := map[group]lack{}, map[group][]string{}
	for _, one := range c.parts.list() {
		for _, l := range c.lacksOf(one) {
			g := group{l.same(), c.parts.stage(one).doing}
			if namespaces[g] == nil {
				order, lacks[g] = append(order, g), l
			}
			namespaces[g] = append(namespaces[g], one.namespace)
		}
	}
	for _, g := range order {
		p := c.problem(lacks[g], namespaces[g]...)
		effect := ""
		switch g.doing {
		case reporting:
			effect = "the status of the objects says that their state is not known"
		case muted:
			effect = "the status of the objects cannot be written either and may not be true any more"
		}
		if p.Next != "" && effect != "" {
			p.Next += "; "
		}
		p.Next += effect
		out = append(out, p)
	}
	return out
}

// IsCalled says whether a name names the objects of the controller, as kubectl takes names: the kind, the plural, also
// with the group, or a short name.
func (c *Controller) IsCalled(name string) bool {
	r := c.Resource()
	if r.Plural == "" {
		return false
	}
	names := append([]string{r.Kind, r.Plural, r.GroupResource()}, c.shows.Short...)
	return slices.ContainsFunc(names, func(known string) bool { return strings.EqualFold(known, name) })
}

// Example is an object to begin with, in YAML; "": its objects are not made for the controller.
func (c *Controller) Example() string {
	r := c.Resource()
	if c.shows.Foreign || r.Kind == "" || c.shows.Example != "" {
		return c.shows.Example
	}
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: example}\nspec: {}\n",
		strings.TrimPrefix(r.Group+"/"+r.Version, "/"), r.Kind)
}

// Show sets the details of objects. Show is for before Run.
func (c *Controller) Show(s Shows) { c.shows, c.reports.quoted = s, s.Reported }

// Details returns the details of the object under a key; nothing without an object.
func (c *Controller) Details(k kube.Key) (children []apply.Shown, facts []Fact) {
	if c.object == nil {
		return nil, nil
	}
	owner, _ := c.object(k)
	if owner == nil {
		return nil, nil
	}
	if c.shows.Children != nil {
		children = c.shows.Children(owner)
	}
	if c.shows.Facts != nil {
		facts = c.shows.Facts(owner)
	}
	return children, facts
}

// Pods reads the pods of the object under a key; false: none are known of it.
func (c *Controller) Pods(ctx context.Context, k kube.Key) (pods Pods, known bool, err error) {
	if c.object == nil || c.shows.Pods == nil {
		return Pods{}, false, nil
	}
	owner, _ := c.object(k)
	if owner == nil {
		return Pods{}, false, nil
	}
	if pods, err = c.shows.Pods(ctx, owner); errors.Is(err, ErrNoPods) {
		return Pods{}, false, nil
	}
	return pods, true, err
}

// Owners calls f for each object of the source made by For that the controller works for, without an order. The
// conditions must not be changed.
func (c *Controller) Owners(f func(*Owner)) {
	if c.keys == nil {
		return
	}
	for _, k := range c.keys("") {
		if o, ok := c.Owner(k); ok {
			f(&o)
		}
	}
}

// Owner returns the owner under a key; false: none.
func (c *Controller) Owner(k kube.Key) (Owner, bool) {
	if c.object == nil {
		return Owner{}, false
	}
	object, _ := c.object(k)
	if object == nil || c.shows.Works != nil && !c.shows.Works(object) {
		return Owner{}, false
	}
	m := object.ObjectMeta()
	o := Owner{Kind: c.kind, Resource: c.own.Resource(), Key: k, Created: m.CreationTimestamp,
		Deleting: !m.DeletionTimestamp.IsZero(), Foreign: c.shows.Foreign, Problem: c.reports.get(k)}
	if s := c.streaks.Get(k); s.failures > 0 && (s.class != passing || s.failures >= newsAfter) {
		o.Failing = Failing{k, s.failures, s.problem()}
		o.Failing.Since = cmp.Or(s.since, s.first)
	}
	if says, ok := object.(conditioned); ok {
		o.Conditions = says.Shown()
	} else if c.shows.Reported {
		o.Foreign, o.Conditions = false, conditions.Reported(kube.HeadOf(object).Annotations, o.Problem)
	}
	o.Next, _ = c.queue.Due(k)
	return o, true
}

// Report notes a Problem with the object under a key, found by a run; nil: no Problem. The page shows the words of
// skiff to everybody. Readers with the right to see the object find quoted words in the conditions, so Report does not
// keep quotes.
func (c *Controller) Report(k kube.Key, p *health.Problem) { c.reports.set(k, p) }

// Reasons returns how many objects have a Problem of Report, by the Problem's reason.
func (c *Controller) Reasons() map[string]int { return c.reports.reasons() }

// Strays returns the failing keys without an object in memory: keys of rules, or of deleted objects.
func (c *Controller) Strays() (out []Failing) {
	for _, f := range c.streaks.all() {
		if c.object != nil {
			if object, _ := c.object(f.Key); object != nil {
				continue
			}
		}
		out = append(out, f)
	}
	return out
}

// OldestDue is since when the key waits for a worker that has waited for longest; zero: none waits.
func (c *Controller) OldestDue() time.Time {
	pending, _ := c.queue.View(c.o.Workers + 2) // those that run come first, and there may be one more than workers
	for _, k := range pending {
		if !k.Running && k.Waiting && !k.Due.After(time.Now()) {
			return k.Due
		}
	}
	return time.Time{}
}

// Stats returns the present counts.
func (c *Controller) Stats() Stats {
	s := Stats{
		Done:     c.stats.done.Load(),
		Again:    c.stats.again.Load(),
		Errors:   c.stats.errors.Load(),
		Terminal: c.stats.terminal.Load(),
		Panics:   c.stats.panics.Load(),
		Crashes:  c.stats.crashes.Load(),
		Timeouts: c.stats.timeouts.Load(),
		Workers:  c.o.Workers,
		Queue:    c.queue.Stats(),
		Causes:   c.stats.causes.all(),
		Waited:   c.stats.waited,
		Took:     c.stats.took,
		Worked:   c.stats.worked,
	}
	s.Queued = s.Queue.Due
	s.Failing, s.Stalled = c.streaks.count()
	return s
}

// Progress returns how far the workers are.
func (c *Controller) Progress() Progress {
	p := Progress{Turns: c.turns.Load(), Limit: max(stuckAfter, c.o.ReconcileTimeout+stuckAfter/2)}
	if c.manned.Load() > 0 {
		p.Due = c.queue.Stats().Due
	}
	return p
}

// Running returns the keys that workers have now.
func (c *Controller) Running() []kube.Key { return c.queue.Processing() }

// Parts returns the parts of the controller, and why a part is not worked on.
func (c *Controller) Parts() []Part {
	var out []Part
	for _, one := range c.parts.list() {
		p := Part{Namespace: one.namespace, Working: c.parts.works(one.namespace), Missing: map[string]bool{}}
		for _, l := range c.lacksOf(one) {
			p.Missing[l.reason] = true
			p.Problems = append(p.Problems, c.problem(l, one.namespace))
		}
		out = append(out, p)
	}
	return out
}

// View returns at most limit of the keys that run, are due or delayed, at most limit of the failing keys, in key
// order, and the number of each.
func (c *Controller) View(limit int) (pending []Pending, waiting int, failing []Failing, failed int) {
	first, waiting := c.queue.View(limit)
	for _, one := range first {
		pending = append(pending, Pending{one, c.streaks.Get(one.Key).failures})
	}
	failing = c.streaks.all()
	failed = len(failing)
	return pending, waiting, failing[:min(failed, limit)], failed
}

// Publish adds counts of the operator's own to the metrics of the controller. It is for before Run.
func (c *Controller) Publish(counts *metrics.Counts) { c.counts = append(c.counts, counts) }

// Counts returns what was given to Publish.
func (c *Controller) Counts() []*metrics.Counts { return c.counts }

// notInMemory returns the namespaces and objects that are left alone for lack of memory. Objects that are too large
// are named only where the controller works for them: the status of the owner names a child.
func (c *Controller) notInMemory() (out []health.Problem) {
	for _, m := range c.everyMirror() {
		sheds := slices.DeleteFunc(m.Sheds(), func(s cache.ShedNamespace) bool { return !s.Whole && m != c.own })
		for i, shed := range sheds {
			p := health.Problem{Controller: c.name, Reason: cache.OverBudget}
			if i == maxShedLines {
				p.Public = fmt.Sprintf("over budget: %s of %d more namespaces", m.Resource().GroupResource(),
					len(sheds)-i)
				out = append(out, p)
				break
			}
			p.Namespaces = []string{shed.Namespace}
			what := "over budget"
			if !shed.Whole {
				p.Reason, what = cache.TooLarge, "too large"
			}
			p.Public = fmt.Sprintf("%s: namespace %s: %d of its %s not worked on: %s", what, shed.Namespace,
				shed.Objects, m.Resource().Plural, shed.Problem.Public)
			p.Next = shed.Problem.Next
			out = append(out, p)
		}
	}
	return out
}
