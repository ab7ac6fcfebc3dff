package browser

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// polls is an expression that says that a tab has no stream.
const polls = `document.querySelector('#live').innerText === 'Updated every 10 s.'`

// Rules: LP-19
func TestSevenTabsFollowAndTheOldestOf21StreamsPolls(t *testing.T) {
	t.Parallel()
	c, w := newBrowser(t), newWorld(t, "")
	var tabs []*tab
	for range 7 { // a browser has six connections to a server
		tabs = append(tabs, open(t, c, w.page(), options{}))
	}
	for _, p := range tabs {
		p.await("all is well", well+" && "+live)
	}
	w.create("broken", true)
	began := time.Now()
	for i, p := range tabs {
		p.awaitFor(3*time.Second, fmt.Sprintf("the broken object in tab %d", i+1),
			bad+" && "+shows("owners", "broken"))
	}
	t.Logf("seven tabs took %s", time.Since(began).Round(time.Millisecond))
	w.takeStreams()
	polling := 0
	w.await("a tab polls, and the others hear of it", func() bool {
		polling = 0
		for _, p := range tabs {
			if p.text("#live") == "Updated every 10 s." {
				polling++
			}
		}
		return polling > 0
	})
	w.delete("broken")
	for i, p := range tabs {
		p.awaitFor(12*time.Second, fmt.Sprintf("all is well again in tab %d", i+1), well)
		p.clean(w.origin(), false)
	}
}

// takeStreams opens as many streams as skiff has, so that it ends those of tabs.
func (w *world) takeStreams() {
	w.Helper()
	for range 20 {
		resp, err := http.Get(w.page() + "stream")
		if err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() { resp.Body.Close() })
	}
}

// withToken is the URL of the page with the token.
func (w *world) withToken() string { return strings.Replace(w.page(), "//", "//me:"+w.token+"@", 1) }

// asked returns how often a tab has asked for a path with a query, or without one.
func (p *tab) asked(path string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, url := range p.requests {
		if strings.HasSuffix(url, path) {
			n++
		}
	}
	return n
}

// Rules: LP-19
func TestATabWhoseStreamWasTakenPollsEachTenSecondsAndAsksForNoOther(t *testing.T) {
	t.Parallel()
	c, w := newBrowser(t), newWorld(t, "")
	p := open(t, c, w.page(), options{})
	p.await("all is well", well+" && "+live)
	w.takeStreams()
	p.await("it polls", polls)
	before, began := p.asked("/debug/stream?format=json"), time.Now()
	w.create("broken", true)
	p.awaitFor(12*time.Second, "the broken object", bad+" && "+shows("owners", "broken")+" && "+polls)
	w.delete("broken")
	p.awaitFor(12*time.Second, "all is well again", well+" && "+polls)
	most := int(time.Since(began)/(10*time.Second)) + 1
	if n := p.asked("/debug/stream?format=json") - before; n > most || p.asked("/debug/stream") != 1 {
		t.Errorf("%d polls within %s, and %d streams", n, time.Since(began), p.asked("/debug/stream"))
	}
	p.clean(w.origin(), false)
}

// Rules: LP-19
func TestAHiddenTabAsksForNothingAndShowsTheTruthWithinTwoSecondsWhenItComesBack(t *testing.T) {
	t.Parallel()
	c, w := newBrowser(t), newWorld(t, "")
	p := open(t, c, w.page(), options{})
	p.await("all is well", well+" && "+live)
	p.show(false)
	p.await("it is hidden", "document.hidden")
	w.create("broken", true)
	p.mu.Lock()
	before := len(p.requests)
	p.mu.Unlock()
	// Longer than the script waits for anything but what it does each ten seconds, and than news are apart.
	p.eval(`new Promise(done => setTimeout(done, 11000))`, nil)
	p.mu.Lock()
	if asked := p.requests[before:]; len(asked) > 0 {
		t.Errorf("while it is hidden it asks for %s", asked)
	}
	p.mu.Unlock()
	p.eval(well, nil) // as before
	p.show(true)
	took := p.awaitFor(2*time.Second, "the broken object", "!document.hidden && "+bad+" && "+live+" && "+
		shows("owners", "broken"))
	t.Logf("it took %s", took.Round(time.Millisecond))
	p.clean(w.origin(), false)
}

// Rules: LP-10, LP-23
func TestATabWhoseTokenIsNoLongerGoodSaysSoUntilItIsLoadedAnew(t *testing.T) {
	t.Parallel()
	c, w := newBrowser(t), newWorld(t, "hush")
	p := open(t, c, w.withToken(), options{})
	p.await("all is well", well+" && "+live)
	w.kill() // a stream that is open would go on
	w.rotate("another")
	w.restart()
	p.await("it is refused", `document.querySelector('#banner').className === 'warn' && `+
		`document.querySelector('#live').innerText.includes('skiff refuses this page (401); load it anew')`)
	p.call("Page.navigate", map[string]any{"url": w.withToken()})
	p.await("it is served", well+" && "+live)
	w.create("broken", true)
	p.awaitFor(2*time.Second, "the broken object", bad+" && "+shows("owners", "broken"))
	p.clean(w.origin(), true)
}

// Rules: LP-19
func TestATabLoadsThePageOfANewVersionOfSkiff(t *testing.T) {
	t.Parallel()
	c, w := newBrowser(t), newWorld(t, "")
	p := open(t, c, w.page(), options{})
	p.await("all is well", well+" && "+live)
	const first, other = "'use strict'\n// Keeps", "\"use strict\"\n// Keeps"
	binary, err := os.ReadFile(filepath.Join(directory, "skiff"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(binary, []byte(first)) != 1 {
		t.Fatalf("the script has not one %q", first)
	}
	upgraded := bytes.Replace(binary, []byte(first), []byte(other), 1)
	if err := os.WriteFile(filepath.Join(directory, "skiff-upgraded"), upgraded, 0o755); err != nil {
		t.Fatal(err)
	}
	p.eval(`window.old = true`, nil)
	w.kill()
	w.start("skiff-upgraded")
	// A page that was just loaded waits for half a minute, or two versions behind one address would have it loop.
	p.awaitFor(time.Minute, "the new page", `!window.old && document.body.innerHTML.includes('"use strict"') && `+
		well+" && "+live)
	p.clean(w.origin(), true)
}
