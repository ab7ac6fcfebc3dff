package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/runtime/kube"
)

// sink is the Events part of a server, over net.Pipe. answer may take a request over.
type sink struct {
	mu       sync.Mutex // guards what follows
	events   map[string]map[string]any
	requests []string
	answer   func(w http.ResponseWriter, r *http.Request) bool

	credentials kube.Credentials // of the client
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	if s.answer != nil && s.answer(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		w.WriteHeader(400)
		return
	}
	if r.Method == http.MethodPost {
		name := body["metadata"].(map[string]any)["name"].(string)
		if s.events[name] != nil {
			status(w, 409, "AlreadyExists")
			return
		}
		s.events[name] = body
		w.WriteHeader(201)
		fmt.Fprint(w, `{}`)
		return
	}
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if s.events[name] == nil {
		status(w, 404, "NotFound")
		return
	}
	s.events[name]["series"] = body["series"]
	fmt.Fprint(w, `{}`)
}

func status(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","status":"Failure","code":%d,"reason":%q,"details":{"name":"x"}}`, code, reason)
}

// shown is what kubectl shows: reason, count of the series, note of each Event.
func (s *sink) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, e := range s.events {
		count := 1.0
		if series, ok := e["series"].(map[string]any); ok {
			count = series["count"].(float64)
		}
		out = append(out, fmt.Sprintf("%v x%v %v", e["reason"], count, e["note"]))
	}
	return strings.Join(out, "; ")
}

func (s *sink) stored() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events)
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

type listener chan net.Conn

func (l listener) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l listener) Close() error   { return nil }
func (l listener) Addr() net.Addr { return &net.UnixAddr{} }

// record runs f with a recorder that is running, in virtual time, and stops the recorder after it.
func record(t *testing.T, s *sink, f func(t *testing.T, r *Recorder, stop func())) {
	synctest.Test(t, func(t *testing.T) {
		s.events = map[string]map[string]any{}
		l := make(listener)
		srv := &http.Server{Handler: s}
		var wg sync.WaitGroup
		wg.Go(func() { _ = srv.Serve(l) })
		dial := func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			l <- theirs
			return ours, nil
		}
		client, err := kube.New(kube.Config{Server: "http://fake", DialContext: dial, Credentials: s.credentials})
		if err != nil {
			t.Fatal(err)
		}
		r := New(Options{Client: client, Controller: "skiff.dev/redis", Instance: "here"})
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = r.Run(ctx) })
		stop := func() { cancel(); run.Wait() }
		f(t, r, stop)
		stop()
		client.Close()
		close(l)
		_ = srv.Close()
		wg.Wait()
	})
}

func event(reason, note string) Event {
	return Event{
		Regarding: Object{APIVersion: "skiff.dev/v1alpha1", Kind: "Redis", Namespace: "ns", Name: "db", UID: "u1"},
		Type:      Normal, Reason: reason, Action: "Reconcile", Note: note,
	}
}

