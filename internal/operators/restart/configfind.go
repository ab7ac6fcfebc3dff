package restart

import (
	"fmt"
	"slices"
	"strings"

	"skiff/internal/operators/sources"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
)

// Sources says which resources may be sources of RestartTriggers: only these are watched, and no right to others is
// needed. The zero value means Pods alone.
type Sources struct{ Pods, ConfigMaps, Secrets bool }

// SourceNames are the names of Sources, which are the plurals of the resources.
var SourceNames = []string{pods.Plural, sources.ConfigMaps.Plural, sources.Secrets.Plural}

// AllSources are all that can be a source.
var AllSources = Sources{true, true, true}

// SourcesOf returns the Sources of some SourceNames.
func SourcesOf(names []string) Sources {
	has := func(r kube.Resource) bool { return slices.Contains(names, r.Plural) }
	return Sources{has(pods), has(sources.ConfigMaps), has(sources.Secrets)}
}

// served returns the Sources meant.
func (s Sources) served() Sources {
	if s == (Sources{}) {
		s.Pods = true
	}
	return s
}

// configReader reads the ConfigMaps or the Secrets of a mirror.
type configReader struct {
	get  func(k kube.Key) (sources.Object, bool, error)
	with func(namespace, term string) ([]sources.Object, error) // "app=web", or "app" for all values
}

// newConfigReader returns the reader of a mirror.
func newConfigReader[T sources.Object](m *cache.Store[T]) *configReader {
	m.IndexMeta(byLabel, labelTerms)
	return &configReader{
		get: func(k kube.Key) (sources.Object, bool, error) { return m.Get(k) },
		with: func(namespace, term string) (found []sources.Object, err error) {
			var some []T
			if strings.Contains(term, "=") {
				some, err = m.ByIndex(byLabel, namespace, term)
			} else {
				some, err = m.List(namespace)
			}
			for _, o := range some {
				found = append(found, o)
			}
			return found, err
		},
	}
}

// mirrorConfigs mirrors ConfigMaps or Secrets for a finder. The source runs the triggers concerned by a change.
func mirrorConfigs[T sources.Object](s controller.Setup, f *finder, r kube.Resource, kind string) controller.Source {
	m := controller.Mirror[T](s, r, "")
	f.configs[kind] = newConfigReader(m)
	return controller.Watches(m, func(o T) []kube.Key { return f.forConfig(kind, &o.SourceMeta().Meta) })
}

// indexConfigs indexes triggers by their ConfigMaps and Secrets.
func indexConfigs(triggers *cache.Store[*RestartTrigger]) {
	triggers.Index(byConfig, func(t *RestartTrigger) (values []string) {
		if t.Status.TargetNames == "" {
			return nil
		}
		add := func(kind string, items []ConfigSource) {
			for _, item := range items {
				if item.Name != "" {
					values = append(values, kind+"/"+item.Name)
					continue
				}
				values = append(values, kind+"?")
				for _, term := range item.Selector.Requirements().Terms() {
					values = append(values, kind+"?"+term)
				}
			}
		}
		add(sources.ConfigMapKind, t.Spec.Source.ConfigMaps)
		add(sources.SecretKind, t.Spec.Source.Secrets)
		return values
	})
}

// forConfig returns the triggers that a ConfigMap or Secret of a kind may matter to.
func (f *finder) forConfig(kind string, m *kube.Meta) (keys []kube.Key) {
	add := func(value string) {
		for _, t := range f.in(byConfig, m.Namespace, value) {
			keys = append(keys, t.Key())
		}
	}
	add(kind + "/" + m.Name)
	if len(f.in(byConfig, m.Namespace, kind+"?")) > 0 {
		for _, l := range m.Labels {
			add(kind + "?" + l.Key + "=" + l.Value)
			add(kind + "?" + l.Key)
		}
	}
	return keys
}

