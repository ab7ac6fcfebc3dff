package cache

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func status(code int, reason string, more ...string) reply {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, m := range more {
			if after, ok := strings.CutPrefix(m, "Retry-After: "); ok {
				w.Header().Set("Retry-After", after)
			}
		}
		answer(w, r, code, statusObject(code, reason, more...))
	}
}

func statusObject(code int, reason string, causes ...string) string {
	var list []string
	for _, c := range causes {
		if !strings.Contains(c, ":") {
			list = append(list, fmt.Sprintf(`{"reason":%q}`, c))
		}
	}
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,`+
		`"message":"%s from the test","details":{"causes":[%s]}}`,
		code, reason, reason, strings.Join(list, ","))
}

func list(rv string, items ...string) reply {
	return func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, http.StatusOK, listObject(rv, items...))
	}
}

func listObject(rv string, items ...string) string {
	return fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[%s]}`, rv,
		strings.Join(items, ","))
}

// What a stream does after its last frame.
const (
	thenEnd  = "end"  // clean EOF
	thenCut  = "cut"  // connection dies
	thenHold = "hold" // stays open
)

func frames(end string, lines ...string) reply {
	return func(w http.ResponseWriter, r *http.Request) {
		openStream(w)
		for _, l := range lines {
			if d, ok := strings.CutPrefix(l, "pause "); ok {
				d, err := time.ParseDuration(d)
				if err != nil {
					panic(err)
				}
				select {
				case <-time.After(d):
				case <-r.Context().Done():
				}
				continue
			}
			fmt.Fprint(w, l)
			_ = http.NewResponseController(w).Flush()
		}
		_ = http.NewResponseController(w).Flush()
		switch end {
		case thenCut:
			panic(http.ErrAbortHandler)
		case thenHold:
			<-r.Context().Done()
		}
	}
}

// feed is a stream whose frames the test sends one by one.
type feed struct {
	t  *testing.T
	in chan string
}

func newFeed(t *testing.T) *feed { return &feed{t, make(chan string)} }

func (f *feed) reply(w http.ResponseWriter, r *http.Request) {
	openStream(w)
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case l := <-f.in:
			switch l {
			case thenEnd:
				return
			case thenCut:
				panic(http.ErrAbortHandler)
			}
			fmt.Fprint(w, l)
		}
	}
}

// send sends frames and waits until they have had all their effects.
func (f *feed) send(lines ...string) {
	f.t.Helper()
	for _, l := range lines {
		select {
		case f.in <- l:
		case <-time.After(time.Hour):
			f.t.Fatalf("nobody watches to receive %s", l)
		}
	}
	synctest.Wait()
}

// Objects and frames. uid is the name and "-1" unless given as name@uid.

func object(name, rv string, n any) string {
	name, uid, ok := strings.Cut(name, "@")
	if !ok {
		uid = name + "-1"
	}
	ns := "default"
	if before, after, ok := strings.Cut(name, "/"); ok {
		ns, name = before, after
	}
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":%q},`+
		`"spec":{"priority":%v}}`, name, ns, uid, rv, n)
}

// event is a frame of a watch in the encoding of the turn.
func event(t string, obj string) string {
	if inProtobuf {
		return protobufEvent(t, obj)
	}
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", t, obj)
}
func added(name, rv string, n int) string {
	return event("ADDED", object(name, rv, n))
}
func modified(name, rv string, n int) string { return event("MODIFIED", object(name, rv, n)) }
func deleted(name, rv string, n int) string  { return event("DELETED", object(name, rv, n)) }
func bookmark(rv string) string {
	return event("BOOKMARK", fmt.Sprintf(`{"kind":"Pod","metadata":{"resourceVersion":%q}}`, rv))
}
func endMark(rv string) string {
	return event("BOOKMARK", fmt.Sprintf(`{"kind":"Pod","metadata":{"resourceVersion":%q,"annotations":{`+
		`"k8s.io/initial-events-end":"true","k8s.io/initial-events-list-blueprint":"e30="}}}`, rv))
}
func errorEvent(code int, reason string, causes ...string) string {
	return event("ERROR", statusObject(code, reason, causes...))
}
