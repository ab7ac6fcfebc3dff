package page

import (
	"fmt"
	"html"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/health"
	"skiff/internal/runtime/history"
)

// Rules: LP-21, LP-22, LP-24
func TestOnlyReadersOnThisHostMayReadAndNothingElseIsLoaded(t *testing.T) {
	within(t, Options{Hosts: []string{"skiff.example.com"}}, fails, func(w *world) {
		host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
		header := func(name, value string) func(*http.Request) {
			return func(r *http.Request) { r.Header.Set(name, value) }
		}
		for name, row := range map[string]struct {
			path   string
			change func(*http.Request)
			code   int
		}{
			"localhost":                {"/debug/", host("localhost"), 200},
			"an address":               {"/debug/", host("10.0.0.7:80"), 200},
			"an IPv6 address":          {"/debug/", host("[::1]:80"), 200},
			"a configured name":        {"/debug/", host("skiff.example.com:80"), 200},
			"another name":             {"/debug/", host("evil.example.com"), 421},
			"no name":                  {"/debug/", host(""), 421},
			"data for another name":    {"/debug/state", host("localhost.evil.example.com"), 421},
			"a script of another site": {"/debug/state", header("Sec-Fetch-Site", "cross-site"), 403},
			"a link of another site": {"/debug/", func(r *http.Request) {
				r.Header.Set("Sec-Fetch-Site", "cross-site")
				r.Header.Set("Sec-Fetch-Mode", "navigate")
			}, 200},
			"POST":             {"/debug/", func(r *http.Request) { r.Method = "POST" }, 405},
			"HEAD":             {"/debug/", func(r *http.Request) { r.Method = "HEAD" }, 200},
			"a long URL":       {"/debug/owners?q=" + strings.Repeat("a", 3000), host("localhost"), 414},
			"the first page":   {"/", host("localhost"), 302},
			"nothing":          {"/debug/none", host("localhost"), 404},
			"profiles of Go":   {"/debug/pprof/heap", host("localhost"), 404},
			"another site's":   {"/debug/queue", header("Origin", "http://evil.example.com"), 200},
			"a panel as HTML":  {"/debug/watches", host("localhost"), 200},
			"a search":         {"/debug/owners?q=%3Cscript%3Ealert&after=bad/x", host("localhost"), 200},
			"JSON by a header": {"/debug/queue", header("Accept", "application/json"), 200},
		} {
			a := w.get(row.path, row.change)
			if a.Code != row.code {
				t.Errorf("%s: %d, want %d: %s", name, a.Code, row.code, a.Body)
			}
			policy := a.Header().Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'; script-src 'sha256-") ||
				a.Header().Get("X-Content-Type-Options") != "nosniff" || a.Header().Get("Cache-Control") !=
				"no-store" ||
				a.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: the headers are %v", name, a.Header())
			}
			if strings.Contains(a.Body.String(), "<script>alert") {
				t.Errorf("%s: the search text is part of the page: %s", name, a.Body)
			}
		}
	})
}

// Rules: LP-09
func TestANameOfALyingServerIsNeverHTML(t *testing.T) {
	const evil = `<img src=x onerror=alert(1)>"'`
	var w writer
	showState(&w, State{Banner: Banner{Text: evil}, Leader: evil, Version: evil, OldestAt: time.Now(), OldestOf: evil,
		general: []Trouble{{State: failing, Kind: evil, Namespace: evil, Name: evil, Reason: evil, Step: evil},
			{State: missing, Controller: evil, Namespace: evil, Reason: evil, Step: evil}}}, nil)
	r := httptest.NewRequest(http.MethodGet, "/?q="+url.QueryEscape(evil)+"&kind="+url.QueryEscape(evil), nil)
	showOwners(&w, Owners{All: 1, States: []Count{{degraded, 1}}, Kinds: []Count{{evil, 1}},
		Namespaces: []Count{{evil, 1}}, asked: readFilter(r.URL.Query()), Owners: []Owner{{Trouble: Trouble{
			State: degraded, Kind: evil, Namespace: evil, Name: evil, Reason: evil, Message: evil},
			Conditions: []ConditionWord{{Type: evil, Status: conditions.Status(evil), Reason: evil}}}}, Next: evil}, r)
	run := history.Run{Kind: evil, Namespace: evil, Name: evil, Causes: []string{evil}, Outcome: evil,
		Error:  &history.Error{Reason: evil, Code: 422, Kind: evil, Fields: []string{evil}, Text: evil},
		Writes: []history.Write{{Verb: evil, Object: evil}}}
	showTimeline(&w, Timeline{Object: evil, Runs: []history.Run{run}}, r)
	showQueue(&w, QueueAnswer{Controllers: []Queue{{Controller: evil}}}, r)
	showWatches(&w, WatchAnswer{Watches: []Watch{{Resource: evil, Namespace: evil, Phase: evil, Problem: evil}}}, r)
	showObject(&w, ObjectAnswer{Owner: Owner{Trouble: Trouble{Kind: evil, Name: evil, Reason: evil, Command: evil}}})
	if text := w.String(); strings.Contains(text, "<img") || !strings.Contains(text, html.EscapeString(evil)) {
		t.Errorf("it is HTML in %s", text)
	}
	if strings.Count(w.String(), `"`)%2 != 0 {
		t.Error("a quotation mark of the name ends an attribute")
	}
}

