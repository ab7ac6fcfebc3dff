package page

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
)

// perPage is how many objects an answer has.
const perPage = 25

// Owner is a row of /debug/owners.
type Owner struct {
	Trouble
	Created    time.Time       `json:"created"`
	Deleting   bool            `json:"deleting,omitempty"`
	Conditions []ConditionWord `json:"conditions"`
	Facts      []Fact          `json:"facts,omitempty"`
	Declared   int             `json:"declaredChildren"`
	Ready      int             `json:"readyChildren"`
	LastWrite  time.Time       `json:"lastWrite,omitzero"` // of the runs that are kept
	Children   []Child         `json:"children,omitempty"` // of an object that is unfolded
	Omitted    int             `json:"childrenOmitted,omitempty"`
}

// Child is an object that exists, or should, because of another object.
type Child struct {
	Kind      string         `json:"kind"`
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name"`
	State     string         `json:"state"`
	Created   time.Time      `json:"created,omitzero"`
	Outcome   string         `json:"lastApply"`
	Problem   string         `json:"problem,omitempty"`
	Fields    []string       `json:"fields,omitempty"`    // that differ
	LastWrite *history.Write `json:"lastWrite,omitempty"` // of the runs that are kept

	written string // as writes name it
}

// Fact is something to know about an object beside the conditions.
type Fact struct {
	Name  string    `json:"name"`
	Value string    `json:"value,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// ConditionWord is a condition, with the message for readers with the right.
type ConditionWord struct {
	Type    string            `json:"type"`
	Status  conditions.Status `json:"status"`
	Reason  string            `json:"reason"`
	Message string            `json:"message,omitempty"`
	Since   time.Time         `json:"since,omitzero"`
}

// maxChildren and maxFields of each are shown of an object. Few objects have more, and the page of one says how many.
const maxChildren, maxFields = 200, 10

// maxConditions of an object are shown: those of skiff's own kinds are five.
const maxConditions = 10

// filter is which objects are asked for.
type filter struct {
	Search, Kind, Namespace, State string
	Open                           string   // the object that is unfolded, KIND/NAMESPACE/NAME; "": none
	After                          *Trouble // the last one of the page before; nil: the first page
	brokenFirst                    bool     // without another filter, take what needs attention, if there is any
}

// readFilter takes the filter from a query. The form of "after" is that of [Trouble.place].
func readFilter(q url.Values) filter {
	f := filter{Search: q.Get("q"), Kind: q.Get("kind"), Namespace: q.Get("namespace"), State: q.Get("state"),
		Open: q.Get("open")}
	if f.State == healthy {
		f.State = well
	}
	if parts := strings.Split(q.Get("after"), "/"); len(parts) == 5 && slices.Contains(order, parts[0]) {
		f.After = &Trouble{State: parts[0], Kind: parts[1], Namespace: parts[2], Name: parts[3], Controller: parts[4]}
	}
	return f
}

// query asks for the same page of objects again, with an object unfolded.
func (f filter) query(open string) string {
	q := url.Values{}
	for name, value := range map[string]string{"q": f.Search, "kind": f.Kind, "namespace": f.Namespace,
		"state": f.State, "open": open} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.After != nil {
		q.Set("after", f.After.place())
	}
	return q.Encode()
}

// place names an object in a query, with where it is in the order.
func (t Trouble) place() string {
	return strings.Join([]string{t.State, t.Kind, t.Namespace, t.Name, t.Controller}, "/")
}

// next is the query of the page after t.
func (f filter) next(t Trouble) string {
	f.After = &t
	return f.query("")
}

// none says that all objects are asked for, from the first on.
func (f filter) none() bool {
	return f.Search == "" && f.Kind == "" && f.Namespace == "" && f.State == "" && f.After == nil
}

// takesState says whether objects in a state are asked for.
func (f filter) takesState(state string) bool {
	return f.State == "" || f.State == everything || f.State == state || f.State == attention && needsAttention(state)
}

// everything is any state, in a filter.
const everything = "all"

// Owners is the answer of /debug/owners, with the number of objects for each way to choose.
type Owners struct {
	Format     string  `json:"format"`
	All        int     `json:"all"` // that the filter takes
	Owners     []Owner `json:"owners"`
	Next       string  `json:"next,omitempty"`   // the query of the next page
	States     []Count `json:"states,omitempty"` // the worst first
	Kinds      []Count `json:"kinds,omitempty"`
	Namespaces []Count `json:"namespaces,omitempty"`

	example      string // an object to begin with, where there is none
	shown, asked filter // asked is without the state that a page opens with
}

// Count is how many objects there are of a state, a kind or a namespace.
type Count struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// counts counts objects by a name.
type counts map[string]int

// most returns the largest counts, by name. There may be thousands of namespaces.
func (c counts) most() (out []Count) {
	for name, n := range c {
		out = append(out, Count{name, n})
	}
	slices.SortFunc(out, func(a, b Count) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Name, b.Name))
	})
	out = out[:min(len(out), maxCounts)]
	slices.SortFunc(out, func(a, b Count) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// maxCounts bounds a list to choose from.
const maxCounts = 100

// owners returns a page of objects, the worst first. Only the page is held in memory, however many objects there are.
func (p *Page) owners(f filter) Owners {
	g := p.glance()
	found := first{limit: perPage + 1, after: f.After}
	states, kinds, namespaces := counts{}, counts{}, counts{}
	for _, c := range p.o.Controllers() {
		kind := f.Kind == "" || c.IsCalled(f.Kind)
		c.Owners(func(o *controller.Owner) {
			t := p.troubleOf(c, o, g)
			if f.Search != "" && !strings.Contains(t.Object(), f.Search) {
				return
			}
			state, namespace := f.takesState(t.State), f.Namespace == "" || t.Namespace == f.Namespace
			if state && namespace {
				kinds[t.Kind]++
			}
			if state && kind && t.Namespace != "" {
				namespaces[t.Namespace]++
			}
			if kind && namespace {
				states[t.State]++
				if state {
					found.add(t)
				}
			}
		})
	}
	out := Owners{Format: Format, Owners: []Owner{}, Kinds: kinds.most(), Namespaces: namespaces.most(), asked: f}
	broken := 0
	for _, state := range order {
		if n := states[state]; n > 0 {
			out.States = append(out.States, Count{state, n})
			if needsAttention(state) {
				broken += n
			}
		}
	}
	if f.brokenFirst && f.none() && broken > 0 { // these come first
		f.State, found.all = attention, broken
		found.list = found.list[:min(len(found.list), broken)]
	}
	if out.All, out.shown = found.all, f; len(out.States) == 0 {
		out.example = p.example()
	}
	if len(found.list) > perPage {
		found.list = found.list[:perPage]
		out.Next = f.next(found.list[perPage-1])
	}
	for _, t := range found.list {
		// It may have gone meanwhile.
		for _, row := range p.find(g, t.Kind, kube.Key{Namespace: t.Namespace, Name: t.Name}, t.Controller) {
			if row.path() != f.Open {
				row.Children = nil
			}
			out.Owners = append(out.Owners, row)
		}
	}
	p.addWrites(out.Owners)
	return out
}

// example is an object to begin with.
func (p *Page) example() string {
	for _, c := range p.o.Controllers() {
		if text := c.Example(); text != "" {
			return text
		}
	}
	return ""
}

// path names an object: KIND/NAMESPACE/NAME.
func (t Trouble) path() string { return t.Kind + "/" + t.Namespace + "/" + t.Name }

// row is an object with the facts beside the state.
func (p *Page) row(t Trouble, c *controller.Controller, o controller.Owner) Owner {
	out := Owner{Trouble: t, Created: o.Created, Deleting: o.Deleting, Conditions: []ConditionWord{}}
	for _, one := range o.Conditions[:min(len(o.Conditions), maxConditions)] {
		out.Conditions = append(out.Conditions, ConditionWord{kube.Printable(one.Type, maxText), one.Status,
			kube.Printable(one.Reason, maxText), p.own(&o, one), one.LastTransitionTime})
	}
	children, facts := c.Details(o.Key)
	for _, fact := range facts {
		out.Facts = append(out.Facts, Fact{fact.Name, kube.Printable(fact.Value, maxText), fact.At})
	}
	out.Declared = len(children)
	slices.SortStableFunc(children, func(a, b apply.Shown) int {
		return cmp.Compare(slices.Index(childOrder, a.State), slices.Index(childOrder, b.State))
	})
	for i, child := range children {
		if child.State == apply.Ready || child.State == apply.Exists {
			out.Ready++
		}
		if i < maxChildren {
			out.Children = append(out.Children, childOf(child))
		}
	}
	out.Omitted = len(children) - len(out.Children)
	return out
}

// own is the message of a condition, unless the message refers to another condition.
func (p *Page) own(o *controller.Owner, c conditions.Condition) string {
	if _, refers := conditions.Refers(o.Conditions, c); o.Foreign || refers {
		return ""
	}
	return p.message(o, c)
}

// childOrder is the order of the states of children, missing children first.
var childOrder = []apply.State{apply.Missing, apply.NotReady, apply.Deleting, apply.Exists, apply.Ready}

func childOf(s apply.Shown) Child {
	c := Child{Kind: s.Resource.Kind, Namespace: kube.Printable(s.Key.Namespace, maxText),
		Name: kube.Printable(s.Key.Name, maxText), State: string(s.State), Created: s.Created, Outcome: s.Outcome,
		Problem: kube.Printable(s.Problem, maxText), written: s.Resource.GroupResource() + " " + s.Key.String()}
	for _, field := range s.Fields[:min(len(s.Fields), maxFields)] {
		c.Fields = append(c.Fields, kube.Printable(field, maxText))
	}
	return c
}

// addWrites adds the last write of the runs in memory: of each object, and of the present children.
func (p *Page) addWrites(owners []Owner) {
	of := make(map[string]*Owner, len(owners))
	for i := range owners {
		of[owners[i].path()+"/"+owners[i].Controller] = &owners[i]
	}
	p.o.History.Runs(1, func(run *history.Run) bool {
		o := of[run.Kind+"/"+run.Namespace+"/"+run.Name+"/"+run.Controller]
		if o == nil || len(run.Writes) == 0 {
			return false
		}
		if o.LastWrite.IsZero() {
			o.LastWrite = run.Writes[len(run.Writes)-1].Sent
		}
		for i := range o.Children {
			c := &o.Children[i]
			for j := len(run.Writes) - 1; j >= 0 && c.LastWrite == nil; j-- {
				if w := run.Writes[j]; w.Object == c.written && !w.DryRun {
					c.LastWrite = &w
				}
			}
		}
		return false // it is read here, and none is to be returned
	})
}

// find returns the object of a kind under a key, once for each controller of the object, the worst first. A controller
// may have the name; "": any.
func (p *Page) find(g glance, kind string, k kube.Key, name string) (rows []Owner) {
	for _, c := range p.o.Controllers() {
		if name != "" && name != c.Name() {
			continue
		}
		if o, ok := c.Owner(k); ok && c.IsCalled(kind) {
			rows = append(rows, p.row(p.troubleOf(c, &o, g), c, o))
		}
	}
	slices.SortStableFunc(rows, func(a, b Owner) int { return a.compare(b.Trouble) })
	return rows
}
