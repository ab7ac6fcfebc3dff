package call_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
)

// vault has Secrets and ConfigMaps, by the text of a Reference's key.
type vault map[string]string

func (v vault) read(_ context.Context, r spec.Reference) ([]byte, error) {
	if r.Namespace != "ns" || r.Name != "creds" || r.ConfigMap != (r.Key == "bundle") {
		return nil, errors.New("wrong reference")
	}
	value, ok := v[r.Key]
	if !ok {
		return nil, errors.New("not found")
	}
	return []byte(value), nil
}

func (v vault) options(o *call.Options) { o.Credential = v.read }

// key refers to a key of the Secret of vault.
func key(name string) *spec.Reference {
	return &spec.Reference{Namespace: "ns", Name: "creds", Key: name}
}

func keys(first, second string) *spec.Pair {
	return &spec.Pair{Namespace: "ns", Name: "creds", First: first, Second: second}
}

// Rules: HK-06
func TestAWebhookGetsTheCredentialsThatItsSpecNames(t *testing.T) {
	got := ""
	_, hook := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, `{}`)
	})
	v := vault{"token": " t0ken\n", "user": "me\n", "password": "horse\n"}
	for want, access := range map[string]spec.Access{
		"":                   {},
		"Bearer t0ken":       {Bearer: key("token")},
		"Custom t0ken":       {Bearer: key("token"), Scheme: "Custom"},
		"Basic bWU6aG9yc2U=": {Basic: keys("user", "password")},
	} {
		hook.Webhook.Access = access
		c, _ := newCaller(t, hook, v.options)
		if ask(t, c, `{}`); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	hook.Webhook.Access = spec.Access{}
	hook.Webhook.URL = strings.Replace(hook.Webhook.URL, "http://", "http://me:horse@", 1)
	c, _ := newCaller(t, hook)
	if ask(t, c, `{}`); got != "Basic bWU6aG9yc2U=" {
		t.Errorf("got %q", got)
	}
}

// Rules: HK-06
func TestCredentialsThatCannotBeUsedAreNamedAndNotShown(t *testing.T) {
	_, hook := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	v := vault{"token": "hunter 2", "user": "hunter:2", "password": "hunter2", "tls.crt": "hunter2",
		"tls.key": "hunter2", "ca.crt": "hunter2", "empty": " \n"}
	for want, access := range map[string]spec.Access{
		"authorization: key token of Secret ns/creds: it has white space":     {Bearer: key("token")},
		"authorization: key empty of Secret ns/creds: it is missing or empty": {Bearer: key("empty")},
		"authorization: read key x of Secret ns/creds: not found":             {Bearer: key("x")},
		"basicAuth: user of Secret ns/creds: a user name cannot have a colon": {Basic: keys("user", "password")},
		"clientTLS: tls.crt and tls.key of Secret ns/creds: ":                 {ClientTLS: keys("tls.crt", "tls.key")},
		"caBundle: key ca.crt of Secret ns/creds: holds no PEM certificate":   {CA: key("ca.crt")},
		"caBundle.inline: holds no PEM certificate":                           {CAInline: "hunter2"},
	} {
		hook.Webhook.Access = access
		c, _ := newCaller(t, hook, v.options)
		if err := refused(t, c, "hook sync at ", want); strings.Contains(err.Error(), "hunter") {
			t.Errorf("the error has a secret: %v", err)
		}
	}
	hook.Webhook.Access = spec.Access{Bearer: key("token")}
	c, _ := newCaller(t, hook)
	refused(t, c, "credentials are read from a cluster, and there is none")
}

// Proxies with an authorization service refuse a token that has expired with 403.
//
// Rules: HK-08
func TestCredentialsAreReadAgainWhenTheyAreRefused(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		synctest.Test(t, func(t *testing.T) { testRefusedCredentials(t, status) })
	}
}

