// Package plan says what controllers would write, without writing.
//
// The package is a client and no second engine: [Planner.Client] sends every write with dryRun=All and has the write
// recorded, so that controllers, engine and hooks run as always, once for each object. Lines (lines.go) are made of
// the recorded writes and of package apply's reports about the children: the fields that differ (fields.go), their
// managers (owned.go), and the pods that roll (roll.go), without secrets (mask.go). Where a server gives no dry run,
// the sent object, laid over the existing object, stands for the answer (answer.go). Owners that do not exist yet can
// be proposed (propose.go).
//
// Place: beside the event path, instead of the workers. The package starts the goroutines of the mirrors, and waits
// for them.
package plan

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Op is the planned operation.
type Op string

// The operations, and the reasons for none.
const (
	Create  Op = "create"
	Change  Op = "change"
	Delete  Op = "delete"
	Replace Op = "replace"
	Blocked Op = "blocked"
	Held    Op = "held" // differs, and is left so on purpose
)

// Field is a value that would change. Nil stands for none.
type Field struct {
	Path    string `json:"path"`
	Before  any    `json:"before,omitempty"`
	After   any    `json:"after,omitempty"`
	Manager string `json:"manager,omitempty"` // another field manager, which loses the value
	Hidden  bool   `json:"hidden,omitempty"`
}

// Line is a write, or the Problem in the way.
type Line struct {
	Op       Op
	Resource kube.Resource // the zero value: the line is about the owner
	Key      kube.Key
	Fields   []Field // in the order of their paths; values made up by the server come last
	More     int     // number of fields left out
	Pods     int     // number of pods that roll
	Note     string
	Local    string          // why the line is not the server's answer
	Problem  *health.Problem // why there is no write, without values of Secrets; nil: there is a write
}

// Owner holds the planned writes for an object.
type Owner struct {
	Name   string // "WebServer default/web", "controller redis"
	New    bool   // does not exist yet
	Lines  []Line
	Failed bool // could not be planned

	kind     string
	key      kube.Key
	deleting bool
}

// Plan is the outcome for all controllers.
type Plan struct {
	Owners      []Owner // only owners with lines, by kind, namespace and name
	Objects     int     // planned, or failed to be
	Controllers int
}

// Options of a Planner.
type Options struct {
	Client      *kube.Client
	Full        bool // all fields of created objects
	ShowSecrets bool
	// Books are resources in which controllers keep their own state. Writes of Books are not lines.
	Books []kube.Resource
	// Managers are the field managers of the controllers: a value owned by one of them is not taken from another
	// manager.
	Managers []string
}

// Planner makes a Plan.
type Planner struct {
	o   Options
	dry *kube.Client

	mu       sync.Mutex // guards standIns and writes
	standIns map[id]kube.Raw
	writes   []kube.Write // of the owner planned now

	fresh   map[id]bool // the stand-ins of objects that do not exist yet
	blocked []Owner     // see Block
}

// id names an object.
type id struct {
	resource string
	key      kube.Key
}

func idOf(r kube.Resource, k kube.Key) id { return id{r.GroupResource(), k} }

// New returns a Planner. It sends nothing.
func New(o Options) *Planner {
	p := &Planner{o: o, standIns: map[id]kube.Raw{}, fresh: map[id]bool{}}
	p.dry = o.Client.DryRun(kube.DryRun{Told: p.record, StandIn: p.standIn, Instead: p.instead,
		Answer: p.answer})
	return p
}

// Client returns the client for the controllers.
func (p *Planner) Client() *kube.Client { return p.dry }

func (p *Planner) record(w kube.Write) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes = append(p.writes, w)
}

func (p *Planner) standIn(r kube.Resource, k kube.Key) kube.Raw {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.standIns[idOf(r, k)]
}

// answer returns a stand-in where the server gives no answer.
func (p *Planner) answer(w *kube.Write) (kube.Raw, bool) {
	proposed := kube.IsStandIn(w.Err)
	if !proposed && !hasNoDryRun(w.Err) {
		return nil, false
	}
	text, ok := answerOf(w)
	if ok && proposed {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.standIns[idOf(w.Resource, w.Key)] = text
	}
	return text, ok
}

// taken returns the writes since the last call.
func (p *Planner) taken() []kube.Write {
	p.mu.Lock()
	defer p.mu.Unlock()
	writes := p.writes
	p.writes = nil
	return writes
}

