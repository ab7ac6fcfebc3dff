package plan

import (
	"errors"
	"slices"
	"strings"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// fields makes the fields of one line.
type fields struct {
	*builder
	line     *Line
	child    *child
	declared map[string]any // as sent
}

func (f *fields) schema() *patch.Node {
	return patch.SchemaFor(f.child.resource.APIVersion(), f.child.resource.Kind)
}

// mostFields is how many fields of a new object are printed: enough to recognize the object.
const mostFields = 8

// add adds a value that changes.
func (f *fields) add(c change, managers []entry) {
	out := Field{Path: c.at.String()}
	var was, is bool
	out.Before, was = shown(f.child.resource, c.at, c.before)
	out.After, is = shown(f.child.resource, c.at, c.after)
	if out.Hidden = was || is; out.Hidden && f.o.ShowSecrets {
		out.Before, out.After, out.Hidden = c.before, c.after, false
	}
	if c.before != nil {
		out.Manager = taken(managers, f.o.Managers, c.at)
	}
	f.line.Fields = append(f.line.Fields, out)
}

// created adds the declared fields of a new object, and the values made up by the server.
func (f *fields) created(after kube.Raw) {
	if pods, ok := podsOf(f.child.resource.Kind, f.declared); ok {
		if answer, err := decoded(after); err == nil {
			pods, _ = podsOf(f.child.resource.Kind, answer)
		}
		if f.child.resource.Kind != "DaemonSet" {
			f.line.Note = health.Count(pods, "pod", "pods")
		}
	}
	for _, c := range changesOf(f.schema(), nil, comparable(f.declared, false)) {
		switch {
		case !f.o.Full && isIdentity(c.at, c.after):
		case !f.o.Full && len(f.line.Fields) == mostFields:
			f.line.More++
		default:
			f.add(c, nil)
		}
	}
	answer, err := decoded(after)
	if err != nil {
		return
	}
	for _, c := range changesOf(f.schema(), comparable(f.declared, false), comparable(answer, false)) {
		if c.before == nil && f.madeUp(c.at) && (f.o.Full || isNodePort(c.at)) {
			f.line.Fields = append(f.line.Fields, Field{Path: c.at.String(), After: chosenByServer})
		}
	}
}

// Differences returns the fields in which two versions of an object differ, except those changed by every write, and
// without secrets.
func Differences(r kube.Resource, before, after kube.Raw) ([]Field, error) {
	was, errWas := decoded(before)
	is, errIs := decoded(after)
	all := &Planner{o: Options{Full: true}}
	f := fields{builder: &builder{Planner: all, owner: new(Owner)}, line: &Line{Op: Change},
		child: &child{resource: r}}
	f.differ(was, is, nil)
	return f.line.Fields, errors.Join(errWas, errIs)
}

// isIdentity says whether a value only identifies its object or item: labels, selectors and owners, and in an item the
// merge key and repetitions of the name.
func isIdentity(at *place, v any) bool {
	path := at.names()
	if slices.Contains(path, "labels") || slices.Contains(path, "ownerReferences") ||
		len(path) > 1 && path[1] == "selector" {
		return true
	}
	if at.up == nil || at.up.item == nil {
		return false
	}
	_, isKey := at.up.key()[at.name]
	return isKey || v == any(at.up.name)
}

// madeUp says whether the server chooses an undeclared value.
func (f *fields) madeUp(at *place) bool {
	if f.child.resource.Kind != "Service" || f.child.resource.Group != "" {
		return false
	}
	return isNodePort(at) ||
		slices.Contains([]string{"spec.clusterIP", "spec.clusterIPs", "spec.healthCheckNodePort"}, at.String())
}

func isNodePort(at *place) bool { return at.name == "nodePort" && at.item == nil }

// changed adds the fields that differ between an object and the answer to the writes.
func (f *fields) changed(before, after kube.Raw) {
	was, errWas := decoded(before)
	is, errIs := decoded(after)
	if errWas != nil || errIs != nil {
		f.line.Note = "the fields cannot be compared: the object does not decode"
		return
	}
	if f.differ(was, is, managersOf(before)) == 0 {
		f.line.Note = "no field changes; skiff notes what it declares"
	}
}

// differ adds the fields that differ between two versions of an object, and the resulting roll of pods, and returns
// how many fields differ, including the fields left out.
func (f *fields) differ(was, is map[string]any, managers []entry) int {
	owner := f.isOwner(f.child)
	changes := changesOf(f.schema(), comparable(was, owner), comparable(is, owner))
	rolls := false
	for i, c := range changes {
		path := c.at.names()
		rolls = rolls || len(path) > 2 && path[0] == "spec" && path[1] == "template"
		if c.before == nil && f.madeUp(c.at) && !f.declares(c.at) {
			f.line.Fields = append(f.line.Fields, Field{Path: c.at.String(), After: chosenByServer})
			continue
		}
		labels := len(path) > 1 && path[0] == "metadata" && path[1] == "labels"
		if !f.o.Full && (repeatsItem(changes, i) || labels && f.line.Op != Change) {
			continue
		}
		f.add(c, managers)
	}
	if rolls && f.line.Op == Change {
		pods, note := rollOf(f.child.resource.Kind, is)
		f.line.Pods, f.line.Note = pods, strings.TrimSpace(note+" "+f.line.Note)
	}
	return len(changes)
}

// repeatsItem says whether a change only repeats the name of an item added or removed as a whole: the paths of the
// item's other fields have the name.
func repeatsItem(changes []change, i int) bool {
	c := changes[i]
	if c.at.up == nil || c.at.up.item == nil || c.before != nil && c.after != nil ||
		c.before != any(c.at.up.name) && c.after != any(c.at.up.name) {
		return false
	}
	return slices.ContainsFunc(changes, func(other change) bool {
		return other.at != c.at && strings.HasPrefix(other.at.String(), c.at.up.String()+".")
	})
}

// declares says whether a value was sent.
func (f *fields) declares(at *place) bool {
	return slices.ContainsFunc(changesOf(f.schema(), nil, comparable(f.declared, false)), func(c change) bool {
		return c.at.String() == at.String()
	})
}
