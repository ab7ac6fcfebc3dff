package plan

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"skiff/internal/runtime/apply"
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
func (f *fields) add(c patch.Change, managers []entry) {
	out := Field{Path: c.At.Brief()}
	var was, is bool
	out.Before, was = shown(f.child.resource, c.At, c.Before)
	out.After, is = shown(f.child.resource, c.At, c.After)
	if out.Hidden = was || is; out.Hidden && f.o.ShowSecrets {
		out.Before, out.After, out.Hidden = c.Before, c.After, false
	}
	if c.Before != nil {
		out.Manager = taken(managers, f.o.Managers, c.At)
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
	for _, c := range patch.Changes(f.schema(), nil, comparable(f.declared, false)) {
		switch {
		case !f.o.Full && isIdentity(c.At, c.After):
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
	for _, c := range patch.Changes(f.schema(), comparable(f.declared, false), comparable(answer, false)) {
		if c.Before == nil && f.madeUp(c.At) && (f.o.Full || isNodePort(c.At)) {
			f.line.Fields = append(f.line.Fields, Field{Path: c.At.Brief(), After: chosenByServer})
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
func isIdentity(at *patch.Path, v any) bool {
	path := at.Names()
	if slices.Contains(path, "labels") || slices.Contains(path, "ownerReferences") ||
		len(path) > 1 && path[1] == "selector" {
		return true
	}
	return at.IsKey() || repeats(at, v)
}

// madeUp says whether the server chooses an undeclared value.
func (f *fields) madeUp(at *patch.Path) bool {
	if f.child.resource.Kind != "Service" || f.child.resource.Group != "" {
		return false
	}
	return isNodePort(at) ||
		slices.Contains([]string{"spec.clusterIP", "spec.clusterIPs", "spec.healthCheckNodePort"}, at.Brief())
}

func isNodePort(at *patch.Path) bool { return at.Field() == "nodePort" }

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
	changes := patch.Changes(f.schema(), comparable(was, owner), comparable(is, owner))
	rolls := false
	for i, c := range changes {
		path := c.At.Names()
		rolls = rolls || len(path) > 2 && path[0] == "spec" && path[1] == "template"
		if c.Before == nil && f.madeUp(c.At) && !f.declares(c.At) {
			f.line.Fields = append(f.line.Fields, Field{Path: c.At.Brief(), After: chosenByServer})
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
func repeatsItem(changes []patch.Change, i int) bool {
	c := changes[i]
	isWhole := c.Before == nil || c.After == nil
	if !isWhole || !repeats(c.At, c.Before) && !repeats(c.At, c.After) {
		return false
	}
	return slices.ContainsFunc(changes, func(other patch.Change) bool {
		return other.At != c.At && other.At.IsIn(c.At.Item())
	})
}

// repeats says whether a value is the name of the item whose field it is.
func repeats(at *patch.Path, v any) bool { return at.Item() != nil && v == any(at.Item().Name()) }

// declares says whether a value was sent.
func (f *fields) declares(at *patch.Path) bool {
	sent := patch.Changes(f.schema(), nil, comparable(f.declared, false))
	return slices.ContainsFunc(sent, func(c patch.Change) bool { return c.At.Brief() == at.Brief() })
}

// comparable returns an object without the fields in which two unchanged copies may differ.
func comparable(object map[string]any, isOwner bool) map[string]any {
	out := maps.Clone(object)
	for _, name := range []string{"status", "apiVersion", "kind"} {
		delete(out, name)
	}
	meta, _ := object["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	for _, name := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp",
		"selfLink", "name", "namespace"} {
		delete(meta, name)
	}
	if isOwner {
		delete(meta, "finalizers") // skiff sets and removes its own
	}
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		annotations = maps.Clone(annotations)
		delete(annotations, apply.HashAnnotation)
		meta["annotations"] = annotations
	}
	if owners, ok := meta["ownerReferences"].([]any); ok {
		meta["ownerReferences"] = ownerNames(owners)
	}
	if out != nil {
		out["metadata"] = meta
	}
	return out
}

// ownerNames are owner references without the uids.
func ownerNames(references []any) []any {
	names := make([]any, len(references))
	for i, r := range references {
		o, _ := r.(map[string]any)
		kind, _ := o["kind"].(string)
		name, _ := o["name"].(string)
		names[i] = kind + " " + name
	}
	return names
}
