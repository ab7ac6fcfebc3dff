package cel

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/testcluster/apiserver/features"
	"skiff/internal/testcluster/apiserver/kinds"
)

// checkedPolicy is the spec of a policy about resources of the core group, with validations.
func checkedPolicy(t *testing.T, resources []string, expressions ...string) []byte {
	t.Helper()
	var validations []any
	for _, e := range expressions {
		validations = append(validations, map[string]any{"expression": e})
	}
	text, err := json.Marshal(map[string]any{"validations": validations, "matchConstraints": map[string]any{
		"resourceRules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"},
			"resources": resources}}}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAnExpressionAboutAFieldThatIsNotThereHasAWarning(t *testing.T) {
	got := typeCheck(checkedPolicy(t, []string{"pods", "configmaps"}, "object.spec.nodeName != ''",
		"object.metadata.x == 1"), kinds.Builtin(features.Set{}))
	text := fmt.Sprint(got)
	for _, want := range []string{"fieldRef:spec.validations[0].expression", "fieldRef:spec.validations[1].expression",
		"/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'spec'",
		"/v1, Kind=Pod: ERROR: <input>:1:16: undefined field 'x'"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if len(got) != 2 {
		t.Errorf("%d warnings, want 2", len(got))
	}
}

// One policy can have more expressions than can be checked in hours, and warnings of more bytes than an object has.
func TestATypeCheckIsBounded(t *testing.T) {
	all := kinds.Builtin(features.Set{})
	many := make([]string, 10_000)
	for i := range many {
		many[i] = "object.nope == " + fmt.Sprint(i)
	}
	began := time.Now()
	typeCheckFor(50*time.Millisecond, checkedPolicy(t, []string{"pods", "nodes", "services"}, many...), all)
	if took := time.Since(began); took > slow {
		t.Errorf("took %s", took)
	}
	long := make([]string, 40)
	for i := range long {
		long[i] = "object.nope == '" + strings.Repeat("x", 90_000) + "'"
	}
	got, err := json.Marshal(typeCheck(checkedPolicy(t, []string{"configmaps"}, long...), all))
	if err != nil || len(got) > 2*maxWarnings {
		t.Errorf("%d bytes of warnings, %v", len(got), err)
	}
}

func BenchmarkTypeCheck(b *testing.B) {
	all := kinds.Builtin(features.Set{})
	for b.Loop() {
		typeCheck([]byte(`{"matchConstraints":{"resourceRules":[{"apiGroups":["apps"],"apiVersions":["v1"],"resources":
			["deployments"]}]},"validations":[{"expression":"object.spec.replicas > 1"}]}`), all)
	}
}
