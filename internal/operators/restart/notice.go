package restart

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// notice compares the pods with what was known of them. It returns what is known now, the changes that count for
// the rule, in the order of the pods' names, and whether what is known has to be stored: an entry that no change
// can follow from need not be. At most one change is reported of each pod. Where nothing is known yet, all pods are
// taken as they are.
func notice(r *rule, known digest, pods []*pod) (now digest, changes []Change, store bool) {
	now = digest{source: r.source, newest: known.newest, pods: map[string]entry{}}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b *pod) int { return cmp.Compare(a.Name, b.Name) })
	first := known.source != r.source
	if first {
		now.newest = time.Time{}
	}
	newest := now.newest
	present := make(map[string]bool, len(pods))
	for _, p := range pods {
		present[p.Name] = true
		if p.running() && p.CreationTimestamp.After(now.newest) {
			now.newest = p.CreationTimestamp
		}
		var found []Reason
		var note string
		switch old, had := known.pods[p.Name]; {
		case first || known.pods == nil:
			if p.running() {
				now.pods[p.Name] = r.entryOf(p)
			}
			if p.running() && !first && p.CreationTimestamp.After(newest) { // too many pods to know each
				found, note = []Reason{PodReplaced, NewPodRunning}, "pod "+p.Name+" is new and runs"
			}
		default:
			found, note = r.noticePod(&now, p, old, had)
		}
		changes = r.add(changes, p.Name, note, found)
	}
	for _, name := range slices.Sorted(maps.Keys(known.pods)) {
		old := known.pods[name]
		if first || present[name] {
			continue
		}
		if !old.gone {
			changes = r.add(changes, name, "pod "+name+" deleted", []Reason{PodDeleted})
		}
		if old.lasting {
			old.gone = true
			now.pods[name] = old
		}
	}
	now.prune(r.maxPods)
	return now, changes, first || r.worthStoring(known, now)
}

// noticePod compares one pod with its entry.
func (r *rule) noticePod(now *digest, p *pod, old entry, had bool) (found []Reason, note string) {
	e := r.entryOf(p)
	same := had && old.uid == e.uid
	if !p.running() {
		if !had {
			return nil, ""
		}
		if !same && !old.gone { // its successor does not run yet
			old.gone, found, note = true, []Reason{PodDeleted}, "pod "+p.Name+" deleted"
		}
		now.pods[p.Name] = old
		return found, note
	}
	moved := had && old.ip != "" && e.ip != "" && old.ip != e.ip
	if e.ip == "" && same {
		e.ip = old.ip
	}
	now.pods[p.Name] = e
	switch {
	case !had:
		found, note = []Reason{NewPodRunning}, "pod "+p.Name+" is new and runs"
		if p.restarts() > 0 {
			found = append(found, ContainerRestarted) // before we saw it
		}
	case !same:
		found, note = []Reason{PodReplaced, NewPodRunning}, "pod "+p.Name+" replaced"
		if !old.gone {
			found = append(found, PodDeleted)
		}
	case e.restarts > old.restarts:
		found, note = []Reason{ContainerRestarted}, "a container of pod "+p.Name+" restarted"
	}
	if moved {
		found = append(found, PodIPChanged)
		if note == "" {
			note = "pod " + p.Name
		}
		note += ", new IP"
	}
	return found, note
}

// add adds a change for the first reason, in the order of preference, that counts.
func (r *rule) add(changes []Change, pod, note string, found []Reason) []Change {
	for _, reason := range reasons {
		if slices.Contains(found, reason) && r.has(reason) {
			return append(changes, Change{reason, pod, note})
		}
	}
	return changes
}

// entryOf is salted with what identifies the trigger, so that digests of two triggers cannot be compared.
func (r *rule) entryOf(p *pod) entry {
	e := entry{uid: hash(r.salt, p.UID), restarts: p.restarts(), lasting: p.lasting()}
	if p.Status.PodIP != "" {
		e.ip = hash(r.salt, p.Status.PodIP)
	}
	return e
}

// prune forgets pods that are gone where there are too many: pods that exist matter more.
func (d digest) prune(limit int) {
	for _, name := range slices.Sorted(maps.Keys(d.pods)) {
		if len(d.pods) <= limit {
			return
		}
		if d.pods[name].gone {
			delete(d.pods, name)
		}
	}
}

// worthStoring says whether a process that started from old would decide otherwise than one that started from now.
func (r *rule) worthStoring(old, now digest) bool {
	tooMany, before := len(now.pods) > r.maxPods, old.pods == nil || len(old.pods) > r.maxPods
	switch {
	case tooMany != before:
		return true
	case tooMany:
		return !old.newest.Equal(now.newest)
	}
	for name, n := range now.pods {
		o, ok := old.pods[name]
		if !ok || o.uid != n.uid || o.restarts != n.restarts && r.has(ContainerRestarted) ||
			o.ip != n.ip && r.has(PodIPChanged) || o.gone != n.gone && r.has(PodDeleted) {
			return true
		}
	}
	return r.has(PodDeleted) && len(old.pods) != len(now.pods)
}
