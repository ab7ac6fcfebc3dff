package page

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/history"
)

var update = flag.Bool("update", false, "write the answers in testdata anew")

// varying is what differs from run to run: when a failure is tried again, as the pause is random in part.
var varying = regexp.MustCompile(`"next": "[^"]*"|in \d+m[\d.]+s|in \d+ min|datetime="2000-01-01T00:0[2-9][^"]*"[^>]*`)

// Each endpoint, with an object of each class, as JSON and as the script fetches it.
//
// Rules: LP-02, LP-12, LP-14, LP-16, LP-17
func TestEachEndpointAnswersAsItsGoldenFile(t *testing.T) {
	within(t, Options{Version: "v1.2.3"}, fails, func(w *world) {
		for _, o := range []struct {
			name string
			data map[string]string
		}{
			{"ok", map[string]string{"Ready": "True/Complete", "children": "xx"}},
			{"paused", map[string]string{"Paused": "True/Annotated", "Ready": "False/X"}},
			{"stalled", map[string]string{"Stalled": "True/InvalidSpec", "Degraded": "True/InvalidSpec"}},
			{"contested", map[string]string{"Degraded": "True/Contested"}},
			{"degraded", map[string]string{"Degraded": "True/NameTaken"}},
			{"refused", nil},
			{"young", map[string]string{"Ready": "False/Rollout"}},
		} {
			time.Sleep(time.Second)
			w.create(o.name, o.data)
		}
		time.Sleep(time.Minute)
		w.log.Sample(history.Sample{At: time.Now(), Due: 3, RunP99: 12})
		for file, path := range map[string]string{
			"state": "/debug/state", "owners": "/debug/owners?open=ConfigMap/default/ok",
			"timeline": "/debug/timeline", "queue": "/debug/queue", "watches": "/debug/watches",
			"object": "/debug/object/ConfigMap/default/ok", "failed": "/debug/timeline?failed=1",
		} {
			for form, query := range map[string]string{"json": "format=json", "html": "fragment=1"} {
				separator := "?"
				if strings.Contains(path, "?") {
					separator = "&"
				}
				answer := w.get(path + separator + query)
				if answer.Code != http.StatusOK {
					t.Errorf("%s: %d", path, answer.Code)
				}
				golden(t, file+"."+form, answer.Body.String())
			}
		}
	})
}

// golden compares an answer with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = varying.ReplaceAllString(got, "...")
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs: run this test with -update and look at the difference\n%s", file, got)
	}
}
