package webserver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	pagehistory "skiff/internal/runtime/history"
	"skiff/internal/runtime/kube"
)

// cannedServer answers what this controller asks, with as little work as possible, so that what a benchmark measures
// is nearly all the controller's: HTTP/1.1 without a library, answers made by cutting bytes. It echoes each write as a
// watch event, as a real one does.
type cannedServer struct {
	mu         sync.Mutex // guards all below
	rv         int
	watches    map[string]net.Conn // by resource
	deployment []byte              // as it was posted last
	requests   int
	settled    chan string // the name of each WebServer whose status was written
}

func (s *cannedServer) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go s.serve(theirs)
	return ours, nil
}

// serve answers the requests of one connection; a watch takes it over.
func (s *cannedServer) serve(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		method, rest, _ := strings.Cut(line, " ")
		target, _, _ := strings.Cut(rest, " ")
		length := 0
		for {
			h, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(h) <= 2 {
				break
			}
			if v, ok := bytes.CutPrefix(h, []byte("Content-Length: ")); ok {
				length, _ = strconv.Atoi(string(bytes.TrimSpace(v)))
			}
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		path, _, _ := strings.Cut(target, "?")
		parts := strings.Split(path, "/")
		if method == http.MethodGet {
			s.watch(conn, parts[len(parts)-1])
			continue
		}
		code, answer := s.write(parts, body)
		fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", code,
			len(answer), answer)
	}
}

