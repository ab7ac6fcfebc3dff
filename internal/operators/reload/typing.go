package reload

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/nearest"
)

// places are the kinds of objects on which an annotation counts.
type places int

const (
	onWorkload places = 1 << iota
	onTemplate
	onSource
	onDeployment // of the workloads, on this kind alone
	onRollout    // likewise
	anywhere     // written by a controller, or of no interest
)

// place is where an annotation was found.
type place struct {
	on   places
	kind string // of the object
}

// String describes the place.
func (p place) String() string {
	if p.on == onTemplate {
		return "the pod template of a " + p.kind
	}
	return "a " + p.kind
}

// String describes the places.
func (p places) String() string {
	switch p {
	case onTemplate:
		return "a pod template"
	case onSource:
		return "a ConfigMap or a Secret"
	case onDeployment:
		return "a Deployment"
	case onRollout:
		return "a Rollout"
	case onWorkload, onWorkload | onSource:
		return "the object itself"
	}
	return "a workload or its pod template"
}

// known is an annotation and where the annotation counts.
type known struct {
	name string
	on   places
}

// ours are the annotations of skiff, with those of other controllers.
var ours = []known{{AutoAnnotation, onWorkload}, {ConfigMapsAnnotation, onWorkload}, {SecretsAnnotation, onWorkload},
	{AfterAnnotation, onWorkload}, {CooldownAnnotation, onWorkload}, {StrategyAnnotation, onRollout},
	{ResumeAnnotation, onSource},
	{StateAnnotation, anywhere}, {RestartAnnotation, anywhere}, {conditions.PausedAnnotation, onWorkload | onSource},
	{apply.HashAnnotation, anywhere}, {apply.AdoptAnnotation, anywhere}, {"skiff.dev/restart-state", anywhere},
	{"skiff.dev/log", anywhere}, {"skiff.dev/allow-restart-triggers-from", anywhere}}

// theirNames are the annotations of Reloader that skiff reads, or that Reloader writes.
var theirNames = []known{{theirAuto, onWorkload | onTemplate}, {theirSearch, onWorkload | onTemplate},
	{autoOf("configmap"), onWorkload | onTemplate}, {autoOf("secret"), onWorkload | onTemplate},
	{listOf("configmap"), onWorkload | onTemplate}, {listOf("secret"), onWorkload | onTemplate},
	{excludeOf("configmap"), onWorkload}, {excludeOf("secret"), onWorkload}, {theirPause, onDeployment},
	{theirStrategy, onRollout},
	{theirMatch, onSource}, {theirIgnore, onSource}, {theirPausedAt, anywhere}, {theirReloadedFrom, anywhere}}

// The annotations that Reloader writes.
const (
	theirPausedAt     = "deployment.reloader.stakater.com/paused-at"
	theirReloadedFrom = "reloader.stakater.com/last-reloaded-from"
)

// theirOthers are the annotations of Reloader with which skiff does nothing.
var theirOthers = []string{autoOf("secretproviderclass"), listOf("secretproviderclass"),
	"secretproviderclasses.exclude.reloader.stakater.com/reload"}

// family is the annotations that a program reads, or writes.
type family struct {
	program string
	all     []known
	names   []string // that users write, with those in which skiff has no interest
}

func familyOf(program string, all []known, more ...string) family {
	f := family{program: program, all: all}
	for _, k := range all {
		if k.on != anywhere {
			f.names = append(f.names, k.name)
		}
	}
	f.names = append(f.names, more...)
	return f
}

var (
	skiffs    = familyOf("skiff", ours)
	reloaders = familyOf("Reloader", theirNames, theirOthers...)
	domains   = reloaders.domains()
)

func (f *family) domains() (out []string) {
	for _, name := range f.names {
		if domain, _, _ := strings.Cut(name, "/"); !slices.Contains(out, domain) {
			out = append(out, domain)
		}
	}
	return out
}

