package fakeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/fakeapi/store"
)

// Rules: FI-01
func TestAFaultRepliesInsteadOfTheServer(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		w.s.Inject(Fault{Verb: "list", Resource: "configmaps", Skip: 1, Times: 2, Reply: &Reply{Code: 429, Reason: "TooManyRequests", Message: "slow down", RetryAfter: "7"}})
		w.must(200, "GET", configMaps, "")
		w.must(200, "GET", "/api/v1/secrets", "") // another resource
		if a := w.must(429, "GET", configMaps, ""); a.header.Get("Retry-After") != "7" || a.at("reason") != "TooManyRequests" {
			t.Error(a.raw)
		}
		w.must(429, "GET", configMaps, "")
		w.must(200, "GET", configMaps, "")
		remove := w.s.Inject(Fault{UserAgent: "test/", Reply: &Reply{Code: 502, Body: "<html>bad gateway</html>", ContentType: "text/html"}})
		if a := w.must(502, "GET", "/version", ""); a.header.Get("Content-Type") != "text/html" || a.raw != "<html>bad gateway</html>" {
			t.Error(a.raw)
		}
		remove()
		w.s.Inject(Fault{Path: "/version", Times: 1, Reply: &Reply{Code: 503, Empty: true}})
		if a := w.must(503, "GET", "/version", ""); a.raw != "" {
			t.Error(a.raw)
		}
		w.must(200, "GET", "/version", "")
		hits := 0
		w.s.Inject(Fault{Path: "/version", Probability: 0.5, Reply: &Reply{Code: 500}})
		for range 100 {
			if w.do("GET", "/version", "").code == 500 {
				hits++
			}
		}
		if hits < 20 || hits > 80 {
			t.Errorf("hit %d of 100 with probability 0.5", hits)
		}
	})
}

// request does a request that may fail and returns the body as far as it came.
func (w *world) request(ctx context.Context, method, path, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, PipeURL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// Rules: FI-02
func TestAFaultDelaysStallsAndCuts(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		ctx := w.t.Context()
		start := time.Now()
		w.s.Inject(Fault{Path: "/version", Times: 1, Delay: 5 * time.Second})
		if w.must(200, "GET", "/version", ""); time.Since(start) != 5*time.Second {
			t.Errorf("delayed by %v", time.Since(start))
		}
		w.create(configMaps, "slow")
		w.s.Inject(Fault{Verb: "watch", Times: 1, Watch: WatchFault{EventDelay: 3 * time.Second}})
		start = time.Now()
		watch := w.watch(configMaps + "?watch=1")
		if watch.next(); time.Since(start) != 3*time.Second {
			t.Errorf("the event came after %v", time.Since(start))
		}
		watch.close()
		// CutBefore leaves the world as it was, CutAfter does not, and the client cannot tell. net/http itself repeats only what is safe.
		remove := w.s.Inject(Fault{Verb: "create", Cut: CutBefore})
		if _, err := w.request(ctx, "POST", configMaps, configMap("a")); err == nil {
			t.Error("a cut before processing got an answer")
		}
		remove()
		w.must(404, "GET", configMaps+"/a", "")
		remove = w.s.Inject(Fault{Verb: "create", Cut: CutAfter})
		if _, err := w.request(ctx, "POST", configMaps, configMap("a")); err == nil {
			t.Error("a cut before the answer got an answer")
		}
		remove()
		w.must(200, "GET", configMaps+"/a", "")
		w.s.Inject(Fault{Verb: "get", Name: "a", Times: 1, Cut: CutBody, At: 10})
		if body, err := w.request(ctx, "GET", configMaps+"/a", ""); err == nil || len(body) != 10 {
			t.Errorf("cut at byte 10: %q, %v", body, err)
		}
		for _, f := range []Fault{{Verb: "get", Name: "a", Times: 1, Cut: StallBody, At: 10}, {Verb: "get", Name: "a", Times: 1, Cut: Blackhole}} {
			w.s.Inject(f)
			short, cancel := context.WithTimeout(ctx, time.Minute)
			start = time.Now()
			if _, err := w.request(short, "GET", configMaps+"/a", ""); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
				t.Errorf("stalled: %v after %v", err, time.Since(start))
			}
			cancel()
		}
	})
}

