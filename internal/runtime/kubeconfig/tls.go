package kubeconfig

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"
)

// recheckEvery is how long a CA or client certificate file is trusted to be unchanged. client-go's number: these
// files are rotated days before the old ones expire.
const recheckEvery = 5 * time.Minute

// serverName matches the names, other than addresses, in a certificate.
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
		f, err := c.caFile(env)
		if err != nil {
			return nil, err
		}
		f.verifyFor(cfg, cmp.Or(c.TLSServerName, host))
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

// caFile follows a CA file that another program rotates. tls.Config.RootCAs is fixed once a configuration is used, so
// the check is done in VerifyConnection, with the same options that crypto/tls would use.
type caFile struct{ rotated[*x509.CertPool] }

func (c *cluster) caFile(env Env) (*caFile, error) {
	where := c.origin.at("certificate-authority")
	f := &caFile{rotated[*x509.CertPool]{env: env, where: where + ": " + c.CA,
		kept: "the certificates read before are used", age: recheckEvery, retry: recheckEvery}}
	f.read = func() (*x509.CertPool, error) {
		pem, err := ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		pool, err := parseCA(pem)
		if err != nil {
			return nil, fmt.Errorf("%s: %s %w", where, c.CA, err)
		}
		return pool, nil
	}
	return f, f.load()
}

// verifyFor installs the check in cfg. The certificate must be for name if the handshake sends no server name: for an
// IP address, for example.
func (f *caFile) verifyFor(cfg *tls.Config, name string) {
	cfg.InsecureSkipVerify = true // only crypto/tls's own check is off; VerifyConnection below replaces it
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		// An https proxy has another server name than the API server.
		return f.verify(cs.PeerCertificates, cmp.Or(cs.ServerName, name))
	}
}

// verify has no context: rereadWait bounds it.
func (f *caFile) verify(certs []*x509.Certificate, serverName string) error {
	if len(certs) == 0 {
		return errors.New("the server sent no certificate")
	}
	opts := x509.VerifyOptions{DNSName: serverName, Intermediates: x509.NewCertPool()}
	for _, c := range certs[1:] {
		opts.Intermediates.AddCert(c)
	}
	check := func() (err error) {
		opts.Roots = f.get(context.Background())
		_, err = certs[0].Verify(opts)
		return err
	}
	err := check()
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		f.Invalidate(time.Now()) // the server may have its new certificate before the file is there
		err = check()
	}
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: certs, Err: err}
	}
	return nil
}