// Block adds a controller that cannot be planned, with the reason.
func (p *Planner) Block(controller string, err error) {
	o := controllerOf(controller)
	o.Lines = []Line{blockedBy(err)}
	p.blocked = append(p.blocked, o)
}

// controllerOf is a controller as the subject of lines, sorted after all kinds.
func controllerOf(name string) Owner {
	return Owner{Name: "controller " + name, kind: "~", key: kube.Key{Name: name}}
}

// blockedBy is the line of an error without a child or a Secret.
func blockedBy(err error) Line {
	return Line{Op: Blocked, Problem: &health.Problem{Reason: controller.ReasonOf(err), Quoted: err.Error()}}
}

// settleTimeout bounds the wait for the lists of a controller: a list of 10,000 pods takes a second.
const settleTimeout = time.Minute

// Run plans the objects of controllers accepted by wants, nil: all; and the proposals. The controllers were made with
// Client, and do not run. A controller without objects of its own comes first, and runs once. The error says that ctx
// has ended, or that a proposal is of no controller.
func (p *Planner) Run(ctx context.Context, controllers []*controller.Controller, proposals []Proposal,
	wants func(r kube.Resource, k kube.Key) bool) (*Plan, error) {
	out := &Plan{Owners: slices.Clone(p.blocked)}
	proposed := p.propose(ctx, proposals, out)
	for _, c := range controllers {
		defer c.Follow(ctx)()
	}
	for _, c := range controllers {
		if !p.settle(ctx, c, out) {
			continue
		}
		if c.Resource().Plural == "" { // it finds the namespaces of the other controllers
			if _, err := c.Once(ctx, kube.Key{}); err != nil {
				return nil, err
			}
			continue
		}
		out.Controllers++
		for _, text := range proposed[c.Resource().GroupResource()] {
			if err := c.Assume(text); err != nil {
				return nil, err
			}
		}
		for _, k := range c.Keys() {
			if wants == nil || wants(c.Resource(), k) {
				out.Objects++
				out.add(p.plan(ctx, c, k))
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		}
	}
	slices.SortStableFunc(out.Owners, func(a, b Owner) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), a.key.Compare(b.key))
	})
	return out, nil
}

func (out *Plan) add(o Owner) {
	if len(o.Lines) > 0 || o.Failed {
		out.Owners = append(out.Owners, o)
	}
}

// settle waits until a controller has its mirrors, and adds the missing parts. False: nothing is known.
func (p *Planner) settle(ctx context.Context, c *controller.Controller, out *Plan) bool {
	limited, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	err := c.Settle(limited)
	o := controllerOf(c.Name())
	for _, why := range c.Missing() {
		o.Lines = append(o.Lines, Line{Op: Blocked, Problem: &why})
	}
	if err != nil {
		o.Failed = true
		o.Lines = append(o.Lines, blockedBy(err))
	}
	out.add(o)
	return err == nil
}

func ownerOf(r kube.Resource, k kube.Key) Owner {
	return Owner{Name: r.Kind + " " + kube.Text(k.String()), kind: r.Kind, key: k}
}

// told is a report by package apply about the children of an owner.
type told struct {
	want   []apply.Child
	report apply.Report
}

// plan runs a controller for one object.
func (p *Planner) plan(ctx context.Context, c *controller.Controller, k kube.Key) Owner {
	r := c.Resource()
	o := ownerOf(r, k)
	o.New = p.fresh[idOf(r, k)]
	if err := c.Serves(k.Namespace); err != nil {
		o.Failed = true
		o.Lines = []Line{blockedBy(err)}
		return o
	}
	p.taken()
	var all []told
	observed := apply.Observe(ctx, func(_ apply.Owner, want []apply.Child, report apply.Report) {
		all = append(all, told{want, report})
	})
	_, err := c.Once(observed, k)
	b := builder{Planner: p, owner: &o, resource: r, writes: p.taken()}
	for _, w := range b.writes {
		b.secrets.add(w.Resource, w.Body)
		b.secrets.add(w.Resource, w.Before)
		b.secrets.add(w.Resource, w.After)
	}
	b.lines(ctx, all)
	if err != nil {
		b.failed(err)
	}
	return o
}
