package plan

import (
	"context"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// fields makes the fields of one line.
type fields struct {
	*builder
	line     *Line
	child    *child
	declared map[string]any // what was sent
	manager  string         // who sent it
	schema   *patch.Node
}

// mostFields is how many fields of a new object are printed: enough to recognize it.
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

// created adds what is declared of a new object, and what the server makes up.
func (f *fields) created(after kube.Raw) {
	if pods, ok := podsOf(f.child.resource.Kind, f.declared); ok {
		if answer, err := decoded(after); err == nil {
			pods, _ = podsOf(f.child.resource.Kind, answer)
		}
		if f.child.resource.Kind != "DaemonSet" {
			f.line.Note = count(int(pods), "pod")
		}
	}
	for _, c := range changesOf(f.schema, nil, comparable(f.declared, false)) {
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
	for _, c := range changesOf(f.schema, comparable(f.declared, false), comparable(answer, false)) {
		if c.before == nil && f.madeUp(c.at) && (f.o.Full || isNodePort(c.at)) {
			f.line.Fields = append(f.line.Fields, Field{Path: c.at.String(), After: unknown{}})
		}
	}
}

// isIdentity says whether a value only says which object or item it belongs to: labels, selectors and owners, and of
// an item its merge key and what repeats its name.
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

// madeUp says whether the server chooses a value that is not declared.
func (f *fields) madeUp(at *place) bool {
	if f.child.resource.Kind != "Service" || f.child.resource.Group != "" {
		return false
	}
	return isNodePort(at) ||
		slices.Contains([]string{"spec.clusterIP", "spec.clusterIPs", "spec.healthCheckNodePort"}, at.String())
}

func isNodePort(at *place) bool { return at.name == "nodePort" && at.item == nil }

// changed adds the fields that differ between an object and the answer to the writes.
func (f *fields) changed(ctx context.Context, before, after kube.Raw) {
	was, errWas := decoded(before)
	is, errIs := decoded(after)
	if errWas != nil || errIs != nil {
		f.line.Note = "the fields cannot be compared: the object does not decode"
		return
	}
	owner := f.isOwner(f.child)
	managers := managersOf(before)
	kept := f.handedOver()
	have := comparable(was, owner)
	changes := changesOf(f.schema, have, comparable(is, owner))
	changes = slices.DeleteFunc(changes, func(c change) bool { return kept[c.at.String()] })
	if f.line.Local == "" {
		changes = append(changes, f.lost(ctx, have, changes, managers, kept)...)
	}
	slices.SortStableFunc(changes, func(a, b change) int { return strings.Compare(a.at.String(), b.at.String()) })
	rolls := false
	for i, c := range changes {
		path := c.at.names()
		rolls = rolls || len(path) > 2 && path[0] == "spec" && path[1] == "template"
		if c.before == nil && f.madeUp(c.at) && !f.declares(c.at) {
			f.line.Fields = append(f.line.Fields, Field{Path: c.at.String(), After: unknown{}})
			continue
		}
		if !f.o.Full && repeatsItem(changes, i) {
			continue
		}
		f.add(c, managers)
	}
	if rolls {
		f.line.Pods, f.line.Note = rollOf(f.child.resource.Kind, is)
	}
	if len(changes) == 0 {
		f.line.Note = "no field changes; skiff notes what it declares"
	}
}

// repeatsItem says whether a change is that of the name of an item that comes or goes as a whole: the paths of its
// other fields have the name.
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

// declares says whether a value is in what was sent.
func (f *fields) declares(at *place) bool {
	return slices.ContainsFunc(changesOf(f.schema, nil, comparable(f.declared, false)), func(c change) bool {
		return c.at.String() == at.String()
	})
}

// handedOver returns the paths of the fields that package apply has given to another manager. They keep their values,
// though the dry run shows them without.
func (f *fields) handedOver() map[string]bool {
	kept := map[string]bool{}
	for _, w := range f.child.writes {
		if body, err := decoded(w.Body); err == nil && strings.HasSuffix(w.Manager, handover) {
			for _, c := range changesOf(f.schema, nil, comparable(body, false)) {
				kept[c.at.String()] = true
			}
		}
	}
	return kept
}

// lost returns the values that go because they are no longer declared, where the dry run cannot show it: see lost of
// owned.go. What the server would set again as a default does not go: a dry run of a new object shows that.
func (f *fields) lost(ctx context.Context, have map[string]any, changes []change, managers []entry,
	kept map[string]bool) []change {
	all := lost(f.schema, have, managers, f.manager)
	listed := map[string]bool{}
	for _, c := range slices.Concat(changes, changesOf(f.schema, nil, comparable(f.declared, false))) {
		listed[c.at.String()] = true
	}
	all = slices.DeleteFunc(all, func(c change) bool { return listed[c.at.String()] || kept[c.at.String()] })
	if len(all) == 0 {
		return nil
	}
	defaults, err := f.defaults(ctx)
	if err != nil {
		f.line.Local = "which fields go cannot be seen: " + f.secrets.cut(kube.Explain(err))
		return nil
	}
	again := map[string]any{}
	for _, c := range changesOf(f.schema, nil, defaults) {
		again[c.at.String()] = c.after
	}
	var out []change
	for _, c := range all {
		if c.after = again[c.at.String()]; !patch.Equal(c.before, c.after) && !f.madeUp(c.at) {
			out = append(out, c)
		}
	}
	return out
}

// probeName is the name of the object that the server is asked about for its defaults. It is never stored.
const probeName = "skiff-plan-probe"

// defaults returns what the server would make of the declared object if it were new.
func (f *fields) defaults(ctx context.Context) (map[string]any, error) {
	meta, _ := f.declared["metadata"].(map[string]any)
	probe := map[string]any{}
	for name, v := range meta {
		if name != "uid" {
			probe[name] = v
		}
	}
	probe["name"] = probeName
	body := map[string]any{}
	for name, v := range f.declared {
		body[name] = v
	}
	body["metadata"] = probe
	text, err := patch.Encode(body)
	if err != nil {
		return nil, err
	}
	var answer kube.Raw
	err = f.o.Client.Create(ctx, f.child.resource, f.child.key.Namespace, kube.Raw(text), &answer,
		kube.WriteOptions{DryRun: true, FieldManager: f.manager})
	if err != nil {
		return nil, err
	}
	object, err := decoded(answer)
	return comparable(object, false), err
}
