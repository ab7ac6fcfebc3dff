package kinds

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/obj"
)

// kindOf compiles the data of one kind.
func kindOf(t *testing.T, lines string) *Kind {
	t.Helper()
	d := &data{sets: map[string]*set{}}
	return d.kind(parseLines("x.txt", "kind v1 as A\n"+lines)[0])
}

func decoded(t *testing.T, text string) Object {
	t.Helper()
	v, err := patch.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o, _ := v.(Object)
	return o
}

func TestChecksCompareWithTheStoredObjectAndWithOtherFields(t *testing.T) {
	for _, c := range []struct{ check, next, cur, want string }{
		{"a frozen: no", `{"a":2}`, `{"a":1}`, "a: Forbidden: no"},
		{"a frozen: no if b", `{"a":1}`, `{"a":1}`, ""},
		{"a frozen if old:b = true: no", `{"a":2,"b":true}`, `{"a":1}`, ""},
		{"a invalid if b|c changed: no", `{"a":1,"c":2}`, `{"c":1}`, "a: Invalid value: 1: no"},
		{"a absent: no", `{"a":{}}`, `null`, ""},
		{"a absent: no", `{"a":[1]}`, `null`, "a: Forbidden: no"},
		{"l[].n refers-to m[].n|k", `{"l":[{"n":"x"},{"n":"y"},{"n":"z"}],"m":[{"n":"x"}],"k":"y"}`, `null`,
			`l[2].n: Not found: "z"`},
		{"l[0] as place required", `{"l":[""]}`, `null`, "place: Required value"},
		{"l distinct a b", `{"l":[{"a":1,"b":1},{"a":1,"b":2},{"a":1,"b":1,"c":3}]}`, `null`,
			`l[2]: Duplicate value: {"a":1,"b":1}`},
		{"l distinct", `{"l":["a","","a",""]}`, `null`, `l[2]: Duplicate value: "a"; l[3]: Duplicate value: ""`},
		{"l m unique n", `{"l":[{"n":"x"},{}],"m":[{"n":"x"},{}]}`, `null`, `m[0].n: Duplicate value: "x"`},
		{"a invalid if a != {b}.{c}: no", `{"a":"x.z","b":"x","c":"y"}`, `null`, `a: Invalid value: "x.z": no`},
		{"l forbidden if l shorter 2: no", `{"l":[1]}`, `null`, "l: Forbidden: no"},
		{"l forbidden if l longer old:l: no", `{"l":[1,2]}`, `{"l":[1]}`, "l: Forbidden: no"},
		{"q forbidden if q < old:q: no", `{"q":"900m"}`, `{"q":"1"}`, "q: Forbidden: no"},
		{"n forbidden if n <= m: no", `{"n":2,"m":2}`, `null`, "n: Forbidden: no"},
		{"in s\n      a forbidden if /b != old:/b: no", `{"s":{"a":1},"b":"x"}`, `{"s":{},"b":"y"}`,
			"s.a: Forbidden: no"},
		{"q forbidden if q <= none: no", `{"q":"1"}`, `null`, ""},
		{"a frozen: no\n      drop b if old:c = 1\n      in l[]\n        drop x", `{"a":{"b":2,"c":1,"l":[{"x":2}]}}`,
			`{"a":{"c":1,"l":[{"x":1}]}}`, ""},
		{"a frozen: no\n      drop b if old:c = 1", `{"a":{"b":2}}`, `{"a":{"b":1}}`, "a: Forbidden: no"},
		{"a form label: <secret>", `{"a":"A"}`, `null`, `a: Invalid value: "<secret>": ` + obj.Label("A")},
	} {
		var got []string
		for _, f := range kindOf(t, "  checks\n    "+c.check).Validate(decoded(t, c.next), decoded(t, c.cur)) {
			got = append(got, f.Field+": "+f.Message)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s of %s, before %s: %q, want %q", c.check, c.next, c.cur, text, c.want)
		}
	}
}

