package kubeconfig

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// acceptNew is an API server that accepts the token "new", the password "new" and certificates of "new".
func acceptNew(t *testing.T) (s *httptest.Server, ca string) {
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		known := password == "new" || r.Header.Get("Authorization") == "Bearer new" ||
			len(r.TLS.PeerCertificates) > 0 && r.TLS.PeerCertificates[0].Subject.CommonName == "new"
		w.Header().Set("Content-Type", "application/json")
		if !known {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprint(w, `{"kind":"Pod"}`)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// Each advice is followed, and then the server accepts the requests: of the same client where the advice does not say
// to start skiff again.
func TestTheAdviceForARefusedCredentialHelps(t *testing.T) {
	s, serverCA := acceptNew(t)
	ca := newCA(t, "ca")
	inline := func(i identity) string {
		return "client-certificate-data: " + b64(i.cert) + ", client-key-data: " + b64(i.key)
	}
	restart := func(*box, *Flags) {} // there is nothing else to do
	for name, test := range map[string]struct {
		user   string // of the kubeconfig, where "old" is to be replaced
		flags  Flags
		before func(b *box)
		follow func(b *box, f *Flags)
		want   string // of the advice, %[1]s the directory of the files
		again  bool   // skiff has to be started again
	}{
		"a token file": {user: "tokenFile: tok", before: func(b *box) { b.write("tok", "old") },
			follow: func(b *box, _ *Flags) { b.write("tok", "new") },
			want: "the server refused the token in %[1]s/tok (401); write a new token to that file; skiff reads it " +
				"again"},
		"a token": {user: "token: old", follow: restart, again: true,
			want: `the server refused the token at %[1]s/config:13: user "c": token (401); put a new token there, and ` +
				`start skiff again`},
		"the flag --token": {flags: Flags{Token: NewSecret("old")}, again: true,
			follow: func(_ *box, f *Flags) { f.Token = NewSecret("new") },
			want:   "the server refused the token of --token (401); start skiff again with a new token"},
		"a plugin": {before: func(b *box) { b.write("login", "old") },
			follow: func(b *box, _ *Flags) { b.write("login", "new") },
			want: "the server refused the credential of the plugin sh (401); log in again with it by hand; skiff " +
				"runs it again within seconds"},
		"certificate files": {user: "client-certificate: tls.crt, client-key: tls.key",
			before: func(b *box) { b.identity(ca.issue("old")) },
			follow: func(b *box, _ *Flags) { b.identity(ca.issue("new")) },
			want: "the server refused the client certificate in %[1]s/tls.crt (401); write a renewed certificate " +
				"and its key to their files; skiff reads them again"},
		"a certificate": {user: inline(ca.issue("old")), again: true,
			follow: func(b *box, _ *Flags) {
				b.write("config", config("c", s.URL, inline(ca.issue("new"))))
			},
			want: `the server refused the client certificate at %[1]s/config:13: user "c": client-certificate-data ` +
				`(401); put a renewed certificate and its key there, and start skiff again`},
		"a password": {user: "username: a, password: old", follow: restart, again: true,
			want: `the server refused the user name and password at %[1]s/config:13: user "c": username (401); ` +
				`correct them, and start skiff again`},
		"nothing": {again: true, before: func(b *box) { b.write("tok", "new") },
			follow: func(b *box, f *Flags) { f.TokenFile = b.path("tok") },
			want: "the server refused requests without a credential (401); give a token file, or choose a " +
				"kubeconfig context whose user has a credential"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			if test.before != nil {
				test.before(b)
			}
			user := test.user
			if name == "a plugin" {
				user = b.execUser(`printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",`+
					`"status":{"token":"%s"}}' "$(cat `+b.path("login")+`)"`, "")
			}
			flags := test.flags
			flags.Kubeconfig, flags.CertificateAuthority = b.write("config", config("c", s.URL, user)),
				b.write("ca.crt", serverCA)
			c := b.client(flags)
			_, err := get(t, c)
			if want := strings.ReplaceAll(test.want, "%[1]s", b.dir); !kube.IsUnauthorized(err) ||
				kube.Explain(err) != want {
				t.Fatalf("got %v and the advice\n%s\nwant\n%s", err, kube.Explain(err), want)
			}
			b.write("config", config("c", s.URL, strings.ReplaceAll(user, ": old", ": new")))
			test.follow(b, &flags)
			if test.again {
				c = b.client(flags)
			}
			deadline := time.Now().Add(2 * execRetry)
			for _, err = get(t, c); err != nil && time.Now().Before(deadline); _, err = get(t, c) {
				<-time.After(100 * time.Millisecond)
			}
			if err != nil {
				t.Errorf("after the advice was followed: %v", err)
			}
		})
	}
}

// The kubelet gives a new pod a new token, as the test does.
func TestTheAdviceForARefusedTokenOfAPodHelps(t *testing.T) {
	s, serverCA := acceptNew(t)
	b := newBox(t)
	b.pod("127.0.0.1")
	b.vars["KUBERNETES_SERVICE_PORT"] = s.URL[strings.LastIndexByte(s.URL, ':')+1:]
	b.write("sa/ca.crt", serverCA)
	b.write("sa/token", "old")
	load := func() *kube.Client {
		cfg, _, err := b.load(Flags{})
		if err != nil {
			t.Fatal(err)
		}
		return newClient(t, cfg)
	}
	_, err := get(t, load())
	const want = "the server refused the token of this pod's service account (401); where the ServiceAccount was " +
		"deleted and created again, delete the pod: the next one gets a new token"
	if kube.Explain(err) != want {
		t.Errorf("the advice is %q", kube.Explain(err))
	}
	b.write("sa/token", "new")
	if _, err := get(t, load()); err != nil {
		t.Errorf("after the advice was followed: %v", err)
	}
	b.write("tok", "old")
	cfg, _, err := b.load(Flags{TokenFile: b.path("tok")})
	if err != nil || cfg.Credential.Name != "the token in "+b.path("tok") {
		t.Errorf("with --token-file in a pod: %+v, %v", cfg.Credential, err)
	}
}

// identity writes the files of a client certificate.
func (b *box) identity(i identity) {
	b.write("tls.crt", string(i.cert))
	b.write("tls.key", string(i.key))
}

func (b *box) client(f Flags) *kube.Client {
	b.t.Helper()
	cfg, _, err := b.load(f)
	if err != nil {
		b.t.Fatal(err)
	}
	return newClient(b.t, cfg)
}
