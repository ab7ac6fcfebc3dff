package reload

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
)

// The annotations of Stakater's Reloader, which count with [Options].Reloader. Annotations about one kind of sources
// have the kind in front: autoOf, listOf and excludeOf. examples/reload/RELOADER.md says where skiff differs.
const (
	theirAuto   = "reloader.stakater.com/auto"
	theirSearch = "reloader.stakater.com/search"
	theirPause  = "deployment.reloader.stakater.com/pause-period"
	theirMatch  = "reloader.stakater.com/match"  // of a source
	theirIgnore = "reloader.stakater.com/ignore" // of a source
)

func autoOf(kind string) string    { return kind + "." + theirAuto }
func listOf(kind string) string    { return kind + ".reloader.stakater.com/reload" }
func excludeOf(kind string) string { return kind + "s.exclude.reloader.stakater.com/reload" }

// head holds the answers in the annotations of a source.
type head struct{ match, ignore bool }

// isTrue reads search, match and ignore as Reloader does: any other spelling is no.
func isTrue(annotations kube.Labels, name string) bool {
	value, _ := annotations.Get(name)
	return value == "true"
}

// isOn reads auto as Reloader does: a garbled value is no.
func isOn(annotations kube.Labels, name string) bool {
	value, _ := annotations.Get(name)
	on, _ := strconv.ParseBool(value)
	return on
}

// choice holds the annotations of a workload about one kind of sources.
type choice struct {
	kind         string // "configmap" or "secret"
	auto, search bool
	names        []string                 // the entries of the list without an expression
	expressions  []string                 // the rest of the list
	matches      []func(name string) bool // the expressions that count
	size         int                      // of the expressions together
	exclude      []string
}

// theirs holds the annotations of Reloader on a workload.
type theirs struct {
	choices [2]choice
	refers  []entry // the references of the containers
}

// kindsOfSources are the kinds of sources, as entries have them.
var kindsOfSources = [...]string{"configmap", "secret"}

// fourOf returns the annotations of a workload about a kind, because of which those of the pod template do not count.
func fourOf(kind string) []string {
	return []string{listOf(kind), autoOf(kind), theirAuto, theirSearch}
}

// sideOf returns the annotations that count about a kind: the pod template's where the workload has no key of the
// four, whatever the value.
func sideOf(w *target, kind string) (from kube.Labels, template bool) {
	if slices.ContainsFunc(fourOf(kind), func(name string) bool {
		_, ok := w.Annotations.Get(name)
		return ok
	}) {
		return w.Annotations, false
	}
	return w.Spec.Template.Metadata.Annotations, true
}

// choiceOf reads the annotations about a kind. The exclude list stands on the workload alone.
func choiceOf(w *target, kind string) choice {
	from, _ := sideOf(w, kind)
	c := choice{kind: kind, auto: isOn(from, theirAuto) || isOn(from, autoOf(kind)), search: isTrue(from, theirSearch),
		exclude: split(w.Annotations, excludeOf(kind))}
	for _, one := range split(from, listOf(kind)) {
		if isName(one) {
			c.names = append(c.names, one)
		} else {
			c.expressions = append(c.expressions, one)
		}
	}
	return c
}

// split returns the entries of a list. An empty entry names nothing.
func split(annotations kube.Labels, name string) (out []string) {
	list, _ := annotations.Get(name)
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, one)
		}
	}
	return out
}

// reader reads the annotations of workloads.
type reader struct {
	reloader bool                // Reloader's count as well
	flags    map[ref]kube.Labels // of the workloads named by flags, in place of annotations; nil: annotations count
	state    string              // the name of the annotation with the state, where there are flags
	patterns patterns
}

// ours returns the annotations of skiff that count for a workload of a kind.
func (r *reader) ours(kind string, w *target) kube.Labels {
	if r.flags != nil {
		return r.flags[ref{kind, w.Name}]
	}
	return w.Annotations
}

// theirs returns Reloader's annotations of a workload; nil: none could restart the workload.
func (r *reader) theirs(w *target) *theirs {
	if !r.reloader || len(w.Annotations)+len(w.Spec.Template.Metadata.Annotations) == 0 {
		return nil
	}
	t := &theirs{}
	some := false
	for i, kind := range kindsOfSources {
		c := choiceOf(w, kind)
		some = some || c.auto || c.search || len(c.names)+len(c.expressions) > 0
		t.choices[i] = c
	}
	if !some {
		return nil
	}
	t.refers = w.Spec.Template.Spec.refers()
	return t
}

// optedIn says whether a workload of a kind has any annotation about sources, or is named by flags.
func (r *reader) optedIn(kind string, w *target) bool {
	return optsIn(r.ours(kind, w)) || r.theirs(w) != nil
}

