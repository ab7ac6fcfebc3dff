package restart

import (
	"slices"
	"strings"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// finder finds triggers and pods by indexes of the mirrors: for an event of a pod the triggers concerned, and for a
// trigger its pods and the other triggers set off by a restart. Only triggers that watch pods according to the status
// are found; the write of a status is an event, after which the trigger looks at its pods in any case.
type finder struct {
	triggers *cache.Store[*RestartTrigger] // nil: there is one, a `skiff restart`
	pods     *cache.Store[*pod]            // nil: they are no source
	configs  map[string]*configReader      // by kind; none: they are no source
}

// The indexes.
const (
	all          = "all"        // triggers
	bySource     = "source"     // triggers, by what their selector demands, and by the namespace of their pods
	byConfig     = "config"     // triggers, by their ConfigMaps and Secrets
	byTarget     = "target"     // triggers, by what they restart
	byRestarting = "restarting" // triggers, by what they restart, while they do
	byCycle      = "cycle"      // triggers, by those on their cycle
	byLabel      = "label"      // pods, ConfigMaps and Secrets, by each label
	byWorkload   = "workload"   // pods, by what they belong to
)

func newFinder(triggers *cache.Store[*RestartTrigger], ps *cache.Store[*pod]) *finder {
	f := &finder{triggers, ps, map[string]*configReader{}}
	if triggers != nil {
		indexTriggers(triggers)
		indexConfigs(triggers)
	}
	if ps == nil {
		return f
	}
	ps.IndexMeta(byLabel, labelTerms)
	ps.IndexMeta(byWorkload, func(labels kube.Labels, owners []kube.OwnerReference) []string {
		if ref, ok := ownerOf(&kube.Meta{Labels: labels, OwnerReferences: owners}); ok {
			return []string{ref.String()}
		}
		return nil
	})
	return f
}

// labelTerms are the values of byLabel.
func labelTerms(labels kube.Labels, _ []kube.OwnerReference) []string {
	terms := make([]string, len(labels))
	for i, l := range labels {
		terms[i] = l.Key + "=" + l.Value
	}
	return terms
}

func indexTriggers(triggers *cache.Store[*RestartTrigger]) {
	triggers.Index(all, func(*RestartTrigger) []string { return []string{""} })
	triggers.Index(bySource, func(t *RestartTrigger) []string {
		if t.Status.Selector == "" {
			return nil
		}
		terms := t.Spec.Source.Selector.Requirements().Terms()
		for i := range terms {
			terms[i] = sourceNamespace(t) + "/" + terms[i]
		}
		return append(terms, sourceNamespace(t)+"/")
	})
	triggers.Index(byTarget, func(t *RestartTrigger) []string {
		if t.Status.TargetNames == "" {
			return nil
		}
		return names(t.Spec.Targets)
	})
	triggers.Index(byRestarting, func(t *RestartTrigger) []string {
		if t.Status.TargetNames == "" || t.Status.Round == nil {
			return nil
		}
		return names(t.Spec.Targets)
	})
	triggers.Index(byCycle, func(t *RestartTrigger) []string { return t.Status.Cycle })
}

// in returns the triggers of a namespace, or of all where the namespace is "", with a value of an index. Triggers of a
// namespace that is not synced are missing, and looked at after the sync. Triggers that are not held are missing, too:
// nothing works on those, and other triggers must not be hidden.
func (f *finder) in(index, namespace, value string) (found []*RestartTrigger) {
	if f.triggers == nil {
		return nil
	}
	found, err := f.triggers.ByIndex(index, namespace, value)
	if err != nil && namespace == "" {
		for _, one := range f.triggers.Namespaces() {
			found = append(found, f.in(index, one, value)...)
		}
	}
	return found
}

// selecting returns the triggers whose source has pods with these labels, in the order of keys, without known
// triggers.
func (f *finder) selecting(namespace string, of kube.Labels, known map[*RestartTrigger]bool) []*RestartTrigger {
	if len(f.in(bySource, "", namespace+"/")) == 0 {
		return nil // as for most pods of a cluster
	}
	var found []*RestartTrigger
	for _, l := range of {
		key := namespace + "/" + l.Key
		for _, value := range []string{key + "=" + l.Value, key} {
			for _, t := range f.in(bySource, "", value) {
				if !known[t] && t.Spec.Source.Selector.Requirements().Match(of) {
					found = append(found, t)
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b *RestartTrigger) int { return a.Key().Compare(b.Key()) })
	return found
}

// forPod returns the triggers that a pod matters to: as a source, or as a part of a target, which has changed then.
func (f *finder) forPod(p *pod) (keys []kube.Key) {
	found := f.selecting(p.Namespace, p.Labels, nil)
	if ref, ok := ownerOf(&p.Meta); ok {
		found = append(found, f.in(byTarget, p.Namespace, ref.String())...)
	}
	for _, t := range found {
		keys = append(keys, t.Key())
	}
	return keys
}

// forTrigger returns the triggers whose cycle a trigger is on, or was when it was last looked at.
func (f *finder) forTrigger(t *RestartTrigger) (keys []kube.Key) {
	for _, name := range t.Status.Cycle {
		namespace, name, _ := strings.Cut(name, "/")
		keys = append(keys, kube.Key{Namespace: namespace, Name: name})
	}
	for _, other := range f.in(byCycle, "", t.Key().String()) {
		keys = append(keys, other.Key())
	}
	return keys
}

// amongOldest says whether a trigger is among the oldest of the namespace, which work.
func (f *finder) amongOldest(t *RestartTrigger) bool {
	older := 0
	for _, other := range f.in(all, t.Namespace, "") {
		c := other.CreationTimestamp.Compare(t.CreationTimestamp)
		if c < 0 || c == 0 && other.Name < t.Name {
			if older++; older == maxTriggers {
				return false
			}
		}
	}
	return true
}

// restarting returns which target of a trigger another one is restarting.
func (f *finder) restarting(t *RestartTrigger, r *rule) map[TargetRef]string {
	others := map[TargetRef]string{}
	for _, ref := range r.targets {
		for _, other := range f.in(byRestarting, t.Namespace, ref.String()) {
			if other.Name != t.Name {
				others[ref] = other.Name
			}
		}
	}
	return others
}

// selected returns the pods that a rule selects, and perhaps more.
func (f *finder) selected(r *rule) (found []*pod, err error) {
	for _, term := range r.selector.Terms() {
		if !strings.Contains(term, "=") { // Exists
			return f.pods.List(r.namespace)
		}
		some, err := f.pods.ByIndex(byLabel, r.namespace, term)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

// targetPods returns a fingerprint of the pods of each target.
func (f *finder) targetPods(t *RestartTrigger, r *rule) (map[TargetRef]uint64, error) {
	pods := map[TargetRef]uint64{}
	if f.pods == nil {
		return pods, nil
	}
	for _, ref := range r.targets {
		some, err := f.pods.ByIndex(byWorkload, t.Namespace, ref.String())
		if err != nil {
			return nil, err
		}
		pods[ref] = fingerprint(some)
	}
	return pods, nil
}

// maxSteps bounds the search for a cycle. A longer cycle is not found; the cooldown bounds the harm.
const maxSteps = 1000

// cycle returns the shortest way on which the restarts of a trigger come back to the trigger, as keys of triggers;
// nil: no way. targets are the trigger's targets as read just now.
func (f *finder) cycle(t *RestartTrigger, r *rule, targets []TargetStatus) []string {
	if len(r.selector) == 0 { // no pod sets it off
		return nil
	}
	type step struct {
		trigger *RestartTrigger
		targets []TargetStatus
		way     []string
	}
	steps := []step{{t, targets, []string{t.Key().String()}}}
	triggers, sets := map[*RestartTrigger]bool{}, map[string]bool{} // that have been followed
	for i := 0; i < len(steps) && i < maxSteps; i++ {
		s := steps[i]
		for _, target := range s.targets {
			of, set := labels.ParseSet(target.PodLabels), s.trigger.Namespace+" "+target.PodLabels
			if s.trigger.Namespace == r.namespace && r.selector.Match(of) {
				return s.way
			}
			if sets[set] {
				continue
			}
			sets[set] = true
			for _, next := range f.selecting(s.trigger.Namespace, of, triggers) {
				triggers[next] = true
				if next.UID != t.UID {
					way := append(slices.Clip(s.way), next.Key().String())
					steps = append(steps, step{next, next.Status.Targets, way})
				}
			}
		}
	}
	return nil
}
