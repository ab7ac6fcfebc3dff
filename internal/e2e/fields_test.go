package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

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
	want, err := s.table(roots, goTypes())
	if err != nil {
		t.Fatal(err)
	}
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
# A type of value is []T, a list; map:T, an object whose names are data; a type; or string, time, micro-time, bytes (base64), bool, int32, int64,
# double, quantity, int-or-string, any.
# What Go does with the field's zero value is marked: name! is always shown, name* is a pointer and shown if it is set, name!* is a
# pointer and shown as null if it is not set; any other field is not shown when it is "", 0, false or empty.
`

// goTypes are the Go types of the built-in kinds and all that they are made of, by the names that the table has for them.
func goTypes() map[string]reflect.Type {
	found := map[string]reflect.Type{}
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(t.Elem())
		case reflect.Struct:
			path := strings.Split(t.PkgPath(), "/")
			if len(path) < 2 {
				return
			}
			name := strings.Join(append(path[len(path)-2:], t.Name()), ".")
			if found[name] != nil {
				return
			}
			found[name] = t
			for _, f := range reflect.VisibleFields(t) {
				walk(f.Type)
			}
		}
	}
	//lint:ignore SA1019 a server still serves Endpoints, and so does the embedded one
	endpoints := corev1.Endpoints{}
	for _, root := range []any{corev1.ConfigMap{}, endpoints, corev1.Event{}, corev1.Namespace{}, corev1.Node{}, corev1.Pod{}, corev1.Secret{},
		corev1.ServiceAccount{}, corev1.Service{}, appsv1.ControllerRevision{}, appsv1.DaemonSet{}, appsv1.Deployment{}, appsv1.ReplicaSet{},
		appsv1.StatefulSet{}, rbacv1.ClusterRoleBinding{}, rbacv1.ClusterRole{}, rbacv1.RoleBinding{}, rbacv1.Role{},
		autoscalingv2.HorizontalPodAutoscaler{}, coordinationv1.Lease{}, eventsv1.Event{}, apiextensionsv1.CustomResourceDefinition{}} {
		walk(reflect.TypeOf(root))
	}
	return found
}

// zeroMark says what Go does with the zero value of a field; see the head of the table.
func zeroMark(t reflect.Type, field string) (string, error) {
	if t == nil {
		return "", fmt.Errorf("no Go type has the field %s", field)
	}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != field {
			continue
		}
		omitted := strings.Contains(options, "omitzero") || strings.Contains(options, "omitempty") && f.Type.Kind() != reflect.Struct
		mark := ""
		if !omitted {
			mark = "!"
		}
		if f.Type.Kind() == reflect.Pointer {
			mark += "*"
		}
		return mark, nil
	}
	return "", fmt.Errorf("the Go type %s has no field %s", t, field)
}

// table writes all types that the roots are made of.
func (s schemas) table(roots []string, types map[string]reflect.Type) (string, error) {
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
			mark, err := zeroMark(types[short(name)], field)
			if err != nil {
				return "", fmt.Errorf("%s: %w", short(name), err)
			}
			byType[word] = append(byType[word], field+mark)
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
	return b.String(), nil
}

// word spells a type of value; refers is the schema that it names, if it does.
func (s schemas) word(v Object) (word, refers string) {
	if of := v.List("allOf"); len(of) == 1 {
		v = of[0]
	}
	if ref := v.Str("$ref"); ref != "" {
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		if special := map[string]string{"Time": "time", "MicroTime": "micro-time", "Quantity": "quantity", "IntOrString": "int-or-string"}[name[strings.LastIndexByte(name, '.')+1:]]; special != "" {
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
