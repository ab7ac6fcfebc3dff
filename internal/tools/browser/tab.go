package browser

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// tab is a page that is open.
type tab struct {
	*testing.T
	c               *chromium
	session, target string

	mu       sync.Mutex // guards all below
	problems []string   // what the console, the policy and the network had to complain about
	requests []string   // the URLs
}

// options are how a tab looks at a page.
type options struct {
	noScript bool
	width    int // in CSS pixels; 0: 1,440
	dark     bool
}

// open opens a URL in a tab, which is closed at the end of the test.
func open(t *testing.T, c *chromium, url string, o options) *tab {
	t.Helper()
	p := &tab{T: t, c: c}
	var target struct{ TargetID string }
	p.must(c.call("", "Target.createTarget", map[string]any{"url": "about:blank", "newWindow": true}, &target))
	p.target = target.TargetID
	t.Cleanup(p.close)
	var session struct{ SessionID string }
	p.must(c.call("", "Target.attachToTarget", map[string]any{"targetId": p.target, "flatten": true}, &session))
	p.session = session.SessionID
	c.mu.Lock()
	c.tabs[p.session] = p
	c.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.call(domain+".enable", nil)
	}
	if o.noScript {
		p.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true})
	}
	if o.width == 0 {
		o.width = 1440
	}
	scheme := "light"
	if o.dark {
		scheme = "dark"
	}
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": o.width, "height": 900,
		"deviceScaleFactor": 1, "mobile": false})
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{
		map[string]any{"name": "prefers-color-scheme", "value": scheme}}})
	p.call("Page.navigate", map[string]any{"url": url})
	p.await("the page", `document.readyState === 'complete' && document.querySelector('main section') !== null`)
	return p
}

// show has the browser show the tab's window, or hide it.
func (p *tab) show(shown bool) {
	p.Helper()
	var window struct{ WindowID int }
	p.must(p.c.call("", "Browser.getWindowForTarget", map[string]any{"targetId": p.target}, &window))
	state := "minimized"
	if shown {
		state = "normal"
	}
	p.must(p.c.call("", "Browser.setWindowBounds", map[string]any{"windowId": window.WindowID,
		"bounds": map[string]any{"windowState": state}}, nil))
}

// close closes the tab; a browser that has ended has closed it.
func (p *tab) close() {
	_ = p.c.call("", "Target.closeTarget", map[string]any{"targetId": p.target}, nil)
}

func (p *tab) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *tab) call(method string, params map[string]any) {
	p.Helper()
	if params == nil {
		params = map[string]any{}
	}
	p.must(p.c.call(p.session, method, params, nil))
}

// observe takes an event.
func (p *tab) observe(m message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.Method {
	case "Runtime.exceptionThrown":
		p.problems = append(p.problems, string(m.Params))
	case "Runtime.consoleAPICalled":
		p.problems = append(p.problems, "console: "+string(m.Params))
	case "Log.entryAdded":
		var entry struct {
			Entry struct{ Source, Level, Text, URL string }
		}
		if err := json.Unmarshal(m.Params, &entry); err != nil || entry.Entry.Level != "verbose" {
			e := entry.Entry
			p.problems = append(p.problems, fmt.Sprintf("%s: %s %s", e.Source, e.Text, e.URL))
		}
	case "Network.requestWillBeSent":
		var sent struct{ Request struct{ URL string } }
		if err := json.Unmarshal(m.Params, &sent); err != nil {
			p.problems = append(p.problems, err.Error())
		}
		p.requests = append(p.requests, sent.Request.URL)
	}
}

// clean fails the test if the page complained, or asked for something at another place. Where away is set, skiff was
// away for a while, and the network may say so.
func (p *tab) clean(origin string, away bool) {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, problem := range p.problems {
		if !away || !strings.HasPrefix(problem, "network: ") {
			p.Errorf("the console has %s", problem)
		}
	}
	for _, url := range p.requests {
		if user, rest, found := strings.Cut(url, "@"); found && strings.HasPrefix(user, "http://me:") {
			url = "http://" + rest
		}
		if !strings.HasPrefix(url, origin+"/debug/") && !strings.HasPrefix(url, "data:image/svg+xml,") {
			p.Errorf("the page asked for %s", url)
		}
	}
}

// eval evaluates an expression of JavaScript and decodes its value.
func (p *tab) eval(expression string, into any) {
	p.Helper()
	p.must(p.try(expression, into))
}

func (p *tab) try(expression string, into any) error {
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	err := p.c.call(p.session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true,
		"awaitPromise": true}, &answer)
	switch {
	case err != nil:
		return err
	case answer.ExceptionDetails != nil:
		return fmt.Errorf("%s: %s", expression, answer.ExceptionDetails)
	case into == nil:
		return nil
	}
	return json.Unmarshal(answer.Result.Value, into)
}

// text returns the text of an element as it is shown.
func (p *tab) text(selector string) (text string) {
	p.Helper()
	p.eval(fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ''`, selector), &text)
	return text
}

// awaitTimeout bounds each wait, unless a test says what it measures: many times as long as it takes.
const awaitTimeout = 20 * time.Second

// await waits until an expression is true; it may fail before, while another page is loaded.
func (p *tab) await(what, expression string) time.Duration {
	p.Helper()
	return p.awaitFor(awaitTimeout, what, expression)
}

func (p *tab) awaitFor(limit time.Duration, what, expression string) time.Duration {
	p.Helper()
	var err error
	for began := time.Now(); ; {
		var is bool
		if err = p.try(expression, &is); err == nil && is {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			p.mu.Lock()
			problems := slices.Clone(p.problems)
			p.mu.Unlock()
			p.Fatalf("not within %s: %s; the page says %q; the console: %q (%v)", limit, what, p.text("body"),
				problems, err)
		}
		<-time.After(30 * time.Millisecond)
	}
}

// press presses a key, which writes text if it is one character.
func (p *tab) press(key string) {
	p.Helper()
	params := map[string]any{"type": "keyDown", "key": key}
	switch key {
	case "Enter":
		params["text"], params["windowsVirtualKeyCode"] = "\r", 13
	case "Escape":
		params["windowsVirtualKeyCode"] = 27
	case "Tab":
		params["windowsVirtualKeyCode"] = 9
	default:
		params["text"] = key
	}
	p.call("Input.dispatchKeyEvent", params)
	p.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key})
}

// pictureWidth is about that of a README on GitHub, so that texts are not scaled.
const pictureWidth = 1060

// picture writes the top of the page, down to the last element that a selector selects, as a file that is small.
func (p *tab) picture(file, selector string) {
	p.Helper()
	var bottom float64
	p.eval(fmt.Sprintf(`[...document.querySelectorAll(%q)].at(-1).getBoundingClientRect().bottom`, selector), &bottom)
	var shot struct{ Data string }
	p.must(p.c.call(p.session, "Page.captureScreenshot", map[string]any{"format": "webp", "quality": 90,
		"captureBeyondViewport": true, "clip": map[string]any{"x": 0, "y": 0, "width": pictureWidth,
			"height": bottom + 4, "scale": 1}}, &shot))
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	p.must(err)
	p.must(os.WriteFile(file, data, 0o644))
}
