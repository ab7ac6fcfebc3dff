package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skiff/internal/fakeapi/kinds"
)

var update = flag.Bool("update", false, "write the embedded server's table of fields anew")

// The fields that the embedded API server knows are those of the real one.
func TestFieldTableIsThatOfTheRealServer(t *testing.T) {
	bins, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := StartControlPlane(t.Context(), bins)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close(t.Failed()) })

	s := schemas{}
	var roots []string
	for _, k := range kinds.Builtin() {
		path := "/openapi/v3/apis/" + k.Group + "/" + k.Version
		if k.Group == "" {
			path = "/openapi/v3/api/" + k.Version
		}
		doc, err := cluster.Admin.Get(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		for name, schema := range objectAt(doc, "components", "schemas") {
			s[name] = schema.(map[string]any)
			for _, gvk := range Object(s[name]).List("x-kubernetes-group-version-kind") {
				if gvk.Str("group") == k.Group && gvk.Str("version") == k.Version && gvk.Str("kind") == k.Kind {
					found = name
				}
			}
		}
		if found == "" {
			t.Fatalf("the real server has no schema of %s %s", k.APIVersion(), k.Kind)
		}
		roots = append(roots, k.APIVersion()+" "+k.Kind+" "+found)
	}
	want := s.table(roots)
	file := filepath.Join(repository, "internal", "fakeapi", "fields", "fields.txt")
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s is not what the real server says: run this test with -update and look at the difference", file)
	}
}

// schemas are those of all OpenAPI documents, by name.
type schemas map[string]Object

const tableHead = `# The fields of the built-in kinds as a Kubernetes v1.36 server declares them. Written by the test in internal/e2e/fields_test.go.
# First the kinds (apiVersion, kind, type), then each type: a line for each type of value with the fields that have it.
# A type of value is []T, a list; map:T, an object whose names are data; a type; or string, time, bytes (base64), bool, int32, int64,
# double, quantity, int-or-string, any.
`

// table writes all types that the roots are made of.
func (s schemas) table(roots []string) string {
	var b strings.Builder
	b.WriteString(tableHead + "\n")
	var queue []string
	for _, r := range roots {
		name := r[strings.LastIndexByte(r, ' ')+1:]
		fmt.Fprintf(&b, "%s%s\n", strings.TrimSuffix(r, name), short(name))
		queue = append(queue, name)
	}
	lines := map[string]string{}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if lines[short(name)] != "" {
			continue
		}
		byType := map[string][]string{}
		for field, schema := range objectAt(s[name], "properties") {
			word, refers := s.word(schema.(map[string]any))
			if refers != "" {
				queue = append(queue, refers)
			}
			byType[word] = append(byType[word], field)
		}
		text := short(name) + "\n"
		for _, word := range slices.Sorted(maps.Keys(byType)) {
			slices.Sort(byType[word])
			text += "  " + word + " " + strings.Join(byType[word], " ") + "\n"
		}
		lines[short(name)] = text
	}
	b.WriteString("\n")
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		b.WriteString(lines[name])
	}
	return b.String()
}

// word spells a type of value; refers is the schema that it names, if it does.
func (s schemas) word(v Object) (word, refers string) {
	if of := v.List("allOf"); len(of) == 1 {
		v = of[0]
	}
	if ref := v.Str("$ref"); ref != "" {
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		if special := map[string]string{"Time": "time", "MicroTime": "time", "Quantity": "quantity", "IntOrString": "int-or-string"}[name[strings.LastIndexByte(name, '.')+1:]]; special != "" {
			return special, ""
		}
		if s[name]["properties"] == nil && (s[name].Str("type") != "object" || strings.HasSuffix(name, "FieldsV1") || strings.HasSuffix(name, "RawExtension")) {
			return "any", ""
		}
		return short(name), name
	}
	switch kind := v.Str("type"); kind {
	case "array":
		word, refers = s.word(objectAt(v, "items"))
		return "[]" + word, refers
	case "object":
		if v["additionalProperties"] == nil {
			return "any", ""
		}
		word, refers = s.word(objectAt(v, "additionalProperties"))
		return "map:" + word, refers
	case "string":
		return cmp.Or(map[string]string{"byte": "bytes", "date-time": "time", "int-or-string": "int-or-string"}[v.Str("format")], kind), ""
	case "integer":
		return cmp.Or(v.Str("format"), "int64"), ""
	case "number":
		return "double", ""
	case "boolean":
		return "bool", ""
	}
	return "any", ""
}

func objectAt(o Object, path ...string) Object {
	m, _ := o.At(path...).(map[string]any)
	return m
}

// short is the name of a schema without the path of its Go module: group.version.Name.
func short(name string) string {
	parts := strings.Split(name, ".")
	return strings.Join(parts[len(parts)-3:], ".")
}
