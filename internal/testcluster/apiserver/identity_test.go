package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"
)

const whoAmI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

// authority signs certificates of clients.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		Subject: pkix.Name{CommonName: "clients"}, KeyUsage: x509.KeyUsageCertSign}, time.Hour)
	return a
}

// sign makes a certificate that is valid for a time from now; the first one signs itself.
func (a *authority) sign(c *x509.Certificate, valid time.Duration) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(valid)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// client makes the certificate of a user.
func (a *authority) client(name string, valid time.Duration, usage x509.ExtKeyUsage,
	groups ...string) tls.Certificate {
	cert, key := a.sign(&x509.Certificate{SerialNumber: big.NewInt(2), ExtKeyUsage: []x509.ExtKeyUsage{usage},
		Subject: pkix.Name{CommonName: name, Organization: groups}}, valid)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// The rows without a status ask who they are.
//
// Rules: FI-12, FS-41
func TestClientCertificatesAndTokensNameTheUser(t *testing.T) {
	ours, foreign := newAuthority(t), newAuthority(t)
	s := New(Options{Token: "secret", ClientCA: ours.pool(), Users: map[string]User{"t1": {Name: "eve",
		Groups: []string{"dev"}}}})
	defer s.Close()
	server, err := s.ListenTLS("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(server.CA)
	const use = x509.ExtKeyUsageClientAuth
	for _, tt := range []struct {
		name       string
		cert       *tls.Certificate
		token      string
		user       string
		code       int
		path, meth string
	}{
		{name: "a certificate", cert: cert(ours.client("ann", time.Hour, use, "dev", "ops")),
			user: "ann dev,ops,system:authenticated"},
		{name: "a certificate and a bad token", cert: cert(ours.client("ann", time.Hour, use)), token: "x",
			user: "ann system:authenticated"},
		{name: "a certificate without a name", cert: cert(ours.client("", time.Hour, use, "dev")), code: 403},
		{name: "an expired one", cert: cert(ours.client("ann", -time.Hour, use)), code: 401},
		{name: "that of a server", cert: cert(ours.client("ann", time.Hour, x509.ExtKeyUsageServerAuth)), code: 401},
		{name: "one of another authority", cert: cert(foreign.client("ann", time.Hour, use)), code: 401},
		{name: "that, with a good token", cert: cert(foreign.client("ann", time.Hour, use)), token: "secret",
			user: "admin system:masters,system:authenticated"},
		{name: "a user's token", token: "t1", user: "eve dev,system:authenticated"},
		{name: "an unknown token", token: "t2", code: 401},
		{name: "nothing", code: 403},
		{name: "nothing, for a probe", code: 200, meth: "GET", path: "/healthz"},
		{name: "nothing, for the control", code: 401, meth: "GET", path: "/skiff/requests"},
		{name: "a user, for the control", token: "t1", code: 401, meth: "GET", path: "/skiff/requests"},
		{name: "an administrator's certificate, for the control", code: 200, meth: "GET", path: "/skiff/requests",
			cert: cert(ours.client("root", time.Hour, use, "system:masters"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := &tls.Config{RootCAs: roots}
			if tt.cert != nil { // also one that the server has not asked for
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					return tt.cert, nil
				}
			}
			tr := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
			defer tr.CloseIdleConnections()
			if tt.path == "" {
				tt.path, tt.meth = whoAmI, "POST"
			}
			req, err := http.NewRequestWithContext(t.Context(), tt.meth, server.URL+tt.path, strings.NewReader(
				`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			if tt.token != "" {
				req.Header.Set("Authorization", "Bearer "+tt.token)
			}
			resp, err := (&http.Client{Transport: tr}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if tt.code != 0 {
				if resp.StatusCode != tt.code {
					t.Errorf("status %d, want %d", resp.StatusCode, tt.code)
				}
				return
			}
			var review struct {
				Status struct {
					UserInfo struct {
						Username string
						Groups   []string
					}
				}
			}
			if err := json.NewDecoder(resp.Body).Decode(&review); err != nil || resp.StatusCode != 201 {
				t.Fatalf("status %d, %v", resp.StatusCode, err)
			}
			u := review.Status.UserInfo
			if got := u.Username + " " + strings.Join(u.Groups, ","); got != tt.user {
				t.Errorf("user %s, want %s", got, tt.user)
			}
			if last := s.Requests(); last[len(last)-1].User != u.Username {
				t.Errorf("recorded as %q, want %q", last[len(last)-1].User, u.Username)
			}
		})
	}
}

func cert(c tls.Certificate) *tls.Certificate { return &c }

// Rules: FI-12
func TestTheServersCertificateCanBeRotatedWhileConnectionsAreOpen(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	server, err := s.ListenTLS("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	get := func(tr *http.Transport) error {
		req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/healthz", nil)
		if err != nil {
			return err
		}
		resp, err := (&http.Client{Transport: tr}).Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	trusting := func(ca []byte) *http.Transport {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca)
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
		t.Cleanup(tr.CloseIdleConnections)
		return tr
	}
	open := trusting(server.CA)
	if err := get(open); err != nil {
		t.Fatal(err)
	}
	next, ca, err := NewCertificate()
	if err != nil {
		t.Fatal(err)
	}
	server.SetCertificate(next)
	if err := get(open); err != nil {
		t.Errorf("on the open connection: %v", err)
	}
	if err := get(trusting(server.CA)); err == nil {
		t.Error("a new connection trusts the old authority")
	}
	if err := get(trusting(ca)); err != nil {
		t.Errorf("with the new authority: %v", err)
	}
}
