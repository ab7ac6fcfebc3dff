package admission

import (
	"net/http"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/obj"
)

// What a webhook answers never ends the server, and an answer to another review is never used.
func FuzzAdmissionAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":false,
			"status":{"code":-1,"reason":"R","details":{"causes":[{}]}},"warnings":["w"]}}`,
		`{"response":{"uid":"u","allowed":true,"patch":"W10=","patchType":"JSONPatch"}}`,
		"response:\n  allowed: true\n", `{"response":null}`, `[]`, ``,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, mutating bool) {
		for _, version := range []string{"v1", "v1beta1"} {
			var r answerReview
			if reviews.Decode(body, &r) != nil {
				continue
			}
			out, err := r.check("w", version, "u", mutating)
			switch {
			case err != nil:
			case version == "v1" && r.Response.UID != "u":
				t.Errorf("the answer to %q is used", r.Response.UID)
			case !mutating && len(out.patch) > 0:
				t.Error("a validating webhook patches")
			case (out.denied == nil) != r.Response.Allowed:
				t.Error("an answer means its opposite")
			case out.denied != nil && (out.denied.Code < http.StatusBadRequest || out.denied.Code > 599):
				t.Errorf("denied with the code %d", out.denied.Code)
			}
		}
	})
}

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
