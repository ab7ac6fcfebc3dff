package apiserver

import (
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/httpd"
)

// numbered returns a text with each number below n, separated by commas.
func numbered(format string, n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(out, ",")
}

// Definitions of a few kilobytes, and objects of some hundred, that take gigabytes or hours without limits: for the
// answer, for compiled patterns, for defaults, and for comparing each item of a list with each.
func TestAHostileDefinitionCostsLittle(t *testing.T) {
	version := func(spec string) string {
		return `{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":` +
			spec + `}}}}`
	}
	items := func(schema string) string { return version(`{"type":"array","items":` + schema + `}`) }
	many := func(item string, n int) string { return `[` + strings.Repeat(item+",", n-1) + item + `]` }
	for name, c := range map[string]struct {
		versions, spec string
		code           int // of the definition if there is no spec
	}{
		"large patterns": {version(`{"type":"string","pattern":"` + strings.Repeat(`\\pL{1000}`, 3000) + `"}`), ``, 422},
		"many patterns": {version(`{"type":"object","properties":{` +
			numbered(`"a%d":{"type":"string","pattern":"(\\pL{900}a)"}`, 800) + `}}`), ``, 422},
		"patterns in many versions": {numbered(`{"name":"v%d","served":true,"storage":false,"schema":{"openAPIV3Schema":{
			"type":"object","properties":{"a":{"type":"string","pattern":"a{1000}"}}}}}`, 600), ``, 422},
		"a slow pattern": {version(`{"type":"string","pattern":"(x?y?z?){300}q"}`),
			`"` + strings.Repeat("x", 1<<20) + `"`, 422},
		"a large enum": {items(`{"type":"integer","enum":[` + numbered("%d", 5000) + `]}`), many("-1", 5000), 422},
		"required fields": {items(`{"type":"object","required":[` + numbered(`"a%d"`, 2000) + `]}`), many("{}", 2000),
			422},
		"alternatives": {items(`{"type":"integer","anyOf":[` + numbered(`{"minimum":%d}`, 5000) + `]}`), many("-1", 5000),
			422},
		"defaults": {items(`{"type":"object","properties":{"a":{"type":"object","default":{},"properties":{` +
			numbered(`"a%d":{"type":"string","default":"x"}`, 2000) + `}}}}`), many("{}", 10_000), 500},
		"long defaults": {items(`{"type":"object","properties":{"a":{"type":"string","default":"` +
			strings.Repeat("y", 50_000) + `"}}}`), many("{}", 20_000), 500},
		"a key for each item": {version(`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"],
			"items":{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}}`),
			`[` + numbered(`{"a":%d}`, 3_000) + `]`, 201},
		"versions": {version(`{"type":"string"}`) + "," + numbered(`{"name":"v1%d","served":true,"storage":false,"schema":{
			"openAPIV3Schema":{"type":"object"}}}`, 1_000), `"s"`, 201},
	} {
		withServer(t, Options{}, func(w *testServer) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			a := w.do("POST", crdPath, `{"metadata":{"name":"bads.x.test"},"spec":{"group":"x.test","scope":"Namespaced",
				"names":{"plural":"bads","kind":"Bad"},"versions":[`+c.versions+`]}}`)
			synctest.Wait()
			const bads = "/apis/x.test/v1/namespaces/default/bads"
			if c.spec != "" {
				a = w.do("POST", bads, `{"apiVersion":"x.test/v1","kind":"Bad","metadata":{"name":"a"},"spec":`+c.spec+`}`)
			}
			if a.code == 201 {
				w.must(200, "PATCH", bads+"/a", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", string(kube.MergePatch))
			}
			runtime.ReadMemStats(&after)
			if cost := (after.TotalAlloc - before.TotalAlloc) >> 20; a.code != c.code || cost > 300 {
				t.Errorf("%s: answer %d, want %d, %d MiB were allocated: %.300s", name, a.code, c.code, cost, a.raw)
			}
			w.must(201, "POST", pods, podBody("another"))
		})
	}
}

// Any definition is refused or served, what it serves can be written and read again as it was answered,
// and other objects can be written meanwhile.
func FuzzDefinition(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{
			"type":"object","default":{"a":"x"},"properties":{"a":{"type":"string","pattern":"^x","default":"y"},"b":{
			"x-kubernetes-int-or-string":true}}}}}},"subresources":{"status":{},"scale":{"specReplicasPath":".spec.r",
			"statusReplicasPath":".status.r"}}}`, `{"spec":{"a":"x"}}`},
		{`{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
			"x-kubernetes-preserve-unknown-fields":true}},"additionalPrinterColumns":[{"name":"c","type":"date",
			"jsonPath":".spec..a[*]['b']"}],"selectableFields":[{"jsonPath":".spec.a"}],"deprecated":true}`, `{"a":[null]}`},
		{`{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"l":{
			"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object",
			"required":["k"],"properties":{"k":{"type":"string","enum":["a","b"]}}}}}}}}`, `{"l":[{"k":"a"}]}`},
		{`{"name":"v1","served":true,"storage":false},{"name":"v1"}`, `null`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, versions, object string) {
		s := New(Options{})
		defer s.Close()
		do := func(method, path, body string) response {
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			a := response{code: w.Code, raw: w.Body.String()}
			if v, err := patch.Decode(w.Body.Bytes()); err == nil {
				a.body, _ = v.(map[string]any)
			} else if w.Code != 404 {
				t.Errorf("%s %s was answered %d %s", method, path, w.Code, a.raw)
			}
			return a
		}
		began := time.Now()
		a := do("POST", crdPath, `{"metadata":{"name":"bads.x.test"},"spec":{"group":"x.test","scope":"Namespaced","names":{
			"plural":"bads","kind":"Bad"},"versions":[`+versions+`]}}`)
		if a.code == 201 {
			s.serveCRDs()
			path := "/apis/x.test/v1/namespaces/default/bads"
			var o map[string]any
			if v, err := patch.Decode([]byte(object)); err == nil {
				o, _ = v.(map[string]any)
			}
			if o != nil {
				o["apiVersion"], o["kind"], o["metadata"] = "x.test/v1", "Bad", map[string]any{"name": "a"}
				if made := do("POST", path, string(httpd.Encode(o))); made.code == 201 {
					if got := do("GET", path+"/a", ""); !patch.Equal(got.body, made.body) {
						t.Errorf("made as %s, but stored as %s", made.raw, got.raw)
					}
					again := do("PUT", path+"/a", made.raw)
					if again.code == 200 && !patch.Equal(again.body, made.body) {
						t.Errorf("made as %s, put as %s", made.raw, again.raw)
					}
					do("GET", path, "")
				}
			}
			do("GET", "/openapi/v3/apis/x.test/v1", "")
		} else if a.code >= 500 && !strings.Contains(a.raw, "too large") {
			t.Errorf("%s was answered %d %s", versions, a.code, a.raw)
		}
		if a := do("POST", pods, podBody("another")); a.code != 201 {
			t.Errorf("another object was answered %d %s", a.code, a.raw)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %s", took)
		}
	})
}
