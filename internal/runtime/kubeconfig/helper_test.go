package kubeconfig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
)

// box is a home directory, an environment and the warnings of one test.
type box struct {
	t        *testing.T
	dir      string
	vars     map[string]string
	warnings []string
}

func newBox(t *testing.T) *box {
	return &box{t: t, dir: t.TempDir(), vars: map[string]string{}}
}

func (b *box) path(name string) string { return filepath.Join(b.dir, name) }

func (b *box) write(name, content string) string {
	b.t.Helper()
	path := b.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return path
}

func (b *box) env() Env {
	return Env{
		Getenv:            func(k string) string { return b.vars[k] },
		Home:              b.path("home"),
		ServiceAccountDir: b.path("sa"),
		Warn:              func(msg string) { b.warnings = append(b.warnings, msg) },
	}
}

func (b *box) load(f Flags) (kube.Config, string, error) { return Load(f, b.env()) }

// pod makes the environment that of a pod.
func (b *box) pod(host string) {
	b.vars["KUBERNETES_SERVICE_HOST"], b.vars["KUBERNETES_SERVICE_PORT"] = host, "443"
	b.write("sa/token", "pod-token\n")
	b.write("sa/ca.crt", string(newCA(b.t, "pod CA").pem))
	b.write("sa/namespace", "pod-ns\n")
}

// config is a small kubeconfig with one context of everything; extra lines go into the user.
func config(name, server, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: %[1]s
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
contexts:
- name: %[1]s
  context: {cluster: %[1]s, user: %[1]s}
users:
- name: %[1]s
  user: {%[3]s}
`, name, server, user)
}

// token is the bearer token that a request would carry now.
func token(t *testing.T, cfg kube.Config) string {
	t.Helper()
	return strings.TrimPrefix(header(t, cfg), "Bearer ")
}

// header is the Authorization header that a request would carry now.
func header(t *testing.T, cfg kube.Config) string {
	t.Helper()
	if cfg.Credentials == nil {
		return ""
	}
	header, err := cfg.Credentials.Authorization(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return header
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func b64(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

func wantMessage(t *testing.T, err error, message string) {
	t.Helper()
	if err == nil || err.Error() != message {
		t.Errorf("error is %v\nwant     %s", err, message)
	}
}

// caFile follows the file ca.crt, which has a CA to begin with.
func (b *box) caFile(first *ca) *caFile {
	b.t.Helper()
	c := cluster{CA: b.write("ca.crt", string(first.pem))}
	f, err := c.caFile(b.env())
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

// keyPair follows the files tls.crt and tls.key, which have an identity to begin with.
func (b *box) keyPair(first identity) *keyPair {
	b.t.Helper()
	u := user{ClientCert: b.write("tls.crt", string(first.cert)), ClientKey: b.write("tls.key", string(first.key))}
	cfg := kube.Config{TLS: &tls.Config{}}
	if err := u.clientCertificate(&cfg, b.env()); err != nil {
		b.t.Fatal(err)
	}
	return cfg.Credentials.(*keyPair)
}

// ca is a certificate authority of one test.
type ca struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// identity is a certificate with its key, in PEM.
type identity struct{ cert, key []byte }

func newCA(t *testing.T, name string) *ca {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &ca{t: t, cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue makes a certificate for a client of that name, which is also a server at these hosts.
func (c *ca) issue(name string, hosts ...string) identity {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(c.t), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, &key.PublicKey, c.key)
	if err != nil {
		c.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	return identity{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
}

func (i identity) pair(t *testing.T) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(i.cert, i.key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func serial(t *testing.T) *big.Int {
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
