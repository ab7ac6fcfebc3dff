package ssa

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/jsonpatch"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/schema"
)

// script is one object's history, recorded from a kube-apiserver v1.36.3: each step is a request and what the server
// made of it. Times and what a store adds (uid, resourceVersion, ...) are left out.
type script struct {
	name, apiVersion, kind string
	schema                 *patch.Node
	reset, statusReset     []string
	steps                  []map[string]any
}

func scripts(t testing.TB) []script {
	t.Helper()
	data, err := os.ReadFile("testdata/v1.36.json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := patch.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	var out []script
	for _, v := range v.([]any) {
		m := v.(map[string]any)
		s := script{name: m["name"].(string), apiVersion: m["apiVersion"].(string), kind: m["kind"].(string),
			reset: stringsOf(m["reset"]), statusReset: stringsOf(m["statusReset"])}
		if s.schema = patch.SchemaFor(s.apiVersion, s.kind); m["schema"] != nil {
			parsed, causes := schema.Parse(m["schema"], "schema")
			if len(causes) > 0 {
				t.Fatal(causes)
			}
			s.schema = parsed.Node()
		}
		for _, step := range m["steps"].([]any) {
			s.steps = append(s.steps, step.(map[string]any))
		}
		out = append(out, s)
	}
	return out
}

func stringsOf(v any) (out []string) {
	list, _ := v.([]any)
	for _, s := range list {
		out = append(out, s.(string))
	}
	return out
}

func encode(t testing.TB, v any) string {
	t.Helper()
	b, err := patch.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// normalised gives times one value, and entries the order that they have if all are of the same second.
func normalised(t testing.TB, object map[string]any) string {
	t.Helper()
	out := patch.Copy(object).(map[string]any)
	list, _ := managedFieldsOf(out)
	for _, e := range list {
		if e := e.(map[string]any); e["time"] != nil {
			e["time"] = "set"
		}
	}
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(encode(t, a), encode(t, b)) })
	return encode(t, out)
}

// run does what apiserver does with a request, but for defaulting and validation, which the scripts need not.
func (s script) run(step, stored map[string]any) (map[string]any, error) {
	op, subresource, _ := strings.Cut(step["op"].(string), "/")
	w := Write{Schema: s.schema, Manager: step["manager"].(string), APIVersion: s.apiVersion, Subresource: subresource,
		Reset: s.reset, Now: time.Date(2026, 1, 1, 0, 0, 0, 5, time.UTC)}
	if subresource != "" {
		w.Reset = s.statusReset
	}
	switch body := step["body"]; op {
	case "post":
		return w.Update(nil, body.(map[string]any)), nil
	case "put":
		return w.Update(stored, body.(map[string]any)), nil
	case "merge":
		return w.Update(stored, jsonpatch.Merge(stored, body).(map[string]any)), nil
	case "json":
		patched, err := jsonpatch.Apply(stored, body)
		if err != nil {
			return nil, err
		}
		return w.Update(stored, patched.(map[string]any)), nil
	case "apply", "force":
		return w.Apply(stored, body.(map[string]any), op == "force")
	}
	return nil, fmt.Errorf("unknown operation %s", op)
}

// Rules: FS-19
func TestManagedFieldsAreThoseOfARealServer(t *testing.T) {
	for _, s := range scripts(t) {
		t.Run(s.name, func(t *testing.T) {
			var stored map[string]any
			for i, step := range s.steps {
				before := encode(t, stored)
				got, err := s.run(step, stored)
				if encode(t, stored) != before {
					t.Fatalf("step %d changed the stored object", i)
				}
				if want, failed := step["message"]; failed {
					checkError(t, i, step, err, want.(string))
					continue
				}
				if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				want := step["object"].(map[string]any)
				if normalised(t, got) != normalised(t, want) {
					t.Errorf("step %d, %s by %s of %s:\n got %s\nwant %s", i, step["op"], step["manager"],
						encode(t, step["body"]), normalised(t, got), normalised(t, want))
				}
				stored = want
			}
		})
	}
}

func checkError(t *testing.T, i int, step map[string]any, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("step %d: error %v, want %s", i, err, want)
	}
	var conflict *ConflictError
	if !errors.As(err, &conflict) {
		return
	}
	var causes []any
	for _, c := range conflict.Causes {
		causes = append(causes, map[string]any{"reason": "FieldManagerConflict",
			"message": c.Message, "field": c.Field})
	}
	recorded := step["causes"].([]any) // in the server's random order
	for _, list := range [][]any{causes, recorded} {
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(encode(t, a), encode(t, b)) })
	}
	if encode(t, causes) != encode(t, recorded) {
		t.Errorf("step %d: causes %s, want %s", i, encode(t, causes), encode(t, recorded))
	}
}