// names adds the annotations that do not count where they are, by their names.
func (s *survey) names(o *Surveyed, p place, annotations kube.Labels) {
	for _, a := range annotations {
		var found *Finding
		switch {
		case len(a.Key) > maxShown: // longer than a server takes
		case len(o.Findings) >= maxFindings: // to compare the rest would take long
			o.count(s.inDomain(a.Key))
		case isStateName(a.Key): // written by a process with flags
		case isOurs(a.Key):
			found = skiffs.look(p, a.Key)
		case s.reloader && slices.Contains(theirOthers, a.Key):
			found = &Finding{Reason: notInSkiff, Text: "known to Reloader; skiff does nothing with it"}
		case s.reloader && isTheirs(a.Key):
			found = reloaders.look(p, a.Key)
		}
		if found != nil {
			found.Annotation, found.Template = a.Key, p.on == onTemplate
			o.Add(*found)
		}
	}
}

// isOurs says whether an annotation is meant for skiff: by the domain, or by a domain and a name that are like ours.
func isOurs(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == "skiff.dev" || !isTheirs(key) && nearest.Of(domain, []string{"skiff.dev"}) != "" &&
		nearest.Of(key, skiffs.names) != ""
}

// isTheirs says whether an annotation is meant for Reloader. Other programs of the same makers have other names.
func isTheirs(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	if strings.HasSuffix(domain, theirDomain) {
		return true
	}
	makers := func(label string) bool {
		return label == "stakater" || len(label) > 5 && nearest.Of(label, []string{"stakater"}) != ""
	}
	lower := strings.ToLower(key)
	reload, stakater := strings.Contains(lower, "reload"), strings.Contains(lower, "stak")
	return reload && slices.ContainsFunc(strings.Split(domain, "."), makers) ||
		(reload || stakater) && nearest.Of(domain, domains) != ""
}

// theirDomain ends the domains of Reloader's annotations.
const theirDomain = "reloader.stakater.com"

// inDomain says whether an annotation is in a domain that counts, and is none of those known.
func (s *survey) inDomain(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == "skiff.dev" && !slices.Contains(skiffs.names, key) && !isStateName(key) ||
		s.reloader && strings.HasSuffix(domain, theirDomain) && !slices.Contains(reloaders.names, key)
}

// count counts a finding that is not listed.
func (o *Surveyed) count(wrong bool) {
	if wrong {
		o.wrong++
		o.More++
	}
}

// look returns what is wrong with the name of an annotation; nil: nothing.
func (f *family) look(p place, key string) *Finding {
	i := slices.IndexFunc(f.all, func(k known) bool { return k.name == key })
	if i < 0 {
		return &Finding{Reason: unknownName, Wrong: true, Text: "no annotation of " + f.program,
			Meant: meantName(key, f.names)}
	}
	on := f.all[i].on
	kind := map[places]string{onDeployment: "Deployment", onRollout: rollouts.Kind}[on]
	if on == anywhere || on&p.on != 0 || p.on == onWorkload && p.kind == kind {
		return nil
	}
	return &Finding{Reason: wrongPlace, Wrong: true, Text: fmt.Sprintf("counts on %s, not on %s", on, p)}
}

// meantName returns the likely meaning of a name: a similar annotation, or an annotation with more or less in front.
func meantName(key string, names []string) string {
	if name := nearest.Of(key, names); name != "" {
		return name
	}
	for _, name := range names {
		if strings.HasSuffix(name, "."+key) || strings.HasSuffix(key, "."+name) {
			return name
		}
	}
	return ""
}

// The words for yes and no in Kubernetes, YAML and elsewhere.
var (
	yes = []string{"true", "t", "yes", "y", "on", "1", "enabled", "enable", "auto"}
	no  = []string{"false", "f", "no", "n", "off", "0", "disabled", "disable"}
)

// boolean adds that the value of a boolean annotation counts as no without saying so.
func (o *Surveyed) boolean(f Finding, value string) {
	switch word := strings.ToLower(strings.TrimSpace(value)); {
	case slices.Contains(no, word):
		return
	case slices.Contains(yes, word):
		f.Meant = "true"
	}
	f.Reason, f.Wrong, f.Text = wrongValue, true, fmt.Sprintf("%.100q counts as false", value)
	o.Add(f)
}

// yesOnly looks at annotations of which no other value than "true" counts.
func yesOnly(o *Surveyed, template bool, annotations kube.Labels, names ...string) {
	for _, name := range names {
		if value, ok := annotations.Get(name); ok && value != "true" {
			o.boolean(Finding{Annotation: name, Template: template}, value)
		}
	}
}

