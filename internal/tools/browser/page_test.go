package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Expressions that say what a tab shows.
const (
	well = `document.querySelector('#banner').className === 'good' && document.title.startsWith('✔ ') && ` +
		`document.title.includes(': All is well.')`
	live = `document.querySelector('#live').innerText === 'Live.'`
	bad  = `document.querySelector('#banner').className === 'bad'`
	lost = `document.querySelector('#banner').innerText.startsWith('? skiff does not answer since ') && ` +
		`document.title.includes(': skiff does not answer since') && document.querySelector('#icon').href.includes('7a4f00') && ` +
		`/^Last update \d+ s ago: skiff does not answer\.$/.test(document.querySelector('#live').innerText)`
)

// shows is an expression that says whether a panel has a text.
func shows(panel, text string) string {
	return fmt.Sprintf(`document.querySelector('section[data-follows~=%s]').innerText.includes(%q)`, panel, text)
}

// Rules: LP-02, LP-10, LP-11, LP-19, LP-22
func TestABrokenObjectAppearsWithinTwoSecondsAndGoesAgain(t *testing.T) {
	c, w := newBrowser(t), newWorld(t, "")
	w.create("good", false)
	p := open(t, c, w.page(), options{})
	p.await("all is well", well)
	p.await("live", live)
	w.create("broken", true)
	took := p.awaitFor(2*time.Second, "the broken object", bad+` && document.title.includes('broken') && `+
		`document.querySelector('#icon').href.includes('b3261e') && `+shows("owners", "TemplateRefused")+` && `+
		shows("owners", "broken"))
	t.Logf("it took %s", took.Round(time.Millisecond))
	p.eval(`document.querySelector('.copy').click()`, nil)
	p.await("it is copied", `document.querySelector('.copy').innerText === 'copied' && document.querySelector('#said').`+
		`innerText === 'copied: kubectl describe webservers.skiff.dev broken -n default'`)
	w.delete("broken")
	p.awaitFor(2*time.Second, "it goes again", well)
	p.clean(w.origin(), false)
}

// Names with characters that no name has are refused before they are shown; a reason is any text.
//
// Rules: LP-09, LP-22
func TestHTMLOfALyingServerIsShownAsText(t *testing.T) {
	c, w := newBrowser(t), newWorld(t, "")
	const reason, lie = "TemplateRefused", `<svg/onload=xx>`
	w.mu.Lock()
	w.lie = [2]string{reason, lie}
	w.mu.Unlock()
	w.create("broken", true)
	p := open(t, c, w.page(), options{})
	p.await("the reason", shows("owners", lie))
	p.call("Page.navigate", map[string]any{"url": w.page() + "?q=" + url.QueryEscape("<img src=x onerror=x()>")})
	p.await("the search", `document.querySelector('#search')?.value === '<img src=x onerror=x()>' && `+
		`document.querySelector('#live').innerText === 'Live.'`)
	var elements int
	p.eval(`document.querySelectorAll('img,[onload],[onerror]').length`, &elements)
	if elements > 0 {
		t.Error("a text became an element")
	}
	p.clean(w.origin(), false)
}

// Rules: LP-19, LP-26
func TestAnUpdateMovesNeitherFocusNorSelectionNorTheScrollPosition(t *testing.T) {
	c, w := newBrowser(t), newWorld(t, "")
	for i := range 20 {
		w.create(fmt.Sprintf("good-%02d", i), false)
	}
	p := open(t, c, w.page()+"?state=all", options{})
	p.await("20 objects", `document.querySelectorAll('section[data-follows=owners] tr[data-key]').length === 20`)
	p.await("live", live)
	const row = `document.querySelector('tr[data-key*="/good-10/"] a')`
	p.press("/")
	for _, key := range "de" {
		p.press(string(key))
	}
	p.eval(`(() => { const row = `+row+`; row.closest('tr').scrollIntoView(); scrollBy(0, -5); `+
		`getSelection().selectAllChildren(row); window.before = row.getBoundingClientRect().top })()`, nil)
	w.create("a-broken-one", true)
	p.awaitFor(3*time.Second, "the broken object", bad+` && `+shows("owners", "a-broken-one"))
	var state struct {
		Focus, Value, Selection string
		Moved                   float64
	}
	p.eval(`({focus: document.activeElement.id, value: document.querySelector('#search').value, `+
		`selection: getSelection().toString(), moved: `+row+`.getBoundingClientRect().top - window.before})`, &state)
	if state.Focus != "search" || state.Value != "de" || !strings.Contains(state.Selection, "good-10") ||
		state.Moved < -2 || state.Moved > 2 {
		t.Errorf("after the update: %+v", state)
	}
	p.mu.Lock()
	for _, asked := range p.requests {
		if strings.Contains(asked, "/debug/watches") {
			t.Errorf("%s was asked for, and is not on screen", asked)
		}
	}
	p.mu.Unlock()
	p.clean(w.origin(), false)
}