// Rules: EVT-01, EVT-07, EVT-08
func TestAnEventCarriesAllThatTheAPIAsksFor(t *testing.T) {
	s := &sink{}
	record(t, s, func(t *testing.T, r *Recorder, _ func()) {
		r.Record(event("CreatePod", "created pod db-0"))
		cluster := event("Other", "x")
		cluster.Regarding.Namespace, cluster.Regarding.Name = "", "Node_A"
		r.Record(cluster)
		synctest.Wait()
		if s.stored() != 2 {
			t.Fatalf("got %s", s.shown())
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for name, e := range s.events {
			meta := e["metadata"].(map[string]any)
			if e["reason"] == "Other" {
				if meta["namespace"] != "default" || strings.Contains(name, "_") {
					t.Errorf("the event of a node is %v", meta)
				}
				continue
			}
			if !strings.HasPrefix(name, "db.") || meta["namespace"] != "ns" {
				t.Errorf("the event is called %v", meta)
			}
			if at := e["eventTime"].(string); len(at) != len("2000-01-01T00:00:00.000000Z") {
				t.Errorf("eventTime is %q, want six digits of a second", at)
			}
			delete(e, "metadata")
			delete(e, "eventTime")
			got, err := json.Marshal(e)
			const want = `{"action":"Reconcile","apiVersion":"events.k8s.io/v1","kind":"Event","note":"created pod db-0","reason":"CreatePod","regarding":{"apiVersion":"skiff.dev/v1alpha1","kind":"Redis","name":"db","namespace":"ns","uid":"u1"},"reportingController":"skiff.dev/redis","reportingInstance":"here","type":"Normal"}`
			if err != nil || string(got) != want {
				t.Errorf("got\n     %s\nwant %s", got, want)
			}
		}
	})
}

// Rules: EVT-03
func TestRepeatedEventsBecomeOneSeries(t *testing.T) {
	s := &sink{}
	record(t, s, func(t *testing.T, r *Recorder, _ func()) {
		for range 5 {
			r.Record(event("Failed", "note 0"))
		}
		synctest.Wait()
		if got := s.shown(); got != "Failed x2 note 0" || s.count() != 2 {
			t.Errorf("at first: %s in %d requests, want the first repetition in two", got, s.count())
		}
		time.Sleep(8 * time.Minute) // virtual
		if got := s.shown(); got != "Failed x5 note 0" || s.count() != 3 {
			t.Errorf("after six minutes of silence: %s in %d requests, want all five in three", got, s.count())
		}
	})
}

// Rules: EVT-03
func TestADifferentNoteIsADifferentEventWithinLimits(t *testing.T) {
	s := &sink{}
	record(t, s, func(t *testing.T, r *Recorder, _ func()) {
		for range 3 {
			r.Record(event("Applied", "differed in image"))
			r.Record(event("Applied", "differed in replicas"))
		}
		time.Sleep(8 * time.Minute)
		got := s.shown()
		if s.stored() != 2 || !strings.Contains(got, "x3 differed in image") ||
			!strings.Contains(got, "x3 differed in rep") {
			t.Errorf("got %s, want two Events that happened three times each", got)
		}
	})
	s = &sink{}
	record(t, s, func(t *testing.T, r *Recorder, _ func()) {
		for i := range 50 {
			r.Record(event("Failed", fmt.Sprint("port ", i)))
			time.Sleep(time.Second)
		}
		time.Sleep(8 * time.Minute)
		last := fmt.Sprintf("x%d port 9", 50-maxNotes+1)
		if n := s.stored(); n != maxNotes || r.Dropped() != 0 || !strings.Contains(s.shown(), last) {
			t.Errorf("%d Events and %d dropped, want %d and %s: %s", n, r.Dropped(), maxNotes, last, s.shown())
		}
		time.Sleep(time.Hour)
		r.Record(event("Failed", "port 51"))
		synctest.Wait()
		if n := s.stored(); n != maxNotes+1 {
			t.Errorf("%d Events an hour later", n)
		}
	})
}

func TestANoteIsPrintable(t *testing.T) {
	s := &sink{}
	record(t, s, func(t *testing.T, r *Recorder, _ func()) {
		r.Record(event("Failed", "no\x1b[2J\nforged"))
		r.Record(event("Failed", strings.Repeat("\x1b", 2000)))
		synctest.Wait()
		if got := s.shown(); strings.Contains(got, "\x1b") || !strings.Contains(got, `no\x1b[2J forged`) {
			t.Errorf("shown %.200q", got)
		}
		for _, e := range s.events {
			if n := len(e["note"].(string)); n > maxNote {
				t.Errorf("a note of %d bytes", n)
			}
		}
	})
}

// panicking are credentials of which the first calls panic.
type panicking struct{ left atomic.Int32 }

func (p *panicking) Authorization(context.Context) (string, error) {
	if p.left.Add(-1) >= 0 {
		panic("no token today")
	}
	return "", nil
}
func (p *panicking) Invalidate(time.Time) {}

func TestAPanicOfTheSenderIsContainedAndSendingGoesOn(t *testing.T) {
	credentials := &panicking{}
	credentials.left.Store(3)
	s := &sink{credentials: credentials}
	record(t, s, func(t *testing.T, r *Recorder, stop func()) {
		for i := range 4 {
			r.Record(event(fmt.Sprint("Reason", i), "x"))
		}
		time.Sleep(10 * time.Second)
		if r.Panics() != 3 || r.Dropped() != 3 || s.shown() != "Reason3 x1 x" {
			t.Errorf("%d panics, %d dropped, shown %s", r.Panics(), r.Dropped(), s.shown())
		}
		credentials.left.Store(1)
		r.Record(event("Last", "x"))
		stop()
		if r.Panics() != 4 {
			t.Errorf("%d panics with that of the flush", r.Panics())
		}
	})
}

func TestAPanicOfTheSenderCostsOneSeriesAndNotTheOthers(t *testing.T) {
	credentials := &panicking{}
	s := &sink{credentials: credentials}
	record(t, s, func(t *testing.T, r *Recorder, stop func()) {
		for range 3 { // an Event, its first repetition, and one that waits to be written
			r.Record(event("Open", "x"))
			synctest.Wait()
		}
		credentials.left.Store(1)
		r.Record(event("Panics", "x"))
		time.Sleep(10 * time.Second)
		r.Record(event("Open", "x"))
		r.Record(event("Panics", "x"))
		time.Sleep(2 * finishAfter)
		if got := s.shown(); got != "Open x4 x; Panics x1 x" && got != "Panics x1 x; Open x4 x" {
			t.Errorf("got %s, want one series of four, and the event that panicked when it came again", got)
		}
		r.Record(event("Open", "y"))
		r.Record(event("Other", "y"))
		synctest.Wait()
		for range 2 {
			r.Record(event("Open", "y"))
			r.Record(event("Other", "y"))
			synctest.Wait()
		}
		credentials.left.Store(1)
		time.Sleep(2 * finishAfter) // the sweep panics once
		if got := s.shown(); r.Panics() != 2 || strings.Count(got, "x3 y") != 1 || strings.Count(got, "x2 y") != 1 {
			t.Errorf("%d panics, shown %s, want the last count of one of two series", r.Panics(), got)
		}
	})
}

// Rules: EVT-04
func TestALongSeriesIsRefreshedEveryHalfHour(t *testing.T) {
	s := &sink{}
	record(t, s, func(t *testing.T, r *Recorder, _ func()) {
		for range 61 { // once a minute for an hour
			r.Record(event("Failed", "x"))
			time.Sleep(time.Minute)
		}
		if n := s.count(); n < 3 || n > 4 {
			t.Errorf("an hour of one event a minute took %d requests, want the event, the series and one or two "+
				"refreshes", n)
		}
		time.Sleep(10 * time.Minute)
		if got := s.shown(); got != "Failed x61 x" {
			t.Errorf("got %s", got)
		}
	})
}

// Rules: EVT-05
func TestASeriesWhoseEventExpiredIsCreatedAnew(t *testing.T) {
	s := &sink{}
	record(t, s, func(t *testing.T, r *Recorder, _ func()) {
		r.Record(event("Failed", "x"))
		synctest.Wait()
		s.mu.Lock()
		clear(s.events)
		s.mu.Unlock()
		r.Record(event("Failed", "x"))
		synctest.Wait()
		if got := s.shown(); got != "Failed x2 x" {
			t.Errorf("got %q", got)
		}
	})
}

func TestALostAnswerDoesNotDoubleAnEvent(t *testing.T) {
	s := &sink{}
	lost := false
	s.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if lost || r.Method != http.MethodPost {
			return false
		}
		lost = true
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		s.events[body["metadata"].(map[string]any)["name"].(string)] = body
		panic(http.ErrAbortHandler)
	}
	record(t, s, func(t *testing.T, r *Recorder, _ func()) {
		r.Record(event("CreatePod", "x"))
		time.Sleep(time.Minute)
		if got := s.shown(); got != "CreatePod x1 x" || s.count() != 2 {
			t.Errorf("got %q in %d requests, want one event in two", got, s.count())
		}
	})
}

