package page

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"skiff/internal/runtime/controller"
)

// This file tells open tabs the changes: the banner, and which panels to fetch anew.

const (
	// leastPause is between two looks for changes, so that a tab shows a change within two seconds.
	leastPause = time.Second
	// mostPause bounds it where a look takes long: with 100,000 objects.
	mostPause = 10 * time.Second
	// shareOfTime is the pause after a look, in multiples of the look and the panels fetched by tabs since the last
	// look: all together takes 1 % of the time.
	shareOfTime = 100
	// aliveAfter is when an event is sent though nothing has changed. A tab without an event for twice as long says
	// that skiff does not answer.
	aliveAfter = 5 * time.Second
	// stateAge is how old the state gets while nothing moves: with time alone an object may have waited for too long.
	stateAge = 10 * time.Second
	// maxParts is how many panels are kept for other tabs: those of the page without a filter, and a few with one.
	maxParts = 8
	// maxStreams is enough for a team that looks at the same incident; more tabs poll.
	maxStreams = 20
	// stallTimeout is for how long a reader may take nothing.
	stallTimeout = 10 * time.Second
)

// News is what /debug/stream sends as an event.
type News struct {
	Format   string            `json:"format"`
	Time     time.Time         `json:"time"`
	Page     string            `json:"page"` // another one: style or script have changed
	Banner   Banner            `json:"banner"`
	Role     string            `json:"role,omitempty"` // leader, standby
	Contact  time.Time         `json:"lastContact,omitzero"`
	OldestAt time.Time         `json:"oldestWatch,omitzero"`
	Versions map[string]string `json:"versions"` // of panels: another one, another content
}

// feed has the news for all open tabs. Each stream asks for news on the goroutine of the request; the first to ask
// after a pause computes the news.
type feed struct {
	mu      sync.Mutex      // guards all below, and is held while news are computed
	streams []chan struct{} // of open tabs, the oldest first; closed: that tab has to poll
	news    News
	moved   map[string]string // the versions in news but for the state's
	stateAt time.Time         // when the state in news was computed
	next    time.Time         // when to compute them anew
	spent   time.Duration     // on parts since the last time
	parts   map[string]part   // by the URL

	making sync.Mutex // is held while a part is made, and taken before mu
}

// part is a panel as the script fetches it.
type part struct{ version, html string }

// open returns a channel that is closed when the stream has to make room for another.
func (f *feed) open() chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.streams) == maxStreams {
		close(f.streams[0])
		f.streams = slices.Delete(f.streams, 0, 1)
	}
	bye := make(chan struct{})
	f.streams = append(f.streams, bye)
	return bye
}

// end forgets a stream.
func (f *feed) end(bye chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.streams, bye); i >= 0 {
		f.streams = slices.Delete(f.streams, i, i+1)
	}
	if len(f.streams) == 0 {
		f.parts = nil
	}
}

// latest returns the news, and when there may be others.
func (p *Page) latest() (News, time.Time) {
	f := &p.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	began := time.Now()
	if began.Before(f.next) {
		return f.news, f.next
	}
	versions := p.versions()
	state := f.news.Versions["state"]
	if !maps.Equal(versions, f.moved) || began.Sub(f.stateAt) >= stateAge {
		s := p.State()
		f.stateAt = began
		f.news = News{Format: Format, Page: p.assets, Banner: s.Banner, Role: p.role(), Contact: s.Contact,
			OldestAt: s.OldestAt}
		state = s.version()
	}
	f.moved, f.news.Versions = versions, maps.Clone(versions)
	f.news.Versions["state"], f.news.Time = state, began
	ended := time.Now()
	f.next = ended.Add(min(max(shareOfTime*(ended.Sub(began)+f.spent), leastPause), mostPause))
	f.spent = 0
	return f.news, f.next
}

