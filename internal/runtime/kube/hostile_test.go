package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// hostileFrames are watch frames that no API server sends.
var hostileFrames = []string{
	`{"type":"X","object":{},"type":"ADDED"}`,
	`{"object":{},"object":{"metadata":{"name":"a"}},"type":"ADDED"}`,
	`{"type":"ADDED","object":{"metadata":{"name":"a"}},"object":null}`,
	`{"type":"ADDED","object":{"kind":"Secret","metadata":{"name":"a"}}}`,
	`{"type":"BOOKMARK","object":{"metadata":[]}}`, `{"type":"ERROR","object":[]}`, `{"type":[],"object":{}}`,
	`{"type":"ADDED","object":{"metadata":{"name":" "}}}`, `{"type":"ADDED","object":{"metadata":{"name":"../../x"}}}`,
	`{"type":"ADDED","object":{"metadata":{"name":"\u001b]52;c;aGk=\u0007"},"spec":7}}`,
	`{"type":"ADDED","object":{"metadata":{"name":"a"},"x":` + strings.Repeat("[", 9_998) + strings.Repeat("]", 9_998) + `}}`,
	`{"type":"ADDED","object":{"metadata":{"name":"a","labels":{` + strings.Repeat(`"k":"v",`, 5_000) + `"k":"v"}}}}`,
	`{"type":"ADDED","object":{"metadata":{"name":"a","generation":` + strings.Repeat("9", 5_000) + `}}}`,
	`{"type":"ADDED","object":{"` + strings.Repeat("k", 100_000) + `":` + strings.Repeat(`{"x":`, 500) + "1" + strings.Repeat("}", 500) + `}}`,
}

func TestAHostileFrameIsOneBadObject(t *testing.T) {
	for _, in := range hostileFrames {
		got := tell(strings.NewReader(in + frame("ADDED", item("next", "7"))))
		if !strings.HasSuffix(got, "ADDED next 7, EOF") && !strings.Contains(got, "broken: decode ") {
			t.Errorf("%.60s: got %.200s", in, got)
		}
	}
	if got := tell(strings.NewReader(hostileFrames[0])); got != "X bad , EOF" {
		t.Errorf("a frame with two types: got %s", got)
	}
}

func TestAnObjectWhoseNameIsNoNameIsBad(t *testing.T) {
	for _, name := range []string{" ", "..", "a/b", "a%2fb", ""} {
		if got := tell(strings.NewReader(frame("ADDED", item(name, "1")))); !strings.HasPrefix(got, "ADDED bad ") {
			t.Errorf("%q: got %s", name, got)
		}
	}
}

