package reload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"skiff/internal/operators/sources"
	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/nearest"
)

// Survey says for which ConfigMaps and Secrets workloads would restart, and which annotations do not count.
type Survey struct {
	Reloader  bool       `json:"reloaderAnnotations"` // Reloader's annotations count, too
	Looked    int        `json:"looked"`              // workloads read
	Restarts  int        `json:"restarts"`            // workloads with an entry
	Wrong     int        `json:"wrong"`               // findings that need a change, of all objects
	Workloads []Surveyed `json:"workloads"`           // that have opted in, or with findings
	Sources   []Surveyed `json:"sources"`             // ConfigMaps and Secrets with findings
	Omitted   int        `json:"omitted,omitempty"`   // objects that count above and are not listed
	NotRead   []NotRead  `json:"notRead,omitempty"`
}

// OK says that all was read, and that nothing is wrong.
func (s *Survey) OK() bool { return s.Wrong == 0 && len(s.NotRead) == 0 }

// NotRead is a resource that was not, or not wholly, read.
type NotRead struct {
	Namespace string `json:"namespace"` // "": all
	Resource  string `json:"resource"`
	Reason    string `json:"reason"` // Forbidden, TooMany or TooLong
	Detail    string `json:"detail"`
}

// Surveyed is a workload, ConfigMap or Secret with the result. All texts are printable.
type Surveyed struct {
	Namespace string          `json:"namespace"`
	Kind      string          `json:"kind"`
	Name      string          `json:"name"`
	Entries   []SurveyedEntry `json:"restartsFor,omitempty"`
	Findings  []Finding       `json:"findings,omitempty"`
	More      int             `json:"moreFindings,omitempty"` // not listed
	Opted     bool            `json:"optedIn,omitempty"`
	wrong     int             // findings, also of those not listed
}

// OK says that nothing is wrong.
func (o *Surveyed) OK() bool { return o.wrong == 0 }

// SurveyedEntry is a source, or a key of a source, for which a workload restarts.
type SurveyedEntry struct {
	Entry   string   `json:"entry"`       // "configmap/a", "secret/b:key"
	From    []string `json:"annotations"` // by which the workload restarts
	Missing bool     `json:"missing,omitempty"`
}

// Finding is something to know about an annotation.
type Finding struct {
	Annotation string `json:"annotation"`
	Template   bool   `json:"podTemplate,omitempty"` // where the annotation is; else on the object
	Reason     string `json:"reason"`
	Wrong      bool   `json:"wrong"` // to be changed; else good to know
	Text       string `json:"text"`
	Meant      string `json:"meant,omitempty"` // most likely: the name, or the value or entry
}

// The reasons of findings besides InvalidAnnotation.
const (
	unknownName  = "UnknownAnnotation"
	wrongPlace   = "WrongPlace"
	notInSkiff   = "NotInSkiff"
	wrongValue   = "WrongValue"
	noSource     = "NoSource"
	noName       = "NoName"
	glob         = "Glob"
	matchesNone  = "MatchesNothing"
	leftOut      = "LeftOut"
	shadowed     = "Shadowed"
	partShadowed = "PartlyShadowed"
	noEffect     = "NoEffect"
	searchesNone = "SearchFindsNothing"
	unusedMatch  = "UnusedMatch"
	noWorkload   = "NoWorkload"
	leftPaused   = "LeftPaused"
	circle       = "Circle"
	noPods       = "NoPods"
	notRead      = "NotRead"
)

const (
	// maxFindings of an object are listed; an object may have thousands of annotations.
	maxFindings = 50
	// maxSurvey bounds the memory of what is listed, and of the sources' names, in bytes.
	maxSurvey = 32 << 20
	// maxAsked bounds the sources and the entries that are compared to find the meant name.
	maxAsked = 2000
	// maxCompared bounds the comparisons with names in a namespace, in products of the lengths: half a second.
	maxCompared = 100_000_000
	// maxStep is a step in the order of workloads, in the same measure.
	maxStep = 100
)

// survey makes a Survey of a namespace after the other: sources first, then workloads, then finish.
type survey struct {
	reader
	Survey
	room     int                        // of maxSurvey
	at       map[string]int             // where an object is in the list of its kind
	heads    map[string]map[string]head // by namespace and source
	matches  []*matching                // the sources with match
	searched map[string]bool            // namespace and source, as found by a search
	after    []waiting
	compared map[string]int  // by namespace, of maxCompared
	count    int             // sources in heads
	seen     map[string]bool // namespace and workload: true for those that have opted in
	blind    map[string]bool // namespace ("": all) and kind of sources, or "workloads": not read
}

// matching is a source with an annotation by which a search finds it.
type matching struct{ namespace, source, kind string }

// waiting is an entry of AfterAnnotation, to be looked for when all workloads have been seen.
type waiting struct {
	workload Surveyed
	on       ref
}