// Rules: EVT-02
func TestRecordingNeverWaitsAndCountsWhatItDrops(t *testing.T) {
	s := &sink{}
	s.answer = func(_ http.ResponseWriter, r *http.Request) bool {
		s.mu.Unlock()
		defer s.mu.Lock()
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return true
	}
	record(t, s, func(t *testing.T, r *Recorder, stop func()) {
		began := time.Now()
		for i := range queueSize + 50 {
			r.Record(event(fmt.Sprint("Reason", i), "x"))
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("recording took %s", took)
		}
		if n := r.Dropped(); n < 49 || n > 50 {
			t.Errorf("%d events dropped, want the 50 (or 49) beyond the queue", n)
		}
		stop()
		if took := time.Since(began); took > flushTimeout {
			t.Errorf("stopping took %s, want at most %s", took, flushTimeout)
		}
	})
}

// Rules: EVT-06
func TestDifferentEventsOfOneObjectAreLimited(t *testing.T) {
	s := &sink{}
	record(t, s, func(t *testing.T, r *Recorder, _ func()) {
		for i := range 100 {
			r.Record(event(fmt.Sprint("Reason", i), "x"))
		}
		other := event("Mine", "y")
		other.Regarding.UID = "u2"
		r.Record(other)
		time.Sleep(time.Second)
		if n := s.stored(); n != burst+1 || r.Dropped() != 100-burst {
			t.Errorf("%d events sent and %d dropped, want %d and %d, and the one of another object", n, r.Dropped(),
				burst+1, 100-burst)
		}
		time.Sleep(refill)
		r.Record(event("Later", "x"))
		synctest.Wait()
		if n := s.stored(); n != burst+2 {
			t.Errorf("%d events after five minutes, want one more", n)
		}
	})
}