func TestObjectsThatWereNotAskedForAreBad(t *testing.T) {
	with := func(object, old, new string) string { return strings.Replace(object, old, new, 1) }
	labelled := func(name, app string) string {
		return with(item(name, "1"), `"name"`, `"labels":{"app":"`+app+`"},"name"`)
	}
	const unselected = "its labels are not those that were asked for"
	for _, tc := range []struct {
		q      Query
		object string
		why    string // "": it is asked for
	}{
		{Query{Namespace: "default"}, item("a", "1"), ""},
		{Query{Namespace: "default"}, with(item("a", "1"), `{`, `{"kind":"Pod",`), ""},
		{Query{}, with(item("a", "1"), `{`, `{"kind":"Secret",`), `it is of kind "Secret", want Pod`},
		{Query{Namespace: "default"}, with(item("a", "1"), `"default"`, `"kube-system"`),
			"it is not in the namespace default, which was asked for"},
		{Query{}.Object("a"), item("a", "1"), ""},
		{Query{}.Object("a"), item("b", "1"), "its name is not a, which was asked for"},
		{Query{FieldSelector: "metadata.name==a,x=y"}, item("b", "1"), "its name is not a, which was asked for"},
		{Query{LabelSelector: "app=web"}, labelled("a", "web"), ""},
		{Query{LabelSelector: "app=web"}, labelled("a", "shop"), unselected},
		{Query{LabelSelector: "app=web"}, item("a", "1"), unselected},
	} {
		tc.q.Resource = pods
		if tc.q.LabelSelector != "" {
			tc.q.Selects = func(l Labels) bool { app, _ := l.Get("app"); return app == "web" }
		}
		c := pipeClient(t, answer(200, podList("20", "", tc.object)))
		list, err := List[*pod](t.Context(), c, tc.q, ListOptions{})
		if err != nil || len(list.Bad) > 0 != (tc.why != "") || tc.why != "" && list.Bad[0].Err.Error() != tc.why {
			t.Errorf("a list with %s: bad %v, %v, want %q", tc.object, list.Bad, err, tc.why)
		}
		c = pipeClient(t, answer(200, frame("ADDED", tc.object)+frame("DELETED", tc.object)))
		st, err := Watch[*pod](t.Context(), c, tc.q, WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, typ := range []EventType{Added, Deleted} {
			want := tc.why
			if typ == Deleted && want == unselected { // it has left the selector, and may come with its new labels
				want = ""
			}
			_, err := st.Next()
			if (err != nil) != (want != "") || err != nil && !strings.HasSuffix(err.Error(), ": "+want) {
				t.Errorf("%s of %s: got %v, want %q", typ, tc.object, err, want)
			}
		}
		_ = st.Close()
	}
}

func TestAListItemThatIsNestedVeryDeepCostsOnlyItself(t *testing.T) {
	deep := strings.Repeat("[", 9_998) + strings.Repeat("]", 9_998)
	type kept struct {
		Meta `json:"metadata"`
		Spec Raw `json:"spec"`
	}
	bad := `{"metadata":{"name":"deep"},"spec":` + deep + `}`
	ignored := `{"metadata":{"name":"ignored"},"other":` + deep + `}`
	c := tlsClient(t, answer(200, podList("20", "", item("a", "1"), bad, ignored, item("b", "1"))))
	got, err := List[*kept](t.Context(), c, Query{Resource: pods}, ListOptions{})
	if err != nil || len(got.Items) != 3 || len(got.Bad) != 1 || got.Bad[0].Key.Name != "deep" {
		t.Errorf("got %d items and bad %v, %v", len(got.Items), got.Bad, err)
	}
}

func TestABufferShrinksAgainAfterALargeObject(t *testing.T) {
	type kept struct {
		Meta `json:"metadata"`
		Spec string `json:"spec"`
	}
	large := `{"metadata":{"name":"large"},"spec":"` + strings.Repeat("x", 3<<20) + `"}`
	in := frame("ADDED", large) + strings.Repeat(frame("ADDED", item("a", "1")), 2*keptFrames)
	s := newScanner(strings.NewReader(in))
	largest := 0
	for range 1 + 2*keptFrames {
		if _, err := nextEvent[*kept](s); err != nil {
			t.Fatal(err)
		}
		largest = max(largest, len(s.buf))
	}
	if largest < 3<<20 || len(s.buf) > bulkBuffer {
		t.Errorf("the buffer grew to %d bytes and is %d now, want at most %d", largest, len(s.buf), bulkBuffer)
	}
}

// Rules: WRT-19
func TestRetryAfterIsClampedAndNeverNegative(t *testing.T) {
	for _, header := range []string{"9223372037", "9223372036854775807", "99999999999999999999", "-1",
		"-99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		for _, details := range []string{"", `,"details":{"retryAfterSeconds":9223372037}`, `,"details":{"retryAfterSeconds":-7}`} {
			c := tlsClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", header)
				failure(429, "TooManyRequests", details)(w, r)
			}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := c.Get(ctx, pods, Key{"default", "a"}, nil)
			cancel()
			if d := RetryAfter(err); d < 0 || d > MaxRetryAfter || AsStatus(err) == nil {
				t.Errorf("%s with %q: wait %s, %v", header, details, d, err)
			}
		}
	}
}

func TestAShortAnswerWithoutEndIsCutOff(t *testing.T) {
	for name, length := range map[string]string{"chunked": "", "announced": strconv.Itoa(3 << 30)} {
		t.Run(name, func(t *testing.T) {
			most := uint64(150)
			if length != "" {
				most = 10 // nothing of it is read
			}
			c := pipeClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				block := []byte(`{"x":"` + strings.Repeat("x", 1<<20))
				for {
					if _, err := w.Write(block); err != nil {
						return
					}
				}
			}))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := c.Patch(t.Context(), pods, Key{"default", "a"}, MergePatch, 1, nil, WriteOptions{})
			runtime.ReadMemStats(&after)
			if !errors.Is(err, errLongAnswer) || !UnknownOutcome(err) {
				t.Errorf("got %v", err)
			}
			if total := (after.TotalAlloc - before.TotalAlloc) >> 20; total > most {
				t.Errorf("%d MiB were allocated, want at most %d", total, most)
			}
		})
	}
}

func TestContinueTokensThatNeverEndAreAnError(t *testing.T) {
	page := 0
	for name, tc := range map[string]struct {
		answer func() string
		say    string
	}{
		"the same token": {func() string { return podList("20", "same", item("a", "1")) }, "came twice"},
		"two tokens in turn": {func() string { page++; return podList("20", strconv.Itoa(page%2), item("a", "1")) },
			"came twice"},
		"empty pages": {func() string { page++; return podList("20", strconv.Itoa(page)) },
			"pages have brought 0 objects"},
		"pages of one object": {func() string { page++; return podList("20", strconv.Itoa(page), item("a", "1")) },
			"pages have brought"},
		"a very long token": {func() string { return podList("20", strings.Repeat("x", 1<<20), item("a", "1")) },
			"longer than 16 KiB"},
	} {
		s := scripted(func(w http.ResponseWriter, r *http.Request) { answer(200, tc.answer())(w, r) })
		_, err := listPods(t, s, ListOptions{})
		if err == nil || !strings.Contains(err.Error(), tc.say) || len(s.requests()) > 2*thinPages {
			t.Errorf("%s: got %v after %d requests", name, err, len(s.requests()))
		}
	}
}

func TestAListThatComesAByteASecondIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			body := podList("20", "", item("a", "1"), `"`+strings.Repeat("x", 10_000)+`"`)
			for i := range body {
				if _, err := io.WriteString(w, body[i:i+1]); err != nil || r.Context().Err() != nil {
					return
				}
				w.(http.Flusher).Flush()
				time.Sleep(time.Second)
			}
		}))
		began := time.Now()
		_, err := List[*pod](t.Context(), c, Query{Resource: pods}, ListOptions{})
		if took := time.Since(began); !errors.Is(err, ErrIdle) || took > 3*listIdle {
			t.Errorf("got %v after %s", err, took)
		}
		time.Sleep(5 * time.Second) // the handler notices
	})
}

func TestInitialEventsThatComeInDropsAreEndedAndAQuietWatchIsNot(t *testing.T) {
	const quiet = 10 * time.Minute
	endMark := frame("BOOKMARK", `{"metadata":{"resourceVersion":"20","annotations":{"k8s.io/initial-events-end":"true"}}}`)
	for name, tc := range map[string]struct {
		initial string
		ended   time.Duration // at most
	}{
		"an event every 20 s": {"", 2 * listIdle},
		"the end at once":     {endMark, quiet},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := pipeClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, err := io.WriteString(w, tc.initial)
				for i := 0; err == nil && r.Context().Err() == nil && i < 20; i++ {
					if tc.initial == "" || i == 0 {
						_, err = io.WriteString(w, frame("ADDED", item(fmt.Sprint("a", i), fmt.Sprint(21+i))))
					}
					w.(http.Flusher).Flush()
					time.Sleep(20 * time.Second)
				}
				<-r.Context().Done()
			}))
			s, err := Watch[*pod](t.Context(), c, Query{Resource: pods},
				WatchOptions{SendInitialEvents: true, IdleTimeout: quiet})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			began := time.Now()
			for err == nil {
				_, err = s.Next()
			}
			took := time.Since(began).Round(time.Second)
			if !errors.Is(err, ErrIdle) || took > tc.ended || tc.ended == quiet && took < quiet {
				t.Errorf("%s: got %v after %s", name, err, took)
			}
			s.Close()
			time.Sleep(time.Minute) // the handler notices
		})
	}
}

func TestTheEndOfInitialEventsThatWereNotAskedForIsAnOrdinaryBookmark(t *testing.T) {
	mark := frame("BOOKMARK", `{"metadata":{"resourceVersion":"20","annotations":{"k8s.io/initial-events-end":"true"}}}`)
	for name, o := range map[string]WatchOptions{
		"without an idle timeout": {},
		"with one":                {IdleTimeout: time.Minute},
		"a second time":           {SendInitialEvents: true},
	} {
		st, err := Watch[*pod](t.Context(), tlsClient(t, answer(200, mark+mark+frame("ADDED", item("a", "21")))),
			Query{Resource: pods}, o)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		got := tellEvents(st.Next)
		want := "BOOKMARK  20, BOOKMARK  20, ADDED a 21, EOF"
		if o.SendInitialEvents {
			want = strings.Replace(want, "20", "20 end", 1)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestWorkersKeepTheirConnectionsOverHTTP1(t *testing.T) {
	const workers, rounds = 20, 5
	var dials counter
	var together sync.WaitGroup
	c := pipeClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		together.Done()
		together.Wait() // all workers have a connection of their own
		answer(200, item("a", "1"))(w, r)
	}), func(cfg *Config) { cfg.DialContext = dials.count(cfg.DialContext) })
	for range rounds {
		together.Add(workers)
		var running sync.WaitGroup
		for range workers {
			running.Go(func() {
				if err := c.Get(t.Context(), pods, Key{"default", "a"}, nil); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
	}
	if n := dials.n.Load(); n > workers+workers/2 {
		t.Errorf("%d connections were opened for %d workers", n, workers)
	}
}

func TestWhatOthersWroteIsPrintedOnOneLineWithoutControlCharacters(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                      "plain",
		"grün 日本 – ok":               "grün 日本 – ok",
		"\x1b]52;c;aGk=\x07":         `\x1b]52;c;aGk=\x07`,
		"a\x1b[2Jb\u009b2Jc":         `a\x1b[2Jb\u009b2Jc`,
		"one\nlevel=0 forged\r\tend": "one level=0 forged  end",
		"abc\u202etxt.exe\u2066":     `abc\u202etxt.exe\u2066`,
		"\xff\xfe":                   `\xff\xfe`,
		"\uFFFD":                     "\uFFFD",
		strings.Repeat("ü", 3_000):   strings.Repeat("ü", 2_048) + "...",
	} {
		if got := Text(in); got != want {
			t.Errorf("%.40q: got %.80q, want %.80q", in, got, want)
		}
	}
	c := tlsClient(t, answer(403, `{"kind":"Status","reason":"Forbidden","message":"no\u001b[31m\nforged"}`))
	if err := c.Get(t.Context(), pods, Key{"default", "a"}, nil); !strings.HasSuffix(err.Error(), `: no\x1b[31m forged`) {
		t.Errorf("got %q", err)
	}
}