func newSurvey(reloader bool) *survey {
	s := &survey{reader: reader{reloader: reloader}, room: maxSurvey, Survey: Survey{Reloader: reloader,
		Workloads: []Surveyed{}, Sources: []Surveyed{}}, blind: map[string]bool{}, at: map[string]int{}}
	s.begin()
	return s
}

// begin forgets the sources and workloads of the namespaces before.
func (s *survey) begin() {
	s.heads, s.searched, s.seen = map[string]map[string]head{}, map[string]bool{}, map[string]bool{}
	s.matches, s.after, s.count, s.compared = nil, nil, 0, map[string]int{}
}

// sees says whether all sources of a kind, or "workloads", were read in a namespace.
func (s *survey) sees(namespace, kind string) bool {
	return !s.blind[namespace+"/"+kind] && !s.blind["/"+kind]
}

// of returns the sources of a namespace.
func (s *survey) of(namespace string) map[string]head { return s.heads[namespace] }

// list adds an object to a list, if there is room.
func (s *survey) list(to *[]Surveyed, o Surveyed) {
	s.Wrong += o.wrong
	size := 200 + len(o.Namespace) + len(o.Name)
	for _, e := range o.Entries {
		size += 100 + len(e.Entry)
	}
	for _, f := range o.Findings {
		size += 100 + len(f.Annotation) + len(f.Text) + len(f.Meant)
	}
	if s.room -= size; s.room < 0 {
		s.Omitted++
		return
	}
	s.at[o.id()] = len(*to)
	*to = append(*to, o)
}

func (o *Surveyed) id() string { return o.Namespace + "/" + o.Kind + "/" + o.Name }

// maxShown bounds a name in bytes: longer than any that a server takes.
const maxShown = 320

func shown(text string) string { return kube.Printable(text, maxShown) }

// Add adds a finding to an object. The texts become printable, and beyond maxFindings they are counted alone.
func (o *Surveyed) Add(f Finding) {
	if f.Wrong {
		o.wrong++
	}
	if len(o.Findings) >= maxFindings {
		o.More++
		return
	}
	f.Annotation, f.Text, f.Meant = shown(f.Annotation), kube.Text(f.Text), shown(f.Meant)
	o.Findings = append(o.Findings, f)
}

// source looks at a ConfigMap or Secret, given the kind of entries.
func (s *survey) source(kind string, m *kube.Meta, annotations kube.Labels) {
	if s.heads[m.Namespace] == nil {
		s.heads[m.Namespace] = map[string]head{}
	}
	h, source := headOf(annotations), kind+"/"+m.Name
	if _, again := s.heads[m.Namespace][source]; again { // the list was read once more
		return
	}
	s.count++
	s.heads[m.Namespace][source] = h
	o := Surveyed{Namespace: shown(m.Namespace), Kind: map[string]string{"configmap": "ConfigMap",
		"secret": "Secret"}[kind], Name: shown(m.Name)}
	if s.reloader && h.match {
		s.matches = append(s.matches, &matching{m.Namespace, source, o.Kind})
	}
	s.names(&o, place{on: onSource, kind: o.Kind}, annotations)
	if value, ok := annotations.Get(ResumeAnnotation); ok && timeOf(value).IsZero() {
		o.Add(Finding{Annotation: ResumeAnnotation, Reason: wrongValue, Wrong: true, Text: fmt.Sprintf("%.40q is not "+
			"a time, such as 2026-01-02T15:04:05Z: failed restarts hold up others as before", value)})
	}
	if s.reloader {
		yesOnly(&o, false, annotations, theirMatch, theirIgnore)
	}
	if len(o.Findings) > 0 {
		s.list(&s.Sources, o)
	}
}

