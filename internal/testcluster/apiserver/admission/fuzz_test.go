package admission

import (
	"net/http"
	"testing"
)

// What a webhook answers never ends the server, and an answer to another review is never heeded.
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
				t.Errorf("the answer to %q is heeded", r.Response.UID)
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
