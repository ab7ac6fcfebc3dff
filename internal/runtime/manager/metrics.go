package manager

import (
	"cmp"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
)

// metrics serves /metrics. No series depends on the names of objects, so a scrape has some hundred series for each
// controller and thirty for each watch, however large the cluster is.
func (m *Manager) metrics() http.Handler {
	mux := http.NewServeMux()
	// With pages made anew, a scrape each 30 s would be all of the growth of the heap of a process at rest: 470 KB
	// each.
	pages := sync.Pool{New: func() any { return &metrics.Page{} }}
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metrics.ContentType)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		p := pages.Get().(*metrics.Page)
		m.scrape(p)
		_, _ = p.WriteTo(w) // the scraper has gone
		p.Reset()
		pages.Put(p)
	})
	return mux
}

// scrape reads all counters.
func (m *Manager) scrape(p *metrics.Page) {
	version, commit := kube.Version()
	p.Add(buildInfo, 1, "version", version, "commit", commit, "go", runtime.Version())
	for _, c := range m.controllers() {
		writeController(p, c)
	}
	m.writePanics(p)
	m.writeProgress(p)
	m.writeWatches(p)
	if m.o.Scrape != nil {
		m.o.Scrape(p)
	}
	if m.o.Requests != nil {
		m.o.Requests.write(p)
	}
	if m.o.Client != nil {
		c := m.contact()
		p.Add(lastAnswer, timestamp(c.Heard))
		p.Add(unanswered, waited(c).Seconds())
	}
	if e := m.o.Elector; e != nil {
		p.Flag(masterStatus, e.Leading(), "name", e.Name())
		p.Add(slowRenewals, float64(e.SlowRenewals()), "name", e.Name())
	}
	if m.o.LogState != nil {
		p.Add(logDropped, float64(m.o.LogState().Dropped))
	}
	metrics.Runtime(p)
	metrics.Process(p)
}

func writeController(p *metrics.Page, c *controller.Controller) {
	s := c.Stats()
	label := []string{"controller", c.Name()}
	p.Add(reconcileTotal, float64(s.Done), "controller", c.Name(), "result", "success")
	p.Add(reconcileTotal, float64(s.Again), "controller", c.Name(), "result", "requeue_after")
	p.Add(reconcileTotal, 0, "controller", c.Name(), "result", "requeue") // skiff always says when
	p.Add(reconcileTotal, float64(s.Errors), "controller", c.Name(), "result", "error")
	p.Add(reconcileErrors, float64(s.Errors), label...)
	p.Add(reconcileTerminal, float64(s.Terminal), label...)
	p.Add(reconcilePanics, float64(s.Panics), label...)
	p.Add(reconcileTimeouts, float64(s.Timeouts), label...)
	p.Histogram(reconcileTime, s.Took, label...)
	p.Add(maxReconciles, float64(s.Workers), label...)
	p.Add(activeWorkers, float64(s.Queue.Running), label...)
	p.Add(failingKeys, float64(s.Failing), label...)
	p.Add(stalledKeys, float64(s.Stalled), label...)
	p.Add(delayedKeys, float64(s.Queue.Delayed), label...)
	p.Declare(problemObjects)
	reasons := c.Reasons()
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		p.Add(problemObjects, float64(reasons[reason]), "controller", c.Name(), "reason", reason)
	}
	p.Declare(causeTotal)
	for _, cause := range slices.Sorted(maps.Keys(s.Causes)) {
		p.Add(causeTotal, float64(s.Causes[cause]), "controller", c.Name(), "cause", cause)
	}
	for _, part := range c.Parts() {
		for _, reason := range controller.MissingReasons {
			p.Flag(parked, part.Missing[reason], "controller", c.Name(), "namespace", part.Namespace, "reason", reason)
		}
	}

	for _, counts := range c.Counts() {
		p.Counts(counts)
	}

	label = []string{"name", c.Name(), "controller", c.Name()}
	// The priorities are those of controller-runtime: keys of an initial list have -100.
	p.Add(queueDepth, float64(s.Queue.Due-s.Queue.Low), append(label, "priority", "0")...)
	p.Add(queueDepth, float64(s.Queue.Low), append(label, "priority", "-100")...)
	p.Add(queueAdds, float64(s.Queue.Added), label...)
	p.Add(queueRetries, float64(s.Queue.Postponed), label...)
	p.Histogram(queueWait, s.Waited, label...)
	p.Histogram(queueWork, s.Worked, label...)
	p.Add(queueUnfinished, s.Queue.RunTime.Seconds(), label...)
	p.Add(queueLongest, s.Queue.Longest.Seconds(), label...)
}

// writeProgress adds for how long workers have been idle, where they have been looked at.
func (m *Manager) writeProgress(p *metrics.Page) {
	p.Declare(noProgress)
	m.progress.mu.Lock()
	defer m.progress.mu.Unlock()
	for _, c := range m.controllers() {
		if i := m.progress.of[c]; i != nil {
			p.Add(noProgress, i.idle.Seconds(), "controller", c.Name())
		}
	}
}

// writePanics adds the contained panics, of reconciles and of all else.
func (m *Manager) writePanics(p *metrics.Page) {
	by := map[string]float64{"http": float64(m.panics.Load()), "reconcile": 0, "controller": 0, "handler": 0,
		"watch": 0, "index": 0, "events": 0, "election": 0, "manager": float64(m.crashes.Load())}
	if m.o.Elector != nil {
		by["election"] = float64(m.o.Elector.Panics())
	}
	dropped := 0.0
	for _, r := range m.o.Recorders {
		by["events"] += float64(r.Panics())
		dropped += float64(r.Dropped())
	}
	p.Add(eventsDropped, dropped)
	for _, c := range m.controllers() {
		s := c.Stats()
		by["reconcile"] += float64(s.Panics)
		by["controller"] += float64(s.Crashes)
	}
	for _, w := range controller.WatchStates(m.controllers()...) {
		by["handler"] += float64(w.Counters.Panics)
		by["watch"] += float64(w.Counters.Crashes)
		by["index"] += float64(w.Counters.IndexPanics)
	}
	for _, part := range slices.Sorted(maps.Keys(by)) {
		p.Add(panicsTotal, by[part], "part", part)
	}
}