// notServed says which sources of a rule this skiff does not watch; nil: none.
func (f *finder) notServed(r *rule) *health.Problem {
	wants := func(kind string) bool {
		return slices.ContainsFunc(r.wanted, func(w wanted) bool { return w.kind == kind })
	}
	var lacks, all []string
	for _, one := range []struct {
		name          string
		served, wants bool
	}{
		{pods.Plural, f.pods != nil, len(r.selector) > 0},
		{sources.ConfigMaps.Plural, f.configs[sources.ConfigMapKind] != nil, wants(sources.ConfigMapKind)},
		{sources.Secrets.Plural, f.configs[sources.SecretKind] != nil, wants(sources.SecretKind)},
	} {
		if one.wants && !one.served {
			lacks = append(lacks, one.name)
		}
		if one.wants || one.served {
			all = append(all, one.name)
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	what := strings.Join(lacks, " and ")
	return stalled(notServed, "run skiff with --restart-sources "+strings.Join(all, ",")+", and grant list and watch "+
		"on "+what, "spec.source: this skiff does not watch %s", what)
}

// foundConfigs are the ConfigMaps and Secrets of a rule.
type foundConfigs struct {
	within  []config        // that count
	count   int             // of all, where a key counts as one
	missing *health.Problem // an item of the spec that finds nothing; nil: each finds something
}

// configsOf reads the ConfigMaps and Secrets of a rule: those named in the spec first, then the selected ones.
func (f *finder) configsOf(r *rule) (out foundConfigs, err error) {
	list := configList{places: map[string]int{}}
	for _, w := range r.wanted {
		if w.name == "" {
			continue
		}
		o, ok, err := f.configs[w.kind].get(kube.Key{Namespace: r.namespace, Name: w.name})
		switch {
		case err != nil:
			return out, fmt.Errorf("read %s/%s: %w", w.kind, w.name, err)
		case !ok:
			o = nil
			out.miss("there is no "+w.kind+"/"+w.name, "")
		}
		c := list.add(w, w.name, o)
		if i := slices.IndexFunc(w.keys, func(key string) bool { return c.hash(r.namespace, key) == noKey }); i >= 0 {
			out.miss(c.name+" lacks a key", w.keys[i])
		}
	}
	for _, w := range r.wanted {
		if w.name != "" {
			continue
		}
		some, err := f.selectedConfigs(r.namespace, w)
		if err != nil {
			return out, fmt.Errorf("find the %s: %w", w, err)
		}
		for _, o := range some {
			list.add(w, o.ObjectMeta().Name, o)
		}
		if len(some) == 0 {
			out.miss("no "+w.kind+" in namespace "+r.namespace+" matches a selector", w.selector.String())
		}
	}
	out.within, out.count = bounded(list.all)
	return out, nil
}

// miss notes the first item that finds nothing.
func (f *foundConfigs) miss(public, quoted string) {
	if f.missing == nil {
		f.missing = &health.Problem{Reason: sourceMissing, Severity: health.Passing, Public: public, Quoted: quoted,
			Next: "create it or correct the source; when it appears, the targets are restarted"}
	}
}

// selectedConfigs returns the objects that the selector of an item matches, in the order of names.
func (f *finder) selectedConfigs(namespace string, w wanted) (found []sources.Object, err error) {
	for _, term := range w.selector.Terms() {
		some, err := f.configs[w.kind].with(namespace, term)
		if err != nil {
			return nil, err
		}
		for _, o := range some {
			if w.selector.Match(o.ObjectMeta().Labels) {
				found = append(found, o)
			}
		}
	}
	slices.SortFunc(found, func(a, b sources.Object) int {
		return strings.Compare(a.ObjectMeta().Name, b.ObjectMeta().Name)
	})
	return found, nil
}

// configList collects sources, each once: all keys stand for each.
type configList struct {
	all    []config
	places map[string]int // in all, by name
}

// add adds what an item wants of a source; a nil object is a source that is not there.
func (l *configList) add(w wanted, name string, o sources.Object) *config {
	name = w.kind + "/" + name
	i, ok := l.places[name]
	if !ok {
		i = len(l.all)
		l.places[name] = i
		l.all = append(l.all, config{name: name, keys: []string{}})
		if o != nil {
			c := &l.all[i]
			c.there, c.born, c.values = true, o.ObjectMeta().CreationTimestamp, o.Values()
		}
	}
	c := &l.all[i]
	switch {
	case len(w.keys) == 0:
		c.keys = []string{""}
	case !slices.Equal(c.keys, []string{""}):
		c.keys = append(c.keys, w.keys...)
		slices.Sort(c.keys)
		c.keys = slices.Compact(c.keys)
	}
	return c
}