// Rules: LP-10
func TestTheBannerSaysSinceWhenOfAllThatNeedsAttentionAndNotOfTheFirstHundred(t *testing.T) {
	oldest := time.Now().Add(-time.Hour)
	process := func() (all []health.Problem) {
		for i := range maxTroubles {
			all = append(all, health.Problem{Reason: fmt.Sprint("R", i), Since: oldest.Add(time.Minute)})
		}
		return append(all, health.Problem{Reason: "Oldest", Since: oldest})
	}
	s := New(Options{Process: process, Controllers: func() []*controller.Controller { return nil },
		Leader: func() string { return "" }, Contact: time.Now}).State()
	if want := " since " + oldest.UTC().Format("15:04 UTC"); !strings.Contains(s.Banner.Text, want) || s.Omitted != 1 {
		t.Errorf("%d are left out, and the banner is %q, want %q in it", s.Omitted, s.Banner.Text, want)
	}
}

// Rules: LP-10
func TestTheHeadAndTheTitleOfEachPageSayWhichClusterItIs(t *testing.T) {
	const server = "https://10.0.0.1:6443"
	pod := Place{Server: server, Process: "pod skiff-7d9", Namespaces: "a,b"}
	for _, row := range []struct {
		place       Place
		title, head string
	}{
		{Place{"prod-eu", server, "process 7 on box", "all"}, "prod-eu",
			"<b>prod-eu</b> · " + server + " · process 7 on box · all namespaces<"},
		{Place{Server: server}, "10.0.0.1:6443", server},
		{pod, "skiff-7d9", "pod skiff-7d9 · namespaces a,b<"},
	} {
		within(t, Options{Place: row.place}, fails, func(w *world) {
			w.create("ok", nil)
			time.Sleep(time.Second)
			for path, title := range map[string]string{"": "✔ " + row.title + ": All is well.",
				"object/ConfigMap/default/ok": row.title + ": ConfigMap default/ok<"} {
				body := w.get("/debug/" + path).Body.String()
				if !strings.Contains(body, "<title>"+title) || !strings.Contains(body, row.head) {
					t.Errorf("/debug/%s: %q or %q is missing in %s", path, title, row.head, body)
				}
			}
		})
	}
}

// Rules: LP-03
func TestThePageIsOneSmallFileThatKeepsNothingAndLoadsNothing(t *testing.T) {
	within(t, Options{}, fails, func(w *world) {
		answer := w.get("/debug/")
		page := answer.Body.String()
		if len(page) > 60<<10 {
			t.Errorf("it has %d bytes without an object", len(page))
		}
		if len(answer.Header().Values("Set-Cookie")) > 0 {
			t.Error("it sets a cookie")
		}
		for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if !strings.HasPrefix(m[1], "/debug/") && !strings.HasPrefix(m[1], "#") &&
				!strings.HasPrefix(m[1], "data:image/svg+xml,") {
				t.Errorf("it refers to %s", m[1])
			}
		}
		for _, word := range []string{"@import", "url(", "localStorage", "sessionStorage", "indexedDB", "cookie"} {
			if strings.Contains(page, word) {
				t.Errorf("it uses %s", word)
			}
		}
	})
}

// Rules: LP-03
func TestTheScriptIsServedWithoutItsComments(t *testing.T) {
	const source = "'use strict' // as ever\n// A comment.\nif (a) {\n  b('http://x')\n}\n\n// Another.\n"
	if got, want := withoutComments(source), "'use strict'\nif (a) {\nb('http://x')\n}\n"; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
	if strings.Contains(script, "//") || !strings.Contains(script, "\nlisten()\n") {
		t.Errorf("the script is %s", script)
	}
}

// Rules: LP-25
func TestTheColoursHaveEnoughContrastInLightAndDark(t *testing.T) {
	schemes := regexp.MustCompile(`:root\{([^}]*)\}`).FindAllStringSubmatch(style, -1)
	if len(schemes) != 2 {
		t.Fatalf("%d schemes", len(schemes))
	}
	for i, scheme := range schemes {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--(\w+):#([0-9a-f]{3,6})`).FindAllStringSubmatch(scheme[1], -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		for background, texts := range map[string]string{"bg": "fg dim bad warn good run",
			"card": "fg dim bad warn good run", "row": "fg dim bad warn good run", "badbg": "bad", "warnbg": "warn",
			"goodbg": "good"} {
			for _, name := range strings.Fields(texts) {
				a, b := max(colours[name], colours[background]), min(colours[name], colours[background])
				if ratio := (a + 0.05) / (b + 0.05); ratio < 4.5 {
					t.Errorf("scheme %d: %s has a contrast of %.2f on %s", i, name, ratio, background)
				}
			}
		}
	}
}

// Rules: LP-27
func TestWhatIsTypedIntoHasAnEdgeThatIsSeen(t *testing.T) {
	schemes := regexp.MustCompile(`:root\{([^}]*)\}`).FindAllStringSubmatch(style, -1)
	if len(schemes) != 2 {
		t.Fatalf("%d schemes", len(schemes))
	}
	for i, scheme := range schemes {
		of := func(name string) float64 {
			return luminance(t, regexp.MustCompile(`--` + name + `:#([0-9a-f]{3,6})`).FindStringSubmatch(scheme[1])[1]) + 0.05
		}
		for _, background := range []string{"card", "bg"} {
			a, b := of("edge"), of(background)
			if ratio := max(a, b) / min(a, b); ratio < 3 {
				t.Errorf("scheme %d: the edge has a contrast of %.2f on %s", i, ratio, background)
			}
		}
	}
}

// luminance is that of a colour, as WCAG 2 defines it.
func luminance(t *testing.T, hex string) (l float64) {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		l += weight * c
	}
	return l
}
