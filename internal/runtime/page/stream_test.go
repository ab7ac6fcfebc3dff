package page

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/health"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/httpd"
)

// tab is a stream that a reader has open.
type tab struct {
	*world
	body  io.Closer
	ended chan struct{}
	mu    sync.Mutex // guards all below
	news  []News     // that were not read yet
	bye   bool
}

// serve serves the page, and returns what opens tabs.
func (w *world) serve() (open func() *tab, end func()) {
	pipe := httpd.OnPipe(w.page.Handler())
	client := &http.Client{Transport: &http.Transport{DialContext: pipe.Dial, DisableKeepAlives: true}}
	var tabs []*tab
	return func() *tab {
			r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "http://localhost/debug/stream", nil)
			if err != nil {
				w.Fatal(err)
			}
			resp, err := client.Do(r)
			if err != nil {
				w.Fatal(err)
			}
			if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
				w.Fatalf("the stream is %s", got)
			}
			t := &tab{world: w, body: resp.Body, ended: make(chan struct{})}
			tabs = append(tabs, t)
			go t.follow(resp.Body)
			return t
		}, func() {
			for _, t := range tabs {
				if err := t.body.Close(); err != nil {
					w.Error(err)
				}
				<-t.ended
			}
			if err := pipe.Close(); err != nil {
				w.Error(err)
			}
		}
}

// follow reads the stream to its end.
func (t *tab) follow(body io.Reader) {
	defer close(t.ended)
	for in := bufio.NewScanner(body); in.Scan(); {
		t.mu.Lock()
		t.bye = t.bye || in.Text() == "event: bye"
		if data, ok := strings.CutPrefix(in.Text(), "data: {"); ok {
			var n News
			if err := json.Unmarshal([]byte("{"+data), &n); err != nil {
				t.Errorf("%s: %v", data, err)
			}
			t.news = append(t.news, n)
		}
		t.mu.Unlock()
	}
}

// read returns the news that have come since the last call, after a second in which more come, and whether the
// stream said bye.
func (t *tab) read() (all []News, bye bool) {
	time.Sleep(time.Second + time.Millisecond)
	t.mu.Lock()
	defer t.mu.Unlock()
	all, t.news = t.news, nil
	return all, t.bye
}

