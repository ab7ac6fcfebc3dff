package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"skiff/internal/testcluster/apiserver/faults"
	"skiff/internal/testcluster/apiserver/store"
)

// Rules: FI-01
func TestAFaultRepliesInsteadOfTheServer(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.s.Inject(Fault{Verb: "list", Resource: "configmaps", Skip: 1, Times: 2,
			Reply: &Reply{Code: 429, Reason: "TooManyRequests", Message: "slow down", RetryAfter: "7"}})
		w.must(200, "GET", configMaps, "")
		w.must(200, "GET", "/api/v1/secrets", "") // another resource
		if a := w.must(429, "GET", configMaps, ""); a.header.Get("Retry-After") != "7" ||
			a.at("reason") != "TooManyRequests" {
			t.Error(a.raw)
		}
		w.must(429, "GET", configMaps, "")
		w.must(200, "GET", configMaps, "")
		remove := w.s.Inject(Fault{UserAgent: "test/", Reply: &Reply{Code: 502, Body: "<html>bad gateway</html>",
			ContentType: "text/html"}})
		if a := w.must(502, "GET", "/version", ""); a.header.Get("Content-Type") != "text/html" ||
			a.raw != "<html>bad gateway</html>" {
			t.Error(a.raw)
		}
		remove()
		w.s.Inject(Fault{Path: "/version", Times: 1, Reply: &Reply{Code: 503, Empty: true}})
		if a := w.must(503, "GET", "/version", ""); a.raw != "" {
			t.Error(a.raw)
		}
		w.s.Inject(Fault{Path: "/version", Times: 1, Reply: &Reply{Code: 503}})
		if a := w.must(503, "GET", "/version", ""); a.at("message") != "injected fault: Service Unavailable" {
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
func (w *testServer) request(ctx context.Context, method, path, body string) (string, error) {
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
	withServer(t, Options{}, func(w *testServer) {
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
		// CutBefore changes nothing, CutAfter does not, and the client cannot tell. net/http itself repeats
		// only what is safe.
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
		for _, f := range []Fault{{Verb: "get", Name: "a", Times: 1, Cut: StallBody, At: 10},
			{Verb: "get", Name: "a", Times: 1, Cut: Blackhole}} {
			w.s.Inject(f)
			short, cancel := context.WithTimeout(ctx, time.Minute)
			start = time.Now()
			if _, err := w.request(short, "GET", configMaps+"/a", ""); !errors.Is(err, context.DeadlineExceeded) ||
				time.Since(start) != time.Minute {
				t.Errorf("stalled: %v after %v", err, time.Since(start))
			}
			cancel()
		}
	})
}

func TestASwitchOfProtocolsHoldsTheConnection(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.s.Inject(Fault{Verb: "create", Times: 1, Cut: Switch})
		req, err := http.NewRequestWithContext(w.t.Context(), "POST", PipeURL+configMaps,
			strings.NewReader(configMap("a")))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := w.client.Do(req)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%v %v", resp, err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := resp.Body.Read(make([]byte, 1))
			ended <- err
		}()
		select {
		case err := <-ended:
			t.Errorf("the connection ended: %v", err)
		case <-time.After(time.Hour):
		}
		resp.Body.Close()
		<-ended
		w.must(404, "GET", configMaps+"/a", "")
	})
}

// With HTTP/2 there is no 101, and the client waits until it has waited enough.
func TestASwitchOfProtocolsIsABlackholeWithHTTP2(t *testing.T) {
	p := newPort(t)
	if resp, _, err := p.do("GET", configMaps, ""); read(resp, err) != nil { // the connection is there from now on
		t.Fatal(err)
	}
	p.s.Inject(Fault{Verb: "list", Times: 1, Cut: Switch})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", p.to+configMaps, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.tr.RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the end of its context", err)
	}
	if resp, _, err := p.do("GET", configMaps, ""); read(resp, err) != nil {
		t.Errorf("the next request: %v", err)
	}
}

// Rules: FI-04
func TestABlackholeLosesBytesAndKeepsTheConnection(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
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

// Rules: FI-05
func TestAFaultSendsByteByByte(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
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

// Rules: FI-06
func TestHistoryCanBeRemovedAtAnyTime(t *testing.T) {
	withServer(t, Options{HistoryAge: time.Hour}, func(w *testServer) {
		first := w.create(configMaps, "a", "b", "c")
		token := fmt.Sprint(w.must(200, "GET", configMaps+"?limit=1", "").at("metadata.continue"))
		time.Sleep(historyAge + time.Second) // a token is older than that, and the history is still there
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

// Rules: FI-10
func TestEventsCanBeDuplicatedReplayedUnknownOrUndecodable(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
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
			"ADDED a, ADDED a, ADDED b, ADDED b": {Duplicate: true},
			"ADDED a, ADDED b, ADDED a":          {Replay: true},
			"HELLO a, ADDED a, HELLO b, ADDED b": {UnknownType: true},
			"ADDED b, ADDED a":                   {Reorder: true},
			"ADDED a, ERROR": {After: 1, End: EndWithError,
				EndError: ErrorArg{Code: 500, Reason: "InternalError"}},
			"ADDED a, ADDED b, BOOKMARK, BOOKMARK": {Bookmarks: BookmarksStorm},
		} {
			path = configMaps + "?watch=1&allowWatchBookmarks=1&resourceVersion=" + last
			if got := eventNames(read(Fault{Watch: f}, strings.Count(want, ",")+1)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		frames := read(Fault{Rewrite: faults.Poison("a")}, 2)
		if frames[0].at("spec") != "poison" || frames[1].at("spec") != nil {
			t.Errorf("poison: %v", frames)
		}
		for name, f := range map[string]Fault{"kind": {Rewrite: faults.Kindless()},
			"metadata.labels": {Rewrite: faults.Nulls()}} {
			if event := read(f, 1)[0]; event.at(name) != nil || event.at("metadata.name") != "a" {
				t.Errorf("%s: %v", name, event)
			}
		}
		if huge := read(Fault{Rewrite: faults.Huge(3 << 20)}, 1)[0].at("metadata.annotations.huge"); len(
			fmt.Sprint(huge)) != 3<<20 {
			t.Errorf("huge is %d bytes", len(fmt.Sprint(huge)))
		}
		for end, wantEOF := range map[faults.End]bool{EndCleanly: true, EndCut: false, EndMidFrame: false} {
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
	withServer(t, Options{}, func(w *testServer) {
		w.must(404, "GET", configMaps+"/a?x=y", "")
		watch := w.watch(configMaps + "?watch=1")
		all := w.s.Requests()
		if len(all) != 2 || all[0].Path != configMaps+"/a" || all[0].Status != 404 || all[0].UserAgent != "test/1" ||
			all[0].Query.Get("x") != "y" || all[0].Done.IsZero() {
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
	r := &request{kind: s.registry.find("", "v1", "configmaps"), namespace: "default", verb: "create",
		Request: &http.Request{Header: http.Header{"User-Agent": {"test"}}}}
	w := &write{request: r,
		make: func(*store.Object) (map[string]any, error) {
			return map[string]any{"metadata": map[string]any{"name": name}}, nil
		}}
	if err := s.write(w); err != nil {
		return "", err
	}
	return fmt.Sprint(w.stored.Revision), nil
}
