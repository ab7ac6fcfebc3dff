package apply

import (
	"encoding/json"
	"slices"
	"time"

	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/kube"
)

// Shown is the known state of a child, without a request and without the child's content, for people.
type Shown struct {
	Resource kube.Resource
	Key      kube.Key
	Created  time.Time // zero: missing, or of another controller
	State    State
	Outcome  string   // of the last Apply
	Problem  string   // the obstacle, and of a failure only the reason; "": nothing
	Fields   []string // the declared fields left different
}

// State is the state of a child by its status.
type State string

// The states. A child of a kind without a known status exists.
const (
	Missing  State = "missing"
	Deleting State = "deleting"
	NotReady State = "not ready"
	Ready    State = "ready"
	Exists   State = "exists"
)

// asDeclared is the outcome of a child in sync.
const asDeclared = "as declared"

// notable is a child that the last Apply did not leave as declared.
type notable struct {
	name
	outcome Outcome
	problem string
	fields  []string
}

// maxNotable bounds the notable children of one owner. More would tell nothing new: as a rule all have the same
// reason.
const maxNotable = 100

// note remembers the notable children of an Apply.
func (a *application) note(all []*child) {
	var found []notable
	for _, c := range all {
		n := notable{name{c.kind, c.key}, c.outcome, "", c.differences.texts()}
		if c.problem != nil {
			p := c.problem.Hidden()
			p.Subject = "" // the line begins with the name
			n.problem = p.Note()
		}
		switch {
		case len(found) == maxNotable:
		case c.err != nil: // the text of an error may repeat content of the child
			n.outcome, n.problem, n.fields = Failed, reasonOf(c.err), nil
			found = append(found, n)
		case c.want != nil && c.asDeclared() && c.outcome != Outdated, c.want == nil && c.live == nil:
		default:
			found = append(found, n)
		}
	}
	a.mem.notable.Store(&found)
}

func reasonOf(err error) string {
	if s := kube.AsStatus(err); s != nil && s.Reason != "" {
		return s.Reason
	}
	return "Error"
}

// Children returns the children of an owner as known, the missing first and otherwise in the order of their names. It
// reads mirrors, and may be called from any goroutine.
func (e *Engine) Children(owner kube.Object) (out []Shown) {
	m := owner.ObjectMeta()
	var found []notable
	if o := e.owners.Get(m.Key()); o != nil && o.uid == m.UID && o.notable.Load() != nil {
		found = slices.Clone(*o.notable.Load())
	}
	for i := range e.kinds {
		kind := &e.kinds[i]
		cached, err := kind.mirror.owned(m.Namespace, m.UID)
		if err != nil {
			continue // the watch is named where watches are
		}
		for _, live := range cached {
			if !e.options.owns(m.UID, live) {
				continue
			}
			s := Shown{Resource: kind.resource, Key: live.ObjectMeta().Key(), Outcome: asDeclared,
				Created: live.ObjectMeta().CreationTimestamp, State: kind.stateOf(live)}
			at := slices.IndexFunc(found, func(n notable) bool { return n.name == name{kind, s.Key} })
			if at >= 0 {
				s.Outcome, s.Problem, s.Fields = found[at].outcome.String(), found[at].problem, found[at].fields
				found = slices.Delete(found, at, at+1)
			}
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b Shown) int { return byNumber(a.Key, b.Key) })
	missing := make([]Shown, 0, len(found))
	for _, n := range found {
		missing = append(missing, Shown{Resource: n.kind.resource, Key: n.key, State: Missing,
			Outcome: n.outcome.String(), Problem: n.problem, Fields: n.fields})
	}
	return append(missing, out...)
}

// stateOf reads the status of a child: of a pod by the functions of the kind; otherwise by the usual conditions, or by
// the number of ready replicas.
func (k *Kind) stateOf(live kube.Object) State {
	switch {
	case live.ObjectMeta().Deleting():
		return Deleting
	case k.template != nil:
		_, ready := k.template.ready(live)
		return stateIf(ready)
	}
	l, ok := live.(object)
	if !ok {
		return Exists
	}
	var status struct {
		Conditions []struct {
			Type   string
			Status conditions.Status
		}
		ObservedGeneration int64
		Replicas           *int32
		ReadyReplicas      int32
	}
	if json.Unmarshal(l.statusJSON(), &status) != nil {
		return Exists
	}
	for _, c := range status.Conditions {
		switch c.Type {
		case conditions.Ready, "Available", "Complete", "Established":
			return stateIf(c.Status == conditions.True)
		}
	}
	if status.Replicas == nil {
		return Exists
	}
	return stateIf(status.ObservedGeneration > 0 && status.ReadyReplicas >= *status.Replicas)
}

func stateIf(ready bool) State {
	if ready {
		return Ready
	}
	return NotReady
}

// statusJSON returns the kept status of a child as JSON.
func (l *Live[S]) statusJSON() []byte {
	if raw, ok := any(l.Status).(kube.Raw); ok {
		return raw
	}
	text, err := json.Marshal(l.Status)
	if err != nil {
		return nil
	}
	return text
}
