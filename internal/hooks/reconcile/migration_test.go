package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/kube"
)

// A child as metacontroller 4.17 leaves it: written by POST and PUT, with what it last applied in an annotation, and a
// field that the hook has dropped since.
const madeByMetacontroller = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x",
	"labels":{"controller-uid":%[1]q},"annotations":{"metacontroller.k8s.io/last-applied-configuration":"{}"},
	"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Thing","name":"a","uid":%[1]q,"controller":true,
	"blockOwnerDeletion":true}]},"data":{"text":"1","dropped":"long ago"}}`

// Rules: HK-78, HK-79, HK-80
func TestAChildOfMetacontrollerIsTakenOverAndNotRecreated(t *testing.T) {
	for _, method := range []spec.Method{spec.InPlace, spec.Recreate} {
		s := composite(echo)
		s.controller.Children[0].Method = method
		story(t, s, func(w *env) {
			w.Stop()
			w.Create("a", `{"names":["x"],"text":"1"}`)
			uid := at(get(w, things, "a"), "metadata", "uid")
			err := w.User.Create(context.Background(), configMaps, "default",
				kube.Raw(fmt.Sprintf(madeByMetacontroller, uid)), nil, kube.WriteOptions{FieldManager: Manager})
			if err != nil {
				t.Fatal(err)
			}
			w.Patch(configMaps, "x", `{"data":{"of-another":"kept"}}`)
			before := get(w, configMaps, "x")
			w.Start()
			w.Pass(time.Minute)
			after := get(w, configMaps, "x")
			if method == spec.InPlace {
				w.Want("uid", at(after, "metadata", "uid"), at(before, "metadata", "uid"))
				w.Want("data", at(after, "data"), map[string]any{"text": "1", "of-another": "kept"})
			} else {
				w.Want("data", at(after, "data"), map[string]any{"text": "1"})
			}
			w.Want("annotation", at(after, "metadata", "annotations",
				"metacontroller.k8s.io/last-applied-configuration"), nil)
			w.Forget()
			w.Pass(time.Hour)
			w.WantRequests()
		})
	}
}

// Rules: HK-80
func TestAChildThatIsAsMetacontrollerLeftItIsNotRecreated(t *testing.T) {
	s := composite(catset)
	s.controller.Children = []spec.Child{{Type: spec.Type{APIVersion: "v1", Resource: "pods"}, Method: spec.Recreate}}
	story(t, s, func(w *env) {
		w.Stop()
		w.Create("a", `{"replicas":1,"template":{"image":"1"}}`)
		uid := at(get(w, things, "a"), "metadata", "uid")
		err := w.User.Create(context.Background(), pods, "default", kube.Raw(fmt.Sprintf(`{"apiVersion":"v1",
			"kind":"Pod","metadata":{"name":"a-0","labels":{"controller-uid":%[1]q},
			"annotations":{"metacontroller.k8s.io/last-applied-configuration":"{}"},
			"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Thing","name":"a","uid":%[1]q,"controller":true,
			"blockOwnerDeletion":true}]},"spec":{"containers":[{"name":"c","image":"1"}]}}`, uid)), nil,
			kube.WriteOptions{FieldManager: Manager})
		if err != nil {
			t.Fatal(err)
		}
		before := get(w, pods, "a-0")
		w.Start()
		w.Pass(time.Minute)
		after := get(w, pods, "a-0")
		w.Want("uid", at(after, "metadata", "uid"), at(before, "metadata", "uid"))
		w.Want("annotation", at(after, "metadata", "annotations",
			"metacontroller.k8s.io/last-applied-configuration"), nil)
	})
}

// metacontroller takes a child over from skiff, changes it, and skiff takes it over again.
//
// Rules: HK-80
func TestAChildThatMetacontrollerHasHadMeanwhileIsTakenOverAgain(t *testing.T) {
	for _, method := range []spec.Method{spec.InPlace, spec.Recreate} {
		s := composite(echo)
		s.controller.Children[0].Method = method
		story(t, s, func(w *env) {
			w.Create("a", `{"names":["x"],"text":"1"}`)
			w.Pass(time.Minute)
			before := get(w, configMaps, "x")
			w.Stop()
			err := w.User.Patch(context.Background(), configMaps, kube.Key{Namespace: "default", Name: "x"},
				kube.MergePatch, kube.Raw(`{"metadata":{"annotations":{
				"metacontroller.k8s.io/last-applied-configuration":"{}"}},"data":{"dropped":"since"}}`), nil,
				kube.WriteOptions{FieldManager: Manager})
			if err != nil {
				t.Fatal(err)
			}
			w.Start()
			w.Pass(time.Minute)
			after := get(w, configMaps, "x")
			w.Want("data", at(after, "data"), map[string]any{"text": "1"})
			w.Want("annotation", at(after, "metadata", "annotations",
				"metacontroller.k8s.io/last-applied-configuration"), nil)
			if method == spec.InPlace {
				w.Want("uid", at(after, "metadata", "uid"), at(before, "metadata", "uid"))
			}
			w.Forget()
			w.Pass(time.Hour)
			w.WantRequests()
		})
	}
}