// Rules: FI-04
func TestABlackholeKeepsTheConnectionAndLosesTheBytes(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		last := w.create(configMaps, "a")
		watch := w.watch(configMaps + "?watch=1&resourceVersion=" + last)
		w.pipe.Blackhole(true)
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		if _, err := w.request(ctx, "GET", "/version", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("through the blackhole: %v", err)
		}
		w.pipe.Blackhole(false)
		w.must(200, "GET", "/version", "")
		w.create(configMaps, "b")
		if f := watch.next(); f.Type != "ADDED" {
			t.Errorf("a connection that had nothing to lose: %s", f.Type)
		}
		w.pipe.Blackhole(true)
		if _, err := w.s.storeForTest("c"); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { got <- watch.end() }()
		select {
		case err := <-got:
			t.Errorf("the dead watch ended: %v", err)
		case <-time.After(time.Minute):
		}
		watch.close()
		<-got
	})
}

func TestAFaultSendsByteByByte(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		w.create(configMaps, "a")
		whole := w.must(200, "GET", configMaps+"/a", "").raw
		w.s.Inject(Fault{Chunk: 1})
		if got := w.must(200, "GET", configMaps+"/a", "").raw; got != whole {
			t.Errorf("in pieces: %s", got)
		}
		watch := w.watch(configMaps + "?watch=1")
		if f := watch.next(); f.Type != "ADDED" {
			t.Error(f.Type)
		}
		watch.close()
	})
}

// Rules: FS-44, FI-11
func TestAnAnswerAndItsEventComeInEitherOrder(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		watch := w.watch(configMaps + "?watch=true&resourceVersion=" + fmt.Sprint(w.s.Revision()))
		defer watch.close()
		seen := make(chan time.Time, 100)
		var reader sync.WaitGroup
		reader.Go(func() {
			for range 40 {
				watch.next()
				seen <- time.Now()
			}
		})
		remove := w.s.Inject(Fault{Verb: "create", Probability: 0.5, AnswerDelay: time.Second})
		defer remove()
		first := map[string]int{}
		for i := range 40 {
			answer := w.must(201, "POST", configMaps, configMap(fmt.Sprint("c", i)))
			answered := time.Now()
			synctest.Wait() // virtual time stands still: what is seen now was seen before the answer, or with it
			if event := <-seen; event.Before(answered) {
				first["event"]++
			} else {
				first["answer"]++
			}
			if answer.at("metadata.name") != fmt.Sprint("c", i) {
				t.Error(answer.raw)
			}
		}
		reader.Wait()
		if first["event"] < 5 || first["answer"] < 5 {
			t.Errorf("what came first: %v, want both now and then", first)
		}
		remove()

		// The other way round: the answer is there long before the event.
		slow := w.s.Inject(Fault{Verb: "watch", Watch: WatchFault{EventDelay: time.Second}})
		late := w.watch(configMaps + "?watch=true&resourceVersion=" + fmt.Sprint(w.s.Revision()))
		defer late.close()
		slow()
		w.must(201, "POST", configMaps, configMap("late"))
		answered := time.Now()
		if late.next(); time.Since(answered) != time.Second {
			t.Errorf("the event came %v after the answer, want a second", time.Since(answered))
		}
	})
}

// Rules: FS-44
func TestAllWatchersSeeAllCommitsInOneOrder(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		const writers, writes = 8, 25
		from := fmt.Sprint(w.s.Revision())
		var all sync.WaitGroup
		orders := make([]string, 3)
		for i := range orders {
			watch := w.watch(configMaps + "?watch=true&resourceVersion=" + from)
			all.Go(func() {
				defer watch.close()
				last := int64(0)
				for range writers * writes {
					f := watch.next()
					v, err := strconv.ParseInt(fmt.Sprint(f.at("metadata.resourceVersion")), 10, 64)
					if err != nil || v <= last {
						t.Errorf("version %d after %d: %v", v, last, err)
					}
					last = v
					orders[i] += fmt.Sprint(f.Type, f.at("metadata.name"), f.at("data.n"), " ")
				}
			})
		}
		for i := range writers {
			all.Go(func() {
				name := fmt.Sprint("c", i)
				w.must(201, "POST", configMaps, configMap(name))
				for n := 1; n < writes; n++ { // each write builds upon the one before: no answer may be older than its own commit
					was := w.must(200, "GET", configMaps+"/"+name, "")
					body := obj.Clone(was.body)
					obj.Set(body, fmt.Sprint(n), "data", "n")
					w.must(200, "PUT", configMaps+"/"+name, string(marshal(body)))
				}
			})
		}
		all.Wait()
		if orders[0] != orders[1] || orders[0] != orders[2] {
			t.Error("the watchers saw different orders")
		}
	})
}

func TestATokenCanBeReplacedAtAnyTime(t *testing.T) {
	inWorld(t, Options{Token: "first"}, func(w *world) {
		first, second := []string{"Authorization", "Bearer first"}, []string{"Authorization", "Bearer second"}
		watch := w.watch(configMaps+"?watch=true", first...)
		defer watch.close()
		w.s.SetToken("second")
		if a := w.must(401, "GET", configMaps, "", first...); a.at("reason") != "Unauthorized" {
			t.Error(a.raw)
		}
		w.must(201, "POST", configMaps, configMap("a"), second...)
		if f := watch.next(); f.at("metadata.name") != "a" {
			t.Errorf("the watch that was open: %v", f)
		}
	})
}

