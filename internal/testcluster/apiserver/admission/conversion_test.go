package admission

import (
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/obj"
)

// What a webhook answers never ends the server, and changes of the metadata only labels and annotations.
func FuzzConversionAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"u","result":{"status":
			"Success"},"convertedObjects":[{"apiVersion":"g/v2","kind":"K","metadata":{"name":"n","uid":"i","labels":{
			"a":"b"},"finalizers":["x"]}}]}}`,
		`{"response":{"uid":"u","result":{"status":"Success"},"convertedObjects":[1,null,{}]}}`,
		`{"response":{"result":{"status":"Failed","message":"no"}}}`, "response:\n  uid: u\n", `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		to := kube.Resource{Group: "g", Version: "v2", Kind: "K"}
		for _, version := range []string{"v1", "v1beta1"} {
			var r conversionReview
			if conversionReviews.Decode(body, &r) != nil {
				continue
			}
			objects, err := r.objects(version, "u")
			if err != nil {
				continue
			}
			for i, o := range objects {
				original := map[string]any{"apiVersion": "g/v1", "kind": "K", "metadata": map[string]any{"name": "n",
					"uid": "i", "generation": int64(1), "labels": map[string]any{"old": "x"}}}
				if checkConversion(original, o, to, i) != nil {
					continue
				}
				if !obj.EqualExcept(obj.Map(o, "metadata"), obj.Map(original, "metadata"), "labels", "annotations") {
					t.Errorf("the metadata became %v", o["metadata"])
				}
			}
		}
	})
}