func TestColumnsHavePartsForSomeObjectsAndCellsOfItems(t *testing.T) {
	const object = `{"on":true,"l":[{"a":1,"b":"x"},{"b":"y"},{"a":3,"b":"z"},{"a":4,"b":"w"}],"one":{"a":"A"}}`
	for cell, want := range map[string]any{
		"x{,y if on = true}{,z if on = false}":            "x,y",
		"each l[]|none {a}:{b} if a > 1; {b}":             "x,y,3:z,4:w",
		"each three:l[] {b}":                              "x,y,z + 1 more...",
		"each none[]|none {b}":                            "none",
		"each one|none {lower:a}":                         "a",
		"{none|=one.a}":                                   "A",
		"{l[-1].b}":                                       "w",
		"{,skipped if on = false} if has l[b=w]; no":      "",
		"{l[0].a}/{l[9].a|0} if l[1].b = {l[1].b}; wrong": "1/0",
	} {
		k := kindOf(t, "  columns\n    C = "+cell)
		if got := k.Columns[0].Cell(decoded(t, object), time.Time{}); got != want {
			t.Errorf("%s: %q, want %q", cell, got, want)
		}
	}
}

func TestDefaultsCopyWhatThereIs(t *testing.T) {
	k := kindOf(t, "  prepare\n    a =old:a\n    b =old:b\n    in l[]\n      drop x\n")
	next := decoded(t, `{"l":[{"x":1,"y":2}]}`)
	k.Prepare(next, decoded(t, `{"a":"was"}`))
	if want := decoded(t, `{"a":"was","l":[{"y":2}]}`); !patch.Equal(next, want) {
		t.Errorf("got %v, want %v", next, want)
	}
	if _, made := next["b"]; made {
		t.Error("the copy of a missing value makes a field")
	}
}

// Each example of the README compiles, and it has each word of the language.
func TestTheREADMEExplainsTheWholeLanguage(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		title, rows, _ := strings.Cut(section, "\n")
		form := map[string]string{"Paths": "checks\n    %s required", "Conditions": "checks\n    a required if %s",
			"Defaults and prepare": "defaults\n    %s", "Checks": "checks\n    %s",
			"Columns": "columns\n    %s"}[title]
		for row := range strings.Lines(rows) {
			if !strings.HasPrefix(row, "| `") || form == "" {
				continue
			}
			row = strings.ReplaceAll(row, `\|`, "\x00")
			for i, code := range strings.Split(strings.Split(row, "|")[1], "`") {
				if code = strings.ReplaceAll(code, "\x00", "|"); i%2 == 0 {
					continue
				}
				for _, word := range strings.Fields(strings.ReplaceAll(code, ":", " ")) {
					seen[word] = true
				}
				const sets = "set template\n  defaults\n    a 1\nset ready-columns\n  columns\n    age\n"
				lines := sets + "kind v1 as A\n  " + fmt.Sprintf(form, strings.ReplaceAll(code, "if C", "if has a"))
				if why := mistakeIn(lines); why != "" {
					t.Errorf("%s, %s: %s", title, code, why)
				}
			}
		}
	}
	for _, word := range slices.Concat(obj.Keys(checkKinds()), unary, binary, strings.Fields(
		"new update changed in use call set drop keep age wide each @now")) {
		if !seen[word] {
			t.Errorf("there is no example of %s", word)
		}
	}
}

// BenchmarkValidatePodUpdate is the cost of the checks of a changed image, which a block of the frozen spec allows.
func BenchmarkValidatePodUpdate(b *testing.B) {
	all := Builtin(features.Set{})
	pods := all[slices.IndexFunc(all, func(k *Kind) bool { return k.Plural == "pods" })]
	pod := func(image string) Object {
		o := Object{"spec": Object{"containers": []any{Object{"name": "a", "image": image}}}}
		pods.Defaults(o)
		return o
	}
	next, cur := pod("a:1"), pod("a:2")
	b.ReportAllocs()
	for b.Loop() {
		if found := pods.Validate(next, cur); found != nil {
			b.Fatal(found)
		}
	}
}
