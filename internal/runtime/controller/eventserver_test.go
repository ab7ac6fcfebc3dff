//go:build unix

package controller

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// serveEvents makes the test binary the server of BenchmarkWatch, so that the benchmark can tell what the client
// costs.
const serveEvents = "SKIFF_SERVE_EVENTS"

func TestMain(m *testing.M) {
	if os.Getenv(serveEvents) != "" {
		newEventServer().serve()
		return
	}
	os.Exit(m.Run())
}

// eventPods is how many pods there are, which change in turn.
const eventPods = 1000

// eventServer is a server of pods of 9 KB, over TLS. It is told on standard input how many events to send, and how
// many of them a second, 0 for no limit: then it sends in one go what it has ready, as a server does whose client is
// behind.
type eventServer struct {
	rv   int
	at   int64     // when the event is sent
	rest [2]string // of a pod, in JSON and in protobuf
	send chan [2]int
}

// readyEvent is an event that is sent again and again, with another version and time.
type readyEvent struct {
	frame  []byte
	rv, at int // where they are
}

func newEventServer() *eventServer {
	s := &eventServer{rv: 1_000_000, send: make(chan [2]int)}
	for i := range 110 {
		s.rest[0] += fmt.Sprintf(`{"name":"SETTING_%d","value":"a value of a setting of a container, not read"},`, i)
		s.rest[1] += proto(7, proto(1, fmt.Sprint("SETTING_", i))+
			proto(2, "a value of a setting of a container, not read"))
	}
	s.rest[0] += `{"name":"LAST"}`
	return s
}

func (s *eventServer) serve() {
	srv := httptest.NewUnstartedServer(s)
	srv.StartTLS()
	fmt.Println(srv.URL)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var order [2]int
		if _, err := fmt.Sscan(in.Text(), &order[0], &order[1]); err != nil {
			panic(err)
		}
		s.send <- order
	}
}

func (s *eventServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	event, mediaType := s.jsonEvent, "application/json"
	if strings.Contains(r.Header.Get("Accept"), "protobuf") {
		event, mediaType = s.protoEvent, "application/vnd.kubernetes.protobuf"
	}
	w.Header().Set("Content-Type", mediaType)
	flush := http.NewResponseController(w).Flush
	for i := range eventPods {
		_, _ = w.Write(event("ADDED", i))
	}
	_, _ = w.Write(event("BOOKMARK", 0))
	_ = flush()
	var ready [eventPods]readyEvent
	for i := range ready {
		ready[i] = s.ready(event("MODIFIED", i))
	}
	for {
		select {
		case order := <-s.send:
			var tick <-chan time.Time
			if order[1] > 0 {
				tick = time.Tick(time.Second / time.Duration(order[1]))
			}
			for i := range order[0] {
				if tick != nil {
					<-tick
				}
				_, _ = w.Write(s.again(ready[i%eventPods]))
				if tick != nil {
					_ = flush()
				}
			}
			_ = flush()
		case <-r.Context().Done():
			return
		}
	}
}

// ready finds the version and the time in the event that has been made last.
func (s *eventServer) ready(frame []byte) readyEvent {
	at := func(n int64) int { return bytes.Index(frame, strconv.AppendInt(nil, n, 10)) }
	return readyEvent{frame, at(int64(s.rv)), at(s.at)}
}

// again returns an event of the next version, which has as many digits.
func (s *eventServer) again(ev readyEvent) []byte {
	s.rv, s.at = s.rv+1, time.Now().UnixNano()
	strconv.AppendInt(ev.frame[:ev.rv], int64(s.rv), 10)
	strconv.AppendInt(ev.frame[:ev.at], s.at, 10)
	return ev.frame
}

const eventEnd = "k8s.io/initial-events-end"

func (s *eventServer) jsonEvent(kind string, i int) []byte {
	s.rv, s.at = s.rv+1, time.Now().UnixNano()
	if kind == "BOOKMARK" {
		return fmt.Appendf(nil, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1",`+
			`"metadata":{"resourceVersion":"%d","annotations":{%q:"true"}}}}`+"\n", s.rv, eventEnd)
	}
	return fmt.Appendf(nil, `{"type":%q,"object":{"kind":"Pod","apiVersion":"v1",`+
		`"metadata":{"name":"app-%d","namespace":"team-%d","uid":"%08d-1111-4222-8333-444455556666",`+
		`"resourceVersion":"%d","labels":{"app":"app-%d","tier":"backend","version":"v1.2.3"},`+
		`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"app-%d","uid":"%08d-aaaa",`+
		`"controller":true}]},"spec":{"containers":[{"name":"main","env":[%s]}],"nodeName":"node-%d"},`+
		`"status":{"phase":"Running","podIP":"10.0.0.1","message":"%d"}}}`+"\n",
		kind, i, i%20, i, s.rv, i/4, i/4, i/4, s.rest[0], i%200, s.at)
}

// proto returns a field of a message.
func proto(number int, value string) string {
	head := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)<<3|2), uint64(len(value)))
	return string(head) + value
}

func (s *eventServer) protoEvent(kind string, i int) []byte {
	s.rv, s.at = s.rv+1, time.Now().UnixNano()
	label := func(number int, key, value string) string { return proto(number, proto(1, key)+proto(2, value)) }
	rv := strconv.Itoa(s.rv)
	pod := proto(1, proto(6, rv)+label(12, eventEnd, "true"))
	if kind != "BOOKMARK" {
		app := fmt.Sprint("app-", i/4)
		pod = proto(1, proto(1, fmt.Sprint("app-", i))+proto(3, fmt.Sprint("team-", i%20))+
			proto(5, fmt.Sprintf("%08d-1111-4222-8333-444455556666", i))+proto(6, rv)+
			label(11, "app", app)+label(11, "tier", "backend")+label(11, "version", "v1.2.3")+
			proto(13, proto(1, "ReplicaSet")+proto(3, app)+proto(4, fmt.Sprintf("%08d-aaaa", i/4))+
				proto(5, "apps/v1")+"\x30\x01")) +
			proto(2, proto(2, proto(1, "main")+s.rest[1])+proto(10, fmt.Sprint("node-", i%200))) +
			proto(3, proto(1, "Running")+proto(3, strconv.FormatInt(s.at, 10))+proto(6, "10.0.0.1"))
	}
	object := "k8s\x00" + proto(1, proto(1, "v1")+proto(2, "Pod")) + proto(2, pod)
	event := proto(1, kind) + proto(2, proto(1, object))
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

// startEventServer returns the address of a server in a process of its own, and how to have it send events.
func startEventServer(b *testing.B) (url string, order func(events, perSecond int)) {
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), serveEvents+"=1")
	server.Stderr = os.Stderr
	in, inErr := server.StdinPipe()
	out, outErr := server.StdoutPipe()
	if inErr != nil || outErr != nil {
		b.Fatal(inErr, outErr)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		if err := server.Wait(); err != nil {
			b.Error(err)
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(url), func(events, perSecond int) {
		if _, err := fmt.Fprintln(in, events, perSecond); err != nil {
			b.Fatal(err)
		}
	}
}