// listOnTemplate says whether an annotation is a list of Reloader that is taken from the pod template.
func (s *survey) listOnTemplate(w *target, name string) bool {
	for _, kind := range kindsOfSources {
		if _, template := sideOf(w, kind); template && name == listOf(kind) {
			return true
		}
	}
	return false
}

// others looks at the values of Reloader's annotations of a workload.
func (s *survey) others(o *Surveyed, w *target, wants *wants) {
	s.shadowed(o, w)
	said := map[string]bool{}
	for i, kind := range kindsOfSources {
		from, template := sideOf(w, kind)
		for _, name := range []string{theirAuto, autoOf(kind)} {
			value, ok := from.Get(name)
			if _, err := strconv.ParseBool(value); ok && err != nil && !said[name] {
				said[name] = true
				o.boolean(Finding{Annotation: name, Template: template}, value)
			}
		}
		if !said[theirSearch] {
			said[theirSearch] = true
			yesOnly(o, template, from, theirSearch)
		}
		if wants.theirs != nil {
			s.listed(o, w, &wants.theirs.choices[i], template)
		}
	}
	if wants.theirs == nil {
		s.without(o, w)
	} else {
		s.excludes(o, w)
		s.search(o, w, wants.theirs)
	}
	at, paused := w.Annotations.Get(theirPausedAt)
	if paused && w.Spec.Paused {
		o.Add(Finding{Annotation: theirPausedAt, Reason: leftPaused, Text: fmt.Sprintf("Reloader has paused it at "+
			"%.40q; when Reloader does not run any more, resume it with kubectl rollout resume", at)})
	}
}

// without adds the annotations without effect on a workload that does not opt in.
func (s *survey) without(o *Surveyed, w *target) {
	for _, name := range []string{excludeOf("configmap"), excludeOf("secret"), theirPause} {
		if _, ok := w.Annotations.Get(name); ok && (name != theirPause || o.Kind == "Deployment") {
			o.Add(Finding{Annotation: name, Reason: noEffect, Wrong: true, Text: "does nothing alone: the workload " +
				"has no auto, search or list of Reloader's that counts, and skiff has no --auto-reload-all"})
		}
	}
}

// shadowed adds the annotations of the pod template that do not count because of those of the workload.
func (s *survey) shadowed(o *Surveyed, w *target) {
	for _, a := range w.Spec.Template.Metadata.Annotations {
		var counts, hidden []string
		for _, kind := range kindsOfSources {
			if !slices.Contains(fourOf(kind), a.Key) {
				continue
			}
			if _, template := sideOf(w, kind); template {
				counts = append(counts, kind)
			} else {
				hidden = append(hidden, kind)
			}
		}
		if value, ok := w.Annotations.Get(a.Key); len(hidden) == 0 || ok && value == a.Value {
			continue
		}
		f := Finding{Annotation: a.Key, Template: true, Reason: shadowed, Wrong: true,
			Text: "does not count: the workload itself has " + onItself(w, hidden[0]) +
				", so that the pod template's are not read"}
		if len(counts) > 0 {
			f.Reason, f.Wrong = partShadowed, false
			f.Text = fmt.Sprintf("counts for a %s, and not for a %s: the workload itself has %s", counts[0], hidden[0],
				onItself(w, hidden[0]))
		}
		o.Add(f)
	}
}

// onItself returns the annotation of a workload because of which those of the pod template do not count about a kind.
func onItself(w *target, kind string) string {
	for _, name := range fourOf(kind) {
		if _, ok := w.Annotations.Get(name); ok {
			return name
		}
	}
	return ""
}

// listed looks at the entries of a list, as far as they count.
func (s *survey) listed(o *Surveyed, w *target, c *choice, template bool) {
	heads, f := s.of(w.Namespace), Finding{Annotation: listOf(c.kind), Template: template}
	for _, name := range c.names[:min(len(c.names), maxSources)] {
		h := heads[c.kind+"/"+name]
		if !s.exists(w.Namespace, c.kind, name) {
			s.missing(o, w.Namespace, f, c.kind, name)
		} else if h.ignore || slices.Contains(c.exclude, name) {
			f.Reason, f.Text = leftOut, fmt.Sprintf("%.100q is left out by %s or %s", name, theirIgnore,
				excludeOf(c.kind))
			o.Add(f)
		}
	}
	steps := maxMatching
	for _, one := range c.expressions[:min(len(c.expressions), maxPatterns)] {
		if len(o.Findings) < maxFindings && s.sees(w.Namespace, c.kind) {
			s.expression(o, w.Namespace, f, c.kind, one, &steps)
		}
	}
}

