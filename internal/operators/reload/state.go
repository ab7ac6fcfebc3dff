package reload

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"skiff/internal/operators/sources"
	"skiff/internal/runtime/kube"
)

const (
	// StateAnnotation of a workload names the content with which the pods run: a hash for each source, or key of a
	// source. A `skiff reload` with targets has an annotation of its own, see Standalone.stateName.
	StateAnnotation = "skiff.dev/reloaded"
	// RestartAnnotation of a pod template is the time of the last restart by reload. A new value is a new
	// template, which the cluster rolls out.
	RestartAnnotation = "skiff.dev/reloaded-at"
	// ResumeAnnotation of a ConfigMap or Secret is a time, as in RestartAnnotation: failed restarts up to then hold up
	// no other restart.
	ResumeAnnotation = "skiff.dev/reload-resume"
)

// state is the content with which the pods of a workload run.
type state struct {
	// UID is the workload's: the annotation of a copied manifest says nothing about the pods of the copy.
	UID string `json:"uid"`
	// Sources has the hashes by the entries' names; "": there was no such source or key.
	Sources map[string]string `json:"sources"`
	name    string            // of the annotation
}

// stateOf reads the annotation of a workload that has a name; an annotation that cannot be read, or of another
// workload, is no state.
func stateOf(w *target, name string) (s state, ok bool) {
	text, ok := w.Annotations.Get(name)
	if !ok || json.Unmarshal([]byte(text), &s) != nil || s.UID != w.UID {
		return state{}, false
	}
	s.name = name
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

// hashOf returns the hash of the values to which an entry refers in a content of a namespace; "": none.
func hashOf(namespace string, e entry, c *content) string {
	if c == nil {
		return ""
	}
	return sources.Hash(namespace, e.source(), e.key, c.values)
}

// change is an entry with other content than the pods run with.
type change struct {
	entry
	uid  string   // of the ConfigMap or Secret
	old  string   // hash of the content that the pods run with
	hash string   // of the content now
	keys []string // changed ones; nil: not known
}

// compare compares the content with which the pods of a workload run, going by the annotation with the name of the
// wants, to the present content. next is the state to be
// written: with new entries, without entries no longer wanted, and with all changes, as after a restart.
//
// Three things are no change: a source named for the first time; a source that is gone, as new pods might not start;
// and a source that appears and without which no pod could have started.
func compare(w *target, of wants, contents map[string]*content) (changes []change, next state) {
	was, known := stateOf(w, of.state)
	next = state{UID: w.UID, Sources: map[string]string{}, name: of.state}
	for _, e := range of.entries {
		now := hashOf(w.Namespace, e, contents[e.source()])
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
			changes = append(changes, change{entry: e, uid: contents[e.source()].uid, old: old, hash: now})
		}
	}
	return changes, next
}

// same says whether the annotation of a workload equals s.
func (s state) same(w *target) bool {
	was, ok := stateOf(w, s.name)
	return ok && maps.Equal(was.Sources, s.Sources)
}

// without returns s as before a restart: with the changes not yet made.
func (s state) without(changes []change, w *target) state {
	was, _ := stateOf(w, s.name)
	s.Sources = maps.Clone(s.Sources)
	for _, c := range changes {
		s.Sources[c.String()] = was.Sources[c.String()]
	}
	return s
}

// textOf lists changes: "configmap/a (log.conf, x), secret/b:tls.crt".
func textOf(changes []change) string {
	var all []string
	for _, c := range changes {
		all = append(all, sources.WithKeys(c.String(), c.keys))
	}
	if n := len(all); n > sources.MaxNames {
		all = append(all[:sources.MaxNames:sources.MaxNames], fmt.Sprintf("%d more", n-sources.MaxNames))
	}
	return strings.Join(all, ", ")
}

