package manager

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/metrics"
)

// requestBounds are those of client-go.
var requestBounds = []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}

// maxConflicting bounds the resources with a time series of conflicts each.
const maxConflicting = 64

// Requests counts the HTTP requests of clients. The zero value is ready; methods may be called from any goroutine.
type Requests struct {
	mu        sync.Mutex // guards all below
	answers   map[answered]uint64
	retries   map[answered]uint64
	took      map[answered]*metrics.Histogram // without a code
	conflicts map[string]uint64               // by resource
}

// answered is the labels of a request: servers choose codes, but net/http takes only three digits.
type answered struct {
	host, method string
	code         int // 0: no answer
}

// Observe counts a request; it is for kube.Config.OnExchange.
func (q *Requests) Observe(x kube.Exchange) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.answers == nil {
		q.answers, q.retries = map[answered]uint64{}, map[answered]uint64{}
		q.took, q.conflicts = map[answered]*metrics.Histogram{}, map[string]uint64{}
	}
	q.answers[answered{x.Host, x.Method, x.Code}]++
	if x.Retried != 0 {
		q.retries[answered{x.Host, x.Method, x.Retried}]++
	}
	if x.Conflict {
		resource := x.Resource.GroupResource()
		if _, known := q.conflicts[resource]; !known && len(q.conflicts) >= maxConflicting {
			resource = "other"
		}
		q.conflicts[resource]++
	}
	k := answered{host: x.Host, method: x.Method}
	h := q.took[k]
	if h == nil {
		h = metrics.NewHistogram(requestBounds)
		q.took[k] = h
	}
	h.Observe(x.Took)
}

// sample returns how long all requests took so far, and how many answers were 429, and from 500 on.
func (q *Requests) sample() (took *metrics.Histogram, throttled, refused uint64) {
	took = metrics.NewHistogram(requestBounds)
	if q == nil {
		return took, 0, 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, h := range q.took {
		took.Merge(h)
	}
	for a, n := range q.answers {
		switch {
		case a.code == http.StatusTooManyRequests:
			throttled += n
		case a.code >= http.StatusInternalServerError:
			refused += n
		}
	}
	return took, throttled, refused
}

// write adds the families of requests to a page.
func (q *Requests) write(p *metrics.Page) {
	for _, f := range []*metrics.Family{requestsTotal, requestRetries, requestTime, conflictsTotal} {
		p.Declare(f)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, k := range sortedAnswers(q.answers) {
		p.Add(requestsTotal, float64(q.answers[k]), "code", codeLabel(k.code), "method", k.method, "host", k.host)
	}
	for _, k := range sortedAnswers(q.retries) {
		p.Add(requestRetries, float64(q.retries[k]), "code", codeLabel(k.code), "verb", k.method, "host", k.host)
	}
	for _, k := range sortedAnswers(q.took) {
		p.Histogram(requestTime, q.took[k], "verb", k.method, "host", k.host)
	}
	for _, resource := range slices.Sorted(maps.Keys(q.conflicts)) {
		p.Add(conflictsTotal, float64(q.conflicts[resource]), "resource", resource)
	}
}

// codeLabel is a code in the form of client-go's metrics.
func codeLabel(code int) string {
	if code == 0 {
		return "<error>"
	}
	return strconv.Itoa(code)
}

func sortedAnswers[V any](m map[answered]V) []answered {
	out := slices.Collect(maps.Keys(m))
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return cmp.Or(strings.Compare(a.host, b.host), strings.Compare(a.method, b.method),
			cmp.Compare(a.code, b.code)) < 0
	})
	return out
}
