package kinds

import (
	"cmp"
	"fmt"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// kind makes the entry of a kind.
func (d *data) kind(l *line) *Kind {
	words := strings.Fields(l.text)
	if len(words) != 4 {
		panic(l.wrong("want kind, apiVersion, plural, Kind"))
	}
	group, version, _ := strings.Cut(words[1], "/")
	if version == "" {
		group, version = "", group
	}
	k := &Kind{Resource: kube.Resource{Group: group, Version: version, Plural: words[2], Kind: words[3]}}
	for _, a := range l.block {
		switch a.text {
		case "defaults", "prepare", "checks", "columns":
			continue
		}
		if err := k.attribute(a.text); err != nil {
			panic(a.wrong(err.Error()))
		}
	}
	s := cmp.Or(l.set, d.set(l.block))
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

func whole(next, cur Object) scope { return scope{root: next, stored: cur, o: next, old: cur} }

// attribute sets what a line about a kind says.
func (k *Kind) attribute(text string) error {
	verb, rest, _ := strings.Cut(text, " ")
	words := strings.Fields(rest)
	texts := map[string]*string{"singular": &k.Singular, "table": &k.Table, "stored-as": &k.StoredAs,
		"refused": &k.Refused, "warning": &k.Warning, "orphan-warning": &k.OrphanWarning}
	if text := texts[verb]; text != nil {
		*text = rest
		return nil
	}
	switch verb {
	case "short":
		k.ShortNames = words
	case "categories":
		k.Categories = words
	case "name":
		form := forms()[rest]
		if form == nil {
			return fmt.Errorf("no form %q", rest)
		}
		k.Name = func(name string) string { return strings.Join(form(name), ", ") }
	case "status":
		return k.status(rest)
	case "scale":
		k.Scale = &Scale{Spec: strings.Split(words[0], "."), Status: strings.Split(words[1], "."),
			Selector: strings.Split(words[2], "."), Plain: len(words) > 3}
	case "generation":
		changed := term{verb: "changed", any: parsePaths(strings.Join(words, "|"))}
		k.Generation = func(next, cur Object) bool { return changed.holds(whole(next, cur)) }
	case "selectable":
		return k.selectable(words)
	case "warn":
		return k.warn(rest)
	case "flags":
		return k.flags(words)
	default:
		return fmt.Errorf("no attribute %q", verb)
	}
	return nil
}

func (k *Kind) flags(words []string) error {
	known := map[string]*bool{"cluster": &k.ClusterScoped, "status": &k.Status, "approval": &k.Approval,
		"author": &k.Author, "needs-version": &k.NeedsVersion, "create-on-update": &k.CreateOnUpdate,
		"delete-returns": &k.DeleteReturns, "status-alone": &k.Isolated}
	for _, w := range words {
		if w == "review" {
			k.Review = reviews()[k.Kind]
		} else if known[w] == nil {
			return fmt.Errorf("no flag %q", w)
		} else {
			*known[w] = true
		}
	}
	return nil
}

func (k *Kind) status(text string) error {
	k.Status = true
	if name, ok := strings.CutPrefix(text, "@"); ok {
		if k.NewStatus = newStatuses()[name]; k.NewStatus == nil {
			return fmt.Errorf("no function %q", name)
		}
		return nil
	}
	status, err := patch.Decode([]byte(text))
	k.NewStatus = func(Object) any { return patch.Copy(status) }
	return err
}

// selectable adds fields that selectors can name: a path, or a name, an equals sign and what a template has in braces.
func (k *Kind) selectable(words []string) error {
	if k.Fields == nil {
		k.Fields = map[string]func(Object) string{}
	}
	for _, w := range words {
		name, value, other := strings.Cut(w, "=")
		if !other {
			value = name
		}
		t, err := parseTemplate("{" + value + "}")
		if err != nil {
			return err
		}
		k.Fields[name] = func(o Object) string { return shown(t.value(scope{root: o, o: o})) }
	}
	return nil
}

// warn adds the warning of a function, or one of a condition, a colon and a text.
func (k *Kind) warn(text string) error {
	if text == "@keyPair" {
		k.Warn = keyPairWarnings
		return nil
	}
	condition, message, _ := strings.Cut(text, ": ")
	when, err := parseCondition(strings.Fields(condition))
	k.Warn = func(o Object) []string {
		if when.holds(scope{root: o, o: o}) {
			return []string{message}
		}
		return nil
	}
	return err
}

// newStatuses are the functions that make the status of a new object.
func newStatuses() map[string]func(Object) any {
	return map[string]func(Object) any{
		"newPodStatus": func(o Object) any {
			return Object{"phase": "Pending", "qosClass": qosClass(obj.Map(o, "spec"))}
		},
		"newVolumeStatus": func(Object) any {
			return Object{"phase": "Pending", "lastPhaseTransitionTime": timestamp()}
		},
		"newDefinitionStatus": func(o Object) any {
			var stored []any
			for _, v := range obj.Maps(o, "spec", "versions") {
				if obj.Bool(v, "storage") {
					stored = append(stored, obj.String(v, "name"))
				}
			}
			return Object{"conditions": nil, "acceptedNames": Object{"plural": "", "kind": ""},
				"storedVersions": stored}
		},
	}
}
