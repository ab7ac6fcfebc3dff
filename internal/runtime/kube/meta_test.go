package kube

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unsafe"
)

// Rules: WCH-34
func TestResourceVersionsCompareByLengthThenDigits(t *testing.T) {
	long := strings.Repeat("9", 39)
	for _, tc := range []struct {
		a, b  string
		order int
		ok    bool
	}{
		{"9", "10", -1, true}, {"10", "9", 1, true}, {"12", "12", 0, true}, {long, "1" + long, -1, true},
		{long, long, 0, true},
		{"01", "2", 0, false}, {"", "2", 0, false}, {"abc", "2", 0, false}, {"0", "2", 0, false}, {"", "", 0, false},
		{"x", "x", 0, true},
	} {
		order, ok := CompareRV(tc.a, tc.b)
		if ok != tc.ok || ok && order != tc.order {
			t.Errorf("CompareRV(%q, %q) = %d, %v; want %d, %v", tc.a, tc.b, order, ok, tc.order, tc.ok)
		}
	}
}

// Rules: CCH-21
func TestLabelsAreSortedSharedAndExact(t *testing.T) {
	read := func(s string) Labels {
		t.Helper()
		var l Labels
		if err := Unmarshal([]byte(s), &l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	a := read(`{"tier":"web","app":"x\u0041","tier":"db","none":""}`)
	if len(a) != 3 || cap(a) > 4 {
		t.Errorf("got %v with capacity %d", a, cap(a))
	}
	for k, want := range map[string]string{"app": "xA", "tier": "db", "none": ""} {
		if v, ok := a.Get(k); !ok || v != want {
			t.Errorf("label %s is %q, %v; want %q", k, v, ok, want)
		}
	}
	if _, ok := a.Get("other"); ok {
		t.Error("a label that is not there was found")
	}
	b := read(`{"tier":"db"}`)
	av, _ := a.Get("tier")
	bv, _ := b.Get("tier")
	if unsafe.StringData(av) != unsafe.StringData(bv) {
		t.Error("equal values of two objects do not share memory")
	}
	if l := read(`null`); l != nil {
		t.Errorf("null gives %v", l)
	}
	out, err := json.Marshal(a)
	if err != nil || string(out) != `{"app":"xA","none":"","tier":"db"}` {
		t.Errorf("marshals to %s, %v", out, err)
	}
	for _, bad := range []string{`[]`, `"x"`, `{"a":1}`, `{"a":{}}`} {
		if err := Unmarshal([]byte(bad), new(Labels)); err == nil {
			t.Errorf("%s was taken for labels", bad)
		}
	}
}

func TestLabelsAreAnObjectForBothJSONPackages(t *testing.T) {
	type object struct {
		Labels Labels `json:"labels"`
	}
	const text = `{"labels":{"app":"web","tier":"db"}}`
	var read object
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		t.Fatal(err)
	}
	if v, ok := read.Labels.Get("tier"); !ok || v != "db" || len(read.Labels) != 2 {
		t.Errorf("encoding/json reads %v", read.Labels)
	}
	if written, err := json.Marshal(read); err != nil || string(written) != text {
		t.Errorf("encoding/json writes %s, %v", written, err)
	}
	if written, err := json.Marshal(object{}); err != nil || string(written) != `{"labels":{}}` {
		t.Errorf("encoding/json writes no labels as %s, %v", written, err)
	}
	if err := json.Unmarshal([]byte(`{"labels":{"a":1}}`), &read); err == nil {
		t.Error("encoding/json takes a number for a label")
	}
}

func TestPathsOfResources(t *testing.T) {
	ws := Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
	node := Resource{Version: "v1", Plural: "nodes", Kind: "Node", ClusterScoped: true}
	for _, tc := range []struct {
		r                            Resource
		namespace, name, subresource string
		want                         string
	}{
		{ws, "", "", "", "/apis/skiff.dev/v1alpha1/webservers"},
		{ws, "ns", "", "", "/apis/skiff.dev/v1alpha1/namespaces/ns/webservers"},
		{ws, "ns", "web", "status", "/apis/skiff.dev/v1alpha1/namespaces/ns/webservers/web/status"},
		{ws, "ns", "web", "", "/apis/skiff.dev/v1alpha1/namespaces/ns/webservers/web"},
		{node, "ns", "n1", "", "/api/v1/nodes/n1"},
		{ws, "ns", "system:a.b", "", "/apis/skiff.dev/v1alpha1/namespaces/ns/webservers/system:a.b"},
	} {
		if got, err := tc.r.Path(tc.namespace, tc.name, tc.subresource); err != nil || got != tc.want {
			t.Errorf("got %s, %v, want %s", got, err, tc.want)
		}
	}
	if got := ws.GroupResource() + ws.APIVersion(); got != "webservers.skiff.devskiff.dev/v1alpha1" {
		t.Error(got)
	}
}

func TestNamesThatWouldChangeThePathAreRefusedBeforeARequest(t *testing.T) {
	s := scripted(answer(200, item("victim", "1")))
	c := tlsClient(t, s)
	for _, bad := range []string{".", "..", "a/b", "../../victim/pods/app", "a%2fb", "%2e%2e", `a\b`, "a?x=y", "a#b", " ",
		"a\x00", "\u202e", strings.Repeat("x", 254)} {
		for name, err := range map[string]error{
			"name":      c.Get(t.Context(), pods, Key{"ns", bad}, nil),
			"namespace": c.Get(t.Context(), pods, Key{bad, "web"}, nil),
			"subresource": c.Patch(t.Context(), pods, Key{"ns", "web"}, MergePatch, 1, nil,
				WriteOptions{Subresource: bad}),
			"plural": c.Get(t.Context(), Resource{Version: "v1", Plural: bad}, Key{"ns", "web"}, nil),
			"list":   second(List[*pod](t.Context(), c, Query{Resource: pods, Namespace: bad}, ListOptions{})),
			"watch":  second(Watch[*pod](t.Context(), c, Query{Resource: pods, Namespace: bad}, WatchOptions{})),
			"probe":  second(c.ListOne(t.Context(), Query{Resource: pods, Namespace: bad})),
		} {
			if err == nil || !strings.Contains(err.Error(), "cannot be part of a URL path") {
				t.Errorf("%s %q: got %v", name, bad, err)
			}
		}
	}
	for name, k := range map[string]Key{"no name": {"ns", ""}, "no namespace": {"", "web"}} {
		if err := c.Delete(t.Context(), pods, k, DeleteOptions{}); err == nil ||
			!strings.Contains(err.Error(), "no name") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func second[T any](_ T, err error) error { return err }

func TestAnAnswerAboutAnotherObjectIsAnError(t *testing.T) {
	for body, wrong := range map[string]bool{
		item("web", "1"):   false,
		item("other", "1"): true,
		`{"metadata":{"name":"web","namespace":"kube-system"}}`: true,
		`{"kind":"Status","status":"Success"}`:                  false,
	} {
		c := tlsClient(t, answer(200, body))
		k := Key{"default", "web"}
		for name, err := range map[string]error{
			"get": c.Get(t.Context(), pods, k, new(struct {
				Meta `json:"metadata"`
			})),
			"apply":  c.Patch(t.Context(), pods, k, ApplyPatch, k, nil, WriteOptions{FieldManager: "x"}),
			"delete": c.Delete(t.Context(), pods, k, DeleteOptions{}),
			"create": c.Create(t.Context(), pods, k.Namespace, Raw(item("web", "")), new(map[string]any),
				WriteOptions{}),
		} {
			if (err != nil) != wrong || wrong && !strings.Contains(err.Error(), "the answer is about ") {
				t.Errorf("%s answered with %s: %v", name, body, err)
			}
		}
	}
}

// FuzzWatch feeds a stream of any bytes: it must end, without a panic, and an event must have a name.
func FuzzWatch(f *testing.F) {
	f.Add(story)
	f.Add(frame("ERROR", `{"code":410}`) + `{"object":{"metadata":{"name":"a"}},"type":"ADDED"}`)
	f.Add(`{"type":"ADDED","object":{"metadata":{"labels":[]}}}{"type":1}`)
	for _, in := range hostileFrames {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		stream := newScanner(strings.NewReader(in))
		wantNames(t, in, func() (Event[*pod], error) { return nextEvent[*pod](stream) })
	})
}

// wantNames reads events until the end of a stream and fails for a change of an object without a name.
func wantNames(t *testing.T, in string, next func() (Event[*pod], error)) {
	t.Helper()
	for {
		ev, err := next()
		bad, status := new(DecodeError), new(Status)
		switch {
		case err != nil && !errors.As(err, &bad) && !errors.As(err, &status):
			return
		case err == nil && (ev.Type == Added || ev.Type == Modified || ev.Type == Deleted) &&
			(ev.Object == nil || !isSegment(ev.Object.Name)):
			t.Errorf("%q gave an event without a name: %+v", in, ev)
		}
	}
}

// FuzzList feeds a list of any bytes.
func FuzzList(f *testing.F) {
	f.Add(podList("20", "", item("a", "1"), `null`, `{"metadata":{"name":"b","labels":{"x":1}}}`))
	f.Add(`{"items":[],"kind":"PodList","metadata":{"resourceVersion":"1"}}`)
	for _, in := range hostileFrames {
		f.Add(podList("20", "", item("a", "1"), in, item("b", "1")))
	}
	f.Fuzz(func(t *testing.T, in string) {
		var all ListResult[*pod]
		if _, err := decodePage(newScanner(strings.NewReader(in)), "Pod", &all); err != nil {
			return
		}
		for _, p := range all.Items {
			if p == nil || p.Name == "" {
				t.Errorf("%q gave an item without a name", in)
			}
		}
	})
}