// matched returns how many sources of a kind an entry of a list matches, and whether another would match more. known
// is false where the entry is invalid, or matching would take more than the steps that are left.
func (s *survey) matched(namespace, kind, one, other string, steps *int) (n int, more, known bool) {
	a, b := s.patterns.compile(one), s.patterns.compile(other)
	if a.matches == nil {
		return 0, false, false
	}
	for source := range s.of(namespace) {
		name, ok := strings.CutPrefix(source, kind+"/")
		if !ok {
			continue
		}
		if *steps -= a.size + b.size; *steps < 0 {
			return 0, false, false
		}
		if a.matches(name) {
			n++
		} else if b.matches != nil && b.matches(name) {
			more = true
		}
	}
	return n, more, true
}

// expression looks at an entry that is not a name.
func (s *survey) expression(o *Surveyed, namespace string, f Finding, kind, one string, steps *int) {
	pattern, bare := strings.ReplaceAll(one, "*", ".*"), strings.NewReplacer("*", "", ".", "").Replace(one)
	like := pattern != one && !strings.Contains(one, ".*") && regexp.QuoteMeta(bare) == bare // a glob
	n, more, known := s.matched(namespace, kind, one, pattern, steps)
	switch {
	case !known:
		return
	case like && (n == 0 || more):
		f.Reason, f.Wrong, f.Meant = glob, n == 0, pattern
		f.Text = fmt.Sprintf("%.100q matches %d %ss: in a regular expression, * repeats the character in front",
			one, n, kind)
	case n > 0:
		return
	case kube.ValidName(one): // with a dot
		s.missing(o, namespace, f, kind, one)
		return
	case regexp.QuoteMeta(bare) == bare:
		// A name may have its namespace in front.
		f.Reason, f.Wrong, f.Meant = noName, true, s.nearest(o, namespace, kind, path.Base(strings.ToLower(one)))
		f.Text = fmt.Sprintf("no %s can have the name %.100q: names are separated by commas, without a namespace "+
			"or a key", kind, one)
	default:
		f.Reason, f.Text = matchesNone, fmt.Sprintf("%.100q matches no %s now", one, kind)
	}
	o.Add(f)
}

// excludes looks at the lists of sources that are left out.
func (s *survey) excludes(o *Surveyed, w *target) {
	for _, kind := range kindsOfSources {
		for _, name := range split(w.Annotations, excludeOf(kind)) {
			if s.exists(w.Namespace, kind, name) {
				continue
			}
			o.Add(Finding{Annotation: excludeOf(kind), Reason: noSource, Wrong: true, Meant: s.nearest(o, w.Namespace,
				kind, name), Text: fmt.Sprintf("there is no %s %.100q; an entry is a name, not an expression", kind,
				name)})
		}
	}
}

// search looks whether a search finds any of the sources that the containers see.
func (s *survey) search(o *Surveyed, w *target, t *theirs) {
	searches, finds := false, false
	for _, e := range t.refers {
		c := t.of(e.kind)
		if !c.search {
			continue
		}
		h, exists := s.of(w.Namespace)[e.source()]
		finds = finds || c.auto || h.match || !exists
		if h.match {
			s.searched[w.Namespace+"/"+e.source()] = true
		}
	}
	_, template := sideOf(w, "configmap")
	for _, c := range t.choices {
		if from, side := sideOf(w, c.kind); c.search && isTrue(from, theirSearch) {
			searches, template = true, side
		}
	}
	if searches && !finds {
		o.Add(Finding{Annotation: theirSearch, Template: template, Reason: searchesNone, Wrong: true, Text: "finds " +
			"nothing: no ConfigMap or Secret that a container sees has " + theirMatch + ": \"true\""})
	}
}
