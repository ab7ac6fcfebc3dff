package apiserver

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

func TestAResetGoesBackToTheStartByOrdinaryChanges(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(201, "POST", configMaps, configMap("kept"))
		w.s.SetStart()
		list := w.must(200, "GET", configMaps, "")
		watch := w.watch(configMaps + "?watch=1&resourceVersion=" + list.at("metadata.resourceVersion").(string))
		defer watch.close()
		w.must(201, "POST", configMaps, configMap("added"))
		w.must(200, "DELETE", configMaps+"/kept", "")
		w.must(201, "POST", crdPath, widgetCRD)
		synctest.Wait()
		w.must(201, "POST", widgetPath, widget("a", `{"image":"x"}`))
		w.must(204, "PUT", "/skiff/faults", `{"faults":[{"resource":"secrets","reply":{"code":503}}]}`)

		w.must(204, "POST", "/skiff/reset", "")
		var seen []frame
		for range 4 {
			seen = append(seen, watch.next())
		}
		if got := eventNames(seen); got != "ADDED added, DELETED kept, DELETED added, ADDED kept" {
			t.Error(got)
		}
		w.must(404, "GET", configMaps+"/added", "")
		w.must(404, "GET", widgetPath, "")
		w.must(200, "GET", "/api/v1/secrets", "")
		kept := w.must(200, "GET", configMaps+"/kept", "")
		w.must(200, "PATCH", configMaps+"/kept", `{"data":{"a":"c"}}`, "Content-Type", "application/merge-patch+json")
		w.must(409, "PUT", configMaps+"/kept", kept.raw)
		if n := len(w.s.Requests()); n != 6 {
			t.Errorf("%d requests are recorded since the reset, want 6", n)
		}
	})
}

func TestSnapshotsAreNamedAndFew(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(204, "POST", "/skiff/snapshot?name=empty", "")
		w.must(201, "POST", configMaps, configMap("a"))
		w.must(204, "POST", "/skiff/snapshot?name=one", "")
		w.must(204, "POST", "/skiff/restore?name=empty", "")
		w.must(404, "GET", configMaps+"/a", "")
		w.must(204, "POST", "/skiff/restore?name=one", "")
		w.must(200, "GET", configMaps+"/a", "")
		w.must(404, "POST", "/skiff/restore?name=other", "")
		w.must(400, "POST", "/skiff/snapshot", "")
		w.must(400, "POST", "/skiff/snapshot?name=start", "")
		for i := range maxSnapshots - 2 {
			w.must(204, "POST", fmt.Sprintf("/skiff/snapshot?name=s%d", i), "")
		}
		more := fmt.Sprint(w.must(400, "POST", "/skiff/snapshot?name=more", "").at("message"))
		if !strings.Contains(more, "16 snapshots") || strings.Contains(more, startSnapshot) {
			t.Errorf("one too many: %s", more)
		}
		w.must(204, "POST", "/skiff/snapshot?name=one", "")
	})
}

