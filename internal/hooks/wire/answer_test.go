package wire_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// options are those of a parent shop/p with the uid u1 that has Deployments, ConfigMaps and Namespaces.
func options(change ...func(o *wire.Options)) wire.Options {
	o := wire.Options{Composite: true, Parent: kube.Key{Namespace: "shop", Name: "p"}, ParentUID: "u1",
		Kinds: []kube.Resource{deployments, configMaps, namespaces}}
	for _, f := range change {
		f(&o)
	}
	return o
}

func strict(o *wire.Options)    { o.Strict = true }
func decorator(o *wire.Options) { o.Composite = false }
func atCluster(o *wire.Options) { o.Parent.Namespace = "" }

func decode(t *testing.T, text string, o wire.Options) *wire.Answer {
	t.Helper()
	a, err := wire.Decode([]byte(text), o)
	if err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return a
}

// child returns an answer with one ConfigMap of that metadata.
func child(meta string) string {
	return `{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":` + meta + `}]}`
}

// Rules: HK-44
func TestAllFieldsOfAnAnswerButChildrenAreOptional(t *testing.T) {
	for _, text := range []string{`{"children":[]}`,
		`{"status":null,"children":null,"resyncAfterSeconds":null,"finalized":null}`} {
		if a := decode(t, text, options()); !reflect.DeepEqual(a, &wire.Answer{Children: []wire.Child{}}) {
			t.Errorf("%s: got %+v", text, a)
		}
	}
}

// Rules: HK-45
func TestAnObjectThatMayBeNoAnswerIsRefused(t *testing.T) {
	finalizing := func(o *wire.Options) { o.Finalizing = true }
	labelsOnly := func(o *wire.Options) { o.Composite, o.Kinds = false, nil }
	children, nothing := `it has no children: say "children": []`, "it has none of labels, annotations and status"
	for _, test := range []struct {
		text, want string
		o          wire.Options
	}{
		{`{}`, children, options()},
		{`{"ok":true}`, children, options()},
		{`{"Children":[]}`, children, options()},
		{`{"status":{}}`, children, options()},
		{`{"finalized":true}`, children, options()},
		{`{"level":"info","msg":"syncing","name":"a"}`, children, options()},
		{`{"finalized":false}`, children, options(finalizing)},
		{`{"finalized":true}`, "", options(finalizing)},
		{`{"labels":{"a":"b"}}`, `it has no attachments: say "attachments": []`, options(decorator)},
		{`{"labels":{"a":"b"}}`, "", options(labelsOnly)},
		{`{"status":null}`, "", options(labelsOnly)},
		{`{"msg":"syncing"}`, nothing, options(labelsOnly)},
		{`{}`, nothing, options(labelsOnly)},
	} {
		_, err := wire.Decode([]byte(test.text), test.o)
		if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.text, err, test.want)
		}
	}
}

// Rules: HK-26, HK-43, HK-44
func TestAnAnswerIsReadWithItsNumbersAsTheyAre(t *testing.T) {
	a := decode(t, `{"status":{"big":9223372036854775807,"half":0.5},"resyncAfterSeconds":1.5,"finalized":true,"children":[]}`,
		options())
	if a.Status["big"] != int64(1<<63-1) || a.Status["half"] != 0.5 || !a.Finalized {
		t.Errorf("got %+v", a)
	}
	if a.ResyncAfter != 1500*time.Millisecond {
		t.Errorf("resync after %s", a.ResyncAfter)
	}
	for text, want := range map[string]time.Duration{"0": 0, "-3": 0, "1e300": 365 * 24 * time.Hour, "-1e300": 0} {
		if a := decode(t, `{"children":[],"resyncAfterSeconds":`+text+`}`, options()); a.ResyncAfter != want {
			t.Errorf("resyncAfterSeconds %s: %s, want %s", text, a.ResyncAfter, want)
		}
	}
}

// Rules: HK-44, HK-49
func TestADecoratorAnswersWithChangesOfLabels(t *testing.T) {
	a := decode(t, `{"labels":{"a":"1","b":null},"annotations":{"c":""},"attachments":[
		{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}]}`, options(decorator))
	if len(a.Labels) != 2 || *a.Labels["a"] != "1" || a.Labels["b"] != nil || *a.Annotations["c"] != "" {
		t.Errorf("labels %v, annotations %v", a.Labels, a.Annotations)
	}
	if a.Status != nil || len(a.Children) != 1 || a.Children[0].Path != "attachments[0]" {
		t.Errorf("got %+v", a)
	}
}

