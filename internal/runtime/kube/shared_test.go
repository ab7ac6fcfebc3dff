package kube

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestPodsOfOneDeploymentShareLabelsAndOwners(t *testing.T) {
	object := func(name, app string, labels int) string {
		more := ""
		for i := range labels {
			more += fmt.Sprintf(`"%s-%d":"%s",`, app, i, strings.Repeat("x", 50))
		}
		return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","uid":"u","resourceVersion":"5",`+
			`"labels":{%s"tier":"web","app":%q},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet",`+
			`"name":%q,"uid":"r","controller":true}]}}`, name, more, app, app)
	}
	objects := []string{object("a", "one", 0), object("b", "one", 0), object("c", "other", 0),
		object("d", "many", sharedMax), object("e", "many", sharedMax)}
	for _, protobuf := range []bool{false, true} {
		var all ListResult[*pod]
		var err error
		if protobuf {
			body := protoListOf(t, pods, "20", objects...)
			in := newProtoReader(strings.NewReader(body), protoPlanOf[*pod](pods), expected{})
			_, err = decodeProtoPage(in, "Pod", &all)
		} else {
			_, err = decodePage(newScanner(bytes.NewReader([]byte(podList("20", "", objects...)))), "Pod", &all)
		}
		if err != nil || len(all.Items) != len(objects) {
			t.Fatalf("protobuf=%v: decoded %d pods: %v", protobuf, len(all.Items), err)
		}
		a, b, c, d, e := all.Items[0], all.Items[1], all.Items[2], all.Items[3], all.Items[4]
		if &a.Labels[0] != &b.Labels[0] || &a.OwnerReferences[0] != &b.OwnerReferences[0] {
			t.Errorf("protobuf=%v: two pods with the same labels and owner each have their own copy", protobuf)
		}
		if app, _ := c.Labels.Get("app"); app != "other" || c.OwnerReferences[0].Name != "other" {
			t.Errorf("protobuf=%v: a pod has labels %v and owner %v", protobuf, c.Labels, c.OwnerReferences)
		}
		if &d.Labels[0] == &e.Labels[0] || len(e.Labels) != sharedMax+2 || cap(e.Labels) != len(e.Labels) {
			t.Errorf("protobuf=%v: %d labels are shared, which the table would keep", protobuf, len(e.Labels))
		}
	}
}

// own is a custom resource of which only skiff's annotations are read.
type own struct {
	MetaOwn `json:"metadata"`
	Spec    Raw `json:"spec"`
}

func TestOnlySkiffsOwnAnnotationsAreKept(t *testing.T) {
	text := `{"metadata":{"annotations":{"a/b":"` + strings.Repeat("x", 1<<20) + `","skiff.dev/paused":"true",` +
		`"` + strings.Repeat("k", 1<<18) + `":"x","skiff.dev":"no","z":7},"name":"a","namespace":"default"}}`
	for _, in := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
		s := Query{Resource: pods}.scanner(in, most)
		obj, err := object[*own](s)
		if err != nil || len(obj.Annotations) != 1 {
			t.Fatalf("%d annotations, %v, want one", len(obj.Annotations), err)
		}
		if v, _ := obj.Annotations.Get("skiff.dev/paused"); v != "true" {
			t.Errorf("the annotation is %q", v)
		}
		if len(s.buf) > 4*most {
			t.Errorf("%d bytes were held", len(s.buf))
		}
	}
}

// marked keeps annotations with two of all prefixes.
type marked struct {
	Metadata struct {
		Meta
		Annotations Labels `json:"annotations" prefix:"skiff.dev/ *a.example/x"`
	} `json:"metadata"`
}

func (m *marked) ObjectMeta() *Meta { return &m.Metadata.Meta }

