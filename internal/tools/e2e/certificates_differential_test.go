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

// certificatesScript asks for certificates, approves, denies and signs, by users with and without the rights.
func certificatesScript(t *testing.T) Script {
	masters, certificate := pkixRequest(t, "system:masters"), certificatePEM(t)
	const mine = csrs + "/c"
	approval := func(step, as, conditions string) Step {
		return Step{Name: "approval: " + step, Method: "PATCH", Type: mergePatch, Path: mine + "/approval", As: as,
			Body: `{"status":{"conditions":` + conditions + `}}`}
	}
	status := func(step, as, body string) Step {
		return Step{Name: "status: " + step, Method: "PATCH", Type: mergePatch, Path: mine + "/status", As: as,
			Body: `{"status":` + body + `}`}
	}
	condition := func(kind, status string) string {
		return `{"type":"` + kind + `","status":"` + status + `","reason":"R","message":"m"}`
	}
	of := func(signer, request string) string {
		return `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"of"},"spec":{
			"signerName":"` + signer + `","request":"` + request + `","usages":["client auth"]}}`
	}
	role := func(name, rules string) []Step {
		const path = "/apis/rbac.authorization.k8s.io/v1/"
		return []Step{{Name: "role " + name, Method: "POST", Path: path + "clusterroles", Body: `{"metadata":{"name":"` +
			name + `"},"rules":[` + rules + `]}`}, {Name: "bind " + name, Method: "POST", Path: path +
			"clusterrolebindings", Body: `{"metadata":{"name":"` + name + `"},"roleRef":{"kind":"ClusterRole","name":"` +
			name + `","apiGroup":"rbac.authorization.k8s.io"},"subjects":[{"kind":"User","name":"` + name +
			`","apiGroup":"rbac.authorization.k8s.io"}]}`}}
	}
	const all = `{"apiGroups":["certificates.k8s.io"],"resources":["certificatesigningrequests",
		"certificatesigningrequests/approval","certificatesigningrequests/status"],"verbs":["*"]}`
	signers := func(verb, name string) string {
		return all + `,{"apiGroups":["certificates.k8s.io"],"resources":["signers"],"verbs":["` + verb +
			`"],"resourceNames":["` + name + `"]}`
	}
	return Script{Name: "certificates", Steps: slicesOf(role("plain", all), role("approver",
		signers("approve", "example.com/*")), role("signer", signers("sign", "example.com/scripted")), []Step{
		{Name: "create", Method: "POST", Path: csrs, Body: csrBody("c", csrPEM, `"usages":["client auth"]`)},
		{Name: "rights are there", Path: csrs, As: "signer", Until: "List"},
		{Name: "of nobody", Method: "POST", Path: csrs, Body: of("kubernetes.io/kube-apiserver-client", masters)},
		{Name: "of another signer", Method: "POST", Path: csrs + "?dryRun=All", Body: of("example.com/x", masters)},
		{Name: "bad signer", Method: "POST", Path: csrs, Body: of("example", csrPEM)},
		{Name: "no PEM", Method: "POST", Path: csrs, Body: of("example.com/x", "aGVsbG8=")},
		status("denied", "", `{"conditions":[`+condition("Denied", "True")+`]}`),
		approval("without the right", "plain", `[`+condition("Approved", "True")+`]`),
		approval("unknown status", "", `[`+condition("Approved", "Maybe")+`]`),
		approval("false", "", `[`+condition("Approved", "False")+`]`),
		approval("no type", "", `[{"status":"True"}]`),
		approval("another condition", "approver", `[`+condition("Other", "True")+`]`),
		approval("twice", "", `[`+condition("Approved", "True")+`,`+condition("Approved", "True")+`]`),
		approval("both", "", `[`+condition("Approved", "True")+`,`+condition("Denied", "True")+`]`),
		approval("by a right for the domain", "approver", `[`+condition("Approved", "True")+`]`),
		approval("denied after that", "", `[`+condition("Denied", "True")+`]`),
		approval("taken back", "", `[]`),
		approval("its message", "", `[{"type":"Approved","status":"True","reason":"S","message":"n"}]`),
		{Name: "the whole object", Method: "PUT", Path: mine + "/approval", Body: `{"apiVersion":"certificates.k8s.io/v1",
			"kind":"CertificateSigningRequest","metadata":{"name":"c"},"status":{"certificate":"` + certificate +
			`","conditions":[` + condition("Approved", "True") + `]}}`},
		{Name: "get", Path: mine + "/approval"},
		status("without the right", "approver", `{"certificate":"`+certificate+`"}`),
		status("no certificate", "", `{"certificate":"aGVsbG8="}`),
		status("not approved any more", "", `{"conditions":[`+condition("Failed", "True")+`]}`),
		status("failed", "signer", `{"conditions":[`+condition("Approved", "True")+`,`+condition("Failed", "True")+`]}`),
		status("false", "signer", `{"conditions":[`+condition("Approved", "True")+`,`+condition("Failed", "False")+`]}`),
		status("signed", "signer", `{"certificate":"`+certificate+`"}`),
		status("changed", "signer", `{"certificate":"`+base64.StdEncoding.EncodeToString([]byte("x"))+`"}`),
		{Name: "delete", Method: "DELETE", Path: mine},
	})}
}

// pkixRequest returns a certificate request for a member of a group, as the API has it.
func pkixRequest(t *testing.T, group string) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "u", Organization: []string{group}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func certificatePEM(t *testing.T) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
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
	fake, err := NewAPI(web.URL, "", admin.Token)
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := ReadAllowances(filepath.Join("testdata", "differential-allowed.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range allowed {
		if a.Script == "csr" {
			a.Script = "certificates"
		}
	}
	runDifferential(t, certificatesScript(t), cluster.Admin, fake, allowed)

	var documents [2][2]map[string]any
	for i, api := range []*API{cluster.Admin, fake} {
		for j, path := range []string{"/.well-known/openid-configuration", "/openid/v1/jwks"} {
			if documents[i][j], err = api.Get(t.Context(), path); err != nil {
				t.Fatal(err)
			}
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