// workload looks at a workload of a kind.
func (s *survey) workload(kind string, w *target) {
	id := w.Namespace + "/" + ref{kind, w.Name}.String()
	if _, again := s.seen[id]; again {
		return
	}
	s.Looked++
	s.seen[id] = s.optedIn(kind, w)
	o := Surveyed{Namespace: shown(w.Namespace), Kind: kind, Name: shown(w.Name), Opted: s.seen[id]}
	wants := s.wants(kind, w)
	if wants.theirs != nil {
		heads := s.present(w.Namespace, wants.theirs)
		wants.bearable(len(heads))
		wants.add(wants.theirs.entries(heads))
	}
	refers := map[string]bool{}
	for _, e := range w.Spec.Template.Spec.refers() {
		refers[e.source()] = true
	}
	for _, e := range wants.entries {
		o.Entries = append(o.Entries, SurveyedEntry{Entry: shown(e.String()),
			From: s.from(w, &wants, e, refers[e.source()]), Missing: !s.exists(w.Namespace, e.kind, e.name)})
	}
	s.names(&o, place{on: onWorkload, kind: kind}, w.Annotations)
	s.names(&o, place{on: onTemplate, kind: kind}, w.Spec.Template.Metadata.Annotations)
	for _, f := range wants.faults {
		meant := ""
		if value, _ := w.Annotations.Get(AutoAnnotation); f.annotation == AutoAnnotation && value != "auto" {
			meant = "auto"
		}
		o.Add(Finding{Annotation: f.annotation, Reason: invalid, Wrong: true, Text: f.text, Meant: meant,
			Template: s.reloader && s.listOnTemplate(w, f.annotation)})
	}
	s.own(&o, w, &wants)
	if s.reloader {
		s.others(&o, w, &wants)
	}
	if len(o.Entries) > 0 {
		s.Restarts++
		if n := w.Spec.Replicas; n != nil && *n == 0 {
			o.Add(Finding{Reason: noPods,
				Text: "has no pods: it does not restart, and new pods start with the present content"})
		}
	}
	if len(o.Findings) > 0 || s.seen[id] {
		s.list(&s.Workloads, o)
	}
	for _, r := range wants.after {
		s.after = append(s.after, waiting{Surveyed{Namespace: w.Namespace, Kind: kind, Name: w.Name}, r})
	}
}

// broken notes an object that could not be read, or is too large.
func (s *survey) broken(kind string, bad *kube.DecodeError) {
	o := Surveyed{Namespace: shown(bad.Key.Namespace), Kind: kind, Name: shown(bad.Key.Name)}
	o.Add(Finding{Reason: notRead, Wrong: true, Text: "is not looked at: " + bad.Err.Error()})
	to := &s.Workloads
	if kind == sources.ConfigMaps.Kind || kind == sources.Secrets.Kind {
		to = &s.Sources
		if source := strings.ToLower(kind) + "/" + bad.Key.Name; bad.Key.Name != "" {
			if s.heads[bad.Key.Namespace] == nil {
				s.heads[bad.Key.Namespace] = map[string]head{}
			}
			s.heads[bad.Key.Namespace][source] = head{}
		}
	}
	s.list(to, o)
}

// present returns the heads of the sources on which a workload depends, as world.heads does.
func (s *survey) present(namespace string, t *theirs) map[string]head {
	out := map[string]head{}
	for _, e := range t.named() {
		if h, ok := s.of(namespace)[e.source()]; ok {
			out[e.source()] = h
		}
	}
	for _, c := range t.choices {
		if len(c.matches) == 0 {
			continue
		}
		for source, h := range s.of(namespace) {
			if strings.HasPrefix(source, c.kind+"/") {
				out[source] = h
			}
		}
	}
	return out
}