// Rules: FI-08, FS-43
func TestABackupBringsBackTheObjectsAndTheirVersions(t *testing.T) {
	withWidgets(t, func(w *world) {
		kept := w.must(201, "POST", configMaps, configMap("kept"))
		backup, at := w.s.Snapshot(), w.s.Revision()
		w.must(200, "PATCH", configMaps+"/kept", `{"data":{"a":"c"}}`, "Content-Type", "application/merge-patch+json")
		w.create(configMaps, "lost1", "lost2", "lost3")
		w.must(200, "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com", "")
		future := w.s.Revision()
		open := w.watch(configMaps + "?watch=true&resourceVersion=" + fmt.Sprint(future))

		w.s.Restore(backup)
		if err := open.end(); err != io.EOF {
			t.Errorf("the open watch: %v, want its end", err)
		}
		if now := w.s.Revision(); now != at {
			t.Errorf("revision %d, want %d", now, at)
		}
		if o := w.must(200, "GET", configMaps+"/kept", ""); o.raw != kept.raw {
			t.Errorf("%s, want %s", o.raw, kept.raw)
		}
		if names := itemNames(w.must(200, "GET", configMaps, "")); names != "kept" {
			t.Errorf("objects %s", names)
		}
		synctest.Wait()
		w.must(201, "POST", widgetPath, widget("a", `{"image":"x"}`))

		// A watch from the lost future is silent, bookmarks too, until that is the past again.
		silent := w.watch(configMaps + "?watch=true&allowWatchBookmarks=true&resourceVersion=" + fmt.Sprint(future))
		defer silent.close()
		time.Sleep(5 * time.Minute)
		i := 0
		for ; w.s.Revision() <= future; i++ {
			w.create(configMaps, fmt.Sprint("new", i))
		}
		w.create(configMaps, "heard")
		for f := silent.next(); f.at("metadata.name") != "heard"; f = silent.next() {
			if name := fmt.Sprint(f.at("metadata.name")); f.Type != "ADDED" || name != fmt.Sprint("new", i-1) {
				t.Errorf("%s %s from a watch of the lost future", f.Type, name)
			}
		}
		w.must(410, "GET", configMaps+"?resourceVersionMatch=Exact&resourceVersion="+fmt.Sprint(at-1), "")
	})
}

