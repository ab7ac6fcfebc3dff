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
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// The states of an object, or of a part of the process, the worst first.
const (
	wholeProcess = "process"   // the process as a whole: no answer from the server, the lease is lost
	missing      = "missing"   // a right or a resource
	stalled      = "stalled"   // nothing happens until a user changes something
	failing      = "failing"   // its runs fail
	degraded     = "degraded"  // something is wrong
	contested    = "contested" // another writer changes the same fields
	waiting      = "waiting"   // not ready for more than slowAfter
	// From here on nothing needs attention: what is paused is so on purpose.
	paused      = "paused"
	unknown     = "unknown"     // a failing hook has not been asked about the object
	progressing = "progressing" // not ready yet, and not for long
	well        = "well"
)

// attention is a filter for all states that need a look.
const attention = "attention"

// healthy is the word for well, and another name of it in a filter.
const healthy = "healthy"

// Word is a state as people say it.
func Word(state string) string {
	if state == well {
		return healthy
	}
	return state
}

// needsAttention says whether somebody should look at an object in a state.
func needsAttention(state string) bool {
	return slices.Index(order, state) < slices.Index(order, paused)
}

// order is that of the states.
var order = []string{wholeProcess, missing, stalled, failing, degraded, contested, waiting, paused, unknown,
	progressing, well}

const (
	// slowAfter is for how long an object may become ready before somebody should look: longer than a rollout takes
	// as a rule.
	slowAfter = 5 * time.Minute
	// maxTroubles and maxText bound an answer.
	maxTroubles = 100
	maxText     = 300
	maxMessage  = 1024 // of a condition written by skiff
)

// Trouble is an object or a part of the process that needs attention: the row of a Problem in skiff-state/1.
type Trouble struct {
	State      string    `json:"state"`
	Controller string    `json:"controller,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Namespace  string    `json:"namespace,omitempty"`
	Name       string    `json:"name,omitempty"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message,omitempty"` // of a condition, for readers with the right, or of the process
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

// Text is what t says for people: the message, and the next step.
func (t Trouble) Text() string {
	if t.Message == "" || t.Step == "" {
		return t.Message + t.Step
	}
	return t.Message + "; " + t.Step
}

// Object names the object, the controller or the process.
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
	after *Trouble // rows up to this row are left out; nil: none
	list  []Trouble
	all   int
	since time.Time // of all, when the first began to need attention; zero: not known
}

func (f *first) add(t Trouble) {
	f.all++
	if needsAttention(t.State) && !t.Since.IsZero() && (f.since.IsZero() || t.Since.Before(f.since)) {
		f.since = t.Since
	}
	if f.after != nil && t.compare(*f.after) <= 0 {
		return
	}
	at := sort.Search(len(f.list), func(i int) bool { return t.compare(f.list[i]) < 0 }) // behind those alike
	if at < f.limit {
		f.list = slices.Insert(f.list, at, t)
		f.list = f.list[:min(len(f.list), f.limit)]
	}
}

// ofProcess adds the Problems that concern no single object. Only readers with the token get the texts of others.
func (p *Page) ofProcess(add func(Trouble)) {
	for _, problem := range p.o.Process() {
		t := Trouble{State: wholeProcess, Reason: problem.Reason, Message: kube.Printable(problem.Public, maxText),
			Since: problem.Since}
		t.Step = p.then(problem)
		add(t)
	}
	for _, c := range p.o.Controllers() {
		for _, problem := range c.Faults() {
			t := Trouble{State: missing, Controller: c.Name(), Reason: problem.Reason, Since: problem.Since}
			if len(problem.Namespaces) == 1 {
				t.Namespace = problem.Namespaces[0]
			}
			t.Step = kube.Printable(problem.Public, maxText)
			if then := p.then(problem); then != "" {
				t.Step += "; " + then
			}
			add(t)
		}
		for _, f := range c.Strays() {
			t := p.failed(Trouble{Controller: c.Name(), Kind: c.Kind(), Name: kube.Printable(f.Key.Name, maxText),
				Namespace: kube.Printable(f.Key.Namespace, maxText)}, f)
			if t.Message == "" {
				t.Step = steps[t.State]
			}
			add(t)
		}
	}
}

// then is the next step for a Problem, with the text of others for readers with the right.
func (p *Page) then(problem health.Problem) string {
	text := kube.Printable(problem.Next, maxText)
	if p.open() && problem.Quoted != "" {
		text = strings.TrimSpace(text + " (" + kube.Printable(problem.Quoted, maxText) + ")")
	}
	return text
}

