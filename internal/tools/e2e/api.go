package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// API is a plain REST client, on purpose not skiff's: what skiff believes must not be checked with skiff's own code.
type API struct {
	base  string
	token string
	http  *http.Client
}

// NewAPI makes a client for the server at base with the CA in caFile ("" for plain HTTP).
func NewAPI(base, caFile, token string) (*API, error) {
	tlsConfig := &tls.Config{}
	if caFile != "" {
		ca, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read the CA: %w", err)
		}
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("read the CA: no certificate in %s", caFile)
		}
	}
	transport := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}
	// Longer than any watch of a test; the caller's ctx is the usual bound.
	return &API{base: base, token: token, http: &http.Client{Transport: transport, Timeout: 2 * time.Minute}}, nil
}

// StatusError is an answer that is not 2xx.
type StatusError struct {
	Code int
	Body Object
	Text string
}

func (e *StatusError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.Code, e.Text) }

// IsCode reports whether err is an answer with that HTTP code.
func IsCode(err error, code int) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Code == code
}

// Do sends one request and decodes the JSON answer. body is nil, a string or something to marshal.
func (a *API) Do(ctx context.Context, method, path, contentType string, body any) (Object, error) {
	var payload []byte
	switch b := body.(type) {
	case nil:
	case string:
		payload = []byte(b)
	default:
		var err error
		if payload, err = json.Marshal(b); err != nil {
			return nil, fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	resp, err := a.send(ctx, method, path, http.Header{"Content-Type": {contentType}}, payload)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	var obj Object
	decodeErr := json.Unmarshal(text, &obj)
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %w", method, path, &StatusError{Code: resp.StatusCode, Body: obj,
			Text: string(text)})
	}
	if decodeErr != nil {
		return nil, fmt.Errorf("%s %s: decode the answer: %w", method, path, decodeErr)
	}
	return obj, nil
}

// send is the one place where a request leaves.
func (a *API) send(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if req.Header["User-Agent"] == nil {
		req.Header.Set("User-Agent", "e2e/test")
	}
	if _, set := req.Header["Authorization"]; a.token != "" && !set {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return resp, nil
}

// Get reads an object or a list.
func (a *API) Get(ctx context.Context, path string) (Object, error) {
	return a.Do(ctx, http.MethodGet, path, "", nil)
}

// Create posts an object to a collection.
func (a *API) Create(ctx context.Context, collection string, body any) (Object, error) {
	return a.Do(ctx, http.MethodPost, collection, "application/json", body)
}

// Merge sends a JSON merge patch.
func (a *API) Merge(ctx context.Context, path string, body any) (Object, error) {
	return a.Do(ctx, http.MethodPatch, path, "application/merge-patch+json", body)
}

// Delete deletes in the background.
func (a *API) Delete(ctx context.Context, path string) error {
	_, err := a.Do(ctx, http.MethodDelete, path, "application/json", `{"propagationPolicy":"Background"}`)
	return err
}

// Ready asks /readyz.
func (a *API) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := a.send(ctx, http.MethodGet, "/readyz", nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("GET /readyz: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /readyz: %w", &StatusError{Code: resp.StatusCode, Text: string(text)})
	}
	return nil
}
