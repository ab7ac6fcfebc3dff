package kube

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// readWithKnown reads a watch in protobuf with the version before of each object at hand, and fails unless that gives
// the same as to read it without. It returns the last object.
func readWithKnown(t *testing.T, in string) (last *widePod) {
	plan := protoPlanOf[*widePod](pods)
	alone := newProtoReader(strings.NewReader(in), plan, expected{kind: "Pod"})
	aware := newProtoReader(strings.NewReader(in), plan, expected{kind: "Pod"})
	seen := map[Key]*widePod{}
	known := func(k Key) (*widePod, bool) { p, ok := seen[k]; return p, ok }
	for {
		want, wantErr := nextProtoEvent[*widePod](alone, nil)
		got, err := nextProtoEvent(aware, known)
		if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%q: with the version before, %+v, %v; without, %+v, %v", in, got.Object, err, want.Object,
				wantErr)
		}
		if _, bad := err.(*DecodeError); err != nil && !bad {
			return last
		}
		if err == nil && got.Object != nil {
			last = got.Object
			seen[last.Key()] = last
		}
	}
}

// Each of these objects follows each other one, itself among them.
func TestAChangeIsReadAsIfTheVersionBeforeWereNotKnown(t *testing.T) {
	with := func(old, new string) string {
		if changed := strings.Replace(corners, old, new, 1); changed != corners {
			return changed
		}
		t.Fatalf("%s is not in the object", old)
		return ""
	}
	versions := []string{corners, `{"metadata":{"name":"a","namespace":"default"}}`,
		with(`"tier":""`, `"tier":"x","zone":"y"`), with(`"app":"web",`, ``), with(`"app":"web"`, `"app":"other"`),
		with(`,"nodeSelector":{"disk":"ssd"}`, ``), with(`"disk":"ssd"`, `"cpu":"fast"`), with(`"phase":"Failed",`, ``),
		with(`"finalizers":["one","two"],`, ``), with(`"one","two"`, `"two"`), with(`"priority":0`, `"priority":null`),
		with(`"exitCode":-1`, `"exitCode":1`), with(`,{"type":"X"}`, ``), with(`"uid":"u"`, `"uid":"v"`),
		with(`,"controller":true`, ``), with(`"creationTimestamp":"1970-01-01T00:00:00Z",`, ``),
	}
	for _, old := range versions {
		for _, new := range versions {
			readWithKnown(t, protoFrame("ADDED", protoOf(t, pods, old))+protoFrame("MODIFIED", protoOf(t, pods, new))+
				protoFrame("DELETED", protoOf(t, pods, old)))
		}
	}
}

func TestAChangeTakesNoMemoryForWhatItLeavesAsItIs(t *testing.T) {
	object := protoFrame("MODIFIED", protoOf(t, pods, realisticPod(1)))
	var last *widePod
	read := func(known func(Key) (*widePod, bool)) float64 {
		in := strings.NewReader(object)
		p := newProtoReader(in, protoPlanOf[*widePod](pods), expected{})
		return testing.AllocsPerRun(20, func() {
			in.Reset(object)
			p.err = nil
			ev, err := nextProtoEvent(p, known)
			if err != nil {
				t.Fatal(err)
			}
			last = ev.Object
		})
	}
	alone := read(nil)
	if aware := read(func(Key) (*widePod, bool) { return last, true }); aware > alone-2 { // its uid and its version
		t.Errorf("%.0f allocations, without the version before %.0f", aware, alone)
	}
}

func TestTheVersionBeforeIsLookedUpByNamespaceAndName(t *testing.T) {
	for object, want := range map[string]Key{
		corners:                            {Namespace: "default", Name: "a"},
		`{"metadata":{"name":"node-1"}}`:   {Name: "node-1"},
		`{"metadata":{"namespace":"dev"}}`: {Namespace: "dev"},
	} {
		var asked Key
		known := func(k Key) (*widePod, bool) { asked = k; return nil, false }
		in := newProtoReader(strings.NewReader(protoFrame("MODIFIED", protoOf(t, pods, object))),
			protoPlanOf[*widePod](pods), expected{})
		_, err := nextProtoEvent(in, known)
		if _, bad := err.(*DecodeError); err != nil && !bad {
			t.Fatal(err)
		}
		if asked != want {
			t.Errorf("%s is looked up as %v, want %v", object, asked, want)
		}
	}
}