func TestFaultsAreSetOverHTTP(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		w.must(204, "PUT", "/skiff/faults", `{"faults":[{"verb":"list","resource":"configmaps","times":1,
			"reply":{"code":429,"reason":"TooManyRequests","message":"slow down","retryAfter":"7"}},
			{"path":"/","userAgent":"nobody","cut":"blackhole"}]}`)
		if a := w.must(429, "GET", configMaps, ""); a.header.Get("Retry-After") != "7" {
			t.Error(a.header)
		}
		w.must(200, "GET", configMaps, "")
		w.must(204, "PUT", "/skiff/faults", `{"faults":[{"path":"/","reply":{"code":500}}]}`)
		w.must(500, "GET", configMaps, "")
		w.must(204, "PUT", "/skiff/faults", `{"faults":[{"verb":"get","rewrite":"kindless"}]}`)
		w.create(configMaps, "a")
		if a := w.must(200, "GET", configMaps+"/a", ""); a.at("kind") != nil {
			t.Error(a.raw)
		}
		w.create(configMaps, "b")
		w.must(204, "PUT", "/skiff/faults", `{"faults":[{"rewrite":"poison:b"},{"name":"a","rewrite":"huge:5"}]}`)
		list := w.must(200, "GET", configMaps, "").at("items").([]any)
		if a, b := list[0].(map[string]any), list[1].(map[string]any); a["spec"] != nil || b["spec"] != "poison" {
			t.Errorf("a: %v, b: %v", a["spec"], b["spec"])
		}
		if n := len(w.must(200, "GET", configMaps+"/a", "").raw); n < 5<<20 || n > 6<<20 {
			t.Errorf("huge:5 is %d bytes", n)
		}
		w.must(204, "PUT", "/skiff/faults", `{"faults":[]}`)
		w.must(200, "GET", configMaps, "")
		for body, want := range map[string]string{
			`{"faults":[{"cut":"half"}]}`:                           "is none of after, before, blackhole, body, stall, switch",
			`{"faults":[{},{"watch":{"end":"never"}}]}`:             "faults[1].watch.end",
			`{"faults":[{"delay":"long"}]}`:                         "is no duration such as 1.5s",
			`{"faults":[{"delay":"-1s"}]}`:                          "is no duration",
			`{"faults":[{"rewrite":"all"}]}`:                        "is none of huge, kindless, nulls, poison",
			`{"faults":[{"rewrite":"huge:65"}]}`:                    "number of MiB from 1 to 64",
			`{"faults":[{"rewrite":"nulls:a"}]}`:                    "nulls takes no argument",
			`{"limits":{"streams":-1}}`:                             "limits.streams and limits.headerBytes: want numbers",
			`{"limits":{"http1":true}}`:                             "limits: a server keeps those that it started with",
			`{"limits":{"age":"-1s"}}`:                              "limits.age: \\\"-1s\\\" is no duration",
			`{"faults":[{"by":"hand"}]}`:                            "is none of close, reset, stream",
			`{"faults":[{"typo":1}]}`:                               "faults[0].typo: unknown",
			`{"faults":[{"times":-1}]}`:                             "times: -1 is negative",
			`{"faults":[{"probability":2}]}`:                        "not between 0 and 1",
			`{"faults":[{"reply":{"code":99}}]}`:                    "99 is no status",
			`{"faults":[]} {}`:                                      "JSON: line 1: invalid character '{' after top-level",
			"faults:\n- verb: list":                                 "JSON: line 1: invalid character 'u'",
			"{\"faults\":[\n{\"times\":1,}]}":                       "JSON: line 2: invalid character '}'",
			`{"faults":[{"verb":"list","times":2}]}`:                "faults[0].verb: has no effect: say what happens",
			`{"faults":[{"at":7,"delay":"1s"}]}`:                    "faults[0].at: has no effect: set cut to body or stall",
			`{"faults":[{"by":"reset","delay":"1s"}]}`:              "faults[0].by: has no effect: set cut or watch.end",
			`{"faults":[{"verb":"list","watch":{"reorder":true}}]}`: "faults[0].watch: has no effect: the verb is list",
			`{"faults":[{}` + strings.Repeat(",{}", 100) + `]}`:     "101 faults are too many",
		} {
			if a := w.must(400, "PUT", "/skiff/faults", body); !strings.Contains(a.raw, want) {
				t.Errorf("%s: %s", body, a.raw)
			}
		}
	})
}

func TestRequestsAreListedOverHTTPAndNeedTheToken(t *testing.T) {
	withServer(t, Options{Token: "secret"}, func(w *testServer) {
		auth := []string{"Authorization", "Bearer secret"}
		for _, path := range []string{"POST reset", "PUT faults", "GET requests", "POST snapshot"} {
			method, path, _ := strings.Cut(path, " ")
			w.must(401, method, "/skiff/"+path, "")
		}
		w.must(200, "GET", configMaps+"?labelSelector=a", "", auth...)
		a := w.must(200, "GET", "/skiff/requests", "", auth...)
		list := a.at("requests").([]any)
		if len(list) != 1 {
			t.Fatalf("%s", a.raw)
		}
		got := list[0].(map[string]any)
		if got["method"] != "GET" || got["path"] != configMaps || got["query"] != "labelSelector=a" ||
			got["status"] != int64(200) || got["userAgent"] != "test/1" || strings.Contains(a.raw, "secret") {
			t.Error(a.raw)
		}
		a = w.must(200, "GET", "/skiff/requests?since="+got["time"].(string), "", auth...)
		if n := len(a.at("requests").([]any)); n != 0 {
			t.Errorf("%d requests since the last one", n)
		}
		w.must(400, "GET", "/skiff/requests?since=yesterday", "", auth...)
		w.must(404, "GET", "/skiff/reset", "", auth...)
	})
}

// Rules: FI-06, FI-08
func TestHistoryIsRemovedAndABackupRestoredOverHTTP(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		first := w.create(configMaps, "a", "b")
		w.must(204, "POST", "/skiff/snapshot?name=backup", "")
		w.create(configMaps, "c")
		token := fmt.Sprint(w.must(200, "GET", configMaps+"?limit=1", "").at("metadata.continue"))
		last := w.create(configMaps, "d")
		open := w.watch(configMaps + "?watch=1&resourceVersion=" + last)
		w.must(204, "POST", "/skiff/compact", "")
		w.must(410, "GET", configMaps+"?continue="+token, "")
		old := w.watch(configMaps + "?watch=1&resourceVersion=" + first)
		if f := old.next(); f.Type != "ERROR" || f.at("code") != float64(410) {
			t.Errorf("a watch from before the compaction: %v", f)
		}
		old.close()
		w.must(204, "POST", "/skiff/restore?name=backup&rewind=true", "")
		if err := open.end(); err != io.EOF {
			t.Errorf("the watch that was open at the restore: %v", err)
		}
		list := w.must(200, "GET", configMaps, "")
		if names := itemNames(list); names != "a b" || fmt.Sprint(list.at("metadata.resourceVersion")) >= last {
			t.Errorf("restored: %s at %v, before it was %s", names, list.at("metadata.resourceVersion"), last)
		}
	})
}
