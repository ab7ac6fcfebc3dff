package call

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"skiff/internal/hooks/spec"
)

// credentials are the values that spec.Access refers to, as read, and never change.
type credentials struct {
	header string // Authorization; "": none
	tls    *tls.Config
	values []string // hidden in errors, the longest first
	state  string   // all values: equal states are equal credentials
}

// credentials returns the credentials in use, and reads them before the first call.
func (w *webhook) credentials(ctx context.Context) (*credentials, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.secrets != nil {
		return w.secrets, nil
	}
	secrets, err := w.load(ctx)
	if err != nil {
		return nil, err
	}
	w.secrets, w.readTime = secrets, time.Now()
	return secrets, nil
}

// known returns the values hidden in errors.
func (w *webhook) known() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.secrets == nil {
		return nil
	}
	return w.secrets.values
}

// reread reads credentials again that the endpoint has refused, and says whether they have changed.
func (w *webhook) reread(ctx context.Context, used *credentials) bool {
	if w.access.IsZero() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.secrets != used {
		return true // by another call
	}
	if time.Since(w.readTime) < rereadAfter {
		return false
	}
	w.readTime = time.Now()
	secrets, err := w.load(ctx)
	if err != nil || secrets.state == used.state {
		return false // the refusal says more than err: a later call reads again
	}
	w.secrets = secrets
	return true
}

// load reads the values that Access refers to.
func (w *webhook) load(ctx context.Context) (*credentials, error) {
	a := w.access
	c := &credentials{tls: &tls.Config{MinVersion: tls.VersionTLS12}}
	if err := w.trust(ctx, c); err != nil {
		return nil, err
	}
	if a.ClientTLS != nil {
		cert, key, err := w.pair(ctx, *a.ClientTLS)
		if err != nil {
			return nil, fmt.Errorf("clientTLS: %w", err)
		}
		pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			return nil, fmt.Errorf("clientTLS: %s and %s of Secret %s/%s: %w", a.ClientTLS.First, a.ClientTLS.Second,
				a.ClientTLS.Namespace, a.ClientTLS.Name, err)
		}
		c.tls.Certificates = []tls.Certificate{pair}
		c.state += cert + "\n" + key + "\n"
	}
	if a.Bearer != nil {
		token, err := w.value(ctx, *a.Bearer)
		if err != nil {
			return nil, fmt.Errorf("authorization: %w", err)
		}
		if strings.ContainsFunc(token, notInHeader) {
			return nil, fmt.Errorf("authorization: %s: it has white space or characters that a header cannot carry",
				named(*a.Bearer))
		}
		scheme := a.Scheme
		if scheme == "" {
			scheme = "Bearer"
		}
		c.header, c.values = scheme+" "+token, []string{token}
	}
	if a.Basic != nil {
		user, password, err := w.pair(ctx, *a.Basic)
		if err != nil {
			return nil, fmt.Errorf("basicAuth: %w", err)
		}
		if strings.Contains(user, ":") {
			return nil, fmt.Errorf("basicAuth: %s of Secret %s/%s: a user name cannot have a colon", a.Basic.First,
				a.Basic.Namespace, a.Basic.Name)
		}
		both := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
		c.header, c.values = "Basic "+both, []string{both, password}
	}
	c.values = slices.DeleteFunc(c.values, func(v string) bool { return v == "" })
	c.state += c.header
	return c, nil
}

// trust reads the certificate authorities, which replace those of the system.
func (w *webhook) trust(ctx context.Context, c *credentials) error {
	bundle, source := w.access.CAInline, "caBundle.inline"
	if w.access.CA != nil {
		var err error
		if bundle, err = w.value(ctx, *w.access.CA); err != nil {
			return fmt.Errorf("caBundle: %w", err)
		}
		source = "caBundle: " + named(*w.access.CA)
	}
	if bundle == "" {
		return nil
	}
	c.tls.RootCAs = x509.NewCertPool()
	if !c.tls.RootCAs.AppendCertsFromPEM([]byte(bundle)) {
		return fmt.Errorf("%s: holds no PEM certificate", source)
	}
	c.state += bundle + "\n"
	return nil
}

// pair reads two keys of a Secret.
func (w *webhook) pair(ctx context.Context, p spec.Pair) (first, second string, err error) {
	if first, err = w.value(ctx, spec.Reference{Namespace: p.Namespace, Name: p.Name, Key: p.First}); err != nil {
		return "", "", err
	}
	second, err = w.value(ctx, spec.Reference{Namespace: p.Namespace, Name: p.Name, Key: p.Second})
	return first, second, err
}

// value reads a key, without white space around the value: editors add a line break.
func (w *webhook) value(ctx context.Context, r spec.Reference) (string, error) {
	if w.read == nil {
		return "", fmt.Errorf("%s: credentials are read from a cluster, and there is none", named(r))
	}
	data, err := w.read(ctx, r)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", named(r), err)
	}
	value := strings.TrimSpace(string(data))
	if value == "" {
		return "", fmt.Errorf("%s: %w", named(r), errEmpty)
	}
	return value, nil
}

var errEmpty = errors.New("it is missing or empty")

func named(r spec.Reference) string {
	of, key := r.Object()
	return fmt.Sprintf("key %s of %s %s", r.Key, of.Kind, key)
}

// notInHeader says whether a character cannot be part of a token.
func notInHeader(r rune) bool { return r <= ' ' || r >= 0x7f }
