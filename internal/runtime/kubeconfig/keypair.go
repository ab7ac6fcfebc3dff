package kubeconfig

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"skiff/internal/runtime/kube"
)

// keyPair is a client certificate whose files may be rotated under us. The server looks at the certificate of the
// connection on every request, so a new one must also end the connections that were opened with the old one. kube
// asks for credentials before each request and tells of each 401; keyPair uses these two moments to look at its
// files.
type keyPair struct {
	cert, key pemSource
	env       Env
	header    kube.Credentials // a token or password sent beside the certificate; nil = none
	conns     connTracker
	reread    reread

	mu      sync.Mutex // guards the rest; never held while reading
	pair    *tls.Certificate
	checked time.Time // zero = look at the files before the next request
}

// get is asked for during a handshake. It does not look at the files: Authorization has just done so for the request
// that needs the connection, and a change found here would close that very connection.
func (p *keyPair) get(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pair, nil
}

// Authorization implements kube.Credentials.
func (p *keyPair) Authorization(ctx context.Context) (string, error) {
	if p.reread.do(ctx, p.due, func() { p.env.contained(p.cert.where, p.refresh) }) {
		p.env.warnf("%s with %s: the files take longer than %s to read: does their disk hang? "+
			"The certificate read before is used", p.cert.where, p.key.where, rereadWait)
	}
	if p.header == nil {
		return "", nil
	}
	return p.header.Authorization(ctx)
}

// Invalidate implements kube.Credentials: the server refused the certificate or the header of a request sent at t.
func (p *keyPair) Invalidate(t time.Time) {
	p.mu.Lock()
	if p.checked.Before(t) {
		p.checked = time.Time{}
	}
	p.mu.Unlock()
	if p.header != nil {
		p.header.Invalidate(t)
	}
}

// due says whether to look at the files before the next request.
func (p *keyPair) due() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.checked) >= recheckEvery
}

// refresh looks at the files, and on a new pair closes the connections of the old. A pair that does not fit together
// is half written: the old one stays in use.
func (p *keyPair) refresh() {
	changed, err := p.reload()
	if err != nil {
		p.env.warnf("%s; the certificate read before is used", err)
	}
	if changed {
		p.conns.closeAll()
	}
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

func (p *keyPair) reload() (changed bool, err error) {
	p.mu.Lock()
	p.checked = time.Now()
	p.mu.Unlock()
	cert, err := p.cert.read()
	if err != nil {
		return false, err
	}
	key, err := p.key.read()
	if err != nil {
		return false, err
	}
	if encrypted(key) {
		return false, fmt.Errorf("%s: the key is encrypted, and skiff has no way to ask for the passphrase: "+
			"write it without one (openssl pkey -in KEY -out NEW)", p.key.where)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("%s with %s: %w", p.cert.where, p.key.where, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	changed = p.pair == nil || !slices.EqualFunc(pair.Certificate, p.pair.Certificate, slices.Equal)
	if changed {
		p.pair = &pair
	}
	return changed, nil
}
