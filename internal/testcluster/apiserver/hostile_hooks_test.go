package apiserver

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A webhook that answers with a byte each second, without an end, by sending the server around, with a patch that
// doubles the object forty times, or with a switch of protocols fails within its timeout and with little memory.
// Others can write meanwhile.
func TestAHostileWebhookCostsItsTimeoutAndLittleMemory(t *testing.T) {
	withHooks(t, func(w *testServer, h *hooks) {
		h.odd["/drip"] = func(to http.ResponseWriter, _ *http.Request) {
			for {
				to.Write([]byte(" "))
				to.(http.Flusher).Flush()
				select {
				case <-h.done:
					return
				case <-time.After(time.Second):
				}
			}
		}
		h.odd["/flood"] = func(to http.ResponseWriter, _ *http.Request) {
			for chunk, n := bytes.Repeat([]byte(" "), 1<<16), 0; n < 100<<20; n += len(chunk) {
				if _, err := to.Write(chunk); err != nil {
					return
				}
			}
			t.Error("100 MiB were read")
		}
		h.odd["/around"] = func(to http.ResponseWriter, r *http.Request) {
			http.Redirect(to, r, "/around", http.StatusTemporaryRedirect)
		}
		h.odd["/switch"] = func(to http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(to).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			io.Copy(io.Discard, conn) // until the server closes it
		}
		h.always("/grow", change(`[{"op":"add","path":"/x","value":["0123456789"]}`+
			strings.Repeat(`,{"op":"copy","from":"/x","path":"/x/-"}`, 40)+`]`))
		for path, want := range map[string]string{"/drip": "context deadline exceeded",
			"/flood": "longer than 3145728 bytes", "/around": "stopped after 10 redirects",
			"/switch": "the server responded with the status code 101",
			"/grow":   "result too large"} {
			h.configure("mutating", "c", `,"timeoutSeconds":5`, path)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began, answered := time.Now(), make(chan response, 1)
			go func() { answered <- w.do("POST", configMaps, configMap("a")) }()
			synctest.Wait()
			w.must(201, "POST", pods, podBody("other-"+path[1:]))
			if took := time.Since(began); took > 0 {
				t.Errorf("%s: another write took %s", path, took)
			}
			a := <-answered
			runtime.ReadMemStats(&after)
			cost, took := (after.TotalAlloc-before.TotalAlloc)>>20, time.Since(began)
			if a.code < 400 || !strings.Contains(a.raw, want) || cost > 150 || took > 5*time.Second {
				t.Errorf("%s: answer %d after %s with %d MiB: %.300s", path, a.code, took, cost, a.raw)
			}
			w.must(200, "DELETE", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/c", "")
		}
	})
}