// What is wrong is told however much else happens, and is limited, too.
func TestAWarningIsToldAfterManyNormalEvents(t *testing.T) {
	s := &sink{}
	record(t, s, func(t *testing.T, r *Recorder, _ func()) {
		for i := range 100 {
			r.Record(event(fmt.Sprint("Reason", i), "x"))
		}
		for i := range 2 * reserved {
			warning := event(fmt.Sprint("Wrong", i), "x")
			warning.Type = Warning
			r.Record(warning)
		}
		time.Sleep(time.Second)
		if n := s.stored(); n != burst+reserved {
			t.Errorf("%d events sent, want %d and %d warnings", n, burst, reserved)
		}
	})
}

func TestEventsOfVeryManyObjectsAreAllSent(t *testing.T) {
	s := &sink{}
	record(t, s, func(t *testing.T, r *Recorder, stop func()) {
		stop()
		full := newSender(r)
		for i := range maxObjects {
			o := Object{UID: fmt.Sprint("u", i)}
			full.series[key{regarding: o}] = []*series{{count: 1, written: 1, last: time.Now()}}
			full.buckets[o] = &bucket{at: time.Now()}
		}
		for range 2 {
			full.take(t.Context(), queued{event("Created", "x"), time.Now()})
		}
		if s.stored() != 2 || r.Dropped() > 0 || len(full.series) > maxObjects || len(full.buckets) > maxObjects {
			t.Errorf("%d Events sent and %d dropped, want two sent; %d series and %d limits are remembered",
				s.stored(), r.Dropped(), len(full.series), len(full.buckets))
		}
	})
}

// Rules: EVT-02, EVT-09
func TestAnEventThatTheServerRefusesIsDropped(t *testing.T) {
	for reason, requests := range map[string]int{"Forbidden": 2, "AlreadyExists": 4} { // two names for each of two
		s := &sink{answer: func(w http.ResponseWriter, _ *http.Request) bool {
			status(w, map[string]int{"Forbidden": 403, "AlreadyExists": 409}[reason], reason)
			return true
		}}
		record(t, s, func(t *testing.T, r *Recorder, _ func()) {
			r.Record(event("A", "x"))
			r.Record(event("B", "x"))
			time.Sleep(10 * time.Minute)
			if s.count() != requests || r.Dropped() != 2 {
				t.Errorf("%s: %d requests, %d dropped; want %d and both dropped", reason, s.count(), r.Dropped(),
					requests)
			}
		})
	}
}

// Rules: EVT-09
func TestARefusedCountIsNotSentWithEachRepetition(t *testing.T) {
	s := &sink{answer: func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch { // the right to create and none to patch
			return false
		}
		status(w, 403, "Forbidden")
		return true
	}}
	record(t, s, func(t *testing.T, r *Recorder, _ func()) {
		for range 100 {
			r.Record(event("A", "x"))
			time.Sleep(time.Second)
		}
		if n := s.count(); n != 2 {
			t.Errorf("%d requests for a hundred equal events, want two", n)
		}
	})
}

// Rules: EVT-10
func TestAnAbsentServerCostsAtMostTwelveTries(t *testing.T) {
	s := &sink{answer: func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true }}
	record(t, s, func(t *testing.T, r *Recorder, stop func()) {
		r.Record(event("A", "x"))
		time.Sleep(5 * time.Minute)
		if s.count() != maxTries || r.Dropped() != 1 {
			t.Errorf("%d tries, %d dropped; want twelve and one", s.count(), r.Dropped())
		}
		r.Record(event("B", "x"))
		synctest.Wait()
		began := time.Now()
		stop()
		if took := time.Since(began); took > flushTimeout {
			t.Errorf("stopping took %s", took)
		}
	})
}

