package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"skiff/internal/testcluster/apiserver"
)

// pkixRequest returns a certificate request for a member of a group, as the API has it.
func pkixRequest(t *testing.T, group string) string {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must(x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "u", Organization: []string{group}}}, key))(t)
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func certificatePEM(t *testing.T) string {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// Requests for certificates have the same rules and rights as on the real server, and tokens can be verified elsewhere
// in the same way.
func TestEmbeddedServerTreatsCertificatesAndKeysAsTheRealOne(t *testing.T) {
	cluster := ownCluster(t)
	server := apiserver.New(apiserver.Options{KeepNamespaces: true, RBAC: true, Users: map[string]apiserver.User{
		admin.Token: {Name: admin.Name, UID: admin.Name, Groups: []string{admin.Groups}}}})
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		server.Close()
		web.Close()
	})
	fake := must(NewAPI(web.URL, "", admin.Token))(t)
	allowed := must(ReadAllowances(filepath.Join("testdata", "differential-allowed.json")))(t)
	for _, a := range allowed {
		if a.Script == "csr" {
			a.Script = "certificates"
		}
	}
	certificates := readScript(t, "users/certificates.txtar", Vars{"masters": pkixRequest(t, "system:masters"),
		"certificate": certificatePEM(t)})
	runDifferential(t, certificates, cluster.Admin, fake, allowed)

	var documents [2][2]map[string]any
	for i, api := range []*API{cluster.Admin, fake} {
		for j, path := range []string{"/.well-known/openid-configuration", "/openid/v1/jwks"} {
			documents[i][j] = must(api.Get(t.Context(), path))(t)
		}
	}
	for j := range documents[0] {
		real, ours := shape(documents[0][j]), shape(documents[1][j])
		if real != ours {
			t.Errorf("the embedded server has %s, the real one %s", ours, real)
		}
	}
}

// shape returns the names in a document and what its values are, for comparison. An EC and an RSA key are the same.
func shape(v any) string {
	text, err := json.Marshal(names(v))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func names(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			switch name {
			case "x", "y", "crv", "n", "e":
			default:
				out[name] = names(member)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = names(v[i])
		}
		return out
	}
	return "value"
}