// part is a panel for the script. All tabs ask for the panel after the same news: the first request makes the panel.
func (p *Page) part(name string, r *http.Request) string {
	f := &p.feed
	f.making.Lock()
	defer f.making.Unlock()
	began, url := time.Now(), r.URL.String()
	f.mu.Lock()
	version, current := f.news.Versions[name], began.Before(f.next)
	kept, ok := f.parts[url]
	f.mu.Unlock()
	if ok && current && kept.version == version {
		return kept.html
	}
	var out writer
	p.panel(&out, name, r)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spent += time.Since(began)
	if f.parts == nil || len(f.parts) >= maxParts {
		f.parts = map[string]part{}
	}
	if current {
		f.parts[url] = part{version, out.String()}
	}
	return out.String()
}

// version is the version of the content of the state panel. A time that is always the present is no content.
func (s State) version() string {
	s.Time, s.Contact, s.OldestAt, s.OldestOf, s.Queue = time.Time{}, time.Time{}, time.Time{}, "", nil
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // of a struct of texts and numbers
	}
	return versionOf(string(text))
}

// versions are those of the panels but for the state's, from counters that are cheap to read: of mirrors, of runs, and
// of the history.
func (p *Page) versions() map[string]string {
	cs := p.o.Controllers()
	var mirrors, runs []any
	for _, w := range controller.WatchStates(cs...) {
		mirrors = append(mirrors, w.Resource.GroupResource(), w.Namespace, w.Phase, w.Parked, w.ResourceVersion,
			w.Objects, w.LastContact.UnixNano(), w.ErrSince.UnixNano())
	}
	for _, c := range cs {
		s := c.Stats()
		runs = append(runs, c.Name(), s.Done, s.Again, s.Errors, s.Crashes, s.Failing, s.Stalled, s.Queue.Due,
			s.Queue.Delayed, s.Queue.Running, s.Queue.Added, s.Queue.Postponed)
	}
	var sampled time.Time
	if samples := p.o.History.Samples(); len(samples) > 0 {
		sampled = samples[len(samples)-1].At
	}
	_, kept, quiet := p.o.History.Runs(0, nil)
	start := p.o.Started.UnixNano() // another process has other counters
	return map[string]string{
		"process":  versionOf(p.o.Process(), p.o.Leader()),
		"owners":   versionOf(start, mirrors, runs),
		"timeline": versionOf(start, kept, quiet),
		"queue":    versionOf(start, runs, sampled.UnixNano()),
		"watches":  versionOf(start, mirrors),
	}
}

// versionOf is short, and another one for other values.
func versionOf(values ...any) string {
	sum := fnv.New64a()
	fmt.Fprintln(sum, values...)
	return fmt.Sprintf("%x", sum.Sum64())
}

// stream answers with the news of now, and goes on with those that follow until the reader leaves. JSON is the news of
// now alone.
func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	if wantsJSON(r) {
		news, _ := p.latest()
		writeJSON(w, news)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	out := http.NewResponseController(w)
	if err := out.SetReadDeadline(time.Time{}); err != nil { // the server's would end the stream
		http.Error(w, "this connection cannot stream", http.StatusNotImplemented)
		return
	}
	bye := p.feed.open()
	defer p.feed.end(bye)
	var last News
	for first := true; ; first = false {
		news, next := p.latest()
		if first || !last.same(news) || news.Time.Sub(last.Time) >= aliveAfter {
			if err := send(w, out, "%sdata: %s\n\n", retry(first), news.text()); err != nil {
				return
			}
			last = news
		}
		select {
		case <-time.After(time.Until(next)):
		case <-r.Context().Done():
			return
		case <-bye:
			_ = send(w, out, "event: bye\ndata: there are %d newer streams\n\n", maxStreams) // or it has gone
			return
		}
	}
}

// retry is how many milliseconds a browser waits until connecting again, sent once.
func retry(first bool) string {
	if first {
		return "retry: 1000\n"
	}
	return ""
}

// same says whether there is nothing new in other.
func (n News) same(other News) bool {
	return n.Banner == other.Banner && n.Role == other.Role && maps.Equal(n.Versions, other.Versions)
}

func (n News) text() []byte {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // of a struct of texts and times
	}
	return text
}

// send writes an event, unless the reader takes nothing for too long.
func send(w http.ResponseWriter, out *http.ResponseController, format string, args ...any) error {
	if err := out.SetWriteDeadline(time.Now().Add(stallTimeout)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, format, args...); err != nil {
		return err
	}
	return out.Flush()
}