// Rules: LP-02, LP-19
func TestATabHearsWithinASecondWhichPanelsHaveChangedAndElseThatSkiffIsThere(t *testing.T) {
	within(t, Options{}, fails, func(w *world) {
		open, end := w.serve()
		defer end()
		time.Sleep(time.Second)
		one := open()
		if all, _ := one.read(); len(all) == 0 || !all[0].Banner.Well || len(all[0].Versions) < 5 {
			w.Fatalf("at first: %+v", all)
		}
		time.Sleep(time.Minute)
		one.read()
		time.Sleep(time.Minute)
		quiet, _ := one.read()
		if n := len(quiet); n < 11 || n > 13 {
			t.Errorf("%d events within a minute in which nothing changed", n)
		}
		before := quiet[len(quiet)-1]
		w.create("fails", nil)
		time.Sleep(time.Millisecond)
		after, _ := one.read()
		if len(after) != 1 || after[0].Banner.Well ||
			!strings.Contains(after[0].Banner.Text, "ConfigMap default/fails") {
			w.Fatalf("of an object that fails: %+v", after)
		}
		for _, panel := range []string{"state", "owners", "timeline", "queue", "watches"} {
			if after[0].Versions[panel] == before.Versions[panel] {
				t.Errorf("the version of %s is the same", panel)
			}
		}
		if err := w.client.Delete(w.Context(), configMaps, kube.Key{Namespace: "default", Name: "fails"},
			kube.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		if again, _ := one.read(); len(again) == 0 || !again[len(again)-1].Banner.Well {
			t.Errorf("of an object that has gone: %+v", again)
		}
		for i := range 100 {
			w.create(fmt.Sprint("fails-", i), nil)
			time.Sleep(50 * time.Millisecond)
		}
		if busy, _ := one.read(); len(busy) > 7 {
			t.Errorf("%d events within 6 seconds", len(busy))
		}
		if answer := w.get("/debug/stream?format=json").Body.String(); !strings.Contains(answer, `"100 things need`) {
			t.Errorf("to a tab that polls: %s", answer)
		}
	})
}

// Rules: LP-19
func TestTheOldestOfTooManyStreamsMakesRoom(t *testing.T) {
	within(t, Options{}, fails, func(w *world) {
		open, end := w.serve()
		defer end()
		var tabs []*tab
		for range maxStreams {
			tabs = append(tabs, open())
		}
		if err := tabs[3].body.Close(); err != nil { // its place is free
			w.Fatal(err)
		}
		tabs[3].read()
		tabs[3] = open()
		for i, one := range tabs {
			if all, bye := one.read(); len(all) == 0 || bye {
				w.Fatalf("stream %d of %d: %v, bye: %v", i+1, maxStreams, all, bye)
			}
		}
		open()
		if _, bye := tabs[0].read(); !bye {
			t.Error("the oldest is open beside 20 others")
		}
		<-tabs[0].ended
		if _, bye := tabs[1].read(); bye {
			t.Error("the second one made room, too")
		}
	})
}

// Rules: LP-04, LP-19
func TestTheNewsAreComputedOnceForAllTabsAndTheStateOnlyIfSomethingMoved(t *testing.T) {
	var states atomic.Int64
	o := Options{Process: func() []health.Problem { states.Add(1); return nil }}
	within(t, o, fails, func(w *world) {
		open, end := w.serve()
		defer end()
		time.Sleep(time.Minute)
		if n := states.Load(); n != 0 {
			t.Errorf("the process was asked about %d times without a tab", n)
		}
		for range 10 {
			open()
		}
		states.Store(0)
		time.Sleep(time.Minute)
		// Once a second for its version, and every ten seconds for the state.
		if n := states.Load(); n < 60 || n > 72 {
			t.Errorf("the process was asked about %d times within a minute by ten tabs", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait() // for the news that are made in this very moment
		states.Store(0)
		w.page.feed.mu.Lock()
		w.page.feed.next = time.Now().Add(time.Minute) // as after news that took 600 ms
		w.page.feed.mu.Unlock()
		time.Sleep(59 * time.Second)
		if n := states.Load(); n != 0 {
			t.Errorf("within the pause it was asked about %d times", n)
		}
	})
}

// Rules: LP-04, LP-19
func TestAPanelIsMadeOnceForTheTabsThatFetchItAfterTheSameNews(t *testing.T) {
	within(t, Options{}, fails, func(w *world) {
		open, end := w.serve()
		time.Sleep(time.Second)
		one := open()
		one.read()
		const path = "/debug/owners?fragment=1&q=x"
		feed := &w.page.feed
		first := w.get(path).Body.String()
		feed.mu.Lock()
		if len(feed.parts) != 1 || !strings.Contains(first, "None matches.") {
			w.Errorf("%d parts are kept; %s", len(feed.parts), first)
		}
		feed.parts[path] = part{feed.parts[path].version, "kept"}
		feed.mu.Unlock()
		if again := w.get(path).Body.String(); again != "kept" {
			t.Errorf("it was made again: %s", again)
		}
		w.create("x", nil)
		one.read()
		if news := w.get(path).Body.String(); !strings.Contains(news, `"ConfigMap/default/x/things"`) {
			t.Errorf("after other news: %s", news)
		}
		for i := range 3 * maxParts {
			w.get(fmt.Sprint(path, i))
		}
		feed.mu.Lock()
		if n := len(feed.parts); n > maxParts {
			t.Errorf("%d parts are kept", n)
		}
		feed.mu.Unlock()
		end()
		synctest.Wait()
		feed.mu.Lock()
		defer feed.mu.Unlock()
		if feed.parts != nil {
			t.Error("parts are kept without a tab")
		}
	})
}
