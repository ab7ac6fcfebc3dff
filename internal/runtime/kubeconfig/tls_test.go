package kubeconfig

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
)

// tlsServer is an API server of one test whose certificate can be changed. It answers with the name in the client's
// certificate and 401 to names in refused.
type tlsServer struct {
	*httptest.Server
	mu      sync.Mutex // guards the rest
	cert    tls.Certificate
	refused string
	bearer  []string
}

func newTLSServer(t *testing.T, cert tls.Certificate) *tlsServer {
	s := &tlsServer{cert: cert}
	s.Server = httptest.NewUnstartedServer(s)
	s.TLS = &tls.Config{
		ClientAuth: tls.RequestClientCert,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return &tls.Config{Certificates: []tls.Certificate{s.cert}, ClientAuth: tls.RequestClientCert,
				NextProtos: []string{"h2", "http/1.1"}}, nil
		},
	}
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *tlsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bearer = append(s.bearer, r.Header.Get("Authorization"))
	name := ""
	if len(r.TLS.PeerCertificates) > 0 {
		name = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	w.Header().Set("Content-Type", "application/json")
	if s.refused != "" && name == s.refused {
		w.WriteHeader(http.StatusUnauthorized)
	}
	io.WriteString(w, `{"name":"`+name+`"}`)
}

func (s *tlsServer) set(cert tls.Certificate, refused string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cert, s.refused = cert, refused
}

func newClient(t *testing.T, cfg kube.Config) *kube.Client {
	t.Helper()
	c, err := kube.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// get asks the server once and returns its answer.
func get(t *testing.T, c *kube.Client) (string, error) {
	t.Helper()
	body, err := c.Raw(t.Context(), http.MethodGet, "/version", nil)
	return string(body), err
}

// Rules: AUTH-21
func TestTheServerCertificateMustFitTheNameAndTheCA(t *testing.T) {
	good, other := newCA(t, "good"), newCA(t, "other")
	s := newTLSServer(t, good.issue("server", "api.example", "127.0.0.1").pair(t))
	named := newTLSServer(t, good.issue("server", "api.example").pair(t))
	for _, tt := range []struct {
		name, server, fields, err string
	}{
		{"right CA, right address", s.URL, "certificate-authority: good.crt", ""},
		{"the same CA as data", s.URL, "certificate-authority-data: " + b64(good.pem), ""},
		{"another CA", s.URL, "certificate-authority: other.crt", "unknown authority"},
		{"another CA as data", s.URL, "certificate-authority-data: " + b64(other.pem), "unknown authority"},
		{"the system's roots", s.URL, "", "unknown authority"},
		{"a certificate for another name", named.URL, "certificate-authority: good.crt",
			"doesn't contain any IP SANs"},
		{"tls-server-name", named.URL, "certificate-authority: good.crt, tls-server-name: api.example", ""},
		{"tls-server-name with data", named.URL, "certificate-authority-data: " + b64(good.pem) +
			", tls-server-name: api.example", ""},
		{"tls-server-name that is an address", s.URL, "certificate-authority: good.crt, tls-server-name: 127.0.0.2",
			"not 127.0.0.2"},
		{"a wrong tls-server-name", named.URL, "certificate-authority: good.crt, tls-server-name: x.example",
			"not x.example"},
		{"no check at all", named.URL, "insecure-skip-tls-verify: true", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t)
			b.write("good.crt", string(good.pem))
			b.write("other.crt", string(other.pem))
			text := strings.Replace(config("c", "SERVER", "token: t"), "\n    server: SERVER",
				" {server: '"+tt.server+"', "+strings.TrimPrefix(tt.fields, ", ")+"}", 1)
			cfg, _, err := b.load(Flags{Kubeconfig: b.write("config", text)})
			if err != nil {
				t.Fatal(err)
			}
			_, err = get(t, newClient(t, cfg))
			if tt.err == "" && err != nil {
				t.Error(err)
			} else if tt.err != "" {
				wantError(t, err, tt.err)
			}
			var verify *tls.CertificateVerificationError
			if tt.err != "" && !errors.As(err, &verify) {
				t.Errorf("error is a %T, want a CertificateVerificationError in it", err)
			}
		})
	}
}

