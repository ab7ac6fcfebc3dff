package operatortest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// Named returns the key of an object in the namespace of all tests.
func Named(name string) kube.Key { return kube.Key{Namespace: "default", Name: name} }

// At returns the value at a path of an object, nil if it does not exist; numbers are indexes of lists.
func At(o any, path ...any) any {
	for _, p := range path {
		switch v := o.(type) {
		case map[string]any:
			key, _ := p.(string)
			o = v[key]
		case []any:
			i, ok := p.(int)
			if !ok || i >= len(v) {
				return nil
			}
			o = v[i]
		default:
			return nil
		}
	}
	return o
}

// metaOf returns the metadata of a stored object, without labels.
func (w *Env) metaOf(o map[string]any) *kube.Meta {
	meta := map[string]any{}
	for _, field := range []string{"name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp",
		"finalizers", "ownerReferences"} {
		if v := At(o, "metadata", field); v != nil {
			meta[field] = v
		}
	}
	return &Convert[struct {
		kube.Meta `json:"metadata"`
	}](w, map[string]any{"metadata": meta}).Meta // converting the rest takes much longer
}

// Convert returns a stored object as a T, nil for nil.
func Convert[T any](w *Env, o map[string]any) *T {
	w.Helper()
	if o == nil {
		return nil
	}
	if meta, ok := o["metadata"].(map[string]any); ok {
		delete(meta, "managedFields") // large, and no test reads it
	}
	text, err := patch.Encode(o)
	if err != nil {
		w.Fatal(err)
	}
	out := new(T)
	if err := kube.Unmarshal(text, out); err != nil {
		w.Fatal(err)
	}
	return out
}

// JSON decodes a JSON object in a test's source.
func (w *Env) JSON(text string) map[string]any {
	w.Helper()
	v, err := patch.Decode([]byte(text))
	if err != nil {
		w.Fatalf("%v in %s", err, text)
	}
	m, _ := v.(map[string]any)
	return m
}

// asUser has the options of a user's writes.
var asUser = kube.WriteOptions{FieldManager: "user"}

// done fails the test if a user's request has failed, then lets the controller react to it, as far as that takes no
// time.
func (w *Env) done(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
	w.WaitIdle()
}

