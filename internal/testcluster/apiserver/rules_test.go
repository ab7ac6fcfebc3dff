package apiserver

import (
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver/obj"
)

// Rules: FS-16
func TestMetadataIsValidated(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
		meta := func(m string) string { return `{"metadata":` + m + `}` }
		owner := `{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true}`
		long := strings.Repeat("a", 254)
		for _, tc := range []struct{ path, body, field, reason, message string }{
			{configMaps, meta(`{"name":"A_"}`), "metadata.name", "FieldValueInvalid",
				`Invalid value: "A_": a lowercase RFC 1123 subdomain must consist`},
			{configMaps, meta(`{"name":"` + long + `"}`), "metadata.name", "FieldValueInvalid", `Invalid value: "` +
				long + `": must be no more than 253 characters`},
			{configMaps, meta(`{}`), "metadata.name", "FieldValueRequired",
				"Required value: name or generateName is required"},
			{configMaps, meta(`{"generateName":"A_"}`), "metadata.generateName", "FieldValueInvalid",
				`Invalid value: "A_": a lowercase RFC 1123 subdomain must consist`},
			{"/api/v1/namespaces", meta(`{"name":"a.b"}`), "metadata.name", "FieldValueInvalid",
				`Invalid value: "a.b": must not contain dots`},
			{roles, meta(`{"name":"a/b"}`), "metadata.name", "FieldValueInvalid",
				`Invalid value: "a/b": may not contain '/'`},
			{configMaps, meta(`{"name":"a","labels":{"a b":"c"}}`), "metadata.labels", "FieldValueInvalid",
				`Invalid value: "a b": name part must consist of`},
			{configMaps, meta(`{"name":"a","labels":{"a":"-"}}`), "metadata.labels", "FieldValueInvalid",
				`Invalid value: "-": a valid label must be an empty string or consist of`},
			{configMaps, meta(`{"name":"a","annotations":{"/":"c"}}`), "metadata.annotations", "FieldValueInvalid",
				`Invalid value: "/": prefix part must be non-empty`},
			{configMaps, meta(`{"name":"a","annotations":{"a":"` + strings.Repeat("x", maxAnnotations) + `"}}`),
				"metadata.annotations", "FieldValueTooLong", "Too long: may not be more than 262144 bytes"},
			{configMaps, meta(`{"name":"a","finalizers":["not a name"]}`), "metadata.finalizers", "FieldValueInvalid",
				`Invalid value: "not a name": name part must consist of`},
			{configMaps, meta(`{"name":"a","finalizers":["mine"]}`), "metadata.finalizers[0]", "FieldValueInvalid",
				`Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified`},
			{configMaps, meta(`{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n"}]}`),
				"metadata.ownerReferences.uid", "FieldValueInvalid", `Invalid value: "": must not be empty`},
			{configMaps, meta(`{"name":"a","ownerReferences":[` + owner + `,` + owner + `]}`),
				"metadata.ownerReferences", "FieldValueInvalid", "Only one reference can have Controller set to true"},
		} {
			a := w.must(422, "POST", tc.path, tc.body)
			causes := obj.Maps(a.body, "details", "causes")
			if len(causes) == 0 || causes[0]["field"] != tc.field || causes[0]["reason"] != tc.reason ||
				!strings.Contains(obj.String(causes[0], "message"), tc.message) {
				t.Errorf("%.200s: %.600s", tc.body, a.raw)
			}
		}
		if a := w.must(400, "GET", configMaps+"/%25", ""); a.at("message") !=
			`Name parameter invalid: "%": may not contain '%'` {
			t.Errorf("a name that no object can have: %s", a.raw)
		}
		// Metadata is checked on each write; what the server sets is left as it is, or refused.
		w.must(201, "POST", configMaps, meta(`{"name":"b"}`))
		for body, code := range map[string]int{
			meta(`{"labels":{"a":"-"}}`): 422, meta(`{"finalizers":["mine"]}`): 422, meta(`{"uid":"other"}`): 422,
			meta(`{"deletionTimestamp":"2001-01-01T00:00:00Z"}`):                422,
			meta(`{"creationTimestamp":"2001-01-01T00:00:00Z","generation":7}`): 200,
			meta(`{"creationTimestamp":"yesterday"}`):                           422,
		} {
			if b := w.must(code, "PATCH", configMaps+"/b", body, "Content-Type",
				string(kube.MergePatch)); code == 200 && strings.Contains(b.raw, "2001") {
				t.Error(b.raw)
			}
		}
		w.must(201, "POST", roles, meta(`{"name":"system:Any_Name"}`))
		w.must(201, "POST", configMaps, meta(`{"name":"`+long[:253]+
			`","labels":{"example.com/a":""},"finalizers":["example.com/x"]}`))
	})
}

// Rules: FD-22
func TestFinalizersOfCustomResourcesWithoutADomainGetAWarning(t *testing.T) {
	withWidgets(t, func(w *world) {
		const warning = `299 - "metadata.finalizers: \"mine\": prefer a domain-qualified finalizer name to avoid ` +
			`accidental conflicts with other finalizer writers"`
		for i, a := range []response{
			w.must(201, "POST", widgetPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a",`+
				`"finalizers":["mine"]},"spec":{"image":"x"}}`),
			w.must(200, "PATCH", widgetPath+"/a", `{"metadata":{"finalizers":["mine","example.com/ours"]}}`,
				"Content-Type", string(kube.MergePatch)),
		} {
			if got := a.header.Get("Warning"); (got == warning) != (i == 0) {
				t.Errorf("answer %d: warning %s", i, got)
			}
		}
	})
}