// from returns the annotations by which a workload restarts for an entry; refers: a container sees the source.
func (s *survey) from(w *target, wants *wants, e entry, refers bool) (names []string) {
	if auto, _ := w.Annotations.Get(AutoAnnotation); auto == "auto" && refers {
		names = append(names, AutoAnnotation)
	}
	list := map[string]string{"configmap": ConfigMapsAnnotation, "secret": SecretsAnnotation}[e.kind]
	if slices.ContainsFunc(split(w.Annotations, list), func(one string) bool {
		name, _, _ := strings.Cut(one, ":")
		return name == e.name
	}) {
		names = append(names, list)
	}
	h, exists := s.of(w.Namespace)[e.source()]
	if wants.theirs == nil || h.ignore {
		return names
	}
	c := wants.theirs.of(e.kind)
	if slices.Contains(c.exclude, e.name) {
		return names
	}
	annotations, _ := sideOf(w, e.kind)
	for name, counts := range map[string]bool{
		theirAuto:      refers && isOn(annotations, theirAuto),
		autoOf(e.kind): refers && isOn(annotations, autoOf(e.kind)),
		theirSearch:    refers && c.search && (h.match || !exists),
		listOf(e.kind): slices.Contains(c.names, e.name) || c.matchesAny(e.name),
	} {
		if counts {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// own looks at the values of skiff's annotations, besides those that wants has found wrong.
func (s *survey) own(o *Surveyed, w *target, wants *wants) {
	for i, e := range wants.entries {
		for _, list := range []string{ConfigMapsAnnotation, SecretsAnnotation} {
			if o.Entries[i].Missing && slices.Contains(o.Entries[i].From, list) {
				s.missing(o, w.Namespace, Finding{Annotation: list}, e.kind, e.name)
			}
		}
	}
	if !s.optedIn(o.Kind, w) {
		for _, name := range []string{AfterAnnotation, CooldownAnnotation} {
			if _, ok := w.Annotations.Get(name); ok {
				o.Add(Finding{Annotation: name, Reason: noEffect, Wrong: true, Text: "does nothing alone: no other " +
					"annotation says for what the workload restarts"})
			}
		}
	}
	if _, err := conditions.Flag(w.Annotations, conditions.PausedAnnotation); err != nil {
		value, _ := w.Annotations.Get(conditions.PausedAnnotation)
		o.boolean(Finding{Annotation: conditions.PausedAnnotation}, value)
	}
}

// exists says whether a source exists, or may exist where the user may not list the kind.
func (s *survey) exists(namespace, kind, name string) bool {
	_, ok := s.of(namespace)[kind+"/"+name]
	return ok || !s.sees(namespace, kind)
}

// missing adds that a list names a source which does not exist.
func (s *survey) missing(o *Surveyed, namespace string, f Finding, kind, name string) {
	f.Reason, f.Wrong = noSource, true
	f.Text = fmt.Sprintf("there is no %s %.100q", kind, name)
	f.Meant = s.nearest(o, namespace, kind, name)
	o.Add(f)
}

// nearest returns the source which a name means most likely; "": none.
func (s *survey) nearest(o *Surveyed, namespace, kind, name string) string {
	all := s.of(namespace)
	if _, ok := all[kind+"/"+name]; ok {
		return name
	}
	if len(all) > maxAsked || len(o.Findings) >= maxFindings {
		return ""
	}
	var names []string
	cost := 0
	for source := range all {
		if other, ok := strings.CutPrefix(source, kind+"/"); ok {
			names = append(names, other)
			cost += len(name) * len(other)
		}
	}
	if s.compared[namespace]+cost > maxCompared {
		return ""
	}
	s.compared[namespace] += cost
	slices.Sort(names)
	return nearest.Of(name, names)
}

// finish looks at what depends on all objects of the namespaces since begin.
func (s *survey) finish() {
	order := s.order()
	for _, a := range s.after {
		if s.leads(order, a) {
			s.annotate(&s.Workloads, a.workload, Finding{Annotation: AfterAnnotation, Reason: circle, Wrong: true,
				Text: fmt.Sprintf("%s comes after this one as well; their order does not count", a.on)})
		}
		if !s.seen[a.workload.Namespace+"/"+a.on.String()] && s.sees(a.workload.Namespace, "workloads") {
			s.annotate(&s.Workloads, a.workload, Finding{Annotation: AfterAnnotation, Reason: noWorkload, Wrong: true,
				Text: fmt.Sprintf("there is no %s that has opted in; nothing waits for it", a.on)})
		}
	}
	for _, m := range s.matches {
		if s.searched[m.namespace+"/"+m.source] || !s.sees(m.namespace, "workloads") {
			continue
		}
		_, name, _ := strings.Cut(m.source, "/")
		s.annotate(&s.Sources, Surveyed{Namespace: m.namespace, Kind: m.kind, Name: name}, Finding{
			Annotation: theirMatch, Reason: unusedMatch, Wrong: true, Text: "no Deployment, StatefulSet, " +
				"DaemonSet or Rollout has " + theirSearch + ": \"true\" and a container that sees this " + m.kind})
	}
	s.begin()
}

// order returns the workloads to be restarted before a workload that has opted in, by namespace and workload.
func (s *survey) order() map[string][]ref {
	order := map[string][]ref{}
	for _, a := range s.after {
		from := a.workload.Namespace + "/" + ref{a.workload.Kind, a.workload.Name}.String()
		if s.seen[from] {
			order[from] = append(order[from], a.on)
		}
	}
	return order
}

// leads says whether the order leads from the workload to be restarted first back to the waiting workload, as in
// world.leads, within the budget of the namespace.
func (s *survey) leads(order map[string][]ref, a waiting) bool {
	namespace, me := a.workload.Namespace, ref{a.workload.Kind, a.workload.Name}
	way, met := []ref{a.on}, map[ref]bool{a.on: true}
	for i := 0; i < len(way) && i < maxSteps; i++ {
		if way[i] == me {
			return s.seen[namespace+"/"+me.String()]
		}
		for _, next := range order[namespace+"/"+way[i].String()] {
			if s.compared[namespace] += maxStep; s.compared[namespace] > maxCompared {
				return false
			}
			if !met[next] {
				met[next] = true
				way = append(way, next)
			}
		}
	}
	return false
}

// annotate adds a finding to an object that may be listed already.
func (s *survey) annotate(to *[]Surveyed, o Surveyed, f Finding) {
	o.Namespace, o.Name = shown(o.Namespace), shown(o.Name)
	if i, ok := s.at[o.id()]; ok {
		(*to)[i].Add(f)
		s.Wrong++
		return
	}
	o.Add(f)
	s.list(to, o)
}

// sort brings the objects into order, by namespace first.
func (s *Survey) sort() {
	for _, all := range [][]Surveyed{s.Workloads, s.Sources} {
		slices.SortStableFunc(all, func(a, b Surveyed) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind),
				cmp.Compare(a.Name, b.Name))
		})
	}
}
