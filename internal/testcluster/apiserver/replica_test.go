package apiserver

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/testcluster/apiserver/httpd"
)

// through is the server as a client of front end n sees it.
func (w *testServer) through(n int) (seen *testServer, end func()) {
	p := httpd.OnPipe(w.s.Front(n))
	tr := &http.Transport{DialContext: p.Dial}
	return &testServer{t: w.t, s: w.s, pipe: p, client: &http.Client{Transport: tr}}, func() {
		tr.CloseIdleConnections()
		p.Close()
	}
}

// Rules: FI-07
func TestAReplicaThatLagsAnswersFromItsCache(t *testing.T) {
	withServer(t, Options{Replicas: 2}, func(w *testServer) {
		late, end := w.through(2)
		defer end()
		w.must(204, "PUT", "/skiff/faults", `{"faults":[{"replica":2,"lag":"2s"}]}`)
		first := w.create(configMaps, "a")
		time.Sleep(10 * time.Second)
		watch := late.watch(configMaps + "?watch=1&resourceVersion=" + first)
		fromCache := late.watch(configMaps + "?watch=1&resourceVersion=0")
		w.create(configMaps, "b")
		for query, want := range map[string]string{"": "a b", "?resourceVersion=0": "a",
			"?resourceVersionMatch=NotOlderThan&resourceVersion=" + first: "a",
			"?resourceVersionMatch=Exact&resourceVersion=" + first:        "a"} {
			if got := itemNames(late.must(200, "GET", configMaps+query, "")); got != want {
				t.Errorf("a list %q of the replica behind has %q, want %q", query, got, want)
			}
		}
		for _, query := range []string{"", "?resourceVersion=0"} {
			if got := itemNames(w.must(200, "GET", configMaps+query, "")); got != "a b" {
				t.Errorf("a list %q of the other has %q", query, got)
			}
		}
		late.must(200, "GET", configMaps+"/b", "")
		late.must(404, "GET", configMaps+"/b?resourceVersion=0", "")
		began := time.Now()
		if got := fromCache.next(); got.at("metadata.name") != "a" || time.Since(began) > 0 {
			t.Errorf("a watch of the cache begins with %v", got)
		}
		if got := watch.next(); got.at("metadata.name") != "b" || time.Since(began) != 2*time.Second {
			t.Errorf("%v came after %v, want b after 2s", got, time.Since(began))
		}
		last := w.create(configMaps, "c")
		// It waits for what the client has seen already, up to three seconds.
		began = time.Now()
		if got := itemNames(late.must(200, "GET", configMaps+"?resourceVersion="+last, "")); got != "a b c" ||
			time.Since(began) < 2*time.Second {
			t.Errorf("%s after %v", got, time.Since(began))
		}
		w.must(204, "PUT", "/skiff/faults", `{"faults":[{"replica":2,"lag":"1m"}]}`)
		last = w.create(configMaps, "d")
		if a := late.must(504, "GET", configMaps+"?resourceVersion="+last, ""); a.at("reason") != "Timeout" {
			t.Error(a.raw)
		}
		watch.close()
		fromCache.close()
	})
}

// Rules: FI-07
func TestReplicasTakeTurnsAndRestartAlone(t *testing.T) {
	withServer(t, Options{Replicas: 2}, func(w *testServer) {
		w.s.Inject(Fault{Replica: 2, Path: "/version", Reply: &Reply{Code: 503}})
		codes := map[int]int{}
		for range 10 {
			codes[w.do("GET", "/version", "").code]++
			w.client.CloseIdleConnections() // the next request has a connection of its own
		}
		if codes[200] != 5 || codes[503] != 5 {
			t.Errorf("answers of ten connections: %v", codes)
		}
		var watches [2]*stream
		for i := range watches {
			seen, end := w.through(i + 1)
			defer end()
			watches[i] = seen.watch(configMaps + "?watch=1")
		}
		w.must(400, "POST", "/skiff/restart?replica=3", "")
		w.must(400, "PUT", "/skiff/faults", `{"faults":[{"replica":3,"lag":"1s"}]}`)
		w.must(204, "POST", "/skiff/restart?replica=2", "")
		synctest.Wait()
		if err := watches[1].end(); err == nil {
			t.Error("a watch outlives the replica that it was of")
		}
		w.create(configMaps, "a")
		if got := watches[0].next(); got.at("metadata.name") != "a" {
			t.Errorf("the other replica's watch has %s", fmt.Sprint(got))
		}
		w.must(204, "POST", "/skiff/restart?silent=true", "") // the watch is on a connection of its own
		w.create(configMaps, "b")
		ended := make(chan error, 1)
		go func() { ended <- watches[0].end() }()
		select {
		case err := <-ended:
			t.Errorf("the watch of a server without power: %v", err)
		case <-time.After(time.Hour):
		}
		watches[0].close()
		<-ended
	})
}