// Rules: FI-09
func TestBookmarksComeInEachBadForm(t *testing.T) {
	for mode, want := range map[BookmarkMode]string{
		BookmarksAsUsual:   "ADDED, mark ConfigMap, 5m0s, 9m57s",
		BookmarksNever:     "ADDED, end",
		BookmarksAtEnd:     "ADDED, mark ConfigMap, 9m57s",
		BookmarksOfAnother: "ADDED, mark Bookmark, 5m0s, 9m57s",
		BookmarksUnmarked:  "ADDED, bookmark ConfigMap, 5m0s, 9m57s",
		BookmarksBehind:    "ADDED, mark ConfigMap behind, 5m0s, 9m57s",
	} {
		inWorld(t, Options{BookmarkInterval: 5 * time.Minute}, func(w *world) {
			w.create(configMaps, "a")
			w.s.Inject(Fault{Verb: "watch", Watch: WatchFault{Bookmarks: mode}})
			watch := w.watch(configMaps + "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=599")
			defer watch.close()
			began := time.Now()
			got := []string{watch.next().Type}
			time.Sleep(time.Second)
			w.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"elsewhere"}}`) // so that later bookmarks have something to say
			for {
				var f frame
				if err := watch.dec.Decode(&f); err != nil {
					break
				}
				if at := time.Since(began).Round(time.Second); at > time.Second {
					got = append(got, at.String())
					continue
				}
				text := "bookmark"
				if obj.String(f.Object, "metadata", "annotations", "k8s.io/initial-events-end") == "true" {
					text = "mark"
				}
				if text += " " + fmt.Sprint(f.at("kind")); f.at("metadata.resourceVersion") == "1" {
					text += " behind"
				}
				got = append(got, text)
			}
			if len(got) == 1 {
				got = append(got, "end")
			}
			if text := strings.Join(got, ", "); text != want {
				t.Errorf("mode %d: %s, want %s", mode, text, want)
			}
		})
	}
}

// Rules: FI-06
func TestHistoryCanBeTakenAwayAtAnyTime(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		first := w.create(configMaps, "a", "b", "c")
		token := fmt.Sprint(w.must(200, "GET", configMaps+"?limit=1", "").at("metadata.continue"))
		w.s.ExpireContinueTokens()
		w.must(410, "GET", configMaps+"?continue="+token, "")
		time.Sleep(time.Second)
		token = fmt.Sprint(w.must(200, "GET", configMaps+"?limit=1", "").at("metadata.continue"))
		open := w.watch(configMaps + "?watch=1&resourceVersion=" + first)
		w.create(configMaps, "d")
		open.next()
		w.s.Compact()
		w.must(410, "GET", configMaps+"?continue="+token, "")
		watch := w.watch(configMaps + "?watch=1&resourceVersion=" + first)
		if f := watch.next(); f.Type != "ERROR" || f.at("code") != float64(410) {
			t.Errorf("after compaction: %v", f)
		}
		w.create(configMaps, "e")
		if f := open.next(); f.Type != "ADDED" {
			t.Errorf("a watch that was up to date got %v", f)
		}
		open.close()
	})
}

func TestEventsCanBeDoubledReplayedStrangeOrPoisoned(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		last := w.create(configMaps, "0")
		w.create(configMaps, "a", "b")
		path := configMaps + "?watch=1&resourceVersion=" + last
		read := func(f Fault, n int) []frame {
			f.Verb, f.Times = "watch", 1
			w.s.Inject(f)
			watch := w.watch(path)
			defer watch.close()
			var out []frame
			for range n {
				out = append(out, watch.next())
			}
			return out
		}
		for want, f := range map[string]WatchFault{
			"ADDED a, ADDED a, ADDED b, ADDED b":   {Duplicate: true},
			"ADDED a, ADDED b, ADDED a":            {Replay: true},
			"HELLO a, ADDED a, HELLO b, ADDED b":   {UnknownType: true},
			"ADDED a, ERROR":                       {After: 1, End: EndWithError, EndError: ErrorArg{Code: 500, Reason: "InternalError"}},
			"ADDED a, ADDED b, BOOKMARK, BOOKMARK": {Bookmarks: BookmarksStorm},
		} {
			path = configMaps + "?watch=1&allowWatchBookmarks=1&resourceVersion=" + last
			if got := eventNames(read(Fault{Watch: f}, strings.Count(want, ",")+1)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		frames := read(Fault{Rewrite: Poison("a")}, 2)
		if frames[0].at("spec") != "poison" || frames[1].at("spec") != nil {
			t.Errorf("poison: %v", frames)
		}
		if huge := read(Fault{Rewrite: Huge(3 << 20)}, 1)[0].at("metadata.annotations.huge"); len(fmt.Sprint(huge)) != 3<<20 {
			t.Errorf("huge is %d bytes", len(fmt.Sprint(huge)))
		}
		for end, wantEOF := range map[End]bool{EndCleanly: true, EndCut: false, EndMidFrame: false} {
			w.s.Inject(Fault{Verb: "watch", Times: 1, Watch: WatchFault{After: 1, End: end}})
			watch := w.watch(path)
			if f := watch.next(); f.at("metadata.name") != "a" {
				t.Errorf("end %d: first event %v", end, f)
			}
			if err := watch.end(); (err == io.EOF) != wantEOF {
				t.Errorf("end %d: %v", end, err)
			}
		}
	})
}

// Rules: FI-18
func TestRequestsAreRecorded(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		w.must(404, "GET", configMaps+"/a?x=y", "")
		watch := w.watch(configMaps + "?watch=1")
		all := w.s.Requests()
		if len(all) != 2 || all[0].Path != configMaps+"/a" || all[0].Status != 404 || all[0].UserAgent != "test/1" || all[0].Query.Get("x") != "y" || all[0].Done.IsZero() {
			t.Errorf("recorded %+v", all)
		}
		if !all[1].Watch() || !all[1].Done.IsZero() {
			t.Errorf("the running watch is recorded as %+v", all[1])
		}
		watch.close()
		w.s.ForgetRequests()
		if n := len(w.s.Requests()); n != 0 {
			t.Errorf("%d requests after forgetting", n)
		}
	})
}

// storeForTest writes past HTTP, where no connection works.
func (s *Server) storeForTest(name string) (string, error) {
	r := &request{kind: s.registry.find("", "v1", "configmaps"), namespace: "default", verb: "create", Request: &http.Request{Header: http.Header{}}}
	var version string
	err := s.store.Update(func(tx *store.Tx) error {
		o, err := s.insert(tx, r, map[string]any{"metadata": map[string]any{"name": name}}, origin{manager: "test"})
		if err == nil {
			version = fmt.Sprint(o.Revision)
		}
		return err
	})
	return version, err
}