// Rules: LP-26
func TestThePageIsUsedWithTheKeyboardAlone(t *testing.T) {
	c, w := newBrowser(t), newWorld(t, "")
	w.create("broken", true)
	w.create("good", false)
	p := open(t, c, w.page(), options{})
	p.await("the broken object", bad+` && `+shows("owners", "broken"))
	focus := func(what, expression string) {
		t.Helper()
		p.await(what, `(e => `+expression+`)(document.activeElement)`)
	}
	p.press("j")
	focus("j: the first row", `e.closest('tr')?.innerText.includes('broken') && e.matches(':focus-visible') && `+
		`getComputedStyle(e).outlineStyle === 'solid'`)
	p.press("j")
	p.press("k")
	focus("k: back", `e.closest('section').dataset.follows === 'owners'`)
	p.press("/")
	focus("/: search", `e.id === 'search'`)
	p.press("j") // is text here
	focus("j in the search box", `e.value === 'j'`)
	p.press("Escape")
	p.press("?")
	p.await("?: help", `document.querySelector('#help').open`)
	p.press("Escape")
	p.await("Escape: no help", `!document.querySelector('#help').open`)
	p.press("j")
	p.press("Enter")
	p.await("Enter: the object's page", `location.pathname === '/debug/object/WebServer/default/broken' && `+
		`document.querySelector('h1').innerText === 'WebServer default/broken'`)
	p.await("its title", `/^✖ 127\.0\.0\.1:\d+: WebServer default.broken$/.test(document.title)`)
	p.eval(`history.back()`, nil)
	p.await("the page again", `location.pathname === '/debug/' && `+bad)
	p.press("f")
	p.await("f: failed runs only", `location.search.includes('failed=1') && `+shows("timeline", "TemplateRefused"))
	p.press("f")
	p.await("f: all runs", `!location.search.includes('failed=1') && `+shows("timeline", "good"))
	var captions int
	p.eval(`document.querySelectorAll('main table:not(:has(caption)), main table:not(:has(th[scope=col]))').length`,
		&captions)
	if captions > 0 {
		t.Errorf("%d tables have no caption or no header cells", captions)
	}
	p.clean(w.origin(), false)
}

// Rules: LP-26
func TestEachKeyOfTheHelpDoesWhatTheHelpSays(t *testing.T) {
	t.Parallel()
	c, w := newBrowser(t), newWorld(t, "")
	w.create("broken", true)
	w.create("good", false)
	p := open(t, c, w.page()+"?state=all", options{})
	const unfolded = `document.querySelector('tr.more')?.innerText.includes('Deployment good') === true`
	p.await("both objects", live+` && document.querySelectorAll('section[data-follows=owners] tr[data-key]').length === 2`)
	p.await("its children", shows("owners", "2 of 2 ready"))
	p.press("j")
	p.press("c")
	p.await("c: the command of the row", `document.querySelector('#said').innerText.startsWith('copied: kubectl describe')`)
	p.press("j")
	p.press("o")
	p.await("o: unfolded, where it is", unfolded+` && document.activeElement.innerText.includes('good') && `+
		`location.search.includes('open=')`)
	p.press("o")
	p.await("o: folded", `!(`+unfolded+`)`)
	p.await("all is well in the queue", `!document.querySelector('#queue').closest('details').open`)
	for key, place := range map[string]string{"q": "queue", "w": "watches", "t": "timeline", "o": "owners"} {
		p.press("g")
		p.press(key)
		p.await("g "+key, `document.activeElement.id === '`+place+`' && `+
			`document.querySelector('#`+place+`').closest('details')?.open !== false`)
	}
	p.press("1")
	p.await("1: the first of the states", `location.search === '?state=attention' && `+bad+` && `+live)
	p.press("j")
	p.press("Enter")
	p.await("an object's page", `location.pathname === '/debug/object/WebServer/default/broken' && `+live)
	p.press("c")
	p.await("c: the command of the page", `document.querySelector('#said').innerText.startsWith('copied: kubectl describe')`)
	p.press("?")
	p.press("Escape")
	p.await("Escape closes the help alone", `!document.querySelector('#help').open && location.pathname !== '/debug/'`)
	for _, key := range []string{"Escape", "u"} {
		p.press(key)
		p.await(key+": all objects", `location.pathname === '/debug/' && `+bad+` && `+live)
		p.call("Page.navigate", map[string]any{"url": w.page() + "timeline"})
		p.await("the timeline alone", `location.pathname === '/debug/timeline' && `+live)
	}
	p.clean(w.origin(), false)
}

