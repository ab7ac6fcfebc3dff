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
