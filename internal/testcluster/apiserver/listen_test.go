package apiserver

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"testing"
)

// The kubeconfig is written by skiff-dev; tests of internal/testcluster/cli and internal/tools/e2e use it.
//
// Rules: FD-23
func TestHTTPSHasItsOwnCAAndServesHTTP1AndHTTP2(t *testing.T) {
	s := New(Options{Token: "secret"})
	defer s.Close()
	server, err := s.ListenTLS("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(server.CA) {
		t.Fatalf("the authority is %q", server.CA)
	}
	get := func(tr *http.Transport, token string) (*http.Response, error) {
		t.Helper()
		defer tr.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+configMaps, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := (&http.Client{Transport: tr}).Do(req)
		if err == nil {
			io.Copy(io.Discard, resp.Body) // a part of an answer shows in its code and length
			resp.Body.Close()
		}
		return resp, err
	}
	for want, tr := range map[string]*http.Transport{
		"HTTP/2.0": {TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true},
		"HTTP/1.1": {TLSClientConfig: &tls.Config{RootCAs: roots}},
	} {
		resp, err := get(tr, "secret")
		if err != nil {
			t.Fatal(err)
		}
		if resp.Proto != want || resp.StatusCode != http.StatusOK {
			t.Errorf("%s %d, want %s 200", resp.Proto, resp.StatusCode, want)
		}
		if resp, err = get(tr, "guessed"); err != nil || resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("with another token: %v, %v", resp, err)
		}
	}
	if _, err := get(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool()}},
		"secret"); err == nil {
		t.Error("the certificate is good without its authority")
	}
}
