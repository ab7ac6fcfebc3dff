package reload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"skiff/internal/runtime/kube"
)

const (
	// StateAnnotation of a workload says what its pods run with: for each source, or key of one, a hash of the content.
	StateAnnotation = "skiff.dev/reloaded"
	// RestartAnnotation of a pod template is when this controller last restarted the workload. A new value is a new
	// template, which the cluster rolls out.
	RestartAnnotation = "skiff.dev/reloaded-at"
	// ResumeAnnotation of a ConfigMap or Secret is a time, as in RestartAnnotation: restarts up to then that failed do
	// not hold up those that are still to come.
	ResumeAnnotation = "skiff.dev/reload-resume"
)

// state is what the pods of a workload run with.
type state struct {
	// UID is that of the workload: the annotation of a copied manifest says nothing about the pods of the copy.
	UID string `json:"uid"`
	// Sources has the hashes by the entries' names; "": there was no such source or key.
	Sources map[string]string `json:"sources"`
}

// stateOf reads the annotation of a workload; none, or one that cannot be read or is of another workload, is no state.
func stateOf(w *theWorkload) (s state, ok bool) {
	text, ok := w.Annotations.Get(StateAnnotation)
	if !ok || json.Unmarshal([]byte(text), &s) != nil || s.UID != w.UID {
		return state{}, false
	}
	return s, true
}

// encode returns the annotation.
func (s state) encode() (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode the state: %w", err)
	}
	return string(text), nil
}

// hashSize is the part of a hash that is kept, in bytes. Whoever may read a workload may read the annotation, and may
// have no right to the Secret: four bytes miss one of four billion changes, and leave one of four billion guesses
// standing, so that they confirm none of a value that is worth guessing.
const hashSize = 4

// hashOf returns the hash of what an entry of a workload names in a content; "": there is nothing, or no content. Equal
// contents have other hashes for another workload.
func hashOf(uid string, e entry, c *content) string {
	if c == nil {
		return ""
	}
	h, found := sha256.New(), e.key == ""
	fmt.Fprintf(h, "%s %s", uid, e)
	for _, v := range c.values {
		if e.key != "" && v.Name != e.key {
			continue
		}
		found = true
		fmt.Fprintf(h, "\x00%s\x00%s", v.Name, v.Digest[:])
	}
	if !found {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil)[:hashSize])
}

// change is an entry whose content is not what the pods run with.
type change struct {
	entry
	uid  string   // of the ConfigMap or Secret
	hash string   // of the content now
	keys []string // that have changed; nil: not known
}

// compare compares what the pods of a workload run with to what there is. next is the state that follows: with what is
// new, without what is not wanted any more, and with the changes, if there are any, as after a restart.
//
// No change is a source that the workload names for the first time, one that is gone, as pods without it would not
// start, and one that has come without which the pods could not start.
func compare(w *theWorkload, entries []entry, contents map[string]*content) (changes []change, next state) {
	was, known := stateOf(w)
	next = state{UID: w.UID, Sources: map[string]string{}}
	for _, e := range entries {
		now := hashOf(w.UID, e, contents[e.source()])
		old, had := was.Sources[e.String()]
		switch {
		case !known || !had || now == old:
			next.Sources[e.String()] = now
		case now == "":
			next.Sources[e.String()] = old
		case old == "" && !e.optional:
			next.Sources[e.String()] = now
		default:
			next.Sources[e.String()] = now
			changes = append(changes, change{entry: e, uid: contents[e.source()].uid, hash: now})
		}
	}
	return changes, next
}

// same says whether the annotation of a workload says what s says.
func (s state) same(w *theWorkload) bool {
	was, ok := stateOf(w)
	return ok && maps.Equal(was.Sources, s.Sources)
}

// without returns s as it is before a restart: with the changes not yet made.
func (s state) without(changes []change, w *theWorkload) state {
	was, _ := stateOf(w)
	s.Sources = maps.Clone(s.Sources)
	for _, c := range changes {
		s.Sources[c.String()] = was.Sources[c.String()]
	}
	return s
}

// differing returns the names of the values in which two contents differ.
func differing(a, b []kube.NamedDigest) (names []string) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Name < b[0].Name:
			names, a = append(names, a[0].Name), a[1:]
		case len(a) == 0 || b[0].Name < a[0].Name:
			names, b = append(names, b[0].Name), b[1:]
		default:
			if a[0].Digest != b[0].Digest {
				names = append(names, a[0].Name)
			}
			a, b = a[1:], b[1:]
		}
	}
	return names
}

// maxNames bounds the names in a text for people.
const maxNames = 5

// textOf says what has changed: "configmap/a (log.conf, x), secret/b:tls.crt".
func textOf(changes []change) string {
	var all []string
	for _, c := range changes {
		one := c.String()
		if n := len(c.keys); n > 0 {
			keys := c.keys[:min(n, maxNames)]
			if one += " (" + strings.Join(keys, ", "); n > maxNames {
				one += fmt.Sprintf(" and %d more", n-maxNames)
			}
			one += ")"
		}
		all = append(all, one)
	}
	if n := len(all); n > maxNames {
		all = append(all[:maxNames:maxNames], fmt.Sprintf("%d more", n-maxNames))
	}
	return strings.Join(all, ", ")
}

// pending is what a process remembers of a change between the look that finds it and the restart.
type pending struct {
	uid         string
	hashes      []string // of the changes as last seen
	generation  int64    // of the workload when the first of them was seen
	first, last time.Time
	before      map[string][]kube.NamedDigest // the sources' values when nothing was to do, by source
}

// see notes the changes of a workload of a generation as seen at a time.
func (p *pending) see(changes []change, generation int64, now time.Time) {
	var hashes []string
	for _, c := range changes {
		hashes = append(hashes, c.String()+" "+c.hash)
	}
	if !slices.Equal(p.hashes, hashes) {
		p.last = now
	}
	if len(p.hashes) == 0 {
		p.first, p.generation = now, generation
	}
	p.hashes = hashes
}

// name adds to changes which keys have changed since the sources were last seen with nothing to do.
func (p *pending) name(changes []change, contents map[string]*content) {
	for i, c := range changes {
		before, known := p.before[c.source()]
		if now := contents[c.source()]; known && now != nil && c.key == "" {
			changes[i].keys = differing(before, now.values)
		}
	}
}

// settle notes the sources while there is nothing to do.
func (p *pending) settle(contents map[string]*content) {
	p.before = map[string][]kube.NamedDigest{}
	for source, c := range contents {
		p.before[source] = c.values
	}
}