// Rules: HK-43
func TestOnlyAStrictAnswerIsRefusedForUnknownAndRepeatedFields(t *testing.T) {
	for text, want := range map[string]string{
		`{"children":[],"Children":[]}`:                "Children: unknown field",
		`{"children":[],"attachments":[]}`:             "attachments: unknown field",
		`{"children":[],"status":{},"status":{}}`:      "status: is there twice",
		`{"children":[],"status":{"a":1,"b":2,"a":3}}`: "status.a: is there twice",
	} {
		a := decode(t, text, options())
		if len(a.Children) > 0 {
			t.Errorf("%s has children", text)
		}
		if _, err := wire.Decode([]byte(text), options(strict)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	decode(t, `{"status":{},"children":[],"resyncAfterSeconds":1,"finalized":false,"events":[],"id":"x"}`, options(strict))
}

// Rules: HK-45, HK-46, HK-47, HK-106
func TestAnAnswerThatIsWrongIsRefusedWithThePath(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)
	for text, want := range map[string]string{
		``:                            "unexpected EOF",
		`null`:                        "it is null: want a JSON object",
		`[]`:                          "it is a list: want a JSON object",
		`{} {}`:                       "data after the value",
		`{"status":[]}`:               "status: must be an object, is a list",
		`{"finalized":"yes"}`:         "finalized: must be a boolean, is a string",
		`{"resyncAfterSeconds":"5"}`:  "resyncAfterSeconds: must be a number, is a string",
		`{"children":{}}`:             "children: must be a list, is an object",
		`{"children":[null]}`:         "children[0]: must be an object, is null",
		`{"status":` + deep + `}`:     "nested more than 100 deep",
		`{"children":[{}]}`:           "children[0].apiVersion: is missing",
		`{"children":[{"kind":3}]}`:   "children[0].kind: must be a string, is a number",
		child(`null`):                 "children[0].metadata.name: is missing",
		child(`{}`):                   "children[0].metadata.name: is missing",
		child(`[]`):                   "children[0].metadata: must be an object, is a list",
		child(`{"generateName":"a"}`): "children[0].metadata.generateName: is not allowed",
		child(`{"name":"a","namespace":"other"}`): `children[0].metadata.namespace: is "other", but the parent is in ` +
			`shop`,
		child(`{"name":"a","labels":{"b":1}}`): "children[0].metadata.labels.b: must be a string, is a number",
		child(`{"name":"a","ownerReferences":[{"uid":"u2","controller":true}]}`): "children[0].metadata." +
			"ownerReferences[0].controller: must not be true",
		`{"children":[{"apiVersion":"v1"}]}`: "children[0].kind: is missing",
		`{"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}]}`: `children[0].kind: "Pod" of "v1" ` +
			`is not among the kinds that the controller declares: add to spec.childResources: - {apiVersion: "v1", resource: "pods", ` +
			`updateStrategy: {method: InPlace}}`,
		`{"children":[{"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"name":"a"}}]}`: `children[0].` +
			`apiVersion: is "apps/v1beta1", but spec.childResources declares deployments.apps as apps/v1`,
		`{"children":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}]}`: "children[0].kind: Namespace " +
			"is cluster-scoped and its parent is in namespace shop",
		`{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}},{"apiVersion":"v1",` +
			`"kind":"ConfigMap","metadata":{"name":"a","namespace":"shop"}}]}`: `children[1].metadata.name: ConfigMap ` +
			`"shop/a" is declared twice, first by children[0]`,
	} {
		a, err := wire.Decode([]byte(text), options())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: got %+v, %v, want %s", text, a, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"labels":{"a":1}}`: "labels.a: must be a string or null, is a number",
		`{"annotations":[]}`: "annotations: must be an object, is a list",
		`{"attachments":[{"apiVersion":"v1","kind":"Pod"}]}`: "add to spec.attachments: - {",
	} {
		if _, err := wire.Decode([]byte(text), options(decorator)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("decorator %s: %v, want %s", text, err, want)
		}
	}
}

// Rules: HK-46, HK-47
func TestUnderAClusterScopedParentANamespacedChildNamesItsNamespace(t *testing.T) {
	_, err := wire.Decode([]byte(child(`{"name":"a"}`)), options(atCluster))
	if err == nil || !strings.HasPrefix(err.Error(), "children[0].metadata.namespace: is missing") {
		t.Errorf("got %v", err)
	}
	a := decode(t, `{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"x"}},
		{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"y"}},
		{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}]}`, options(atCluster))
	var got []string
	for _, c := range a.Children {
		got = append(got, fmt.Sprint(c.Kind, " ", c.Key))
	}
	if want := []string{"1 x/a", "1 y/a", "2 a"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err = wire.Decode([]byte(`{"children":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a",
		"namespace":"x"}}]}`), options(atCluster))
	if err == nil || !strings.Contains(err.Error(), "children[0].metadata.namespace: Namespace is cluster-scoped") {
		t.Errorf("got %v", err)
	}
}

// Rules: HK-46, HK-47, HK-58
func TestWhatTheServerOwnsIsDroppedFromAChildThatWasCopied(t *testing.T) {
	a := decode(t, `{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","uid":"x",
		"resourceVersion":"1","creationTimestamp":null,"generation":1,"managedFields":[],"deletionTimestamp":"x",
		"deletionGracePeriodSeconds":0,"selfLink":"/x","labels":{"b":"2","a":"1"},
		"annotations":{"skiff.dev/desired-hash":"1","metacontroller.k8s.io/last-applied-configuration":"{}","mine":"1"},
		"ownerReferences":[{"uid":"u1","controller":true},{"uid":"u2"}]},"data":{"a":"b"},"status":{"x":1}}]}`,
		options())
	got, err := patch.Encode(a.Children[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"v1","data":{"a":"b"},"kind":"ConfigMap","metadata":{"annotations":{"mine":"1"},` +
		`"labels":{"a":"1","b":"2"},"name":"a","namespace":"shop","ownerReferences":[{"uid":"u2"}]}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if b, ok := a.Children[0].Labels.Get("b"); !ok || b != "2" {
		t.Errorf("labels %v", a.Children[0].Labels)
	}
}

// Rules: HK-106
func TestAnAnswerHasAtMost10000Children(t *testing.T) {
	items := make([]string, wire.MaxChildren+1)
	for i := range items {
		items[i] = fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d"},"data":{"a":"b"}}`, i)
	}
	text := `{"children":[` + strings.Join(items[1:], ",") + `]}`
	if a := decode(t, text, options()); len(a.Children) != wire.MaxChildren {
		t.Errorf("got %d children", len(a.Children))
	}
	text = `{"children":[` + strings.Join(items, ",") + `]}`
	_, err := wire.Decode([]byte(text), options())
	if err == nil || err.Error() != "children: has 10001 items, at most 10000 are allowed" {
		t.Errorf("got %v", err)
	}
}

// Rules: HK-106
func TestAnAnswerThatGrowsInMemoryIsRefused(t *testing.T) {
	text := `{"status":{"a":[` + strings.TrimSuffix(strings.Repeat(`{"":{}},`, 1<<20), ",") + `]}}`
	_, err := wire.Decode([]byte(text), options())
	if err == nil || !strings.Contains(err.Error(), "it would take more than 128 MiB of memory") {
		t.Errorf("got %v", err)
	}
}

// Rules: HK-104
func TestABadEventIsDroppedWithAWarning(t *testing.T) {
	a := decode(t, `{"children":[],"events":[{"type":"Normal","reason":"Made","message":"m","object":{"kind":"Pod","name":"x"}},
		{"type":"Loud","reason":"r"},{"type":"Warning"},7,{"type":"Normal","reason":"r","object":{"kind":"Pod"}},
		{"type":"Warning","reason":"`+strings.Repeat("é", 100)+`","message":"`+strings.Repeat("m", 2000)+`"}]}`,
		options(strict))
	if len(a.Events) != 2 || len(a.Warnings) != 5 {
		t.Fatalf("events %+v\nwarnings %q", a.Events, a.Warnings)
	}
	want := wire.Event{Type: "Normal", Reason: "Made", Message: "m", Kind: "Pod", Name: "x"}
	if a.Events[0] != want {
		t.Errorf("got %+v", a.Events[0])
	}
	if long := a.Events[1]; long.Reason != strings.Repeat("é", 64) || len(long.Message) != 1024 {
		t.Errorf("got %+v", long)
	}
	event := `{"type":"Normal","reason":"r","message":"m"}`
	a = decode(t, `{"children":[],"events":[`+event+strings.Repeat(","+event, 10)+`]}`, options())
	if len(a.Events) != 10 || len(a.Warnings) != 1 {
		t.Errorf("%d events, warnings %q", len(a.Events), a.Warnings)
	}
	if a = decode(t, `{"children":[],"events":{}}`, options()); len(a.Warnings) != 1 {
		t.Errorf("warnings %q", a.Warnings)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"status":{"a":1},"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}]}`), true)
	f.Add([]byte(`{"labels":{"a":null},"attachments":[{"apiVersion":"v1","kind":"Namespace"}],"events":[{}]}`), false)
	f.Fuzz(func(t *testing.T, body []byte, composite bool) {
		o := options()
		o.Composite = composite
		a, err := wire.Decode(body, o)
		if err != nil {
			if len(err.Error()) > 2000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		for _, c := range a.Children {
			if c.Key.Name == "" || c.Key.Namespace != "shop" || c.Body["status"] != nil {
				t.Errorf("accepted %+v", c)
			}
			if _, err := patch.Encode(c.Body); err != nil {
				t.Error(err)
			}
		}
	})
}

// Rules: HK-46
func TestNullInAChildMeansAbsent(t *testing.T) {
	a := decode(t, `{"children":[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","labels":{"a":"b",
		"x":null},"annotations":null,"generateName":null},"spec":{"replicas":null,"template":{"spec":{"containers":[
		{"name":"c","resources":{"limits":{"cpu":null}},"env":null,"args":[]}]}}}}]}`, options())
	want := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"a":"b"},"name":"a","namespace":"shop"},` +
		`"spec":{"template":{"spec":{"containers":[{"args":[],"name":"c","resources":{"limits":{}}}]}}}}`
	text, err := patch.Encode(a.Children[0].Body)
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v\nwant %s", text, err, want)
	}
}
