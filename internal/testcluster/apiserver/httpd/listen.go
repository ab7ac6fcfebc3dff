// Package httpd is the HTTP of the embedded API server, as far as it is not about single objects. It serves a handler
// over HTTPS on a port of this machine, or over pipes in memory, which virtual time understands; the connections can
// go silent or break, as a network does that tests are about. It has the errors of a v1.36 server, each a
// *kube.Status, the type that the client reads, and answers paths that are not for a resource: discovery in both
// forms, OpenAPI schemas, the version, and health.
//
// net/http serves each connection on a goroutine of its own; Close ends and waits for the accept loop. All else runs
// on the goroutine of a request and keeps no state.
package httpd

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// served is an http.Server with its one listener.
type served struct {
	server  *http.Server
	frozen  freezer
	serving sync.WaitGroup
	err     error // why serving ended, if not by Close; read after serving
}

func (s *served) serve(ln net.Listener, serve func(net.Listener) error) {
	s.serving.Go(func() {
		if err := serve(&freezingListener{ln, &s.frozen}); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
		}
	})
}

func (s *served) serveTLS(ln net.Listener) error { return s.server.ServeTLS(ln, "", "") }

// Close ends all connections at once, as a server that is killed, and waits for the accept loop. New dials fail.
func (s *served) Close() error {
	err := s.server.Close() // closes the listener, too
	s.serving.Wait()
	return errors.Join(err, s.err)
}

// Blackhole makes the connections drop everything in both directions without closing (true), or work again (false): a
// firewall that has forgotten them. Connections made meanwhile are dead as well.
func (s *served) Blackhole(on bool) { s.frozen.on.Store(on) }

// Pipe connects clients to a server without a network: over net.Pipe, which testing/synctest understands (a goroutine
// that waits for a loopback socket would keep virtual time from moving). Dial goes into kube.Config.DialContext; the
// URL is PipeURL.
type Pipe struct {
	served
	accept chan net.Conn
	done   chan struct{}
}

// PipeURL is the server address for clients of a Pipe: any name does, plain HTTP.
const PipeURL = "http://apiserver.test"

// OnPipe serves on a Pipe until its Close.
func OnPipe(h http.Handler) *Pipe {
	p := &Pipe{accept: make(chan net.Conn), done: make(chan struct{})}
	p.server = &http.Server{Handler: h, ErrorLog: silent, ConnContext: number()}
	p.serve((*pipeListener)(p), p.server.Serve)
	return p
}

// Dial connects a client. It has the form of net.Dialer.DialContext and ignores network and address.
func (p *Pipe) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.accept <- server:
		return client, nil
	case <-p.done:
		return nil, fmt.Errorf("dial %s: %w", PipeURL, net.ErrClosed)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pipeListener is the server's side of a Pipe. Its Close is net/http's, called once and with the http.Server's lock
// held; Pipe.Close is ours.
type pipeListener Pipe

// Accept hands the server its end of a connection.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close makes Accept and Dial fail.
func (l *pipeListener) Close() error {
	close(l.done)
	return nil
}

// Addr names the pipe.
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Net: "pipe", Name: "apiserver.test:80"} }

// TLS is a server on a loopback port with a certificate of its own authority.
type TLS struct {
	served
	URL  string // https://127.0.0.1:PORT
	CA   []byte // PEM of the authority, for a kubeconfig
	cert atomic.Pointer[tls.Certificate]
}

// readHeaderTimeout is the real server's: a client that opens connections and says nothing must not keep them.
const readHeaderTimeout = 32 * time.Second

// OnTLS serves HTTP/1.1 and HTTP/2 on addr ("127.0.0.1:0" takes any free port) until Close, with a certificate, and
// the PEM of its authority. Clients are asked for certificates of theirs, which the handler checks, if clients is not
// nil.
func OnTLS(h http.Handler, addr string, cert tls.Certificate, ca []byte, clients *x509.CertPool,
	limits Limits) (*TLS, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	t := &TLS{URL: "https://" + ln.Addr().String(), CA: ca}
	t.frozen.forget = limits.Forget
	t.cert.Store(&cert)
	t.server = serverOf(h, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.cert.Load(), nil },
		clients, limits)
	t.serve(ln, t.serveTLS)
	return t, nil
}

func serverOf(h http.Handler, cert func(*tls.ClientHelloInfo) (*tls.Certificate, error),
	clients *x509.CertPool, limits Limits) *http.Server {
	config := &tls.Config{GetCertificate: cert, MinVersion: tls.VersionTLS12}
	if clients != nil {
		config.ClientAuth, config.ClientCAs = tls.RequestClientCert, clients
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!limits.HTTP1)
	return &http.Server{Handler: limits.end(h), ReadHeaderTimeout: readHeaderTimeout, ErrorLog: silent,
		TLSConfig: config, ConnContext: number(), Protocols: protocols, IdleTimeout: limits.Idle,
		MaxHeaderBytes: limits.HeaderBytes, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: limits.Streams}}
}

// SetCertificate changes the certificate of new connections, as a rotation does. Open connections continue.
func (t *TLS) SetCertificate(cert tls.Certificate) { t.cert.Store(&cert) }

// NewCertificate makes an authority and a certificate by it for the loopback addresses. Both live as long as a `skiff
// dev` may.
func NewCertificate() (cert tls.Certificate, ca []byte, err error) {
	start, end := time.Now().Add(-time.Hour), time.Now().Add(10*365*24*time.Hour)
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "skiff-dev-ca"},
		NotBefore: start, NotAfter: end, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caDER, caKey, err := certify(authority, authority, nil)
	if err != nil {
		return cert, nil, fmt.Errorf("make the CA: %w", err)
	}
	der, key, err := certify(&x509.Certificate{SerialNumber: big.NewInt(2),
		Subject: pkix.Name{CommonName: "skiff-dev"}, NotBefore: start, NotAfter: end,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}, authority, caKey)
	if err != nil {
		return cert, nil, fmt.Errorf("make the server certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der, caDER}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), nil
}

// certify makes a key, and a certificate for it that the parent's key signs, or the new one if that is nil.
func certify(template, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), cmp.Or(by, key))
	return der, key, err
}

// Limits are those of a server, or of a proxy before it, for connections over HTTPS. Zero values are net/http's.
type Limits struct {
	HTTP1       bool          `json:"http1"`       // no HTTP/2
	Streams     int           `json:"streams"`     // at the same time on a connection of HTTP/2
	HeaderBytes int           `json:"headerBytes"` // of a request
	Idle        time.Duration `json:"idle"`        // a connection without requests is closed
	// Age is when a connection is closed once its requests are answered: HTTP/2 sends GOAWAY.
	Age time.Duration `json:"age"`
	// Forget is after how long a silent connection is dead without being closed, as behind a cloud load balancer.
	Forget time.Duration `json:"forget"`
}

// end closes connections that are too old.
func (l Limits) end(h http.Handler) http.Handler {
	if l.Age == 0 {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(numbered); ok && time.Since(c.since) > l.Age {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}
