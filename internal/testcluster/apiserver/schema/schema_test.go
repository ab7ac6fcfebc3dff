package schema

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"skiff/internal/runtime/patch"
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
		causes := s.Validate(got, nil)
		name := encode(t, c["in"])
		if encode(t, object) != before {
			t.Errorf("%s: changed", name)
		}
		var warnings []string
		for _, path := range unknown {
			warnings = append(warnings, `unknown field "`+path+`"`)
		}
		slices.Sort(warnings) // as the recorded ones are
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
			if got := message("Thing.t.skiff.dev", "x", causes); got != c["message"] {
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
			t.Errorf("%s:\n got %s\nwant %s", encode(t, c["schema"]), strings.Join(got, "\n     "),
				strings.Join(want, "\n     "))
		}
	}
}

// Rules: FC-05
func TestRulesInCELAreRefused(t *testing.T) {
	_,
		causes := Parse(decode(t,
		`{'type':'object','properties':{'spec':{'type':'object','properties':{'n':{'type':'integer'}},
		'x-kubernetes-validations':[{'rule':'self.n > 1'}]}}}`), "schema")
	want := []string{"FieldValueForbidden schema.properties[spec].x-kubernetes-validations: Forbidden: rules in CEL " +
		"would have no effect: this build of skiff-dev does not evaluate CEL, the released one does (make skiff-dev)"}
	if got := causeTexts(causes); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestTheNodeOfASchemaSaysHowFieldsAreOwned(t *testing.T) {
	s, _ := recorded(t)
	spec := s.Node().Field("spec")
	for _, c := range []struct {
		field string
		list  patch.ListType
		keys  string
	}{{"tags", patch.ListSet, ""}, {"ports", patch.ListMap, "port,proto"}, {"rows", patch.ListMap, "id"},
		{"list", patch.ListAtomic, ""}} {
		n := spec.Field(c.field)
		if n.ListType() != c.list || strings.Join(n.Keys, ",") != c.keys {
			t.Errorf("%s: %+v", c.field, n)
		}
	}
	if key := spec.Field("ports").ItemKey(decode(t, `{'port':1}`)); encode(t, key) != `{"port":1,"proto":"TCP"}` {
		t.Errorf("the default of a key field does not count: %v", key)
	}
	if spec.Field("rows").ItemKey(decode(t, `{'v':'x'}`)) != nil {
		t.Error("an item without its key has one")
	}
	if !spec.Field("sel").IsAtomicObject() || spec.Field("labels").IsAtomicObject() {
		t.Error("map types are wrong")
	}
	if spec.Field("tmpl") != nil || spec.Field("any") != nil {
		t.Error("something is known of what is preserved as it is")
	}
	if !spec.Declared("image") || spec.Declared("foo") || !spec.Closed || spec.Field("labels").Closed {
		t.Error("declared fields are wrong")
	}
	if n := s.Node().Field("metadata").Field("finalizers"); n.ListType() != patch.ListSet {
		t.Error("metadata is not that of all objects")
	}
}

// What exists already keeps the defaults it was stored with, and gets those that the schema has got since.
//
// Rules: FC-03
func TestDefaultsAreFilledOnReadWithoutTouchingTheStoredObject(t *testing.T) {
	s, causes := Parse(decode(t, `{'type':'object','properties':{'spec':{'type':'object','default':{},'properties':{
		'a':{'type':'string','default':'x'},'m':{'type':'object','additionalProperties':{'type':'string',
		'default':'y'}}}}}}`), "schema")
	if len(causes) > 0 {
		t.Fatal(causes)
	}
	stored := decode(t, `{'metadata':{'name':'n'},'spec':{'m':{'k':null}}}`).(map[string]any)
	got := s.Default(stored)
	if want := `{"metadata":{"name":"n"},"spec":{"a":"x","m":{"k":"y"}}}`; encode(t, got) != want {
		t.Errorf("got %s", encode(t, got))
	}
	if encode(t, stored) != `{"metadata":{"name":"n"},"spec":{"m":{"k":null}}}` {
		t.Errorf("stored is %s now", encode(t, stored))
	}
	got["spec"].(map[string]any)["a"] = "changed"
	if got := encode(t, s.Default(map[string]any{})); got != `{"spec":{"a":"x"}}` {
		t.Errorf("a default below a default, after a result was changed: %s", got)
	}
}

func FuzzSchema(f *testing.F) {
	s, cases := recorded(f)
	for _, c := range cases {
		f.Add([]byte(`{"type":"object","properties":{"spec":{"type":"object","default":{"a":null},`+
			`"properties":{"a":{"type":"string","pattern":"a","nullable":true}}}}}`), []byte(encode(f, c["in"])))
	}
	f.Add([]byte(`{"type":"object","properties":{"":{"type":"object","default":{"a":null},`+
		`"properties":{"a":{"type":"string"}}}}}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, schemaBytes, objectBytes []byte) {
		v, err := patch.Decode(objectBytes)
		if err != nil {
			return
		}
		object, ok := v.(map[string]any)
		if !ok {
			return
		}
		use := s
		if v, err := patch.Decode(schemaBytes); err == nil {
			if parsed, causes := Parse(v, ""); len(causes) == 0 {
				use = parsed
			}
		}
		before := encode(t, object)
		pruned, _ := use.Prune(object)
		filled := use.Default(pruned)
		use.Validate(filled, nil)
		if again := use.Default(filled); encode(t, again) != encode(t, filled) {
			t.Errorf("defaults of %s are not stable: %s, then %s", before, encode(t, filled), encode(t, again))
		}
		if _, unknown := use.Prune(pruned); len(unknown) > 0 {
			t.Errorf("pruning %s leaves %q", before, unknown)
		}
		use.Node().Field("spec").Field("x")
		if encode(t, object) != before {
			t.Errorf("a function changed %s", before)
		}
	})
}

// message returns the text of an Invalid Status for the object that the causes are about. kind is KIND.GROUP.
func message(kind, name string, causes []Cause) string {
	var texts []string
	seen := map[string]bool{}
	for _, c := range causes {
		text := c.Field + ": " + c.Message
		if !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	all := strings.Join(texts, ", ")
	if len(texts) > 1 {
		all = "[" + all + "]"
	}
	return fmt.Sprintf("%s %q is invalid: %s", kind, name, all)
}