// wants reads the annotations of a workload of a kind. Entries that follow from the present sources are left to
// theirs.entries.
func (r *reader) wants(kind string, w *target) wants {
	out := w.wants(r.ours(kind, w))
	if r.flags != nil {
		out.state = r.state
	}
	if kind == rollouts.Kind {
		r.strategy(w, &out)
	}
	if out.theirs = r.theirs(w); out.theirs == nil {
		return out
	}
	for i := range out.theirs.choices {
		r.compile(&out.theirs.choices[i], &out)
	}
	value, ok := w.Annotations.Get(theirPause)
	if !ok || kind != "Deployment" {
		return out
	}
	switch d, err := time.ParseDuration(value); {
	case err != nil:
		out.fault(theirPause, "%.100q is not a duration, such as 5m", value)
	case d > maxPeriod:
		out.fault(theirPause, "%.100q is longer than %s, which count", value, maxPeriod)
		out.period = maxPeriod
	default:
		out.period = max(d, 0)
	}
	return out
}

// maxPeriod is the longest pause-period: after a longer time nobody remembers the change.
const maxPeriod = 24 * time.Hour

// compile compiles the expressions of a choice. A wrong expression costs no other.
func (r *reader) compile(c *choice, out *wants) {
	for _, one := range c.expressions {
		compiled := r.patterns.compile(one)
		switch c.size += compiled.size; {
		case compiled.matches == nil:
			out.fault(listOf(c.kind), "%.100q %s", one, compiled.fault)
		case len(c.matches) == maxPatterns, c.size > maxPatternSize:
			out.fault(listOf(c.kind), "the expressions from %.100q on are too many", one)
			return
		default:
			c.matches = append(c.matches, compiled.matches)
		}
	}
}

// bearable drops the expressions that are too many to be matched with some sources at each look.
func (o *wants) bearable(sources int) {
	for i := range o.theirs.choices {
		if c := &o.theirs.choices[i]; c.size*sources > maxMatching && len(c.matches) > 0 {
			o.fault(listOf(c.kind), "the expressions are too many for %d sources; names count", sources)
			c.matches = nil
		}
	}
}

// matchesAny says whether an expression matches a source.
func (c *choice) matchesAny(name string) bool {
	return slices.ContainsFunc(c.matches, func(matches func(string) bool) bool { return matches(name) })
}

// of returns the choice about sources of a kind.
func (t *theirs) of(kind string) *choice {
	return &t.choices[slices.Index(kindsOfSources[:], kind)]
}

// named returns the sources on which the workload may depend, whatever other sources there are.
func (t *theirs) named() (out []entry) {
	for _, e := range t.refers {
		if c := t.of(e.kind); c.auto || c.search {
			out = append(out, e)
		}
	}
	for _, c := range t.choices {
		for _, name := range c.names {
			out = append(out, entry{kind: c.kind, name: name})
		}
	}
	return out
}

// entries returns the entries that restart the workload, given the heads of the present sources: of those in named
// and, where there are expressions, of all of the kind. An entry of the list needs no reference, and all keys count.
func (t *theirs) entries(heads map[string]head) (out []entry) {
	for _, e := range t.refers {
		h, exists := heads[e.source()]
		// A missing source has matched, or has not been recorded, and may come back with other content.
		if c := t.of(e.kind); c.auto || c.search && (h.match || !exists) {
			out = append(out, e)
		}
	}
	for _, c := range t.choices {
		for _, name := range c.names {
			out = append(out, entry{kind: c.kind, name: name})
		}
		if len(c.matches) == 0 {
			continue
		}
		for source := range heads {
			kind, name, _ := strings.Cut(source, "/")
			if kind == c.kind && c.matchesAny(name) {
				out = append(out, entry{kind: c.kind, name: name, optional: true})
			}
		}
	}
	return slices.DeleteFunc(out, func(e entry) bool {
		return heads[e.source()].ignore || slices.Contains(t.of(e.kind).exclude, e.name)
	})
}

// add adds entries of Reloader's annotations. An entry of a skiff.dev annotation stays as the annotation has it.
func (o *wants) add(more []entry) {
	own := o.entries
	if len(more) == 0 {
		return
	}
	kind := more[0].kind
	more = slices.DeleteFunc(more, func(e entry) bool {
		return slices.ContainsFunc(own, func(o entry) bool {
			return o.name == e.name && o.kind == e.kind && o.key == ""
		})
	})
	o.entries = merged(append(slices.Clip(own), more...))
	o.bound(listOf(kind))
}
