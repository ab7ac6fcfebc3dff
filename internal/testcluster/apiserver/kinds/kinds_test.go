package kinds

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/features"
)

func object(t *testing.T, s string) Object {
	t.Helper()
	v, err := patch.Decode([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return v.(Object)
}

func TestEachKindHasColumnsAndAPlaceInDiscovery(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Builtin(features.Set{}) {
		id := k.APIVersion() + "/" + k.Plural
		if seen[id] || k.Kind == "" || k.Review == nil && (len(k.Columns) == 0 || k.Node == nil) || k.Type == nil ||
			k.Group != "" && !slices.Contains(groupOrder, k.Group) {
			t.Errorf("%s: twice, or without kind, columns, structure, fields or a place among the groups", id)
		}
		seen[id] = true
		for _, c := range k.Columns {
			c.Cell(Object{}, time.Now()) // an empty object must not make a column panic
		}
		for _, f := range k.Fields {
			f(Object{})
		}
		if k.Defaults != nil {
			k.Defaults(Object{"metadata": Object{}})
		}
		if k.Validate != nil {
			k.Validate(Object{"metadata": Object{}}, nil)
		}
	}
}

func TestTheDataOfTheKindsHasNoMistake(t *testing.T) {
	d := described() // panics at the line of a mistake
	for name, s := range d.sets {
		if len(s.block("defaults")())+len(s.block("checks")())+len(d.columns(s.columns)) == 0 ||
			len(s.block("prepare")()) > 0 {
			t.Errorf("set %s: want defaults, checks or columns, and no other block", name)
		}
	}
	// A semicolon begins a line that is indented by four spaces, two semicolons by six.
	for text, want := range map[string]string{
		"checks;spec.a requird":               `3: no check: ["spec.a" "requird"]`,
		"checks;spec.a form labl":             `3: no form "labl"`,
		"checks;a only":                       "3: only without an argument",
		"checks;a immutable b":                "3: immutable takes no argument",
		"checks;a forbidden: c":               "3: forbidden without a condition",
		"checks;a required if":                "3: if without a condition",
		"checks;a invalid if b: c":            `3: no condition: "b"`,
		"checks;a invalid if has b or: c":     "3: or without a condition on both sides",
		"checks;a[b required":                 `3: no closing bracket: "a[b"`,
		"checks;use x .":                      `3: no set "x"`,
		"checks;call x":                       `3: no function "x"`,
		"checks;call x .":                     `3: no function "x"`,
		"checks;call endpoints .;;b required": `3: nothing can be below "call endpoints ."`,
		"checks;in a;;b requird":              `4: no check: ["b" "requird"]`,
		"defaults;spec.a {":                   "3: read the value {",
		"defaults;spec.a 1 2":                 `3: want a path and a value: ["spec.a" "1" "2"]`,
		"defaults;spec.a 1;;b 2":              `3: nothing can be below "spec.a 1"`,
		"defaults;;spec.a 1":                  "3: indented too far",
		"colour red":                          `2: no attribute "colour"`,
		"short a;b":                           `2: nothing can be below "short a"`,
		"scale spec.replicas":                 "2: scale: want the paths",
		"flags clustered":                     `2: no flag "clustered"`,
		"status @x":                           `2: no function "x"`,
		"status {":                            "2: read the value {",
		"name labl":                           `2: no form "labl"`,
		"warn a: b":                           `2: no condition: "a"`,
		"selectable a={":                      `2: no closing bracket: "{"`,
		"columns;B":                           "3: column: want NAME = CELL",
		"columns;B = {a":                      "3: no closing brace",
		"columns;B = @c":                      `3: no function "c"`,
		"columns;B = {lowr:a}":                `3: no filter "lowr"`,
		"columns;use x":                       `3: no set "x"`,
	} {
		if got := mistakeIn("kind v1 as A\n  " + strings.ReplaceAll(strings.ReplaceAll(text, ";;", "\n      "), ";",
			"\n    ")); !strings.HasPrefix(got, "kinds/data/x.txt:"+want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{"kind v1 as": "1: want kind, apiVersion, plural, Kind",
		"sort a": "1: want kind, or set with a new name", "set a\n  short b": `1: set a: no block "short b"`} {
		if got := mistakeIn(text); !strings.HasPrefix(got, "kinds/data/x.txt:"+want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// mistakeIn returns the message about data with a mistake.
func mistakeIn(text string) (message string) {
	defer func() {
		if why := recover(); why != nil {
			message = fmt.Sprint(why)
		}
	}()
	d := &data{sets: map[string]*set{}}
	for _, l := range parseLines("x.txt", text) {
		d.declare(l)
	}
	for _, l := range d.kinds {
		k := d.kind(l)
		if k.Defaults != nil {
			k.Defaults(Object{})
		}
		if k.Validate != nil {
			k.Validate(Object{}, nil)
		}
		for _, c := range k.Columns {
			c.Cell(Object{}, time.Time{})
		}
	}
	return ""
}

func TestPodsAreSummarizedAsKubectlUsersKnowIt(t *testing.T) {
	for want, pod := range map[podSummary]string{
		{"0/1", "Pending", "0"}: `{"spec":{"containers":[{"name":"c"}]},"status":{"phase":"Pending"}}`,
		{"1/1", "Running", "0"}: `{"spec":{"containers":[{"name":"c"}]},"status":{"phase":"Running",` +
			`"containerStatuses":[{"name":"c","ready":true,"state":{"running":{}}}]}}`,
		{"0/1", "CrashLoopBackOff", "3"}: `{"spec":{"containers":[{"name":"c"}]},"status":{"phase":"Running",` +
			`"containerStatuses":[{"name":"c","restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}`,
		{"0/1", "Terminating", "0"}: `{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},` +
			`"spec":{"containers":[{"name":"c"}]},"status":{"phase":"Running"}}`,
		{"0/1", "Init:0/1", "0"}: `{"spec":{"initContainers":[{"name":"i"}],"containers":[{"name":"c"}]},` +
			`"status":{"phase":"Pending","initContainerStatuses":[{"name":"i","state":{"running":{}}}]}}`,
		{"0/1", "Init:Error", "0"}: `{"spec":{"initContainers":[{"name":"i"}],"containers":[{"name":"c"}]},` +
			`"status":{"phase":"Pending","initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":1,` +
			`"reason":"Error"}}}]}}`,
		{"0/1", "Completed", "0"}: `{"spec":{"containers":[{"name":"c"}]},"status":{"phase":"Succeeded",` +
			`"containerStatuses":[{"name":"c","state":{"terminated":{"exitCode":0,"reason":"Completed"}}}]}}`,
		{"2/2", "Running", "1 (5m ago)"}: `{"spec":{"initContainers":[{"name":"s","restartPolicy":"Always"}],` +
			`"containers":[{"name":"c"}]},"status":{"phase":"Running","initContainerStatuses":[{"name":"s",` +
			`"ready":true,"started":true,"state":{"running":{}}}],"containerStatuses":[{"name":"c","ready":true,` +
			`"restartCount":1,"state":{"running":{}},` +
			`"lastState":{"terminated":{"finishedAt":"2026-01-01T00:00:00Z"}}}]}}`,
	} {
		if got := summarize(object(t, pod), time.Date(2026, 1, 1, 0, 5, 0, 0, time.UTC)); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestDurationsArePrintedInAtMostTwoUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 150 * time.Second: "2m30s", 11 * time.Minute: "11m",
		179 * time.Minute: "179m",
		3 * time.Hour:     "3h", 200 * time.Minute: "3h20m", 10 * time.Hour: "10h", 49 * time.Hour: "2d1h",
		9 * 24 * time.Hour:   "9d",
		800 * 24 * time.Hour: "2y70d", 9 * 365 * 24 * time.Hour: "9y", -5 * time.Second: "<invalid>",
	} {
		if got := HumanDuration(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestAServiceIsRefusedWhenAllAddressesAreTaken(t *testing.T) {
	free := "10.96.1.5"
	taken := func(ip string) bool { return ip != free }
	o := object(t, `{"spec":{"type":"ClusterIP"}}`)
	for _, start := range []int{0, 5, 6, 65278} { // also before and after the only free one
		delete(o["spec"].(Object), "clusterIP")
		causes, err := allocateService(o, taken, func(n int) int { return start % n })
		if ip := o["spec"].(Object)["clusterIP"]; ip != free || err != nil || causes != nil {
			t.Errorf("from %d: %v, %v, %v", start, ip, causes, err)
		}
	}
	delete(o["spec"].(Object), "clusterIP")
	_, err := allocateService(o, func(string) bool { return true }, func(int) int { return 0 })
	if want := "failed to allocate a serviceIP: range is full"; err == nil || err.Error() != want {
		t.Errorf("without a free one: %v, want %s", err, want)
	}
}

func TestColumnsOfDefinitionsReadTheirPaths(t *testing.T) {
	o := Object{"a": Object{"b.c": "dots"},
		"list": []any{Object{"type": "Ready", "v": "first"}, Object{"v": "second"}}}
	for path, want := range map[string]any{".a['b.c']": "dots", `.a["b\.c"]`: "dots",
		".list[1].v": "second", ".list[-2].v": "first",
		".list[*].v": "first", `.list[?(@.type=="Ready")].v`: "first", ".list[?(@.v == 'second')].v": "second",
		"..a": `{"b.c":"dots"}`, "a": nil, ".list[x]": nil, ".list[0": nil, ".none": nil} {
		if got := customCell(path, "string")(o, time.Now()); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
