package kube

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func frame(typ, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", typ, object)
}

// story is a stream with each kind of event.
var story = frame("ADDED", item("a", "5")) +
	frame("MODIFIED", `{"kind":"Pod","spec":{"nodeName":"n\u00fc\"{}","x":[[{"y":"}"}]]},"metadata":{"name":"a","resourceVersion":"6"}}`) +
	frame("BOOKMARK", `{"kind":"Pod","metadata":{"resourceVersion":"9","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true","x":"y"}},"spec":{"containers":null}}`) +
	frame("HELLO", `{"a":[1,2]}`) +
	frame("DELETED", item("a", "10"))

const storyTold = "ADDED a 5, MODIFIED a 6, BOOKMARK  9 end, HELLO  , DELETED a 10, EOF"

// tell reads a stream to its end and writes down what came.
func tell(r io.Reader) string {
	f := newScanner(r)
	return tellEvents(func() (Event[*pod], error) { return nextEvent[*pod](f) })
}

// word quotes what a hostile server put into a word, so that two spaces mean that a word is missing.
func word(s string) string {
	if strings.ContainsAny(s, " ,") {
		return strconv.Quote(s)
	}
	return s
}

func tellEvents(next func() (Event[*pod], error)) string {
	var out []string
	for {
		ev, err := next()
		var bad *DecodeError
		switch {
		case err == io.EOF:
			return strings.Join(append(out, "EOF"), ", ")
		case errors.As(err, &bad):
			out = append(out, fmt.Sprintf("%s bad %s", word(string(ev.Type)), bad.Key))
		case AsStatus(err) != nil:
			out = append(out, fmt.Sprintf("ERROR %d %s", AsStatus(err).Code, AsStatus(err).Reason))
		case err != nil:
			return strings.Join(append(out, "broken: "+err.Error()), ", ")
		default:
			s := word(string(ev.Type)) + " "
			if ev.Object != nil {
				s += word(ev.Object.Name)
			}
			s += " " + ev.ResourceVersion
			if ev.InitialEventsEnd {
				s += " end"
			}
			out = append(out, s)
		}
	}
}

// Rules: WCH-01, WCH-05, WCH-36, WL-02, WL-12
func TestFramesAreReadWhereverTheBytesAreSplit(t *testing.T) {
	if got := tell(strings.NewReader(story)); got != storyTold {
		t.Fatalf("got  %s\nwant %s", got, storyTold)
	}
	if got := tell(iotest.OneByteReader(strings.NewReader(story))); got != storyTold {
		t.Errorf("byte by byte: got %s", got)
	}
	if got := tell(strings.NewReader(strings.ReplaceAll(story, "\n", ""))); got != storyTold {
		t.Errorf("without newlines: got %s", got)
	}
	for i := range story {
		r := io.MultiReader(strings.NewReader(story[:i]), strings.NewReader(story[i:]))
		if got := tell(r); got != storyTold {
			t.Errorf("split at byte %d: got %s", i, got)
		}
	}
}

// Rules: WCH-16, WCH-17
func TestAPartialFrameIsNeverAnEvent(t *testing.T) {
	whole := frame("ADDED", item("a", "5"))
	cut := frame("MODIFIED", item("a", "6"))
	for i := 1; i < len(cut)-1; i++ { // the last byte is the newline, the one before it ends the frame
		want := "ADDED a 5, broken: unexpected EOF"
		if got := tell(strings.NewReader(whole + cut[:i])); got != want {
			t.Errorf("cut at byte %d (%q): got %s", i, cut[:i], got)
		}
	}
}