func TestAnnotationsOfSeveralPrefixesAreKept(t *testing.T) {
	object := func(annotations string) string {
		return `{"metadata":{"name":"a","namespace":"default","resourceVersion":"5","annotations":` + annotations + `}}`
	}
	several := object(`{"":"secret","a.example/x":"2","a.example/y":"secret","b.a.example/xy":"3",` +
		`"kubectl.kubernetes.io/last-applied-configuration":"secret","skiff":"secret","skiff.dev/b":"1","z":"secret"}`)
	other := object(`{"skiff":"secret","z":"secret"}`)
	want := Labels{{"a.example/x", "2"}, {"b.a.example/xy", "3"}, {"skiff.dev/b", "1"}}
	json := Query{Resource: pods}.scanner(strings.NewReader(
		frame("ADDED", several)+frame("MODIFIED", several)+frame("MODIFIED", other)), 0)
	proto := Query{Resource: pods}.protoReader(strings.NewReader(protoFrame("ADDED", protoOf(t, pods, several))+
		protoFrame("MODIFIED", protoOf(t, pods, several))+protoFrame("MODIFIED", protoOf(t, pods, other))),
		protoPlanOf[*marked](pods), 0)
	for name, next := range map[string]func(known func(Key) (*marked, bool)) (Event[*marked], error){
		"json":     func(func(Key) (*marked, bool)) (Event[*marked], error) { return nextEvent[*marked](json) },
		"protobuf": func(k func(Key) (*marked, bool)) (Event[*marked], error) { return nextProtoEvent(proto, k) },
	} {
		var last *marked
		for _, want := range []Labels{want, want, nil} {
			ev, err := next(func(Key) (*marked, bool) { return last, last != nil })
			if err != nil {
				t.Fatal(name, err)
			}
			got := ev.Object.Metadata.Annotations
			if !slices.Equal(got, want) || (got == nil) != (want == nil) {
				t.Errorf("%s: kept %v, want %v", name, got, want)
			}
			if last != nil && len(got) > 0 && &got[0] != &last.Metadata.Annotations[0] {
				t.Errorf("%s: equal annotations of two versions are held twice", name)
			}
			last = ev.Object
		}
	}
}

// A message of a hostile server has one annotation after the other, of which none is kept.
func TestManyAnnotationsThatAreNotKeptAreReadOnce(t *testing.T) {
	const n = 300_000
	m := strings.Repeat("\x62\x02\x0a\x00", n) // annotations=12, each with the key ""
	var got marked
	start := time.Now()
	plan := protoStructOf(reflect.TypeFor[marked]().Field(0).Type, "ObjectMeta")
	if err := plan.decodeInto([]byte(m), &got.Metadata); err != nil || got.Metadata.Annotations != nil {
		t.Error(got.Metadata.Annotations, err)
	}
	if took := time.Since(start); took > time.Minute { // reading the rest at each would take several minutes
		t.Errorf("%d annotations took %s", n, took)
	}
}

func TestOfASkimmedObjectOnlyTheMetadataIsDecoded(t *testing.T) {
	text := func(name string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","resourceVersion":"7","finalizers":["f"]},`+
			`"spec":{"priority":7}}`, name)
	}
	skim := func(k Key) bool { return k == Key{"default", "big"} }
	type kept struct {
		Meta `json:"metadata"`
		Spec struct {
			Priority int `json:"priority"`
		} `json:"spec"`
	}
	json := Query{Resource: pods}.scanner(strings.NewReader(frame("ADDED", text("big"))+frame("ADDED", text("a"))), 0)
	json.want.skim = skim
	proto := Query{Resource: pods}.protoReader(strings.NewReader(protoFrame("ADDED", protoOf(t, pods, text("big")))+
		protoFrame("ADDED", protoOf(t, pods, text("a")))), protoPlanOf[*kept](pods), 0)
	proto.want.skim = skim
	for name, next := range map[string]func() (Event[*kept], error){
		"json":     func() (Event[*kept], error) { return nextEvent[*kept](json) },
		"protobuf": func() (Event[*kept], error) { return nextProtoEvent[*kept](proto, nil) },
	} {
		big, err := next()
		if err != nil || !big.Part.Skimmed || big.Part.Size < 30 || big.Object.Spec.Priority != 0 ||
			big.ResourceVersion != "7" || len(big.Object.Finalizers) != 1 {
			t.Errorf("%s: got %+v of part %+v, %v", name, big.Object, big.Part, err)
		}
		a, err := next()
		if err != nil || a.Part.Skimmed || a.Object.Spec.Priority != 7 {
			t.Errorf("%s: behind it: %+v, %v", name, a.Object, err)
		}
	}
}
