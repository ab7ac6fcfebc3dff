package kube

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

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
