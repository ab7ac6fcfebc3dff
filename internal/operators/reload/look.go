package reload

import (
	"slices"
	"strings"

	"skiff/internal/operators/sources"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

// The indexes of workloads for Reloader's annotations.
const (
	byExpression = "expression" // by the kinds of sources for which there are expressions
	withTheirs   = "theirs"     // workloads with annotations of Reloader
	rivals       = "rival"      // running Deployments of Reloader
)

// indexTheirs makes the indexes of a mirror of workloads of a kind.
func (w *world) indexTheirs(kind string, m *cache.Store[*target]) {
	m.Index(byExpression, func(o *target) (kinds []string) {
		if t := w.theirs(o); t != nil {
			for _, c := range t.choices {
				if len(c.expressions) > 0 {
					kinds = append(kinds, c.kind)
				}
			}
		}
		return kinds
	})
	m.Index(withTheirs, func(o *target) []string { return where(w.theirs(o) != nil) })
	m.Index(rivals, func(o *target) []string {
		replicas := o.Spec.Replicas
		return where(kind == "Deployment" && o.isReloader() && (replicas == nil || *replicas > 0))
	})
}

// where returns the values of an index without values of interest: an object is in the index or not.
func where(in bool) []string {
	if in {
		return []string{""}
	}
	return nil
}

// isReloader says whether a workload is a Reloader: by the chart, also where the image was copied under another name,
// or by the image. The variables of a container tell as well, and the names of the variables of all workloads would
// have to be kept.
func (w *target) isReloader() bool {
	chart, _ := w.Labels.Get("helm.sh/chart")
	if version, ok := strings.CutPrefix(chart, "reloader-"); ok && strings.IndexAny(version, "0123456789") == 0 {
		return true
	}
	return slices.ContainsFunc(w.Spec.Template.Spec.Containers, func(c container) bool {
		return isTheirImage(c.Image)
	})
}

// isTheirImage says whether the last two parts of an image's path are Reloader's: registries are mirrored.
func isTheirImage(image string) bool {
	image, _, _ = strings.Cut(image, "@")
	parts := strings.Split(image, "/")
	if len(parts) < 2 || parts[len(parts)-2] != "stakater" {
		return false
	}
	repository, _, _ := strings.Cut(parts[len(parts)-1], ":")
	return repository == "reloader"
}

// rival returns the Deployment of a running Reloader, as far as can be seen; nil: there is none.
func (w *world) rival() *kube.Key {
	for _, o := range everywhere(w.workloads["Deployment"], rivals) {
		k := o.Key()
		return &k
	}
	return nil
}

// everywhere returns the workloads in an index, of all known namespaces.
func everywhere(m *cache.Store[*target], index string) []*target {
	found, err := m.ByIndex(index, "", "")
	if err == nil {
		return found
	}
	for _, one := range m.Namespaces() {
		some, _ := m.ByIndex(index, one, "")
		found = append(found, some...)
	}
	return found
}

// look returns the wants of a workload, given the present sources.
func (w *world) look(kind string, o *target) (wants, error) {
	out := w.wants(kind, o)
	if out.theirs == nil {
		return out, nil
	}
	if !optsIn(w.ours(kind, o)) {
		out.rival = w.rival()
	}
	heads, err := w.heads(o.Namespace, out.theirs)
	if err == nil {
		out.bearable(len(heads))
		out.add(out.theirs.entries(heads))
	}
	return out, err
}

// heads returns the heads of the sources on which a workload may depend, by source.
func (w *world) heads(namespace string, t *theirs) (map[string]head, error) {
	out := map[string]head{}
	for _, e := range t.named() {
		if err := w.head(namespace, e, out); err != nil {
			return nil, err
		}
	}
	for _, c := range t.choices {
		if len(c.matches) == 0 {
			continue
		}
		var err error
		if c.kind == "configmap" {
			err = headsOf(w.configMaps, namespace, c.kind, out)
		} else {
			err = headsOf(w.secrets, namespace, c.kind, out)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// head adds the head of the source of an entry, if the source exists.
func (w *world) head(namespace string, e entry, into map[string]head) error {
	if e.kind == "configmap" {
		return addHead(w.configMaps, namespace, e, into)
	}
	return addHead(w.secrets, namespace, e, into)
}

func addHead[T sources.Object](m *cache.Store[T], namespace string, e entry, into map[string]head) error {
	o, ok, err := m.Get(kube.Key{Namespace: namespace, Name: e.name})
	if ok && err == nil {
		into[e.source()] = headOf(o.SourceMeta().Annotations)
	}
	return err
}

// headsOf adds the heads of all sources of a kind in a namespace. A source too large to be held has a name alone.
func headsOf[T sources.Object](m *cache.Store[T], namespace, kind string, into map[string]head) error {
	held, large, err := m.ListKnown(namespace)
	for _, o := range held {
		into[kind+"/"+o.ObjectMeta().Name] = headOf(o.SourceMeta().Annotations)
	}
	for _, o := range large {
		into[kind+"/"+o.Key.Name] = head{}
	}
	return err
}

func headOf(annotations kube.Labels) head {
	return head{isTrue(annotations, theirMatch), isTrue(annotations, theirIgnore)}
}

// dependent is a workload with the entries about a source.
type dependent struct {
	ref
	w       *target
	entries []entry // of the source
	state   string  // the name of the annotation with the state
}

// dependents returns the workloads of all kinds with entries about a source.
func (w *world) dependents(namespace string, source entry) (out []dependent) {
	for _, r := range w.kinds {
		for _, o := range w.candidates(r.Kind, namespace, source) {
			if on := w.on(r.Kind, o, source); len(on.entries) > 0 {
				out = append(out, dependent{ref{r.Kind, o.Name}, o, on.entries, on.state})
			}
		}
	}
	return out
}

// on returns the wants of a workload with the entries about a source alone.
func (w *world) on(kind string, o *target, source entry) wants {
	out := w.wants(kind, o)
	if out.theirs != nil {
		heads := map[string]head{}
		if w.head(o.Namespace, source, heads) == nil {
			out.add(out.theirs.entries(heads))
		}
	}
	out.entries = slices.DeleteFunc(out.entries, func(e entry) bool { return e.source() != source.source() })
	return out
}

// candidates returns the workloads of a kind that may depend on a source, or may have before its change; none while
// the namespace is not known, as all are looked at then. Expressions are not matched here: the
// mirrors' goroutines serve all namespaces, and any user may write expressions.
func (w *world) candidates(kind, namespace string, source entry) []*target {
	m := w.workloads[kind]
	found, err := m.ByIndex(bySource, namespace, source.source())
	others, _ := m.ByIndex(byExpression, namespace, source.kind)
	if err != nil || len(others) == 0 {
		return found
	}
	found = append(found, others...)
	slices.SortFunc(found, func(a, b *target) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(found, func(a, b *target) bool { return a.Name == b.Name })
}
