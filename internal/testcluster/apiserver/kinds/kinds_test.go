package kinds

import (
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/patch"
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
	for _, k := range Builtin() {
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
	for _, l := range d.kinds {
		for _, block := range l.block {
			known := slices.Contains(strings.Fields("defaults prepare checks columns"), block.text)
			if len(block.block) > 0 && !known {
				t.Error(block.wrong("no block of a kind"))
			}
		}
	}
	for text, want := range map[string]string{
		"kind v1 as A\n  checks\n    spec.a requird\n":    `kinds/data/x.txt:3: no check: ["spec.a" "requird"]`,
		"kind v1 as A\n  checks\n    spec.a form labl\n":  `kinds/data/x.txt:3: no form "labl"`,
		"kind v1 as A\n  checks\n    a invalid if b: c\n": `kinds/data/x.txt:3: no condition: "b"`,
		"kind v1 as A\n  checks\n    a forbidden: c\n":    "kinds/data/x.txt:3: forbidden without a condition",
		"kind v1 as A\n  checks\n    use x .\n":           `kinds/data/x.txt:3: no set "x"`,
		"kind v1 as A\n  checks\n    call x\n":            `kinds/data/x.txt:3: no function "x"`,
		"kind v1 as A\n  defaults\n    spec.a {\n":        "kinds/data/x.txt:3: ",
		"kind v1 as A\n  defaults\n      spec.a 1\n":      "kinds/data/x.txt:3: indented too far",
		"kind v1 as A\n  colour red\n":                    `kinds/data/x.txt:2: no attribute "colour"`,
		"kind v1 as A\n  columns\n    B = {a\n":           "kinds/data/x.txt:3: column: no closing brace",
		"kind v1 as A\n  columns\n    B = @c\n":           "kinds/data/x.txt:3: column: no function @c",
		"kind v1 as A\n  columns\n    B = {lowr:a}\n":     `kinds/data/x.txt:3: column: no filter "lowr"`,
		"kind v1 as\n":                                "kinds/data/x.txt:1: want kind, apiVersion",
		"kind v1 as A\n  flags clustered\n":           `kinds/data/x.txt:2: no flag "clustered"`,
		"kind v1 as A\n  status @x\n":                 `kinds/data/x.txt:2: no function "x"`,
		"kind v1 as A\n  checks\n    a only\n":        "kinds/data/x.txt:3: only without an argument",
		"kind v1 as A\n  checks\n    a immutable b\n": "kinds/data/x.txt:3: immutable takes no argument",
		"kind v1 as A\n  checks\n    a required if\n": "kinds/data/x.txt:3: if without a condition",
	} {
		if got := mistakeIn(text); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// mistakeIn returns the message about data with a mistake.
func mistakeIn(text string) (message string) {
	defer func() { message, _ = recover().(string) }()
	d := &data{sets: map[string]*set{}}
	for _, l := range parseLines("x.txt", text) {
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

func TestDefaultsAreThoseOfTheRealServer(t *testing.T) {
	for _, tc := range []struct{ kind, in, want string }{
		{"deployments", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}}}`,
			`{"spec":{"progressDeadlineSeconds":600,"replicas":1,"revisionHistoryLimit":10,` +
				`"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"},"type":"RollingUpdate"},` +
				`"template":{"spec":{"containers":[{"image":"nginx:1","imagePullPolicy":"IfNotPresent","name":"c",` +
				`"resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],` +
				`"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler",` +
				`"securityContext":{},"terminationGracePeriodSeconds":30}}}}`},
		{"services", `{"spec":{"ports":[{"port":80}]}}`,
			`{"spec":{"internalTrafficPolicy":"Cluster","ports":[{"port":80,"protocol":"TCP","targetPort":80}],` +
				`"sessionAffinity":"None","type":"ClusterIP"}}`},
	} {
		for _, k := range Builtin() {
			if k.Plural != tc.kind {
				continue
			}
			o := object(t, tc.in)
			k.Defaults(o)
			if !patch.Equal(o, object(t, tc.want)) {
				got, err := patch.Encode(o)
				t.Errorf("%s: %s (%v)\nwant %s", tc.kind, got, err, tc.want)
			}
		}
	}
	for image, want := range map[string]string{"nginx": "Always", "nginx:latest": "Always", "nginx:1": "IfNotPresent",
		"r:5000/nginx": "Always", "r:5000/nginx:1": "IfNotPresent", "nginx@sha256:0": "IfNotPresent"} {
		if got := pullPolicy(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
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