// pending is the memory of a change between the first look and the restart.
type pending struct {
	uid         string
	hashes      []string // of the changes as last seen
	revision    string   // of the template when the last change was seen
	restartAt   string   // of a Rollout, likewise
	first, last time.Time
	before      map[string][]kube.NamedDigest // the sources' values when nothing was to do, by source
	agreed      *state                        // the last that was equal to the mirrors' content, or written

	wrote  *state    // by this process; nil: nothing
	at     time.Time // of that
	fights int       // how often in a row another has changed what was written
	// restarted has the changes of the last restart, restartedAt is the time as in the template, and restartedAs the
	// generation of the workload afterwards.
	restarted   []change
	restartedAt time.Time
	restartedAs int64
	repeats     int // how often in a row the last restart was for the same changes as the one before
	// cleared is the generation of the workload as last written with a leftover in the template.
	cleared int64
}

// patience is how long the state is not written again where another has changed it: twice as long each time.
const (
	patience  = time.Minute
	maxFights = 6
)

// noteWrite notes a write that was done, of the workload as read before and as it is since.
func (p *pending) noteWrite(f *facts, is *target, d *decision) {
	was, now := f.w, f.now
	if was.leftover() {
		p.cleared = was.Generation
	}
	if p.wrote != nil && !p.wrote.same(was) && !d.restart {
		p.fights = min(p.fights+1, maxFights)
	}
	p.wrote, p.at = d.write, now
	if d.restart || len(d.changes) == 0 {
		p.agreed = d.write
	}
	if d.restart {
		if p.again(d.changes) {
			p.repeats = min(p.repeats+1, maxFights)
		} else {
			p.repeats = 0
		}
		p.restarted, p.restartedAt, p.restartedAs = d.changes, is.reloadedAt(f.wants.inPlace, now), is.Generation
	}
}

// agrees says whether the mirrors have already had all content that the state of a workload names. If not, another
// process has written the state.
func (p *pending) agrees(w *target) bool { return p.agreed != nil && p.agreed.same(w) }

// clears says whether a leftover in the template of a workload has to be removed. Another manager may own the
// leftover, so that a write does not help: then the next spec is tried again.
func (p *pending) clears(w *target) bool { return w.leftover() && w.Generation != p.cleared }

// behind says that the mirror still shows a workload as before the last restart of this process.
func (p *pending) behind(w *target) bool { return w.Generation < p.restartedAs }

// open returns changes without those for which this process has restarted the workload: the annotation is not read
// again yet, or somebody has put an old value back. If another process has restarted it since, all changes count.
func (p *pending) open(changes []change, f *facts) []change {
	if !p.behind(f.w) && !f.reloadedAt().Equal(p.restartedAt) {
		return changes
	}
	return slices.DeleteFunc(changes, p.knows)
}

// knows says whether the last restart was for a change.
func (p *pending) knows(c change) bool {
	return slices.ContainsFunc(p.restarted, func(done change) bool {
		return done.entry == c.entry && done.old == c.old && done.hash == c.hash
	})
}

// again says whether the last restart was for all of some changes: somebody has undone it.
func (p *pending) again(changes []change) bool {
	return !slices.ContainsFunc(changes, func(c change) bool { return !p.knows(c) })
}

// rest returns how long the state of a workload is not written, as another has changed what was written last.
func (p *pending) rest(w *target, now time.Time) time.Duration {
	since := now.Sub(p.at)
	switch {
	case p.wrote == nil:
		return 0
	case !p.wrote.same(w):
		return max(0, patience<<p.fights-since)
	case since > patience:
		p.fights = 0
	}
	return 0
}

// see notes the changes of a workload. Sources that change again after they were quiet have a whole debounce again.
func (p *pending) see(changes []change, f *facts) {
	var hashes []string
	for _, c := range changes {
		hashes = append(hashes, c.String()+" "+c.hash)
	}
	if !slices.Equal(p.hashes, hashes) {
		p.revision, p.restartAt = f.w.revision(f.kind), f.w.Spec.RestartAt
		if len(p.hashes) == 0 || f.now.Sub(p.last) >= max(f.debounce, f.wants.period) {
			p.first = f.now
		}
		p.last = f.now
	}
	p.hashes = hashes
}

// name adds to changes which keys have changed since the sources were last seen with nothing to do.
func (p *pending) name(changes []change, contents map[string]*content) {
	for i, c := range changes {
		before, known := p.before[c.source()]
		if now := contents[c.source()]; known && now != nil && c.key == "" {
			changes[i].keys = sources.Differing(before, now.values)
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
