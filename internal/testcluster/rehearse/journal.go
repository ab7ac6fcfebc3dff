package rehearse

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/apiserver/obj"
)

// journal is what was written in a rehearsal.
type journal struct {
	owners map[string]bool // the kinds that controllers write children for, by group and resource

	mu     sync.Mutex // guards what follows
	last   time.Time  // of the last write, or of the start
	began  time.Time  // when the controllers did; zero before
	before int        // writes of the simulation before that
	books  int        // writes of the controllers that are bookkeeping
	writes []apiserver.Write
	inWay  map[string][]string // by owners, what was in the way of their children at the last look
}

func newJournal(rights []kube.Right) *journal {
	j := &journal{owners: map[string]bool{}, inWay: map[string][]string{}, last: time.Now()}
	for _, r := range rights {
		if r.Subresource == "status" {
			j.owners[r.Resource.GroupResource()] = true
		}
	}
	return j
}

// unseen are resources of which no write counts: what is done for nodes is no part of the copy, and quotas are counted
// anew of what was copied.
var unseen = []string{"nodes", "resourcequotas", "events", "events.events.k8s.io", "leases.coordination.k8s.io"}

// add is the server's OnWrite.
func (j *journal) add(w apiserver.Write) {
	if slices.Contains(unseen, w.Resource.GroupResource()) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last = w.Time
	switch {
	case j.began.IsZero():
		j.before++
	case j.bookkeeping(w):
		j.books++
	default:
		j.writes = append(j.writes, w)
	}
}

// bookkeeping says whether a write of a controller says only what it saw, which fields are its own, or that it wants
// to finish its work before the object goes.
func (j *journal) bookkeeping(w apiserver.Write) bool {
	if w.UserAgent == apiserver.Simulation || w.Before == nil || w.After == nil {
		return false
	}
	meta, rest := []string{"managedFields", "resourceVersion", "generation"}, []string{"metadata"}
	if j.owners[w.Resource.GroupResource()] {
		meta, rest = append(meta, "finalizers"), append(rest, "status")
	}
	return obj.EqualExcept(w.Before, w.After, rest...) &&
		obj.EqualExcept(obj.Map(w.Before, "metadata"), obj.Map(w.After, "metadata"), meta...)
}

// begin notes that the controllers begin.
func (j *journal) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.began = time.Now()
}

// latest returns the time of the last write, or that when the controllers began, if that is later.
func (j *journal) latest() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.began.After(j.last) {
		return j.began
	}
	return j.last
}

// count returns how many writes there were.
func (j *journal) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.before + j.books + len(j.writes)
}

// observe notes what is in the way of the children of an owner: it is an apply.Observer.
func (j *journal) observe(owner apply.Owner, _ []apply.Child, report apply.Report) {
	var all []string
	for _, r := range report.Children {
		switch {
		case r.Err != nil:
			all = append(all, r.Resource.Kind+" "+r.Key.String()+": "+kube.Explain(r.Err))
		case r.Outcome == apply.Foreign, r.Outcome == apply.Contested, r.Outcome == apply.PortTaken,
			r.Outcome == apply.NoNodePort:
			all = append(all, r.Why().Note())
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inWay[owner.Resource.Kind+" "+owner.Key().String()] = all
}

// obstacles returns what is in the way, by owners.
func (j *journal) obstacles() map[string][]string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.inWay)
}

// line is one line of the report.
type line struct {
	at    time.Duration // from when the controllers began
	owner string        // what it is about: an owner, or the cluster
	text  string
}

// ours returns the writes of the controllers as lines, and how many objects they created, changed and deleted.
func (j *journal) ours() (lines []line, created, changed, deleted int) {
	for _, w := range j.writes {
		if w.UserAgent == apiserver.Simulation {
			continue
		}
		symbol, of := "~", w.After
		switch {
		case w.Before == nil:
			symbol = "+"
			created++
		case w.After == nil:
			symbol, of = "-", w.Before
			deleted++
		default:
			changed++
		}
		key := keyOf(of)
		name := key.String()
		if strings.Contains(w.From, " "+key.Namespace+"/") {
			name = key.Name // it is in the namespace of its owner
		}
		lines = append(lines, line{w.Time.Sub(j.began), w.From, symbol + " " + w.Resource.Kind + " " + name})
	}
	return lines, created, changed, deleted
}