// Rules: LP-12, LP-20
func TestTheListOpensWithWhatIsBrokenAndIsFilteredAsOneTypes(t *testing.T) {
	t.Parallel()
	c, w := newBrowser(t), newWorld(t, "")
	for _, name := range []string{"good-one", "good-two"} {
		w.create(name, false)
	}
	w.create("broken", true)
	p, plain := open(t, c, w.page(), options{}), open(t, c, w.page()+"?q=two", options{noScript: true})
	rows := func(names string) string {
		return `[...document.querySelectorAll('section[data-follows=owners] tr[data-key]')].map(row => ` +
			`row.dataset.key.split('/')[2]).sort().join(' ') === '` + names + `'`
	}
	p.await("the broken one alone", bad+" && "+rows("broken")+" && "+live)
	p.press("/")
	for _, key := range "two" {
		p.press(string(key))
	}
	p.await("the one that is searched", rows("good-two")+` && location.search === '?q=two'`)
	w.create("good-two-again", false)
	p.await("another one, as it appears", rows("good-two good-two-again"))
	plain.await("the same without a script", rows("good-two good-two-again")+
		` && getComputedStyle(document.querySelector('#filter button')).display !== 'none'`)
	p.eval(`(() => { const list = document.querySelector('#kind'); document.querySelector('#search').value = ''; `+
		`list.value = 'WebServer'; list.dispatchEvent(new Event('input', {bubbles: true})) })()`, nil)
	p.await("all of a kind", rows("broken good-one good-two good-two-again")+
		` && document.querySelector('#kind').value === 'WebServer'`)
	p.clean(w.origin(), false)
}

// content is an expression of what a tab shows: times and charts go on, and attributes that only the script uses do
// not count.
const content = `(() => { const main = document.querySelector('main').cloneNode(true); ` +
	`for (const e of main.querySelectorAll('time,figure,td.n,p.dim')) e.remove(); return main.innerText })()`

// Rules: LP-20
func TestThePageIsTheSameWithoutScripts(t *testing.T) {
	t.Parallel()
	c, w := newBrowser(t), newWorld(t, "")
	w.create("good", false)
	plain := open(t, c, w.page(), options{noScript: true})
	p := open(t, c, w.page(), options{})
	w.create("broken", true)
	for _, one := range []*tab{p, plain} { // one follows, the other reloads itself every ten seconds
		one.await("the broken object", bad+` && `+shows("owners", "broken")+` && `+shows("timeline", "TemplateRefused"))
	}
	w.await("both are the same", func() bool {
		var a, b string
		if p.try(content, &a) != nil || plain.try(content, &b) != nil { // it is being loaded
			return false
		}
		return a == b && strings.Contains(a, "TemplateRefused")
	})
	p.clean(w.origin(), false)
}

