package crds

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const hooksGroup = "metacontroller.k8s.io"

type definition struct {
	Metadata struct{ Name string }
	Spec     struct {
		Group    string
		Names    struct{ Plural string }
		Versions []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema map[string]any `yaml:"openAPIV3Schema"`
			}
			Subresources struct {
				Status *map[string]any
			}
		}
	}
}

func definitions(t *testing.T) map[string]definition {
	t.Helper()
	out := map[string]definition{}
	for _, text := range slices.Concat(All(), Hooks()) {
		var d definition
		if err := yaml.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		out[d.Metadata.Name] = d
	}
	for _, name := range []string{"webservers.skiff.dev", "compositecontrollers.metacontroller.k8s.io"} {
		if _, ok := out[name]; !ok || len(out) != 6 {
			t.Fatalf("%s is not among %d definitions", name, len(out))
		}
	}
	return out
}

// An API server refuses large CRDs in annotations of `kubectl apply` at 256 KiB, and etcd objects at 1.5 MiB.
func TestDefinitionsAreSmall(t *testing.T) {
	for _, text := range slices.Concat(All(), Hooks()) {
		var whole map[string]any // with what an alias repeats, as it is sent
		if err := yaml.Unmarshal(text, &whole); err != nil {
			t.Fatal(err)
		}
		sent, err := json.Marshal(whole)
		if err != nil || len(sent) > 200<<10 {
			t.Errorf("%.60s: %d bytes (%v), the limit is 200 KiB", text, len(sent), err)
		}
	}
}

func TestDefinitionsAreNamedAsTheServerWantsAndHaveAStatus(t *testing.T) {
	for name, d := range definitions(t) {
		if name != d.Spec.Names.Plural+"."+d.Spec.Group || d.Spec.Group != "skiff.dev" && d.Spec.Group != hooksGroup {
			t.Errorf("%s is of %s.%s", name, d.Spec.Names.Plural, d.Spec.Group)
		}
		for _, v := range d.Spec.Versions {
			if v.Subresources.Status == nil {
				t.Errorf("%s %s has no status subresource", name, v.Name)
			}
		}
	}
}

// `kubectl explain` shows an empty page for a field without a description, and a rule in CEL costs the server at each
// write.
func TestEveryFieldIsDescribedAndNoRuleIsInCEL(t *testing.T) {
	for _, d := range definitions(t) {
		for _, v := range d.Spec.Versions {
			checkSchema(t, d.Spec.Names.Plural, v.Schema.OpenAPIV3Schema)
		}
	}
}

// kubectl reads YAML 1.1, where these words are booleans unless they are quoted. A field of such a name is a trap for
// each user.
var booleans = []string{"y", "n", "yes", "no", "on", "off", "true", "false"}

func checkSchema(t *testing.T, path string, schema map[string]any) {
	t.Helper()
	if name := path[strings.LastIndex(path, ".")+1:]; slices.Contains(booleans, strings.ToLower(name)) {
		t.Errorf("%s has the name of a boolean", path)
	}
	text, _ := schema["description"].(string)
	_, field, _ := strings.Cut(path, ".")
	byServer := field == "metadata" || field == "metadata.name" // the server describes ObjectMeta itself
	if strings.TrimSpace(text) == "" && !byServer && !strings.HasSuffix(path, "[*]") {
		t.Errorf("%s has no description", path)
	}
	if schema["x-kubernetes-validations"] != nil {
		t.Errorf("%s has a rule in CEL", path)
	}
	if schema["type"] == nil && schema["x-kubernetes-int-or-string"] == nil {
		t.Errorf("%s has no type: the schema is not structural", path)
	}
	properties, _ := schema["properties"].(map[string]any)
	for field, s := range properties {
		below, ok := s.(map[string]any)
		if !ok {
			t.Errorf("%s.%s is no schema", path, field)
			continue
		}
		checkSchema(t, path+"."+field, below)
	}
	for _, word := range []string{"items", "additionalProperties"} {
		if below, ok := schema[word].(map[string]any); ok {
			checkSchema(t, path+"[*]", below)
		}
	}
}

func TestAllCanBeChangedByTheCaller(t *testing.T) {
	All()[0][0] = 'X'
	if All()[0][0] == 'X' {
		t.Error("callers share the text")
	}
}