// Rules: WCH-07, WCH-08, WCH-37
func TestErrorsAndBrokenObjectsComeOutAsWhatTheyAre(t *testing.T) {
	in := frame("ERROR", `{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old resource version: 1 (5)"}`) +
		frame("ERROR", `{"kind":"Status","code":500}`) +
		frame("MODIFIED", `{"metadata":{"name":"a","resourceVersion":"7"},"spec":{"priority":{}}}`) +
		frame("ADDED", `null`) +
		`{"type":"ADDED"}` + `{"object":{}}` +
		`{"object":` + item("late", "8") + `,"type":"ADDED"}` +
		frame("DELETED", item("a", "9"))
	want := "ERROR 410 Expired, ERROR 500 InternalError, MODIFIED bad a, ADDED bad , ADDED bad ,  bad , " +
		"ADDED late 8, DELETED a 9, EOF"
	if got := tell(strings.NewReader(in)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// It might have been the end of the initial events.
	if got := tell(strings.NewReader(frame("BOOKMARK", `{"metadata":[]}`))); !strings.HasPrefix(got, "broken: ") {
		t.Errorf("a bookmark that does not decode: got %s", got)
	}
}

// Rules: WCH-02
func TestLargeFramesPassAndTooLargeOnesAreADistinctError(t *testing.T) {
	big := func(n int) string {
		return frame("ADDED", `{"metadata":{"name":"big","resourceVersion":"5"},"data":{"blob":"`+strings.Repeat("x", n)+`"}}`)
	}
	for _, n := range []int{70 << 10, 3 << 20, 15 << 20} {
		in := big(n) + frame("ADDED", item("next", "6"))
		if got := tell(strings.NewReader(in)); got != "ADDED big 5, ADDED next 6, EOF" {
			t.Errorf("%d bytes: got %s", n, got)
		}
	}
	if got, want := tell(strings.NewReader(big(40<<20))), "broken: "+ErrFrameTooLarge.Error(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Rules: WL-01, WCH-38, WCH-42
func TestWhatAWatchAsksFor(t *testing.T) {
	s := scripted(answer(200, story))
	c := tlsClient(t, s)
	for _, tc := range []struct {
		q    Query
		o    WatchOptions
		want string
	}{
		{Query{Resource: pods}, WatchOptions{ResourceVersion: "7", Timeout: 300 * time.Second},
			"/api/v1/pods?allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=300&watch=true"},
		{Query{Resource: pods, Namespace: "a"}, WatchOptions{SendInitialEvents: true},
			"/api/v1/namespaces/a/pods?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&" +
				"sendInitialEvents=true&watch=true"},
		{Query{Resource: pods, Namespace: "a"}.Object("web-0"), WatchOptions{ResourceVersion: "7"},
			"/api/v1/namespaces/a/pods?allowWatchBookmarks=true&fieldSelector=metadata.name%3Dweb-0&" +
				"resourceVersion=7&watch=true"},
	} {
		st, err := Watch[*pod](t.Context(), c, tc.q, tc.o)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		reqs := s.requests()
		r := reqs[len(reqs)-1]
		if r.URL.RequestURI() != tc.want {
			t.Errorf("asked for\n     %s\nwant %s", r.URL.RequestURI(), tc.want)
		}
		if r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("Accept-Encoding is %q, want identity", r.Header.Get("Accept-Encoding"))
		}
	}
}

// Rules: WCH-19, WCH-20
func TestAWatchOutlivesTheTimeoutOfShortRequestsAndLateHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(90 * time.Second) // virtual: a buffering proxy holds the headers back
			w.Header().Set("Content-Type", "application/json")
			for range 5 {
				fmt.Fprint(w, frame("ADDED", item("a", "5")))
				w.(http.Flusher).Flush()
				time.Sleep(4 * time.Minute)
			}
		}
		c := pipeClient(t, http.HandlerFunc(slow), func(cfg *Config) { cfg.Timeout = 5 * time.Second })
		st := watchPods(t, c, WatchOptions{IdleTimeout: 5 * time.Minute})
		for range 5 {
			if _, err := st.Next(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := st.Next(); err != io.EOF {
			t.Errorf("got %v, want EOF", err)
		}
	})
}

// Rules: WCH-18, WCH-49
func TestAMuteWatchEndsAfterTheIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mute := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, frame("ADDED", item("a", "5")))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		st := watchPods(t, pipeClient(t, http.HandlerFunc(mute)), WatchOptions{IdleTimeout: time.Minute})
		if _, err := st.Next(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := st.Next(); !errors.Is(err, ErrIdle) || time.Since(began) != time.Minute {
			t.Errorf("got %v after %s, want ErrIdle after a minute", err, time.Since(began))
		}
	})
}

// blackhole is a connection that can be made to swallow all that is written and bring nothing.
type blackhole struct {
	net.Conn
	shut chan struct{}
}

func (b *blackhole) Write(p []byte) (int, error) {
	select {
	case <-b.shut:
		return len(p), nil
	default:
		return b.Conn.Write(p)
	}
}

// Rules: NET-01, WCH-18
func TestHTTP2PingsEndADeadConnectionWithin45Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shut := make(chan struct{})
		c := pipeTLSClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 {
				t.Errorf("the watch came over %s", r.Proto)
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, frame("ADDED", item("a", "5")))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}), func(conn net.Conn) net.Conn { return &blackhole{conn, shut} })
		c.open = nil // over HTTP/1.1 the kernel probes: TestTheKernelProbesConnections
		st := watchPods(t, c, WatchOptions{})
		if _, err := st.Next(); err != nil {
			t.Fatal(err)
		}
		close(shut) // from here on our pings go nowhere
		began := time.Now()
		if _, err := st.Next(); err == nil || time.Since(began) > 46*time.Second {
			t.Errorf("got %v after %s, want an error within 45 s", err, time.Since(began))
		}
	})
}

// Rules: WCH-44
func TestFailedWatchesLeaveNoConnectionBehind(t *testing.T) {
	var open counter
	s := scripted(failure(410, "Expired", ""), failure(500, "InternalError", ""),
		func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<html>")
		})
	c := pipeClient(t, s, func(cfg *Config) {
		dial := cfg.DialContext
		cfg.DialContext = open.count(dial)
	})
	for range 500 {
		if st, err := Watch[*pod](t.Context(), c, Query{Resource: pods},
			WatchOptions{ResourceVersion: "1"}); err == nil {
			t.Fatal("opened", st)
		}
	}
	if n := open.n.Load(); n > 3 {
		t.Errorf("500 failed watches made %d connections, want them to be used again", n)
	}
}
