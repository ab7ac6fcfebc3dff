package kinds

import (
	"cmp"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// kind makes the entry of a kind.
func (d *data) kind(l *line) *Kind {
	defer l.compiling()
	words := strings.Fields(l.text)
	if len(words) != 4 {
		mistake("want kind, apiVersion, plural, Kind")
	}
	group, version, _ := strings.Cut(words[1], "/")
	if version == "" {
		group, version = "", group
	}
	k := &Kind{Resource: kube.Resource{Group: group, Version: version, Plural: words[2], Kind: words[3]}}
	s, attributes := d.set(l.block)
	for _, a := range attributes {
		k.attribute(a)
	}
	s = cmp.Or(l.set, s)
	if block := s.blocks["defaults"]; block != nil {
		k.Defaults = func(o Object) { change(block(), scope{root: o, o: o}) }
	}
	if block := s.blocks["prepare"]; block != nil {
		k.Prepare = func(next, cur Object) { change(block(), whole(next, cur)) }
	}
	if block := s.blocks["checks"]; block != nil {
		k.Validate = func(next, cur Object) []Cause { return causes(block(), next, cur) }
	}
	k.Columns = d.columns(s.columns)
	return k
}

// attribute sets what a line about a kind says.
func (k *Kind) attribute(l *line) {
	defer l.compiling()
	l.noBlock()
	verb, rest, _ := strings.Cut(l.text, " ")
	words := strings.Fields(rest)
	texts := map[string]*string{"singular": &k.Singular, "table": &k.Table, "stored-as": &k.StoredAs,
		"refused": &k.Refused, "warning": &k.Warning, "orphan-warning": &k.OrphanWarning}
	if text := texts[verb]; text != nil {
		*text = rest
		return
	}
	switch verb {
	case "short":
		k.ShortNames = words
	case "categories":
		k.Categories = words
	case "name":
		form := formNamed(rest)
		k.Name = func(name string) string { return strings.Join(form(name), ", ") }
	case "status":
		k.Status, k.NewStatus = true, newStatus(rest)
	case "scale":
		if len(words) < 3 {
			mistake("scale: want the paths of the declared and the current number, and of the selector")
		}
		k.Scale = &Scale{Spec: strings.Split(words[0], "."), Status: strings.Split(words[1], "."),
			Selector: strings.Split(words[2], "."), Plain: len(words) > 3}
	case "generation":
		changed := term{verb: "changed", any: parsePaths(strings.Join(words, "|"))}
		k.Generation = func(next, cur Object) bool { return changed.holds(whole(next, cur)) }
	case "selectable":
		k.selectable(words)
	case "warn":
		k.warn(rest)
	case "flags":
		k.flags(words)
	default:
		mistake("no attribute %q", verb)
	}
}

func (k *Kind) flags(words []string) {
	known := map[string]*bool{"cluster": &k.ClusterScoped, "status": &k.Status, "approval": &k.Approval,
		"author": &k.Author, "needs-version": &k.NeedsVersion, "create-on-update": &k.CreateOnUpdate,
		"delete-returns": &k.DeleteReturns, "status-alone": &k.Isolated, "read-only": &k.ReadOnly}
	for _, w := range words {
		if w == "review" {
			k.Review = reviews[k.Kind]
		} else if known[w] == nil {
			mistake("no flag %q", w)
		} else {
			*known[w] = true
		}
	}
}

// newStatus returns what makes the status of a new object: the function that is named, or a copy of a JSON text.
func newStatus(text string) func(Object) any {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		return named(newStatuses(), name)
	}
	status := decode(text)
	return func(Object) any { return patch.Copy(status) }
}

// named returns the function that a line names.
func named[F any](functions map[string]F, name string) F {
	f, ok := functions[name]
	if !ok {
		mistake("no function %q", name)
	}
	return f
}

// decode reads a JSON value.
func decode(text string) any {
	v, err := patch.Decode([]byte(text))
	if err != nil {
		mistake("read the value %s: %v", text, err)
	}
	return v
}

// selectable adds fields that selectors can name: a path, or a name, an equals sign and what a template has in braces.
func (k *Kind) selectable(words []string) {
	if k.Fields == nil {
		k.Fields = map[string]func(Object) string{}
	}
	for _, w := range words {
		name, value, other := strings.Cut(w, "=")
		if !other {
			value = name
		}
		t := parseTemplate("{" + value + "}")
		k.Fields[name] = func(o Object) string { return shown(t.value(scope{root: o, o: o})) }
	}
}

// newStatuses are the functions that make the status of a new object.
func newStatuses() map[string]func(Object) any {
	return map[string]func(Object) any{
		"newPodStatus": func(o Object) any {
			status := Object{"phase": "Pending", "qosClass": qosClass(obj.Map(o, "spec"))}
			if len(obj.Slice(o, "spec", "schedulingGates")) > 0 {
				status["conditions"] = []any{Object{"type": "PodScheduled", "status": "False", "lastProbeTime": nil,
					"lastTransitionTime": timestamp(), "reason": "SchedulingGated",
					"message": "Scheduling is blocked due to non-empty scheduling gates"}}
			}
			return status
		},
		"newVolumeStatus": func(Object) any {
			return Object{"phase": "Pending", "lastPhaseTransitionTime": timestamp()}
		},
		"newDefinitionStatus": func(Object) any {
			return Object{"conditions": nil, "acceptedNames": Object{"plural": "", "kind": ""}}
		},
	}
}