// signs are the conditions that decide the state of an object, the worst first.
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
	unknown:   "its hook fails, and has not been asked about it since it changed or skiff started",
	paused:    "skiff changes nothing for it until the pause is removed",
}

// message is the message of a condition of an object as the reader may see it: without the token, the words of skiff
// for the Problem.
func (p *Page) message(o *controller.Owner, c conditions.Condition) string {
	switch {
	case p.open():
		return kube.Printable(conditions.Message(o.Conditions, c.Type), maxMessage)
	case o.Problem.Reason == c.Reason:
		return o.Problem.Hidden().Note()
	}
	return ""
}

// open says that readers may see the words of others, and texts that may repeat an object.
func (p *Page) open() bool { return p.o.Token != nil || p.o.Open }

// failed is a trouble whose object fails.
func (p *Page) failed(t Trouble, f controller.Failing) Trouble {
	t.State, t.Reason, t.Since, t.Failures = failing, f.Reason, f.Since, f.Failures
	if f.Severity == health.Stalled {
		t.State = stalled
	}
	if p.open() && t.Message == "" { // no condition says it
		t.Message = kube.Printable(f.Quoted, maxMessage)
	}
	return t
}

// glance is the common knowledge of a look at all objects.
type glance struct {
	now    time.Time
	silent map[string][]string // of a controller: the namespaces in which a hook of it fails
	idle   map[string][]string // of a controller: the namespaces where it lacks something and does not work; "": all
}

func (p *Page) glance() glance {
	g := glance{now: time.Now(), silent: map[string][]string{}, idle: map[string][]string{}}
	for _, c := range p.o.Controllers() {
		for _, part := range c.Parts() {
			if !part.Working && len(part.Problems) > 0 {
				g.idle[c.Name()] = append(g.idle[c.Name()], part.Namespace)
			}
		}
	}
	for _, h := range p.hooks() {
		if len(h.FailsIn) > 0 {
			g.silent[h.Controller] = append(g.silent[h.Controller], h.FailsIn...)
		}
	}
	return g
}

// unasked says that the state of an object dates from before its hook failed: the next run waits for the hook.
func (g glance) unasked(c *controller.Controller, o *controller.Owner) bool {
	if o.Next.IsZero() || len(g.silent) == 0 {
		return false
	}
	for hooks, namespaces := range g.silent { // one decorator is a controller for each kind: NAME.RESOURCE
		of := hooks == c.Name() || strings.HasPrefix(c.Name(), hooks+".")
		if of && slices.Contains(namespaces, o.Key.Namespace) {
			return true
		}
	}
	return false
}

// neglected says that nothing is known of an object without conditions, whose controller does not work.
func (g glance) neglected(c *controller.Controller, o *controller.Owner) bool {
	idle := g.idle[c.Name()]
	return len(o.Conditions) == 0 && (slices.Contains(idle, "") || slices.Contains(idle, o.Key.Namespace))
}

// troubleOf says what state an object is in.
func (p *Page) troubleOf(c *controller.Controller, o *controller.Owner, g glance) Trouble {
	t := Trouble{State: well, Controller: c.Name(), Kind: o.Kind, Namespace: kube.Printable(o.Key.Namespace, maxText),
		Name: kube.Printable(o.Key.Name, maxText), Failures: o.Failing.Failures, Next: o.Next}
	for _, sign := range signs {
		if o.Foreign {
			break
		}
		got, ok := conditions.Get(o.Conditions, sign.conditionType)
		if ok && got.Status == sign.status && sign.applies(got, g.now) {
			t.State, t.Reason, t.Since = sign.state, kube.Printable(got.Reason, maxText), got.LastTransitionTime
			t.Message = p.message(o, got)
			break
		}
	}
	if o.Failing.Failures > 0 && t.State != stalled {
		t = p.failed(t, o.Failing)
	}
	if (t.State == well || t.State == progressing) && g.unasked(c, o) {
		t.State, t.Reason, t.Message, t.Since = unknown, "HookFails", "", time.Time{}
	}
	if t.Message == "" {
		t.Step = steps[t.State]
	}
	if t.State == well && g.neglected(c, o) {
		t.State, t.Reason, t.Step = unknown, "NotWorking", "its controller lacks something and does not work"
		t.Next = time.Time{}
	}
	if (needsAttention(t.State) || t.State == paused) && kube.ValidName(o.Key.Name) &&
		(o.Key.Namespace == "" || kube.ValidName(o.Key.Namespace)) {
		// Not the kind alone, which another group may have.
		t.Command = "kubectl describe " + o.Resource.GroupResource() + " " + o.Key.Name
		if o.Key.Namespace != "" {
			t.Command += " -n " + o.Key.Namespace
		}
	}
	return t
}
