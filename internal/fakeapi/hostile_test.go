package fakeapi

import (
	"runtime"
	"strings"
	"testing"
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
			withWidgets(t, func(w *world) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				a := w.do("POST", widgetPath, widget("a", spec), "Content-Type", contentType)
				runtime.ReadMemStats(&after)
				if cost := (after.TotalAlloc - before.TotalAlloc) >> 20; cost > 100 || a.code == 201 {
					t.Errorf("%s as %s: answer %d, %d MiB were allocated", name, contentType, a.code, cost)
				}
			})
		}
	}
}
