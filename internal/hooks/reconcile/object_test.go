package reconcile

import (
	"encoding/json"
	"reflect"
	"testing"

	"skiff/internal/runtime/kube"
)

// Rules: HK-34, HK-109
func TestAnObjectReachesAHookWhole(t *testing.T) {
	for name, text := range map[string]string{
		"all": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","uid":"u-1",
			"resourceVersion":"7","generation":3,"creationTimestamp":"2026-01-02T03:04:05Z",
			"deletionTimestamp":"2026-01-02T03:04:06Z","deletionGracePeriodSeconds":0,"generateName":"we",
			"labels":{"a":"b"},"annotations":{"c":"\"d\""},"finalizers":["x.io/y"],"ownerReferences":[{"apiVersion":"v1",
			"kind":"Pod","name":"p","uid":"u-2","controller":true,"blockOwnerDeletion":true}]},
			"spec":{"replicas":3,"none":null,"big":9007199254740993},"status":{"conditions":[]},"data":{"a":"1"}}`,
		"metadata alone": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","uid":"u","resourceVersion":"1",
			"creationTimestamp":"2026-01-02T03:04:05Z"}}`,
	} {
		o := new(Object)
		if err := kube.Unmarshal([]byte(text), o); err != nil {
			t.Fatal(err)
		}
		got, err := Encode(deployments, o)
		if err != nil {
			t.Fatal(err)
		}
		var is, want any
		if err := json.Unmarshal(got, &is); err != nil {
			t.Fatalf("%s: %v: %s", name, err, got)
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(is, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, text)
		}
	}
}