// watchLabels identify a watch. Two mirrors of the same objects, with different parts kept, have the same labels.
type watchLabels struct{ resource, labels, namespace string }

func (l watchLabels) list(more ...string) []string {
	return append([]string{"resource", l.resource, "selector", l.labels, "namespace", l.namespace}, more...)
}

func sortedLabels[V any](m map[watchLabels]V) []watchLabels {
	out := slices.Collect(maps.Keys(m))
	sort.Slice(out, func(i, j int) bool { return out[i].compare(out[j]) < 0 })
	return out
}

func (l watchLabels) compare(o watchLabels) int {
	return cmp.Or(strings.Compare(l.resource, o.resource), strings.Compare(l.labels, o.labels),
		strings.Compare(l.namespace, o.namespace))
}

// maxWatches bounds the watches with time series for each watch; the remaining watches share series without a
// namespace.
const maxWatches = 200

// writeWatches adds the figures of the mirrors. Counts of watches with the same labels are added up; of other figures
// the worst is taken.
func (m *Manager) writeWatches(p *metrics.Page) {
	for _, f := range []*metrics.Family{watchActivity, watchBookmark, watchVersion, watchRestarts, cacheLists,
		cacheObjects, cacheBytes, cacheUndecodable, cacheSynced, cacheEvents, shedObjects, shedBytes} {
		p.Declare(f)
	}
	all, bytes := map[watchLabels]*controller.WatchState{}, map[watchLabels]int64{}
	for _, w := range controller.WatchStates(m.controllers()...) {
		l := watchLabels{w.Resource.GroupResource(), w.Labels, w.Namespace}
		bytes[watchLabels{resource: l.resource, labels: l.labels}] += w.Bytes
		if _, known := all[l]; !known && len(all) >= maxWatches {
			l.namespace = "others"
		}
		if all[l] == nil {
			all[l] = &w
		} else {
			merge(all[l], w)
		}
	}
	for _, l := range sortedLabels(all) {
		writeWatch(p, l, all[l])
	}
	for _, l := range sortedLabels(bytes) {
		p.Add(cacheBytes, float64(bytes[l]), "resource", l.resource, "selector", l.labels)
	}
	for _, s := range controller.Sheds(m.controllers()...) {
		labels := []string{"resource", s.Resource.GroupResource(), "selector", s.Labels, "namespace", s.Namespace}
		p.Add(shedObjects, float64(s.Objects), labels...)
		p.Add(shedBytes, float64(s.Bytes), labels...)
	}
}

// timestamp is a time in seconds since 1970, 0 for the zero time.
func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func writeWatch(p *metrics.Page, l watchLabels, w *controller.WatchState) {
	p.Add(watchActivity, timestamp(w.LastContact), l.list()...)
	if !w.LastBookmark.IsZero() {
		p.Add(watchBookmark, time.Since(w.LastBookmark).Seconds(), l.list()...)
	}
	if rv, err := strconv.ParseUint(w.ResourceVersion, 10, 64); err == nil {
		p.Add(watchVersion, float64(rv), l.list()...)
	}
	for _, reason := range cache.EndReasons {
		p.Add(watchRestarts, float64(w.Counters.Reconnects[reason]), l.list("reason", reason)...)
	}
	for _, reason := range slices.Sorted(maps.Keys(w.Counters.Lists)) {
		p.Add(cacheLists, float64(w.Counters.Lists[reason]), l.list("reason", reason)...)
	}
	p.Add(cacheObjects, float64(w.Objects), l.list()...)
	p.Add(cacheUndecodable, float64(w.Quarantined), l.list()...)
	p.Flag(cacheSynced, w.Synced, l.list()...)
	n := &w.Counters
	for _, of := range []struct {
		kind  string
		count int
	}{{"mass_delete", n.MassDeletes}, {"misplaced", n.Misplaced},
		{"outdated", n.Outdated}, {"parked", n.Parked}, {"rewind", n.Rewinds}, {"undecodable", n.Undecodable},
		{"unknown_type", n.UnknownType}} {
		p.Add(cacheEvents, float64(of.count), l.list("kind", of.kind)...)
	}
}

// merge adds another watch with the same labels.
func merge(w *controller.WatchState, other controller.WatchState) {
	if other.LastContact.Before(w.LastContact) {
		w.LastContact = other.LastContact
	}
	if other.LastBookmark.Before(w.LastBookmark) {
		w.LastBookmark = other.LastBookmark
	}
	if order, ok := kube.CompareRV(other.ResourceVersion, w.ResourceVersion); ok && order < 0 {
		w.ResourceVersion = other.ResourceVersion
	}
	w.Objects += other.Objects
	w.Quarantined += other.Quarantined
	w.Synced = w.Synced && other.Synced
	a, b := &w.Counters, &other.Counters
	for reason, n := range b.Lists {
		a.Lists[reason] += n
	}
	for reason, n := range b.Reconnects {
		a.Reconnects[reason] += n
	}
	a.Outdated += b.Outdated
	a.Misplaced += b.Misplaced
	a.UnknownType += b.UnknownType
	a.Undecodable += b.Undecodable
	a.Rewinds += b.Rewinds
	a.MassDeletes += b.MassDeletes
	a.Parked += b.Parked
}