const endMark = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`

func (s *cannedServer) watch(conn net.Conn, resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n%s\n", endMark)
	s.watches[resource] = conn
}

// write stores nothing but the status of a WebServer, and sends the event of it.
func (s *cannedServer) write(parts []string, body []byte) (code string, answer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	switch last := parts[len(parts)-1]; last {
	case "deployments", "services":
		if last == "deployments" {
			s.deployment = body
		}
		answer = s.storedLocked(body)
		s.sendLocked(last, "ADDED", answer)
		return "201 Created", answer
	case "status":
		name := parts[len(parts)-2]
		_, status, _ := bytes.Cut(body, []byte(`,"status":`)) // the last field
		answer = append(s.webServerLocked(name), `,"status":`...)
		answer = append(answer, status...)
		s.sendLocked("webservers", "MODIFIED", answer)
		s.settled <- name
		return "200 OK", answer
	}
	return "201 Created", body // Events
}

// storedLocked returns a posted object as the server has it, at a new version.
func (s *cannedServer) storedLocked(body []byte) []byte {
	s.rv++
	meta := fmt.Appendf(nil, `"metadata":{"uid":"uid","resourceVersion":"%d","generation":1,`, s.rv)
	return bytes.Replace(body, []byte(`"metadata":{`), meta, 1)
}

// touch tells of a new version of the last Deployment, in which nothing of interest has changed.
func (s *cannedServer) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendLocked("deployments", "MODIFIED", s.storedLocked(s.deployment))
}

// webServerLocked returns a WebServer at a new version, open for more fields.
func (s *cannedServer) webServerLocked(name string) []byte {
	s.rv++
	return fmt.Appendf(nil, `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":%q,"namespace":"default","uid":"uid-%s","generation":1,"resourceVersion":"%d"},"spec":{"image":"nginx:1.23.1","replicas":3}`, name, name, s.rv)
}

func (s *cannedServer) sendLocked(resource, kind string, object []byte) {
	fmt.Fprintf(s.watches[resource], `{"type":%q,"object":%s}`+"\n", kind, object)
}

// create makes a WebServer as a user would.
func (s *cannedServer) create(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendLocked("webservers", "ADDED", append(s.webServerLocked(name), '}'))
}

// cpu returns the CPU time that this process has taken.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// rig is the controller on a canned server.
type rig struct {
	*testing.B
	server     *cannedServer
	client     *kube.Client
	controller *controller.Controller
	recorder   *events.Recorder
	reconciled chan struct{} // gets a value at the end of each reconcile, if it is empty
	stop       context.CancelFunc
	running    sync.WaitGroup
}

// newRig starts a controller, and warms it up with one WebServer. past is what it remembers for a live page; nil: it
// has none.
func newRig(b *testing.B, past *pagehistory.Log) *rig {
	s := &cannedServer{rv: 1, watches: map[string]net.Conn{}, settled: make(chan string, 1)}
	client, err := kube.New(kube.Config{Server: "http://bench", DialContext: s.dial})
	if err != nil {
		b.Fatal(err)
	}
	r := &rig{B: b, server: s, client: client, reconciled: make(chan struct{}, 1)}
	log := funcr.New(func(prefix, args string) { // as costly as a log to a file, but for the system call
		_, _ = fmt.Fprintln(io.Discard, prefix, args)
		if strings.Contains(args, `"msg"="reconciled"`) {
			select {
			case r.reconciled <- struct{}{}:
			default:
			}
		}
	}, funcr.Options{Verbosity: 1})
	r.recorder = events.New(events.Options{Client: client, Controller: "skiff.dev/webserver", Instance: "bench",
		Log: log})
	r.controller = New(controller.Setup{Client: client, Workers: 1, Log: log, History: past}, r.recorder)
	ctx, stop := context.WithCancel(b.Context())
	r.stop = stop
	for _, run := range []func(context.Context) error{r.controller.Run, r.recorder.Run} {
		r.running.Go(func() {
			if err := run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	for r.controller.Ready() != nil {
		runtime.Gosched()
	}
	s.create("web-0")
	<-s.settled
	return r
}

// touch has the controller find that all is as it should be.
func (r *rig) touch() {
	select {
	case <-r.reconciled: // of the warm-up
	default:
	}
	r.server.touch()
	<-r.reconciled
}

func (r *rig) end() {
	if r.controller.Stats().Errors > 0 || r.recorder.Dropped() > 0 {
		r.Errorf("%d errors, %d Events dropped", r.controller.Stats().Errors, r.recorder.Dropped())
	}
	r.stop()
	for _, conn := range r.server.watches {
		_ = conn.Close()
	}
	r.running.Wait()
	r.client.Close()
}

// benchmark calls step as often as b wants.
func benchmark(b *testing.B, step func(r *rig, n int)) {
	r := newRig(b, nil)
	count := func() (runs, requests int64) {
		r.server.mu.Lock()
		defer r.server.mu.Unlock()
		return r.controller.Stats().Done + r.controller.Stats().Again, int64(r.server.requests)
	}
	runs, requests := count()
	b.ReportAllocs()
	began, n := cpu(), 0
	for b.Loop() {
		n++
		step(r, n)
	}
	runsAfter, requestsAfter := count()
	b.ReportMetric(float64((cpu()-began).Microseconds())/float64(n), "cpu-µs/op")
	b.ReportMetric(float64(requestsAfter-requests)/float64(n), "requests/op")
	b.ReportMetric(float64(runsAfter-runs)/float64(n), "reconciles/op")
	r.end()
}

// BenchmarkWebServer is all that one new WebServer costs, from its watch event to the last of its requests: its
// reconciles, those of the events of its children and of its status, the Event, and a log at its usual level.
func BenchmarkWebServer(b *testing.B) {
	benchmark(b, func(r *rig, n int) {
		r.server.create("web-" + strconv.Itoa(n))
		<-r.server.settled
	})
}

// BenchmarkNothingToDo is a reconcile that finds all as it should be, from the watch event of a Deployment on. Most
// are.
func BenchmarkNothingToDo(b *testing.B) {
	benchmark(b, func(r *rig, _ int) { r.touch() })
}

// BenchmarkHeapPerWebServer is what a WebServer, its children and all that is remembered of them take at rest.
func BenchmarkHeapPerWebServer(b *testing.B) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n = 2000
	made := 0
	var before uint64
	benchmark(b, func(r *rig, _ int) {
		if made == 0 {
			before = heap()
		}
		for range n {
			made++
			r.server.create("web-" + strconv.Itoa(made))
			<-r.server.settled
		}
		b.ReportMetric(float64(heap()-before)/float64(made), "B/WebServer")
	})
}