// Rules: AUTH-11
func TestDataWinsOverAFileWithAWarning(t *testing.T) {
	good, other := newCA(t, "good"), newCA(t, "other")
	s := newTLSServer(t, good.issue("server", "127.0.0.1").pair(t))
	b := newBox(t)
	fromData, fromFile := good.issue("from-data"), good.issue("from-file")
	b.write("other.crt", string(other.pem))
	b.write("tls.crt", string(fromFile.cert))
	b.write("tls.key", string(fromFile.key))
	text := strings.Replace(config("c", s.URL, "client-certificate: tls.crt, client-key: tls.key, "+
		"client-certificate-data: "+
		b64(fromData.cert)+", client-key-data: "+b64(fromData.key)),
		"server:",
		"certificate-authority: other.crt\n    certificate-authority-data: "+b64(good.pem)+"\n    server:", 1)
	path := b.write("config", text)
	cfg, _, err := b.load(Flags{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	if who, err := get(t, newClient(t, cfg)); err != nil || !strings.Contains(who, "from-data") {
		t.Errorf("%s, %v", who, err)
	}
	all := strings.Join(b.warnings, "\n")
	for _, field := range []string{`cluster "c": certificate-authority:`, `user "c": client-certificate:`,
		`user "c": client-key:`} {
		if !strings.Contains(all, field+" ignored") || len(b.warnings) != 3 {
			t.Errorf("warnings %q, want one about %s", b.warnings, field)
		}
	}
}

// Rules: AUTH-05
func TestARotatedCAFileIsFollowed(t *testing.T) {
	first, second := newCA(t, "first"), newCA(t, "second")
	s := newTLSServer(t, first.issue("server", "127.0.0.1").pair(t))
	b := newBox(t)
	path := b.write("ca.crt", string(first.pem))
	cfg, _, err := b.load(Flags{Server: s.URL, CertificateAuthority: path})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, cfg)
	if _, err := get(t, c); err != nil {
		t.Fatal(err)
	}

	// The server is first: refused with the old file, accepted as soon as the new one is there.
	s.set(second.issue("server", "127.0.0.1").pair(t), "")
	c.Close() // its idle connections: the next request makes a handshake
	_, err = get(t, c)
	wantError(t, err, "unknown authority")
	b.write("ca.crt", string(second.pem))
	if _, err := get(t, c); err != nil {
		t.Errorf("after the CA file was rotated: %v", err)
	}

	for name, bad := range map[string]string{"empty": "", "broken": "-----BEGIN"} {
		b.write("ca.crt", bad)
		c.Close() // its idle connections: the next request makes a handshake
		if _, err := get(t, c); err != nil {
			t.Errorf("the CA in use should outlive a file that is %s: %v", name, err)
		}
	}
}

// Rules: AUTH-05
func TestTheCAFileIsCheckedEveryFiveMinutes(t *testing.T) {
	b := newBox(t)
	first, second := newCA(t, "first"), newCA(t, "second")
	synctest.Test(t, func(t *testing.T) {
		f := b.caFile(first)
		before := f.current()
		b.write("ca.crt", string(second.pem))
		time.Sleep(recheckEvery - time.Second)
		if f.get(t.Context()) != before {
			t.Error("the file was read too early")
		}
		time.Sleep(time.Second)
		after := f.get(t.Context())
		if after == before {
			t.Error("the withdrawn CA is still trusted after five minutes")
		}
		b.write("ca.crt", "")
		time.Sleep(recheckEvery)
		if f.get(t.Context()) != after || len(b.warnings) != 1 {
			t.Errorf("an empty file: want the old CA and one warning, got %q", b.warnings)
		}
	})
}

// Rules: AUTH-06
func TestARotatedClientCertificateTakesOverItsConnections(t *testing.T) {
	ca := newCA(t, "ca")
	s := newTLSServer(t, ca.issue("server", "127.0.0.1").pair(t))
	b := newBox(t)
	write := func(cert, key identity) {
		b.write("tls.crt", string(cert.cert))
		b.write("tls.key", string(key.key))
	}
	old, renewed := ca.issue("old"), ca.issue("renewed")
	write(old, old)
	text := strings.Replace(config("c", s.URL, "client-certificate: tls.crt, client-key: tls.key, token: beside"),
		"server:", "certificate-authority-data: "+b64(ca.pem)+"\n    server:", 1)
	cfg, _, err := b.load(Flags{Kubeconfig: b.write("config", text)})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, cfg)
	if who, err := get(t, c); err != nil || !strings.Contains(who, "old") {
		t.Fatalf("%s, %v", who, err)
	}

	// The old certificate expires. Half of the new pair is there: it is not used, and nothing breaks but the request.
	write(renewed, old)
	s.set(s.cert, "old")
	_, err = get(t, c)
	if !kube.IsUnauthorized(err) {
		t.Errorf("error %v, want 401", err)
	}
	if len(b.warnings) == 0 || !strings.Contains(b.warnings[0], `user "c": client-certificate`) {
		t.Errorf("warnings %q", b.warnings)
	}

	// With the whole pair, the 401 leads to a new connection. A request that is already on a closed one may fail.
	write(renewed, renewed)
	who := ""
	for try := 0; try < 5 && !strings.Contains(who, "renewed"); try++ {
		who, err = get(t, c)
	}
	if !strings.Contains(who, "renewed") {
		t.Errorf("after the rotation: %s, %v", who, err)
	}
	for _, h := range s.bearer {
		if h != "Bearer beside" {
			t.Errorf("Authorization %q: the token should be sent beside the certificate", h)
		}
	}
}

// Rules: AUTH-06
func TestTheClientCertificateIsCheckedEveryFiveMinutes(t *testing.T) {
	b := newBox(t)
	ca := newCA(t, "ca")
	old, renewed := ca.issue("old"), ca.issue("renewed")
	synctest.Test(t, func(t *testing.T) {
		p := b.keyPair(old)
		b.write("tls.crt", string(renewed.cert))
		b.write("tls.key", string(renewed.key))
		who := func() string {
			if _, err := p.Authorization(t.Context()); err != nil {
				t.Error(err)
			}
			pair, err := p.certificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			return pair.Leaf.Subject.CommonName
		}
		time.Sleep(recheckEvery - time.Second)
		if who() != "old" {
			t.Error("the files were read too early")
		}
		time.Sleep(time.Second)
		if who() != "renewed" {
			t.Error("the old certificate is used after five minutes")
		}
	})
}

func TestAnEncryptedClientKeyIsNamedAsSuch(t *testing.T) {
	ca := newCA(t, "ca")
	for name, key := range map[string]string{
		"PKCS #8": "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
		"RFC 1421": "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AA\n\nAAAA\n" +
			"-----END EC PRIVATE KEY-----\n",
	} {
		b := newBox(t)
		b.write("c.crt", string(ca.issue("client").cert))
		b.write("c.key", key)
		_, _, err := b.load(Flags{Kubeconfig: b.write("config",
			config("c", "https://h", "client-certificate: c.crt, client-key: c.key"))})
		wantError(t, err, "client-key", "the key is encrypted", "openssl pkey")
		if t.Failed() {
			t.Log(name)
		}
	}
}
