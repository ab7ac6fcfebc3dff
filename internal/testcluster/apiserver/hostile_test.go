package apiserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/auth"
	"skiff/internal/testcluster/apiserver/obj"
)

func TestAHostileBodyCostsLittleMemory(t *testing.T) {
	key := strings.Repeat("k", 100_000)
	many := func(item string, n int) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	manyNames := func(n int) string {
		var fields []string
		for i := range n {
			fields = append(fields, `"`+strings.Repeat("x", i%90+1)+string(rune('a'+i%26))+`":1`)
		}
		return strings.Join(fields, ",")
	}
	for name, spec := range map[string]string{
		"duplicates below a long key": `{"` + key + `":{` + many(`"x":1`, 5_000) + `}}`,
		"unknown fields":              `{"` + key + `":{` + manyNames(2_000) + `}}`,
		"a long key above deep lists": `{"` + key + `":` + strings.Repeat("[", 9_900) + strings.Repeat("]", 9_900) +
			`}`,
		"empty objects": `{"image":[` + many(`{}`, 400_000) + `]}`,
	} {
		for _, contentType := range []string{"application/json", "application/yaml"} {
			if contentType == "application/yaml" && name == "empty objects" {
				continue // a megabyte of YAML is a hundred in the parser's own tree
			}
			withWidgets(t, func(w *testServer) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				a := w.do("POST", widgetPath, widget("a", spec), "Content-Type", contentType)
				runtime.ReadMemStats(&after)
				if cost := (after.TotalAlloc - before.TotalAlloc) >> 20; cost > 200 || a.code == 201 {
					t.Errorf("%s as %s: answer %d, %d MiB were allocated", name, contentType, a.code, cost)
				}
			})
		}
	}
}

// freeWidgets is withWidgets with a field of any content.
func freeWidgets(t *testing.T, test func(w *testServer)) {
	t.Helper()
	withWidgets(t, func(w *testServer) {
		w.must(200, "PATCH", crdPath+"/widgets.example.com", `[{"op":"add","value":{"type":"object",
			"x-kubernetes-preserve-unknown-fields":true},
			"path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/free"}]`,
			"Content-Type", "application/json-patch+json")
		synctest.Wait()
		test(w)
	})
}

