package page

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// perPage is how many objects an answer has.
const perPage = 100

// Owner is a row of /debug/owners.
type Owner struct {
	Trouble
	Created    time.Time       `json:"created"`
	Deleting   bool            `json:"deleting,omitempty"`
	Conditions []ConditionWord `json:"conditions"`
}

// ConditionWord is a condition without its message.
type ConditionWord struct {
	Type   string            `json:"type"`
	Status conditions.Status `json:"status"`
	Reason string            `json:"reason"`
}

// maxConditions of an object are shown: those of skiff's own kinds are five.
const maxConditions = 10

// filter is which objects are asked for.
type filter struct {
	Search, Kind, Namespace, State string
	After                          *Trouble // the last one of the page before; nil: the first page
}

// readFilter takes the filter from a query. The form of "after" is that of [filter.next].
func readFilter(q url.Values) filter {
	f := filter{Search: q.Get("q"), Kind: q.Get("kind"), Namespace: q.Get("namespace"), State: q.Get("state")}
	if parts := strings.Split(q.Get("after"), "/"); len(parts) == 5 && slices.Contains(order, parts[0]) {
		f.After = &Trouble{State: parts[0], Kind: parts[1], Namespace: parts[2], Name: parts[3], Controller: parts[4]}
	}
	return f
}

// next is the query of the page behind the one that ends with t.
func (f filter) next(t Trouble) string {
	q := url.Values{"after": {strings.Join([]string{t.State, t.Kind, t.Namespace, t.Name, t.Controller}, "/")}}
	for name, value := range map[string]string{"q": f.Search, "kind": f.Kind, "namespace": f.Namespace,
		"state": f.State} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q.Encode()
}

func (f filter) takes(t Trouble) bool {
	return (f.Search == "" || strings.Contains(t.Object(), f.Search)) && (f.Kind == "" || t.Kind == f.Kind) &&
		(f.Namespace == "" || t.Namespace == f.Namespace) && (f.State == "" || t.State == f.State)
}

// Owners is what /debug/owners answers.
type Owners struct {
	Format string  `json:"format"`
	All    int     `json:"all"` // that the filter takes
	Owners []Owner `json:"owners"`
	Next   string  `json:"next,omitempty"` // the query of the next page
}

// owners returns a page of them, the worst first. Only that page is held, however many there are.
func (p *Page) owners(f filter) Owners {
	now := time.Now()
	found := first{limit: perPage + 1, after: f.After}
	for _, c := range p.o.Controllers() {
		c.Owners(func(o *controller.Owner) {
			if t := troubleOf(c, o, now); f.takes(t) {
				found.add(t)
			}
		})
	}
	out := Owners{Format: Format, All: found.all, Owners: []Owner{}}
	if len(found.list) > perPage {
		found.list = found.list[:perPage]
		out.Next = f.next(found.list[perPage-1])
	}
	for _, t := range found.list {
		// It may have gone meanwhile.
		if row, ok := p.find(t.Kind, kube.Key{Namespace: t.Namespace, Name: t.Name}); ok {
			out.Owners = append(out.Owners, row)
		}
	}
	return out
}

// row is an object with what is shown of it beside its state.
func row(t Trouble, o controller.Owner) Owner {
	out := Owner{Trouble: t, Created: o.Created, Deleting: o.Deleting, Conditions: []ConditionWord{}}
	for _, one := range o.Conditions[:min(len(o.Conditions), maxConditions)] {
		out.Conditions = append(out.Conditions, ConditionWord{kube.Printable(one.Type, maxText), one.Status,
			kube.Printable(one.Reason, maxText)})
	}
	return out
}

// find returns the object of a kind under a key.
func (p *Page) find(kind string, k kube.Key) (Owner, bool) {
	for _, c := range p.o.Controllers() {
		if o, ok := c.Owner(k); ok && o.Kind == kind {
			return row(troubleOf(c, &o, time.Now()), o), true
		}
	}
	return Owner{}, false
}
