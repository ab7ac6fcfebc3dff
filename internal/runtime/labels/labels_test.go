package labels

import (
	"reflect"
	"testing"

	"skiff/internal/runtime/kube"
)

func TestSelectorsMatchAndPrintAsInKubectl(t *testing.T) {
	have := kube.Labels{{Key: "app", Value: "redis"}, {Key: "tier", Value: "cache"}}
	for text, want := range map[string]bool{
		"app=redis": true, "app==redis": true, "app=web": false, "app,!old": true,
		"app in (web, redis)": true, "app=redis,tier!=cache": false,
		"app notin (redis),tier": false, "tier,app notin (web,shop)": true, "app,other!=x": true, "missing": false,
	} {
		parsed, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		s := parsed.Requirements()
		if s.Match(have) != want {
			t.Errorf("%s: matches %t", text, !want)
		}
		again, err := Parse(s.String())
		if err != nil || !reflect.DeepEqual(again, parsed) {
			t.Errorf("%s is printed as %s, which is %v (%v)", text, s, again, err)
		}
	}
}

func TestASetOfLabelsIsReadAsItWasWritten(t *testing.T) {
	set := kube.Labels{{Key: "app.kubernetes.io/name", Value: "web"}, {Key: "empty"}, {Key: "tier", Value: "front"}}
	if got := ParseSet(FormatSet(set, 1000)); !reflect.DeepEqual(got, set) {
		t.Errorf("got %v, want %v", got, set)
	}
	if got := FormatSet(set, 40); got != "app.kubernetes.io/name=web,empty=" {
		t.Errorf("of 40 bytes: %s", got)
	}
	if got := ParseSet(""); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

// A selector that is read and checked prints as one that selects the same.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"a=b", "a in (b,c),!d", "a notin (x), b!=c", "a==b,", " ( ", "a in ()", "x/y=z"} {
		f.Add(text, "b")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		requirements := s.Requirements()
		if requirements.Check() != nil {
			return
		}
		again, err := Parse(requirements.String())
		if err != nil {
			t.Fatalf("%q prints as %q: %v", text, requirements, err)
		}
		for _, set := range []kube.Labels{nil, ParseSet("a=" + value), ParseSet("d=" + value)} {
			if requirements.Match(set) != again.Requirements().Match(set) {
				t.Errorf("%q and %q differ about %v", text, requirements, set)
			}
		}
	})
}
