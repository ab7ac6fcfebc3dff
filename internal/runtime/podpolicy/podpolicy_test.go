package podpolicy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// example is a template with the first policy that refuses it. The server's own verdict is tested in the e2e module.
type example struct {
	Name     string
	Refused  Policy // "": none
	Field    string // that is refused
	Template map[string]any
}

func examples(t testing.TB) []example {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "templates.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []example
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		integers(e.Template)
	}
	return all
}

// integers makes the numbers in v what package patch makes of them.
func integers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = integers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

func TestEachRuleRefusesAndAllowsWhatTheStandardsSay(t *testing.T) {
	for _, e := range examples(t) {
		t.Run(e.Name, func(t *testing.T) {
			if found := Any.Check("", e.Template); len(found) > 0 {
				t.Errorf("any refuses it: %q", found)
			}
			for _, p := range []Policy{Baseline, Restricted} {
				found := p.Check("t.", e.Template)
				refuses := e.Refused == p || e.Refused == Baseline
				names := slices.ContainsFunc(found, func(f string) bool {
					return strings.HasPrefix(f, "t."+e.Field+" must ")
				})
				if refuses != (len(found) > 0) || refuses && !names {
					t.Errorf("%s: %q, want refused %v, for %s", p, found, refuses, e.Field)
				}
			}
		})
	}
}

func TestTheZeroPolicyIsBaseline(t *testing.T) {
	for _, e := range examples(t) {
		if got, want := Policy("").Check("", e.Template), Baseline.Check("", e.Template); !slices.Equal(got, want) {
			t.Errorf("%s: %q, baseline says %q", e.Name, got, want)
		}
	}
	if got := Policy("").String(); got != "baseline" {
		t.Errorf("its name is %q", got)
	}
}

func TestThatNothingIsSetIsRestrictedsOnlyAndNamesAllThatIsMissing(t *testing.T) {
	template := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "web"}}}}
	if found := Baseline.Check("", template); len(found) > 0 {
		t.Errorf("baseline: %q", found)
	}
	const c = "spec.containers[0].securityContext."
	want := []string{
		c + "allowPrivilegeEscalation must be false (container web)",
		c + "capabilities.drop must have ALL (container web)",
		c + "runAsNonRoot must be true, here or in the securityContext of the pod (container web)",
		c + "seccompProfile.type must be RuntimeDefault or Localhost, here or in the securityContext of the pod " +
			"(container web)",
	}
	if found := Restricted.Check("", template); !slices.Equal(found, want) {
		t.Errorf("got %q, want %q", found, want)
	}
}

func TestTheViolationsThatAreReportedAreBounded(t *testing.T) {
	name := strings.Repeat("x", 10_000)
	var containers []any
	for range 5000 {
		containers = append(containers, map[string]any{"name": name})
	}
	found := Restricted.Check("", map[string]any{"spec": map[string]any{"containers": containers}})
	if n := len(strings.Join(found, "")); len(found) != maxViolations || n > 300*maxViolations {
		t.Errorf("%d violations of together %d bytes", len(found), n)
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, e := range examples(b) {
		if e.Name == "hardened" || e.Name == "the least" {
			b.Run(strings.ReplaceAll(e.Name, " ", "-"), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if found := Baseline.Check("", e.Template); len(found) > 0 {
						b.Fatal(found)
					}
				}
			})
		}
	}
}
