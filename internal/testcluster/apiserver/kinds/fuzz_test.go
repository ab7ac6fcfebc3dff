package kinds

import (
	"encoding/base64"
	"testing"
	"time"

	"skiff/internal/runtime/patch"
)

// Certificates and requests for them are valid, or it is said what is wrong.
func FuzzCertificates(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nA: b\n\nAAAA\n-----END CERTIFICATE REQUEST-----\n"))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		encoded := base64.StdEncoding.EncodeToString(text)
		if len(text) > 0 && notRequest(encoded) == "" && notCertificates(encoded) == "" {
			t.Errorf("%q is both", text)
		}
		notRequest(string(text))
		notCertificates(string(text))
	})
}

// No path of a column and no object makes the server panic, and what is found can be printed.
func FuzzCustomColumn(f *testing.F) {
	for _, path := range []string{".a.b", ".a[0]['b']", `.a[?(@.type=="Ready")].status`, ".a[*][-1]", "[", ".a[?(@.)]", ".['']"} {
		f.Add(path, `{"a":[{"type":"Ready","status":1},[2]],"":{"b":null}}`)
	}
	f.Fuzz(func(t *testing.T, path, object string) {
		v, err := patch.Decode([]byte(object))
		if o, ok := v.(map[string]any); err == nil && ok {
			for _, kind := range []string{"string", "integer", "number", "boolean", "date"} {
				if _, err := patch.Encode(customCell(path, kind)(o, time.Time{})); err != nil {
					t.Errorf("%s of %s: %v", path, object, err)
				}
			}
		}
	})
}