// Rules: LP-27
func TestAPhoneShowsAllOfThePageAndTimesSayWhenExactly(t *testing.T) {
	t.Parallel()
	c, w := newBrowser(t), newWorld(t, "")
	name := strings.Repeat("a-very-long-name-", 3) + "x"
	w.create(name, true)
	long := strings.Repeat("a-word-without-an-end-", 9) + "x"
	w.do(http.MethodPost, webServers, `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"long"},`+
		`"spec":{"image":"nginx:1","template":{"spec":{"containers":[{"name":"`+long[:60]+`","image":"r.example/`+long+
		`:broken","securityContext":{"privileged":true}}]}}}}`)
	for _, path := range []string{"", "object/WebServer/default/" + name, "object/WebServer/default/long"} {
		p := open(t, c, w.page()+path, options{width: 360})
		p.await("the object", `document.querySelector('main').innerText.includes('`+
			path[strings.LastIndex(path, "/")+1:]+`') && `+
			`document.querySelector('main').innerText.includes('TemplateRefused')`)
		var wide struct {
			Page    float64
			Beside  []string
			NoTitle int
		}
		p.eval(`({page: document.documentElement.scrollWidth, `+
			`noTitle: document.querySelectorAll('time:not([title$=Z])').length, `+
			`beside: [...document.querySelectorAll('main *:not(.picture *)')].filter(e => `+
			`e.getBoundingClientRect().right > 360 && e.getBoundingClientRect().width > 0 && `+
			`getComputedStyle(e.parentElement.closest('td') ?? e).textOverflow !== 'ellipsis').map(e => e.outerHTML)})`, &wide)
		if wide.Page > 360 || len(wide.Beside) > 0 || wide.NoTitle > 0 {
			t.Errorf("%q: %+v", path, wide)
		}
		var small []string
		p.eval(`[...document.querySelectorAll('main a,button,input:not([type=hidden]),select,nav a')].filter(e => `+
			`e.checkVisibility() && (e.getBoundingClientRect().height < 24 || /INPUT|SELECT/.test(e.nodeName) && `+
			`parseFloat(getComputedStyle(e).fontSize) < 16)).map(e => e.outerHTML)`, &small)
		if len(small) > 0 {
			t.Errorf("%q: too small for a finger: %q", path, small)
		}
		if path == "" {
			const row = `document.querySelector('.folds tr[data-key*="/default/"]')`
			p.await("the rest of the row is folded", `!`+row+`.querySelector('td[data-is=Age]').checkVisibility()`)
			p.eval(row+`.querySelector('.tap').click()`, nil)
			p.await("it is there on tap", row+`.querySelector('td[data-is=Age]').checkVisibility()`)
		}
		p.clean(w.origin(), false)
	}
	p := open(t, c, w.page(), options{})
	var aligned bool
	p.eval(`[...document.querySelectorAll('td.n,th.n')].every(e => getComputedStyle(e).textAlign === 'right')`,
		&aligned)
	if !aligned {
		t.Error("numbers are not aligned")
	}
	p.clean(w.origin(), false)
}

// Rules: LP-27
func TestEachColumnOfTheObjectsIsInSightOnALaptop(t *testing.T) {
	t.Parallel()
	c, w := newBrowser(t), newWorld(t, "")
	for _, one := range broken {
		w.do(http.MethodPost, one.path, one.body)
	}
	w.create(strings.Repeat("a-long-name-", 4)+"x", true)
	for _, width := range []int{900, pictureWidth, 1200, 1440} {
		p := open(t, c, w.page()+"?state=all", options{width: width})
		for _, text := range []string{"TemplateRefused", "TargetMissing", "NameTaken", "paused"} {
			p.await(text, shows("owners", text))
		}
		var hidden float64 // when the times are long, too
		p.eval(`(() => { skew += 119 * 60000; setTimes(); const table = document.querySelector('#owners ~ .wide'); `+
			`return table.scrollWidth - table.clientWidth })()`, &hidden)
		if hidden > 0 {
			t.Errorf("at a width of %d, %v pixels of the table are out of sight", width, hidden)
		}
		p.clean(w.origin(), false)
	}
}

// Rules: LP-10, LP-19
func TestThePageSaysThatSkiffIsGoneOrHangsAndRecovers(t *testing.T) {
	t.Parallel()
	c, w := newBrowser(t), newWorld(t, "")
	p, other := open(t, c, w.page(), options{}), open(t, c, w.page(), options{})
	for _, one := range []*tab{p, other} {
		one.await("all is well", well+" && "+live)
	}
	w.kill()
	for _, one := range []*tab{p, other} { // one of them has the stream
		one.awaitFor(15*time.Second, "skiff is gone", lost)
	}
	w.restart()
	w.create("broken", true)
	for _, one := range []*tab{p, other} {
		one.awaitFor(15*time.Second, "skiff is back", bad+" && "+live+" && "+shows("owners", "TemplateRefused"))
	}
	if err := w.skiff.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.awaitFor(15*time.Second, "skiff hangs", lost)
	if err := w.skiff.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.awaitFor(15*time.Second, "skiff goes on", bad+" && "+live)
	p.clean(w.origin(), true)
}

// Rules: LP-10
func TestThePageSaysThatTheAPIServerHangs(t *testing.T) {
	t.Parallel()
	c, w := newBrowser(t), newWorld(t, "")
	p := open(t, c, w.page(), options{})
	p.await("all is well", well+" && "+live)
	if err := w.dev.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// The manager's tests hold 30 s, where no other program takes time from skiff; here it takes about 25 s.
	took := p.awaitFor(2*time.Minute, "the API server hangs", bad+` && `+shows("state", "no answer from"))
	t.Logf("it took %s", took.Round(time.Second))
	if err := w.dev.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.awaitFor(30*time.Second, "it answers again", well)
	p.clean(w.origin(), false)
}