// Update returns new as a server stores it after a write other than an apply.
func (w Write) Update(old, new map[string]any) map[string]any {
	filled := patch.FillZero(w.Schema, new)
	if old != nil {
		old = patch.FillZero(w.Schema, old)
	}
	list := w.Managers(old, filled)
	out := withoutManagedFields(filled)
	if len(list) > 0 {
		obj.Set(out, list, "metadata", "managedFields")
	}
	return out
}

func configMap(t testing.TB, data string) map[string]any {
	t.Helper()
	v,
		err := patch.Decode(
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"default"},"data":` + data +
			`}`))
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

func writer(manager string, second int) Write {
	return Write{Schema: patch.SchemaFor("v1", "ConfigMap"), Manager: manager, APIVersion: "v1",
		Now: time.Unix(int64(second), 0)}
}

// Rules: FS-04, FS-19
func TestAWriteThatTheServerUndoesKeepsTheTimes(t *testing.T) {
	stored, err := writer("a", 1).Apply(nil, configMap(t, `{"cpu":"500m"}`), false)
	if err != nil {
		t.Fatal(err)
	}
	again, err := writer("a", 2).Apply(stored, configMap(t, `{"cpu":"0.5"}`), false)
	if err != nil {
		t.Fatal(err)
	}
	if !patch.Equal(again, KeepTimes(stored, again)) {
		t.Error("a real change was taken for none")
	}
	again["data"] = map[string]any{"cpu": "500m"} // the server's own form
	if patch.Equal(stored, again) {
		t.Fatal("the times are equal already")
	}
	if got := KeepTimes(stored, again); !patch.Equal(stored, got) {
		t.Errorf("got %s, stored is %s", encode(t, got), encode(t, stored))
	}
}

// Rules: FS-19
func TestEntriesAreSortedByOperationThenTimeThenName(t *testing.T) {
	object := writer("u2", 5).Update(nil, configMap(t, `{"a":"1"}`))
	object = writer("u1", 6).Update(object, jsonpatch.Merge(object, configMap(t, `{"b":"1"}`)).(map[string]any))
	for i, name := range []string{"z", "y"} {
		var err error
		if object, err = writer(name, 9-i).Apply(object, configMap(t, `{"`+name+`":"1"}`), false); err != nil {
			t.Fatal(err)
		}
	}
	list, _ := managedFieldsOf(object)
	var got []string
	for _, e := range list {
		got = append(got, e.(map[string]any)["manager"].(string))
	}
	if want := []string{"y", "z", "u2", "u1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestManagedFieldsThatCannotBeReadAreAnErrorForApplyAndDroppedByUpdate(t *testing.T) {
	for _, bad := range []string{`[1]`, `[{"operation":"Spam"}]`, `[{"operation":"Apply","apiVersion":"v1"}]`,
		`[{"operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","time":"x"}]`,
		`[{"operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:a":1}}]`,
		`[{"operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"k:{":{}}}]`} {
		stored := configMap(t, `{}`)
		list, err := patch.Decode([]byte(bad))
		if err != nil {
			t.Fatal(err)
		}
		stored["metadata"].(map[string]any)["managedFields"] = list
		if _, err := writer("a", 1).Apply(stored, configMap(t, `{}`), false); err == nil {
			t.Errorf("apply read %s", bad)
		}
		if list, _ := managedFieldsOf(writer("a", 1).Update(stored, configMap(t, `{"a":"1"}`))); len(list) != 0 {
			t.Errorf("update made %s of %s", encode(t, list), bad)
		}
	}
}

func FuzzApply(f *testing.F) {
	for _, s := range scripts(f) {
		for _, step := range s.steps {
			object, ok := step["object"]
			if !ok {
				continue
			}
			f.Add([]byte(encode(f, object)), []byte(encode(f, step["body"])))
		}
	}
	deployment := patch.SchemaFor("apps/v1", "Deployment")
	f.Fuzz(func(t *testing.T, liveBytes, appliedBytes []byte) {
		live, err := patch.Decode(liveBytes)
		if err != nil {
			return
		}
		applied, err := patch.Decode(appliedBytes)
		if err != nil {
			return
		}
		l, ok := live.(map[string]any)
		a, ok2 := applied.(map[string]any)
		if !ok || !ok2 {
			return
		}
		a["apiVersion"] = "apps/v1"
		w := Write{Schema: deployment, Manager: "fuzz", APIVersion: "apps/v1",
			Reset: []string{"status"}, Now: time.Unix(1, 0)}
		w.Update(l, a)
		merged, err := w.Apply(l, a, true)
		if err != nil {
			return
		}
		delete(a, "metadata") // its managedFields would be refused
		again, err := w.Apply(merged, a, true)
		if err != nil {
			t.Fatalf("what apply has made cannot be applied to: %v", err)
		}
		KeepTimes(merged, again)
	})
}