func TestAnEventThatCannotBeSentDoesNotHoldUpTheOthers(t *testing.T) {
	var away atomic.Bool
	away.Store(true)
	s := &sink{answer: func(w http.ResponseWriter, r *http.Request) bool {
		if away.Load() && strings.Contains(r.URL.Path, "/namespaces/bad/") {
			status(w, 503, "ServiceUnavailable")
			return true
		}
		return false
	}}
	record(t, s, func(t *testing.T, r *Recorder, _ func()) {
		for i := range 3 {
			bad := event(fmt.Sprint("Bad", i), "x")
			bad.Regarding.Namespace = "bad"
			r.Record(bad)
		}
		for i := range 20 {
			r.Record(event(fmt.Sprint("Good", i), "x"))
		}
		time.Sleep(2 * time.Second)
		if n := s.stored(); n != 20 {
			t.Errorf("%d Events after two seconds, want the 20 that the server takes", n)
		}
		time.Sleep(time.Minute)
		away.Store(false)
		time.Sleep(2 * retryAfter)
		if n := s.stored(); n != 23 || r.Dropped() != 0 {
			t.Errorf("%d Events, %d dropped; want all when the server takes them", n, r.Dropped())
		}
	})
}

func TestAShutdownSendsWhatIsQueuedAndTheOpenCounts(t *testing.T) {
	s := &sink{}
	record(t, s, func(t *testing.T, r *Recorder, stop func()) {
		for range 5 {
			r.Record(event("Failed", "x"))
		}
		stop()
		if got := s.shown(); got != "Failed x5 x" {
			t.Errorf("got %q", got)
		}
	})
}

func TestAnEventThatIsRefusedAtTheEndIsCountedOnce(t *testing.T) {
	var ending atomic.Bool
	s := &sink{answer: func(w http.ResponseWriter, r *http.Request) bool {
		if !ending.Load() {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client goes
			<-r.Context().Done()
			ending.Store(true)
			return true
		}
		status(w, 403, "Forbidden")
		return true
	}}
	record(t, s, func(t *testing.T, r *Recorder, stop func()) {
		r.Record(event("A", "x"))
		synctest.Wait()
		stop()
		if s.count() != 2 || r.Dropped() != 1 {
			t.Errorf("%d requests, %d dropped; want the one that the end interrupted and one more, one dropped",
				s.count(), r.Dropped())
		}
	})
}

func TestACountThatWaitsForTheServerIsNotWrittenTwice(t *testing.T) {
	var away atomic.Bool
	s := &sink{answer: func(w http.ResponseWriter, _ *http.Request) bool {
		if away.Load() {
			status(w, 503, "ServiceUnavailable")
		}
		return away.Load()
	}}
	record(t, s, func(t *testing.T, r *Recorder, _ func()) {
		for i := range burst {
			r.Record(event(fmt.Sprint("Reason", i), "first"))
		}
		r.Record(event("Reason0", "second")) // counted in the first, beyond the limit
		time.Sleep(5*time.Minute + 30*time.Second)
		away.Store(true)
		before := s.count()
		for s.count() == before { // sweep writes the count, in vain
			time.Sleep(time.Second)
		}
		r.Record(event("Reason0", "first"))
		time.Sleep(time.Second)
		away.Store(false)
		before = s.count()
		time.Sleep(5 * retryAfter)
		if n := s.count() - before; n != 1 || !strings.Contains(s.shown(), "Reason0 x3 first") {
			t.Errorf("%d requests when the server is back, want 1; shown %s", n, s.shown())
		}
	})
}

// Rules: EVT-11
func TestALongNoteIsCutBetweenCharacters(t *testing.T) {
	if got := cut(strings.Repeat("ü", 600), maxNote); len(got) != 1024 || !strings.HasSuffix(got, "ü") {
		t.Errorf("got %d bytes", len(got))
	}
	if got := cut("x"+strings.Repeat("ü", 600), maxNote); len(got) != 1023 {
		t.Errorf("got %d bytes, want 1023: the last character does not fit", len(got))
	}
}

func TestWhatWasDroppedIsLoggedOnce(t *testing.T) {
	var lines []string
	log := funcr.New(func(prefix, args string) { lines = append(lines, prefix+args) }, funcr.Options{})
	s := newSender(New(Options{Client: &kube.Client{}, Log: log}))
	s.logDropped()
	for _, err := range []error{errors.New("too many about one object"), &kube.Status{Code: 403, Reason: "Forbidden"},
		errors.New("again")} {
		s.drop(err)
	}
	lines = nil
	s.logDropped()
	s.logDropped()
	// The text log has the level in front, and takes a line with a name before that for an error.
	if len(lines) != 1 || !strings.HasPrefix(lines[0], `"level"=0 "msg"="events dropped`) ||
		!strings.Contains(lines[0], `"dropped"=2 "total"=3`) {
		t.Errorf("log %q, want one line about the two events that no other line is about", lines)
	}
}
