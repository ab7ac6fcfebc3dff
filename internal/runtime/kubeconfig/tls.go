package kubeconfig

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"regexp"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
)

// recheckEvery is how long a CA or client certificate file is trusted to be unchanged. client-go's number: these
// files are rotated days before the old ones expire.
const recheckEvery = 5 * time.Minute

// serverName is what a certificate can be for, besides an address.
var serverName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9.])?$`)

// tlsConfig builds the TLS settings for a server of the given host.
func (t *target) tlsConfig(host string, env Env) (*tls.Config, error) {
	c := t.cluster
	if c.TLSServerName != "" && net.ParseIP(c.TLSServerName) == nil && !serverName.MatchString(c.TLSServerName) {
		return nil, fmt.Errorf("%s: %q is not a host name or address", c.origin.at("tls-server-name"), c.TLSServerName)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.TLSServerName}
	switch {
	case c.Insecure && (c.CA != "" || c.CAData != ""):
		return nil, fmt.Errorf("%s: contradicts the certificate authority that is set too: remove one of them",
			c.origin.at("insecure-skip-tls-verify"))
	case c.Insecure:
		cfg.InsecureSkipVerify = true
	case c.CAData != "":
		pem, err := c.caPEM()
		if err != nil {
			return nil, err
		}
		if cfg.RootCAs, err = parseCA(pem); err != nil {
			return nil, fmt.Errorf("%s: %w", c.origin.at("certificate-authority-data"), err)
		}
		if c.CA != "" {
			env.warnf("%s: ignored, certificate-authority-data is set too", c.origin.at("certificate-authority"))
		}
	case c.CA != "":
		name := c.TLSServerName
		if name == "" {
			name = host
		}
		f := &caFile{path: c.CA, where: c.origin.at("certificate-authority"), env: env}
		if err := f.verifyFor(cfg, name); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

// caPEM returns the certificate authority as it is now: the data, else the content of the file, else nothing.
func (c *cluster) caPEM() ([]byte, error) {
	field, pem, err := "certificate-authority-data", []byte(nil), error(nil)
	switch {
	case c.CAData != "":
		pem, err = base64.StdEncoding.DecodeString(c.CAData)
	case c.CA != "":
		field = "certificate-authority"
		pem, err = ReadFile(c.CA)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.origin.at(field), err)
	}
	return pem, nil
}

func parseCA(pem []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("holds no PEM certificate")
	}
	return pool, nil
}

// caFile verifies servers against a CA file that may be rotated under us. tls.Config.RootCAs is fixed for the life of
// a configuration, so the check is done in VerifyConnection, with the same options that crypto/tls would use.
type caFile struct {
	path, where string
	env         Env
	reread      reread

	mu      sync.Mutex // guards the rest; never held while reading
	pem     []byte
	pool    *x509.CertPool
	checked time.Time
}

// verifyFor installs the check in cfg. name is what the certificate must be for where the handshake sends no server
// name, which is the case for IP addresses.
func (f *caFile) verifyFor(cfg *tls.Config, name string) error {
	if err := f.reload(); err != nil {
		return err
	}
	cfg.InsecureSkipVerify = true // only crypto/tls's own check is off; VerifyConnection below replaces it
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		serverName := cs.ServerName // an https proxy has another one than the API server
		if serverName == "" {
			serverName = name
		}
		return f.verify(cs.PeerCertificates, serverName)
	}
	return nil
}

func (f *caFile) verify(certs []*x509.Certificate, serverName string) error {
	if len(certs) == 0 {
		return errors.New("the server sent no certificate")
	}
	opts := x509.VerifyOptions{Roots: f.current(), DNSName: serverName, Intermediates: x509.NewCertPool()}
	for _, c := range certs[1:] {
		opts.Intermediates.AddCert(c)
	}
	_, err := certs[0].Verify(opts)
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		// Perhaps the server was first to have its new certificate: look at the file at once.
		f.refresh(func() bool { return true })
		opts.Roots = f.current()
		_, err = certs[0].Verify(opts)
	}
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: certs, Err: err}
	}
	return nil
}

// current returns the CA pool, from the file if that was last looked at too long ago.
func (f *caFile) current() *x509.CertPool {
	f.refresh(f.stale)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pool
}

func (f *caFile) stale() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.checked) >= recheckEvery
}

// refresh reads the file again if due says so, and keeps the pool in use if that fails. A handshake's check has no
// context; rereadWait bounds it.
func (f *caFile) refresh(due func() bool) {
	slow := f.reread.do(context.Background(), due, func() {
		f.env.contained(f.where, func() {
			if err := f.reload(); err != nil {
				f.env.warnf("%s; the certificates read before are used", err)
			}
		})
	})
	if slow {
		f.env.warnf("%s: %s takes longer than %s to read: does its disk hang? The certificates read before are used",
			f.where, f.path, rereadWait)
	}
}

func (f *caFile) reload() error {
	f.mu.Lock()
	f.checked = time.Now()
	f.mu.Unlock()
	pem, err := ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("%s: %w", f.where, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pool != nil && bytes.Equal(pem, f.pem) {
		return nil
	}
	pool, err := parseCA(pem)
	if err != nil {
		return fmt.Errorf("%s: %s %w", f.where, f.path, err)
	}
	f.pem, f.pool = pem, pool
	return nil
}

// pemSource is one half of a client certificate: a file, or data that was in the kubeconfig.
type pemSource struct {
	path, where string
	data        Secret
}

func (s pemSource) read() ([]byte, error) {
	if s.path == "" {
		return []byte(s.data.reveal()), nil
	}
	data, err := ReadFile(s.path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.where, err)
	}
	return data, nil
}

// half picks the source of a certificate or key: data wins over a file, with a warning. ok is false when neither is
// set.
func (u *user) half(field, path string, data Secret, env Env) (s pemSource, ok bool, err error) {
	if !data.isSet() {
		return pemSource{path: path, where: u.origin.at(field)}, path != "", nil
	}
	if path != "" {
		env.warnf("%s: ignored, %s-data is set too", u.origin.at(field), field)
	}
	where := u.origin.at(field + "-data")
	pem, err := base64.StdEncoding.DecodeString(data.reveal())
	if err != nil {
		return pemSource{}, false, fmt.Errorf("%s: %w", where, err)
	}
	return pemSource{where: where, data: NewSecret(string(pem))}, true, nil
}

// clientCertificate puts the user's client certificate into cfg, and whatever it takes to follow its files.
func (u *user) clientCertificate(cfg *kube.Config, env Env) error {
	cert, haveCert, err := u.half("client-certificate", u.ClientCert, u.ClientCertData, env)
	if err != nil {
		return err
	}
	key, haveKey, err := u.half("client-key", u.ClientKey, u.ClientKeyData, env)
	if err != nil {
		return err
	}
	switch {
	case !haveCert && !haveKey:
		return nil
	case !haveCert:
		return fmt.Errorf("%s: there is a key but no client-certificate for it", key.where)
	case !haveKey:
		return fmt.Errorf("%s: there is a certificate but no client-key for it", cert.where)
	}
	p := &keyPair{cert: cert, key: key, env: env, header: cfg.Credentials}
	if _, err := p.reload(); err != nil {
		return err
	}
	cfg.TLS.GetClientCertificate = p.get
	if cert.path != "" || key.path != "" {
		cfg.Credentials = p
		cfg.DialContext = p.conns.dial
	}
	return nil
}