func TestObjectsAreAsLargeAndDeepAsOnARealServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	var items, numbers, members []string
	for i := range 40_000 {
		items = append(items, fmt.Sprintf(`{"n":"item-%05d"}`, i))
		members = append(members, fmt.Sprintf(`"m%05d":{"a":%d}`, i, i))
	}
	for i := range 400_000 {
		numbers = append(numbers, strconv.Itoa(i%10))
	}
	list := func(of []string) string { return `{"list":[` + strings.Join(of, ",") + `]}` }
	for name, free := range map[string]string{
		"40,000 small objects": list(items),
		"400,000 numbers":      list(numbers),
		"10,000 members":       `{` + strings.Join(members[:10_000], ",") + `}`,
		"9,000 levels":         strings.Repeat(`{"a":`, 9_000) + `{}` + strings.Repeat("}", 9_000),
	} {
		freeWidgets(t, func(w *testServer) {
			body := widget("a", `{"image":"i","free":`+free+`}`)
			w.must(201, "POST", widgetPath, body)
			one := widgetPath + "/a"
			w.must(200, "PATCH", one, `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", string(kube.MergePatch))
			w.must(200, "PATCH", one, `[{"op":"add","path":"/metadata/labels/c","value":"d"}]`, "Content-Type",
				string(kube.JSONPatch))
			w.must(200, "PATCH", one+"?fieldManager=m&force=true", body, "Content-Type", string(kube.ApplyPatch))
			got := w.must(200, "GET", widgetPath+"?labelSelector=a%3Db", "").raw
			if !strings.Contains(got, free) {
				t.Errorf("%s: got %.1000s", name, got)
			}
		})
	}
}

// A JSON patch adds below what is there, so that an object can become deeper than any body.
func TestPatchesCannotNestAnObjectWithoutLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	freeWidgets(t, func(w *testServer) {
		w.must(201, "POST", widgetPath, widget("a", `{"image":"i","free":{}}`))
		const levels = 4_000
		value, path := strings.Repeat(`{"a":`, levels)+`{}`+strings.Repeat("}", levels), "/spec/free"
		n, a := 0, response{code: 200}
		for ; a.code == 200 && n < 10; n++ {
			a = w.do("PATCH", widgetPath+"/a", `[{"op":"add","path":"`+path+`/a","value":`+value+`}]`,
				"Content-Type", "application/json-patch+json")
			path += strings.Repeat("/a", levels+1)
		}
		if a.code != 500 || n > obj.MaxDepth/levels+1 {
			t.Errorf("patch %d was answered %d %v", n, a.code, a.body)
		}
		w.must(200, "GET", widgetPath+"/a", "")
	})
}

// What is set over HTTP is either refused or can be served with.
func FuzzFaults(f *testing.F) {
	for _, seed := range []string{`{"faults":[]}`, `{"faults":[{"verb":"list","times":1,"reply":{"code":429}}]}`,
		`{"faults":[{"cut":"body","at":3,"chunk":1,"delay":"1ns"},{"watch":{"end":"midFrame","after":2}}]}`, `[]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s := New(Options{})
		defer s.Close()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("PUT", "/skiff/faults", strings.NewReader(body)))
		if w.Code != 204 && w.Code != 400 {
			t.Errorf("%q was answered %d %s", body, w.Code, w.Body)
		}
		again := httptest.NewRecorder()
		s.ServeHTTP(again, httptest.NewRequest("POST", "/skiff/reset", nil))
		if again.Code != 204 {
			t.Errorf("after %q a reset was answered %d", body, again.Code)
		}
	})
}

// No request to /skiff/ does harm: afterwards the server still answers, and can be reset.
func FuzzControl(f *testing.F) {
	f.Add("POST", "snapshot?name=a", "")
	f.Add("POST", "restore?name=a", "")
	f.Add("GET", "requests?since=2001-01-01T00:00:00Z", "")
	f.Add("POST", "restart?replica=-1", "{}")
	f.Fuzz(func(t *testing.T, method, path, body string) {
		target, err := url.Parse("/skiff/" + path)
		if err != nil || len(path) > 1000 {
			return
		}
		s := New(Options{})
		defer s.Close()
		for _, r := range []*http.Request{
			{Method: method, URL: target, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}},
			httptest.NewRequest("POST", "/skiff/snapshot?name=x", nil),
			httptest.NewRequest("POST", "/skiff/restore?name=x", nil),
			httptest.NewRequest("POST", "/skiff/reset", nil),
		} {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code >= 500 || r.URL != target && w.Code != 204 {
				t.Errorf("%s %q: %s %s was answered %d %s", method, path, r.Method, r.URL, w.Code, w.Body)
			}
		}
	})
}

// A token that says anything, and is signed by the right key, is refused or of a service account.
func FuzzToken(f *testing.F) {
	s := New(Options{})
	f.Cleanup(s.Close)
	key, err := s.authn.Signer()
	if err != nil {
		f.Fatal(err)
	}
	for _, said := range []string{`{}`, `{"iss":"` + auth.DefaultIssuer + `","sub":"system:serviceaccount::","exp":9e9}`,
		`{"exp":-9223372036854775808,"kubernetes.io":{"pod":{}}}`, `{"aud":null,"nbf":1e30}`} {
		f.Add(said)
	}
	f.Fuzz(func(t *testing.T, said string) {
		if !json.Valid([]byte(said)) {
			return
		}
		token, err := auth.Sign(key, json.RawMessage(said))
		if err != nil {
			t.Fatal(err)
		}
		if user, err := s.authn.Bearer(token, []string{s.authn.Audience()}, time.Now()); err == nil {
			t.Errorf("%s is good for %s: there is no such account", said, user.Name)
		}
	})
}
