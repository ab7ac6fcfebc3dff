package fakeapi

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
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
			strings.Repeat("y", 50_000) + `"}}}`), many("{}", 20_000), 422},
		"a key for each item": {version(`{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"],
			"items":{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}}`),
			`[` + numbered(`{"a":%d}`, 3_000) + `]`, 201},
		"versions": {version(`{"type":"string"}`) + "," + numbered(`{"name":"v1%d","served":true,"storage":false,"schema":{
			"openAPIV3Schema":{"type":"object"}}}`, 1_000), `"s"`, 201},
	} {
		inWorld(t, Options{}, func(w *world) {
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
				w.must(200, "PATCH", bads+"/a", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", mergeType)
			}
			runtime.ReadMemStats(&after)
			if cost := (after.TotalAlloc - before.TotalAlloc) >> 20; a.code != c.code || cost > 300 {
				t.Errorf("%s: answer %d, want %d, %d MiB were allocated: %.300s", name, a.code, c.code, cost, a.raw)
			}
			w.must(201, "POST", pods, podBody("another"))
		})
	}
}
