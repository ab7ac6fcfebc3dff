package kinds

import (
	"encoding/base64"
	"testing"
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
