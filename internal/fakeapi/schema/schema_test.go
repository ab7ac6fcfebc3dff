package schema

import (
	"os"
	"slices"
	"strings"
	"testing"

	"skiff/internal/patch"
)

func decode(t testing.TB, text string) any {
	t.Helper()
	v, err := patch.Decode([]byte(strings.ReplaceAll(text, "'", `"`)))
	if err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return v
}

func encode(t testing.TB, v any) string {
	t.Helper()
	b, err := patch.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// recorded is a schema, and what a kube-apiserver v1.36.3 made of custom resources that were created under it.
func recorded(t testing.TB) (*Schema, []map[string]any) {
	t.Helper()
	data, err := os.ReadFile("testdata/v1.36.json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := patch.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	file := v.(map[string]any)
	s, causes := Parse(file["schema"], "schema")
	if len(causes) > 0 {
		t.Fatalf("the real server accepts this schema; causes: %v", causes)
	}
	var cases []map[string]any
	for _, c := range file["cases"].([]any) {
		cases = append(cases, c.(map[string]any))
	}
	return s, cases
}

// Rules: FC-02, FC-03, FC-04, FS-17
func TestCustomResourcesAreTreatedAsByARealServer(t *testing.T) {
	s, cases := recorded(t)
	for _, c := range cases {
		object := patch.Copy(c["in"]).(map[string]any)
		object["apiVersion"], object["kind"] = "t.skiff.dev/v1", "Thing"
		delete(object, "status") // as the main endpoint does where there is a status subresource
		before := encode(t, object)
		pruned, unknown := s.Prune(object)
		got := s.Default(pruned)
		causes := s.Validate(got)
		name := encode(t, c["in"])
		if encode(t, object) != before {
			t.Errorf("%s: changed", name)
		}
		var warnings []string
		for _, path := range unknown {
			warnings = append(warnings, `unknown field "`+path+`"`)
		}
		if want := texts(c["warnings"]); !slices.Equal(warnings, want) {
			t.Errorf("%s: warnings %q, want %q", name, warnings, want)
		}
		if got, want := causeTexts(causes), wantCauses(c); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", name, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
		if want, ok := c["out"].(map[string]any); ok {
			for _, k := range []string{"apiVersion", "kind", "metadata"} {
				delete(got, k)
			}
			if !patch.Equal(got, want) {
				t.Errorf("%s: stored %s, want %s", name, encode(t, got), encode(t, want))
			}
		}
		if len(causes) == 1 {
			if got := Message("Thing.t.skiff.dev", "x", causes); got != c["message"] {
				t.Errorf("%s: message %s, want %s", name, got, c["message"])
			}
		}
	}
}

func texts(v any) (out []string) {
	list, _ := v.([]any)
	for _, s := range list {
		out = append(out, s.(string))
	}
	return out
}

func causeTexts(causes []Cause) (out []string) {
	for _, c := range causes {
		out = append(out, c.Reason+" "+c.Field+": "+c.Message)
	}
	slices.Sort(out)
	return out
}

func wantCauses(c map[string]any) (out []string) {
	list, _ := c["causes"].([]any)
	for _, v := range list {
		m := v.(map[string]any)
		out = append(out, m["reason"].(string)+" "+m["field"].(string)+": "+m["message"].(string))
	}
	slices.Sort(out)
	return out
}

// Rules: FC-02
func TestSchemasAreRefusedAsByARealServer(t *testing.T) {
	data, err := os.ReadFile("testdata/v1.36-schemas.json")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := patch.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range cases.([]any) {
		c := v.(map[string]any)
		_, causes := Parse(c["schema"], "spec.validation.openAPIV3Schema")
		if got, want := causeTexts(causes), wantCauses(c); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", encode(t, c["schema"]), strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
}
