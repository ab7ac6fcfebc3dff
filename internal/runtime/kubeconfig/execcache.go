package kubeconfig

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// execRetry is how soon a plugin runs again after a failure or a refused credential: a storm of requests must not
// become a storm of processes.
const execRetry = 5 * time.Second

// plugin is an exec plugin and the last credential returned. It implements kube.Credentials.
type plugin struct {
	config execConfig
	info   Secret // KUBERNETES_EXEC_INFO
	where  string
	env    Env
	conns  connTracker

	timeout time.Duration // of one run: execTimeout, less in tests

	mu      sync.Mutex    // guards the rest; never held while the plugin runs
	cred    *credential   // the last good one; nil = none yet
	read    time.Time     // when cred was returned
	refused bool          // the server answered 401 to cred
	running chan struct{} // closed when the run under way has ended; nil = none
	ended   time.Time     // when the last run ended
	err     error         // why the last run failed
}

// Authorization returns the token of the plugin's credential, "" if that is a certificate alone. The plugin runs
// when there is no credential, when it has expired, and once after a 401; many requests wait for the same run. A
// request whose context ends waits no longer, but the run goes on, for at most execTimeout: the next request needs
// its result.
func (p *plugin) Authorization(ctx context.Context) (string, error) {
	for {
		token, wait, err := p.current(ctx)
		if wait == nil {
			return token, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return "", fmt.Errorf("%s: wait for %s: %w", p.where, p.config.Command, context.Cause(ctx))
		}
	}
}

// current returns the token to send, or a run to wait for, starting the run if needed.
func (p *plugin) current(ctx context.Context) (token string, wait <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	usable := p.cred != nil && !p.cred.expired(now)
	justRan := !p.ended.IsZero() && now.Sub(p.ended) < execRetry
	switch {
	case usable && (!p.refused || justRan):
		return bearer(p.cred.token), nil, nil
	case justRan && p.err != nil:
		return "", nil, p.err
	case p.running == nil:
		p.running = make(chan struct{})
		go p.refresh(context.WithoutCancel(ctx))
	}
	return "", p.running, nil
}

func bearer(token Secret) string {
	if !token.isSet() {
		return ""
	}
	return "Bearer " + token.reveal()
}

// refresh runs the plugin and keeps the result, then closes running for the waiting requests.
func (p *plugin) refresh(ctx context.Context) {
	cred, err := (*credential)(nil), errors.New("it panicked")
	p.env.contained(p.where, func() { cred, err = p.run(ctx) })
	if p.keep(cred, err) {
		p.conns.closeAll() // the server goes by the certificate that opened a connection
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.running)
	p.running = nil
}

// keep stores the result of a run and says whether the certificate is another one than before.
func (p *plugin) keep(cred *credential, err error) (newCertificate bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended, p.err = time.Now(), nil
	if err != nil {
		p.err = fmt.Errorf("%s: the credential plugin failed: %w", p.where, err)
		if p.cred != nil && !p.cred.expired(p.ended) {
			p.env.warnf("%s; the credential returned before is used", p.err)
		}
		return false
	}
	newCertificate = p.cred != nil && !sameCertificate(p.cred.pair, cred.pair)
	p.cred, p.read, p.refused = cred, p.ended, false
	return newCertificate
}

func sameCertificate(a, b *tls.Certificate) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.Certificate, b.Certificate, slices.Equal)
}

// Invalidate has the plugin run before the next request, unless the credential was returned after t.
func (p *plugin) Invalidate(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read.Before(t) {
		p.refused = true
	}
}

// certificate is asked for during a handshake; Authorization has run the plugin for the request that needs it.
func (p *plugin) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cred == nil || p.cred.pair == nil {
		return &tls.Certificate{}, nil // none: the server then goes by the token
	}
	return p.cred.pair, nil
}
