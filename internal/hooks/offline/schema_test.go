package offline

import (
	"strings"
	"testing"

	"skiff/internal/runtime/discovery"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

func TestAStatusIsCheckedAgainstTheDefinition(t *testing.T) {
	var s discovery.Schema
	err := kube.Unmarshal([]byte(`{"type":"object","properties":{"ready":{"type":"integer"},"part":{"type":"number"},
		"port":{"x-kubernetes-int-or-string":true},"free":{"type":"object"},"up":{"type":"boolean"},
		"list":{"type":"array","items":{"type":"object","required":["type"],"properties":{
			"type":{"type":"string"},"status":{"type":"string","enum":["True","False"]}}}}}}`), &s)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"ready":2,"part":0.5,"port":80,"free":{"a":1},"up":true,"list":[{"type":"A","status":"True"}],"other":[]}`: "",
		`{"ready":2.0,"part":1,"port":"http","up":null}`:                                                             "",
		`{"ready":"2 of 2"}`: `status.ready: the definition wants integer, the answer has the string "2 of 2"`,
		`{"ready":2.5}`:      "status.ready: the definition wants integer, the answer has 2.5",
		`{"ready":true}`:     "status.ready: the definition wants integer, the answer has true",
		`{"up":1}`:           "status.up: the definition wants boolean, the answer has 1",
		`{"port":[]}`:        "status.port: the definition wants integer or string, the answer has a list",
		`{"list":{}}`:        "status.list: the definition wants array, the answer has an object",
		`{"list":[{"type":"A","status":"Yes"}]}`: "status.list[0].status: the definition wants one of [True False], " +
			`the answer has the string "Yes"`,
		`{"list":[{}]}`: "status.list[0].type: is missing, and the definition requires it",
	} {
		v, err := patch.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := (&checker{from: "the definition", whole: true}).check(&s, "status", v); err != nil {
			got = err.Error()
		}
		if got != want || strings.Contains(got, "\x1b") {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