func testRefusedCredentials(t *testing.T, status int) {
	v, wanted, asked := vault{"token": "swordfish"}, "swordfish", 0
	hook, dial := servePipe(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.Header.Get("Authorization") != "Bearer "+wanted {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "I do not know "+r.Header.Get("Authorization"))
			return
		}
		_, _ = io.WriteString(w, `{}`)
	})
	hook.Webhook.Access = spec.Access{Bearer: key("token")}
	reads := 0
	c, _ := newCaller(t, hook, dial, func(o *call.Options) {
		o.Credential = func(ctx context.Context, r spec.Reference) ([]byte, error) {
			reads++
			return v.read(ctx, r)
		}
	})
	ask(t, c, `{}`)
	time.Sleep(time.Minute) // virtual
	v["token"], wanted = "new", "new"
	if ask(t, c, `{}`); asked != 3 {
		t.Errorf("%d requests", asked)
	}
	wanted = "other"
	err := refused(t, c, fmt.Sprintf("status %d %s: I do not know Bearer [redacted]", status, http.StatusText(status)))
	if asked != 4 || reads != 2 || strings.Contains(err.Error(), "new") {
		t.Errorf("%d requests, %d reads, %v", asked, reads, err) // they were read less than a second before
	}
	time.Sleep(time.Minute)
	if refused(t, c, fmt.Sprint("status ", status)); asked != 5 || reads != 3 {
		t.Errorf("%d requests, %d reads", asked, reads) // they are as they were
	}
	c.Close()
	synctest.Wait()
}

// certificate returns a self-signed certificate for 127.0.0.1 and its key.
func certificate(t *testing.T) (cert, private string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "skiff"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// Rules: HK-06, HK-08
func TestAWebhookIsReachedOverTLS(t *testing.T) {
	cert, private := certificate(t)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(cert))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{}`)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	s.StartTLS()
	defer s.Close()
	bundle := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	ofConfigMap := &spec.Reference{ConfigMap: true, Namespace: "ns", Name: "creds", Key: "bundle"}
	v := vault{"tls.crt": cert, "tls.key": private, "bundle": bundle}
	hook := &spec.Hook{Webhook: &spec.Webhook{URL: s.URL}}
	for _, access := range []spec.Access{{CAInline: bundle, ClientTLS: keys("tls.crt", "tls.key")},
		{CA: ofConfigMap, ClientTLS: keys("tls.crt", "tls.key")}} {
		hook.Webhook.Access = access
		c, _ := newCaller(t, hook, v.options)
		ask(t, c, `{}`)
	}
	hook.Webhook.Access = spec.Access{}
	c, _ := newCaller(t, hook, v.options)
	refused(t, c, "certificate")
	hook.Webhook.Access = spec.Access{CAInline: bundle}
	c, _ = newCaller(t, hook, v.options)
	refused(t, c, "tls: certificate required")
	hook.Webhook.Access, v["bundle"] = spec.Access{CA: ofConfigMap, ClientTLS: keys("tls.crt", "tls.key")}, cert
	c, _ = newCaller(t, hook, v.options)
	refused(t, c, "certificate")
	v["bundle"] = bundle
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := c.Call(t.Context(), call.Call{Body: []byte(`{}`)}); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("the new bundle was not read: %v", err)
		}
	}
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.Config.ErrorLog = log.New(io.Discard, "", 0)
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	old.StartTLS()
	defer old.Close()
	hook = &spec.Hook{Webhook: &spec.Webhook{URL: old.URL, Access: spec.Access{CAInline: bundle}}}
	c, _ = newCaller(t, hook)
	refused(t, c, "protocol version")
	plain, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	hook = &spec.Hook{Webhook: &spec.Webhook{URL: strings.Replace(plain.URL, "http", "https", 1)}}
	c, _ = newCaller(t, hook)
	refused(t, c, "the endpoint does not speak TLS: use http:// in the URL")
}

// Rules: HK-08
func TestANewClientCertificateGetsANewConnection(t *testing.T) {
	first, firstKey := certificate(t)
	second, secondKey := certificate(t)
	wanted := first
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		block, _ := pem.Decode([]byte(wanted))
		if !bytes.Equal(block.Bytes, r.TLS.PeerCertificates[0].Raw) {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	defer s.Close()
	v := vault{"tls.crt": first, "tls.key": firstKey}
	hook := &spec.Hook{Webhook: &spec.Webhook{URL: s.URL, Access: spec.Access{ClientTLS: keys("tls.crt", "tls.key"),
		CAInline: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))}}}
	c, _ := newCaller(t, hook, v.options)
	ask(t, c, `{}`)
	v["tls.crt"], v["tls.key"], wanted = second, secondKey, second
	for deadline := time.Now().Add(10 * time.Second); ; { // they are not read twice in a second
		if _, err := c.Call(t.Context(), call.Call{Body: []byte(`{}`)}); err == nil {
			return
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
