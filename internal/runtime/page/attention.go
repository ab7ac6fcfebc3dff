package page

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// What an object, or a part of the process, is like, the worst first.
const (
	process   = "process"   // the process as a whole: no answer from the server, the lease is lost
	missing   = "missing"   // a right or a resource
	stalled   = "stalled"   // nothing happens until a user changes something
	failing   = "failing"   // its runs fail
	degraded  = "degraded"  // something is wrong
	contested = "contested" // another writer changes the same fields
	waiting   = "waiting"   // not ready for more than slowAfter
	paused    = "paused"
	// From here on nothing needs attention.
	progressing = "progressing" // not ready yet, and not for long
	well        = "well"
)

// order is that of the states.
var order = []string{process, missing, stalled, failing, degraded, contested, waiting, paused, progressing, well}

const (
	// slowAfter is for how long an object may become ready before somebody should look: longer than a rollout takes
	// as a rule.
	slowAfter = 5 * time.Minute
	// maxTroubles and maxText bound an answer.
	maxTroubles = 100
	maxText     = 300
)

// Trouble is one thing that needs attention.
type Trouble struct {
	State      string    `json:"state"`
	Controller string    `json:"controller,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Namespace  string    `json:"namespace,omitempty"`
	Name       string    `json:"name,omitempty"`
	Reason     string    `json:"reason"`
	Since      time.Time `json:"since,omitzero"`
	Failures   int       `json:"failures,omitempty"`
	Next       time.Time `json:"next,omitzero"` // when it is tried again
	Step       string    `json:"step,omitempty"`
	Command    string    `json:"command,omitempty"`
}

// compare orders by state, and then by name.
func (t Trouble) compare(o Trouble) int {
	return cmp.Or(cmp.Compare(slices.Index(order, t.State), slices.Index(order, o.State)), cmp.Compare(t.Kind, o.Kind),
		cmp.Compare(t.Namespace, o.Namespace), cmp.Compare(t.Name, o.Name), cmp.Compare(t.Controller, o.Controller))
}

// Object names the object, or what else it is about.
func (t Trouble) Object() string {
	switch {
	case t.Name != "":
		return fmt.Sprintf("%s %s", t.Kind, kube.Key{Namespace: t.Namespace, Name: t.Name})
	case t.Controller != "" && t.Namespace != "":
		return "controller " + t.Controller + " in namespace " + t.Namespace
	case t.Controller != "":
		return "controller " + t.Controller
	}
	return "skiff"
}

// first keeps the first of many in order, without holding all of them.
type first struct {
	limit int
	after *Trouble // those up to this one are left out; nil: none
	list  []Trouble
	all   int
}

func (f *first) add(t Trouble) {
	f.all++
	if f.after != nil && t.compare(*f.after) <= 0 {
		return
	}
	at := sort.Search(len(f.list), func(i int) bool { return t.compare(f.list[i]) < 0 }) // behind those alike
	if at < f.limit {
		f.list = slices.Insert(f.list, at, t)
		f.list = f.list[:min(len(f.list), f.limit)]
	}
}

// ofProcess adds what concerns no single object. What others have said, and may repeat an object, is only for readers
// with the token.
func (p *Page) ofProcess(add func(Trouble)) {
	say := func(text string) string {
		if p.o.Token == nil {
			text = unquoted(text)
		}
		return kube.Printable(text, maxText)
	}
	for _, t := range p.o.Process() {
		t.State, t.Reason, t.Step = process, say(t.Reason), say(t.Step)
		add(t)
	}
	for _, c := range p.o.Controllers() {
		for _, part := range c.Parts() {
			if part.Problem == "" {
				continue
			}
			step := part.Brief
			if p.o.Token != nil {
				step = part.Problem
			}
			add(Trouble{State: missing, Controller: c.Name(), Namespace: part.Namespace, Reason: reasonOf(part),
				Step: kube.Printable(step, maxText)})
		}
		for _, f := range c.Faults(p.o.Token != nil) {
			add(Trouble{State: missing, Controller: c.Name(), Reason: f.Reason, Since: f.Since,
				Step: kube.Printable(f.Text, maxText)})
		}
		for _, f := range c.Strays() {
			t := failed(Trouble{Controller: c.Name(), Kind: c.Kind(), Name: kube.Printable(f.Key.Name, maxText),
				Namespace: kube.Printable(f.Key.Namespace, maxText)}, f)
			t.Step = steps[t.State]
			add(t)
		}
	}
}

// unquoted is a text without what is in parentheses in it.
func unquoted(text string) string {
	begin, end := strings.Index(text, " ("), strings.LastIndex(text, ")")
	if begin < 0 {
		return text
	}
	return text[:begin] + text[max(begin, end+1):]
}

// reasonOf is the word for what a part lacks.
func reasonOf(part controller.Part) string {
	for _, reason := range controller.MissingReasons {
		if part.Missing[reason] {
			return reason
		}
	}
	return "not_synced"
}

// signs are the conditions that say what state an object is in, the worst first.
var signs = []struct {
	state, conditionType string
	status               conditions.Status
	applies              func(c conditions.Condition, now time.Time) bool
}{
	{stalled, conditions.Stalled, conditions.True, always},
	{contested, conditions.Degraded, conditions.True,
		func(c conditions.Condition, _ time.Time) bool { return c.Reason == "Contested" }},
	{degraded, conditions.Degraded, conditions.True, always},
	{paused, conditions.Paused, conditions.True, always},
	{waiting, conditions.Ready, conditions.False,
		func(c conditions.Condition, now time.Time) bool { return now.Sub(c.LastTransitionTime) > slowAfter }},
	{progressing, conditions.Ready, conditions.False, always},
}

func always(conditions.Condition, time.Time) bool { return true }

// steps are what to do about an object in each state.
var steps = map[string]string{
	stalled:   "correct what its conditions and Events name: it is tried after a change, or every few minutes",
	failing:   "skiff tries again; its Events say what failed",
	degraded:  "its conditions say what is wrong",
	contested: "another writer sets the same fields: stop that writer, or leave these fields to it",
	waiting:   "its conditions say what it waits for",
	paused:    "skiff changes nothing for it until the pause is removed",
}

// failed is a trouble whose object fails.
func failed(t Trouble, f controller.Failing) Trouble {
	t.State, t.Reason, t.Since, t.Failures = failing, f.Reason, f.Since, f.Failures
	if f.Stalled {
		t.State = stalled
	}
	return t
}

// troubleOf says what state an object is in. The messages of its conditions are not shown: they may repeat what is in
// the object.
func troubleOf(c *controller.Controller, o *controller.Owner, now time.Time) Trouble {
	t := Trouble{State: well, Controller: c.Name(), Kind: o.Kind, Namespace: kube.Printable(o.Key.Namespace, maxText),
		Name: kube.Printable(o.Key.Name, maxText), Failures: o.Failing.Failures, Next: o.Next}
	for _, sign := range signs {
		if o.Foreign {
			break
		}
		got, ok := conditions.Get(o.Conditions, sign.conditionType)
		if ok && got.Status == sign.status && sign.applies(got, now) {
			t.State, t.Reason, t.Since = sign.state, kube.Printable(got.Reason, maxText), got.LastTransitionTime
			break
		}
	}
	if o.Failing.Failures > 0 && t.State != stalled {
		t = failed(t, o.Failing)
	}
	t.Step = steps[t.State]
	if t.State != well && t.State != progressing && kube.ValidName(o.Key.Name) &&
		(o.Key.Namespace == "" || kube.ValidName(o.Key.Namespace)) {
		// Not the kind alone, which another group may have.
		t.Command = "kubectl describe " + o.Resource.GroupResource() + " " + o.Key.Name
		if o.Key.Namespace != "" {
			t.Command += " -n " + o.Key.Namespace
		}
	}
	return t
}