// Body returns a new custom resource as JSON. spec may end with further fields: `{...},"status":{...}`.
func (w *Env) Body(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q},"spec":%s}`, w.Resource.APIVersion(),
		w.Resource.Kind, name, spec)
}

// Create creates a custom resource.
func (w *Env) Create(name, spec string) {
	w.Helper()
	w.Post(w.Resource, w.Body(name, spec))
}

// Post creates an object.
func (w *Env) Post(r kube.Resource, text string) {
	w.Helper()
	w.PostIn("default", r, text)
}

// PostIn creates an object in a namespace, "" for a cluster-scoped object.
func (w *Env) PostIn(namespace string, r kube.Resource, text string) {
	w.Helper()
	w.done(w.User.Create(w.Context(), r, namespace, w.JSON(text), nil, asUser))
}

// PatchIn merges JSON into an object of a namespace.
func (w *Env) PatchIn(namespace string, r kube.Resource, name, text string) {
	w.Helper()
	k := kube.Key{Namespace: namespace, Name: name}
	w.done(w.User.Patch(w.Context(), r, k, kube.MergePatch, w.JSON(text), nil, asUser))
}

// Patch merges JSON into an object.
func (w *Env) Patch(r kube.Resource, name, text string) {
	w.Helper()
	w.PatchSub(r, name, "", text)
}

// PatchSub merges JSON into a subresource of an object, such as "status".
func (w *Env) PatchSub(r kube.Resource, name, subresource, text string) {
	w.Helper()
	o := asUser
	o.Subresource = subresource
	w.done(w.User.Patch(w.Context(), r, Named(name), kube.MergePatch, w.JSON(text), nil, o))
}

// Delete deletes an object as `kubectl delete` does.
func (w *Env) Delete(r kube.Resource, name string) {
	w.Helper()
	w.done(w.User.Delete(w.Context(), r, Named(name), kube.DeleteOptions{Propagation: kube.Background}))
}

// DeleteNow deletes a pod without a grace period.
func (w *Env) DeleteNow(r kube.Resource, name string) {
	w.Helper()
	w.done(w.User.Delete(w.Context(), r, Named(name), now))
}

var deployments = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}

// RollOut gives a Deployment the status that its controller gives it in the end.
func (w *Env) RollOut(name string) {
	w.Helper()
	d := w.API.Get(deployments, Named(name))
	n := At(d, "spec", "replicas")
	w.PatchSub(deployments, name, "status", fmt.Sprintf(`{"status":{"observedGeneration":%v,"replicas":%v,
		"updatedReplicas":%[2]v,"readyReplicas":%[2]v,"availableReplicas":%[2]v}}`, At(d, "metadata", "generation"), n))
}

var now = kube.DeleteOptions{GracePeriodSeconds: new(int64)}

// Want checks that two values are equal. Integers of all types are compared as int64, which those of decoded JSON are.
func (w *Env) Want(what string, got, want any) {
	w.Helper()
	if !reflect.DeepEqual(wide(got), wide(want)) {
		w.Errorf("%s: %v, want %v", what, got, want)
	}
}

func wide(v any) any {
	if r := reflect.ValueOf(v); r.IsValid() && r.CanInt() {
		return r.Int()
	}
	return v
}

// condition returns a condition of a custom resource, nil if it has none of that type.
func (w *Env) condition(name, conditionType string) any {
	list, _ := At(w.API.Get(w.Resource, Named(name)), "status", "conditions").([]any)
	for _, c := range list {
		if At(c, "type") == conditionType {
			return c
		}
	}
	return nil
}

// Condition returns a condition of a custom resource as "True/Complete", "none" if it has none of that type.
func (w *Env) Condition(name, conditionType string) string {
	c := w.condition(name, conditionType)
	if c == nil {
		return "none"
	}
	return fmt.Sprint(At(c, "status"), "/", At(c, "reason"))
}

// Message returns the message of a condition, or of the one that it refers to; "" if there is none.
func (w *Env) Message(name, conditionType string) string {
	o := Convert[struct {
		Status struct {
			Conditions []conditions.Condition `json:"conditions"`
		} `json:"status"`
	}](w, w.API.Get(w.Resource, Named(name)))
	if o == nil {
		return ""
	}
	return conditions.Message(o.Status.Conditions, conditionType)
}

// WantCondition checks a condition of a custom resource ("True/Complete"), that its observedGeneration is the current
// one, and that its message contains all the words.
func (w *Env) WantCondition(name, conditionType, want string, words ...string) {
	w.Helper()
	what, message := conditionType+" of "+name, w.Message(name, conditionType)
	w.Want(what+" ("+message+")", w.Condition(name, conditionType), want)
	w.Want("generation of "+what, At(w.condition(name, conditionType), "observedGeneration"),
		At(w.API.Get(w.Resource, Named(name)), "metadata", "generation"))
	for _, word := range words {
		if !strings.Contains(message, word) {
			w.Errorf("%s: %q does not say %q", what, message, word)
		}
	}
}

// WantReady checks that a custom resource is Ready and that no other condition reports a problem.
func (w *Env) WantReady(name string) {
	w.Helper()
	w.WantCondition(name, "Ready", "True/Complete")
	w.WantCondition(name, "Progressing", "False/Complete")
	w.WantCondition(name, "Degraded", "False/AsExpected")
	w.WantCondition(name, "Stalled", "False/AsExpected")
}

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// Golden compares a value, as JSON, with the file testdata/NAME.json; with -update it writes the file.
func Golden(t *testing.T, name string, value any) {
	t.Helper()
	got, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update rewrites it; another revision of the same spec rolls the pods of every "+
			"user):\n%s", file, got)
	}
}
