package kubeconfig

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
)

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

// clientCertificate puts the user's client certificate into cfg, with a keyPair that follows the files.
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
	p := &keyPair{header: cfg.Credentials, rotated: rotated[*tls.Certificate]{env: env,
		where: cert.where + " with " + key.where, kept: "the certificate read before is used",
		age: recheckEvery, retry: recheckEvery}}
	p.read = func() (*tls.Certificate, error) { return readPair(cert, key) }
	if err := p.load(); err != nil {
		return err
	}
	cfg.TLS.GetClientCertificate = p.certificate
	if cert.path != "" || key.path != "" {
		p.changed = func(before, now *tls.Certificate) {
			if !sameCertificate(before, now) {
				p.conns.closeAll()
			}
		}
		cfg.Credentials = p
		cfg.DialContext = p.conns.dial
	}
	return nil
}

func readPair(cert, key pemSource) (*tls.Certificate, error) {
	certPEM, err := cert.read()
	if err != nil {
		return nil, err
	}
	keyPEM, err := key.read()
	if err != nil {
		return nil, err
	}
	if encrypted(keyPEM) {
		return nil, fmt.Errorf("%s: the key is encrypted, and skiff has no way to ask for the passphrase: "+
			"write it without one (openssl pkey -in KEY -out NEW)", key.where)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil { // perhaps it is half written
		return nil, fmt.Errorf("%s with %s: %w", cert.where, key.where, err)
	}
	return &pair, nil
}

// encrypted says whether a private key needs a passphrase (PKCS #8, or RFC 1421 as OpenSSL wrote it before).
func encrypted(key []byte) bool {
	for block, rest := pem.Decode(key); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return true
		}
	}
	return false
}

// keyPair is a client certificate whose files another program rotates. The server looks at the certificate of the
// connection on every request, so a new certificate must also end connections opened with the old one. kube
// asks for credentials before each request and reports each 401; keyPair uses these two moments to look at its files.
type keyPair struct {
	rotated[*tls.Certificate]
	header kube.Credentials // a token or password sent beside the certificate; nil = none
	conns  connTracker
}

// certificate is asked for during a handshake. It does not look at the files: Authorization has just done so for the
// request on the new connection, and a change found here would close the connection.
func (p *keyPair) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return p.current(), nil
}

// Authorization implements kube.Credentials.
func (p *keyPair) Authorization(ctx context.Context) (string, error) {
	p.get(ctx)
	if p.header == nil {
		return "", nil
	}
	return p.header.Authorization(ctx)
}

// Invalidate implements kube.Credentials: the server refused the certificate or the header of a request sent at t.
func (p *keyPair) Invalidate(t time.Time) {
	p.rotated.Invalidate(t)
	if p.header != nil {
		p.header.Invalidate(t)
	}
}

// closeWait bounds how long closeAll waits for the transport, which notices at once that a connection is closed.
const closeWait = time.Second

// connTracker dials as kube does and remembers what is open.
type connTracker struct {
	mu   sync.Mutex // guards open
	open map[*trackedConn]struct{}
}

type trackedConn struct {
	net.Conn
	tracker *connTracker
	once    sync.Once
	dropped chan struct{} // closed when the transport has closed the connection
}

func (t *connTracker) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := kube.Dialer().DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tracked := &trackedConn{Conn: conn, tracker: t, dropped: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[*trackedConn]struct{}{}
	}
	t.open[tracked] = struct{}{}
	return tracked, nil
}

func (c *trackedConn) Close() error {
	c.tracker.mu.Lock()
	delete(c.tracker.open, c)
	c.tracker.mu.Unlock()
	c.once.Do(func() { close(c.dropped) })
	return c.Conn.Close()
}

// closeAll closes all connections and waits until the transport has noticed, so that the next request opens a new
// one.
func (t *connTracker) closeAll() {
	t.mu.Lock()
	open := t.open
	t.open = nil
	t.mu.Unlock()
	for c := range open {
		_ = c.Conn.Close() // the reader's error ends the requests on the connection
	}
	timeout := time.NewTimer(closeWait)
	defer timeout.Stop()
	for c := range open {
		select {
		case <-c.dropped:
		case <-timeout.C:
			return
		}
	}
}
