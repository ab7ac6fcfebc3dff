package restart

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// notice compares the pods with the known pods, and returns the pods now known, the changes that count for the rule,
// in the order of the pods' names, and whether the new knowledge has to be stored: an entry that no change can follow
// from need not be. At most one change is reported of each pod. Where nothing is known yet, all pods are taken as they
// are.
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

// noticePod compares a pod with the pod's entry.
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
			return append(changes, Change{Reason: reason, Pod: pod, Note: note})
		}
	}
	return changes
}

// entryOf is salted with the identity of the trigger, so that digests of two triggers cannot be compared.
func (r *rule) entryOf(p *pod) entry {
	e := entry{uid: hash(r.salt, p.UID), restarts: p.restarts(), lasting: p.lasting()}
	if p.Status.PodIP != "" {
		e.ip = hash(r.salt, p.Status.PodIP)
	}
	return e
}

// prune forgets pods that are gone where there are too many: present pods matter more.
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

// worthStoring says whether a process that started from old would decide otherwise than a process that started from
// now.
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

// digest is the known source pods: of each pod that has run, by name, enough to tell whether the pod is still the
// same.
//
// As text a digest is a line, "v2 SOURCE NEWEST NAME=UID,RESTARTS,IP,FLAGS ...", sorted by name. The line is bounded:
// with more pods than the limit, or beyond maxDigest, the line ends after NEWEST. A process that starts from such a
// line knows new pods only by a creation later than NEWEST, a time in whole seconds, and does not learn of restarts,
// addresses and deletions from before the start. A running process has everything in memory, and misses nothing.
type digest struct {
	source string           // what the rest is about; another source begins anew
	newest time.Time        // when the newest pod that ran was created
	pods   map[string]entry // nil: too many
}

// entry is one pod.
type entry struct {
	uid      string // hashed, like ip
	restarts int32
	ip       string // "": not known
	gone     bool   // the pod with this uid is not there any more
	lasting  bool   // the name can come back: a StatefulSet's pod, or a bare pod
}

const (
	// maxDigest is a fraction of the size of an object in etcd (1.5 MiB), at the longest names of pods.
	maxDigest = 64 << 10

	digestVersion = "v2"
	flagGone      = "g"
	flagLasting   = "l"
)

// hash shortens parts to 40 bits: a value is compared with one other value, never searched for among many.
func hash(parts ...string) string {
	h := fnv.New64a()
	for _, s := range parts {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return strconv.FormatUint(h.Sum64()>>24, 36)
}

// encode returns the text, with at most limit pods one by one.
func (d digest) encode(limit int) string {
	newest := "-"
	if !d.newest.IsZero() {
		newest = strconv.FormatInt(d.newest.Unix(), 10)
	}
	head := strings.Join([]string{digestVersion, d.source, newest}, " ")
	if d.pods == nil || len(d.pods) > limit {
		return head + " +"
	}
	var b strings.Builder
	b.WriteString(head)
	for _, name := range slices.Sorted(maps.Keys(d.pods)) {
		e := d.pods[name]
		fmt.Fprintf(&b, " %s=%s,%d,%s,", name, e.uid, e.restarts, e.ip)
		if e.gone {
			b.WriteString(flagGone)
		}
		if e.lasting {
			b.WriteString(flagLasting)
		}
		if b.Len() > maxDigest {
			return head + " +"
		}
	}
	return b.String()
}

// decodeDigest reads the text; false: no digest of skiff, for example empty because the trigger is new.
func decodeDigest(text string) (digest, bool) {
	words := strings.Fields(text)
	if len(words) < 3 || words[0] != digestVersion {
		return digest{}, false
	}
	d := digest{source: words[1]}
	if words[2] != "-" {
		n, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			return digest{}, false
		}
		d.newest = time.Unix(n, 0).UTC()
	}
	if len(words) > 3 && words[3] == "+" {
		return d, true
	}
	d.pods = make(map[string]entry, len(words)-3)
	for _, w := range words[3:] {
		name, rest, _ := strings.Cut(w, "=")
		parts := strings.Split(rest, ",")
		if len(parts) != 4 {
			return digest{}, false
		}
		n, err := strconv.ParseInt(parts[1], 10, 32)
		if err != nil {
			return digest{}, false
		}
		d.pods[name] = entry{uid: parts[0], restarts: int32(n), ip: parts[2],
			gone: strings.Contains(parts[3], flagGone), lasting: strings.Contains(parts[3], flagLasting)}
	}
	return d, true
}
