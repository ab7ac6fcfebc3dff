package apiserver

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"skiff/internal/testcluster/apiserver/httpd"
)

// open sends a GET and returns the body, as it comes.
func (w *testServer) open(path string, header ...string) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), "GET", PipeURL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// Rules: FI-05
func TestAFaultCompressesWatchesInEachWay(t *testing.T) {
	for name, how := range map[string]httpd.Zip{"one member": httpd.ZipAll,
		"a member for each flush": httpd.ZipMembers,
		"not flushed":             httpd.ZipUnflushed} {
		withServer(t, Options{}, func(w *testServer) {
			w.s.Inject(Fault{Verb: "watch", Gzip: how})
			last := w.create(configMaps, "0")
			resp := w.open(configMaps+"?watch=1&resourceVersion="+last, "Accept-Encoding", "gzip")
			defer resp.Body.Close()
			events := make(chan string, 10)
			go func() {
				defer close(events)
				zip, err := gzip.NewReader(bufio.NewReaderSize(resp.Body, 16))
				if err != nil {
					t.Error(err)
					return
				}
				for lines := bufio.NewScanner(zip); lines.Scan(); {
					events <- lines.Text()
				}
			}()
			for i, name := range []string{"a", "b", "c"} {
				w.create(configMaps, name)
				synctest.Wait()
				// An event of the last kind is read when the next one has come.
				if want := i + 1; len(events) != want && (how != httpd.ZipUnflushed || len(events) != i) {
					t.Errorf("%s: %d events are read after %d were sent", name, len(events), want)
				}
			}
			resp.Body.Close()
			for e := range events {
				if !strings.HasPrefix(e, `{"type":"ADDED"`) || !strings.HasSuffix(e, "}}") {
					t.Errorf("%s: the event %q", name, e)
				}
			}
		})
	}
}

// Rules: FI-05
func TestAFaultGathersEventsAndSplitsAnswers(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		remove := w.s.Inject(Fault{Verb: "watch", Gather: 1000})
		last := w.create(configMaps, "0")
		resp := w.open(configMaps + "?watch=1&resourceVersion=" + last)
		defer resp.Body.Close()
		pieces := make(chan int, 10)
		go func() {
			defer close(pieces)
			for buffer := make([]byte, 4096); ; {
				n, err := resp.Body.Read(buffer)
				if n > 0 {
					pieces <- n
				}
				if err != nil {
					return
				}
			}
		}()
		for sent := 1; len(pieces) == 0; sent++ {
			if sent > 9 {
				t.Fatal("nothing came of nine events")
			}
			w.create(configMaps, string(rune('a'+sent)))
			synctest.Wait()
		}
		if n := <-pieces; n != 1000 {
			t.Errorf("a piece of %d bytes, want 1000", n)
		}
		remove()
		w.s.Inject(Fault{Verb: "get", At: 7})
		got := w.open(configMaps + "/0")
		defer got.Body.Close()
		buffer := make([]byte, 4096)
		if n, err := got.Body.Read(buffer); n != 7 {
			t.Errorf("the first piece is %q: %v", buffer[:n], err)
		}
		if rest, err := io.ReadAll(got.Body); err != nil || !strings.HasSuffix(string(rest), "}") {
			t.Errorf("the rest is %q: %v", rest, err)
		}
	})
}
