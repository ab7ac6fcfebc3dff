package apiserver

import (
	"crypto/tls"

	"skiff/internal/testcluster/apiserver/faults"
	"skiff/internal/testcluster/apiserver/httpd"
	"skiff/internal/testcluster/apiserver/kinds"
)

// What those who use the server need of its packages, so that one import does.
type (
	Fault        = faults.Fault
	FaultSet     = faults.Set
	Reply        = faults.Reply
	WatchFault   = faults.WatchFault
	ErrorArg     = faults.ErrorArg
	BookmarkMode = faults.BookmarkMode
	Pipe         = httpd.Pipe
	TLS          = httpd.TLS
	Limits       = httpd.Limits
	User         = kinds.User
)

// The values of faults.
const (
	Simulation = faults.Simulation

	CutBefore = faults.CutBefore
	CutAfter  = faults.CutAfter
	CutBody   = faults.CutBody
	StallBody = faults.StallBody
	Blackhole = faults.Blackhole

	ByClose = faults.ByClose
	ByReset = faults.ByReset

	GoneInStream = faults.GoneInStream
	GoneAsHTTP   = faults.GoneAsHTTP

	BookmarksNever     = faults.BookmarksNever
	BookmarksStorm     = faults.BookmarksStorm
	BookmarksAtEnd     = faults.BookmarksAtEnd
	BookmarksOfAnother = faults.BookmarksOfAnother
	BookmarksUnmarked  = faults.BookmarksUnmarked
	BookmarksBehind    = faults.BookmarksBehind

	EndCleanly   = faults.EndCleanly
	EndCut       = faults.EndCut
	EndMidFrame  = faults.EndMidFrame
	EndSilent    = faults.EndSilent
	EndWithError = faults.EndWithError
)

// PipeURL is the server address for clients of a Pipe.
const PipeURL = httpd.PipeURL

// ParseFaults reads a body of PUT /skiff/faults, or the file of --faults.
func ParseFaults(body []byte) (FaultSet, error) { return faults.Parse(body) }

// Inject adds a fault and returns a function that removes it.
func (s *Server) Inject(f Fault) (remove func()) { return s.faults.Inject(f) }

// ListenPipe serves on a Pipe until the server is closed. Call Pipe.Close first if clients are to see their
// connections end.
func (s *Server) ListenPipe() *Pipe { return httpd.OnPipe(s) }

// NewCertificate makes an authority, and a certificate by it for the loopback addresses.
func NewCertificate() (cert tls.Certificate, ca []byte, err error) { return httpd.NewCertificate() }

// ListenTLS serves HTTP/1.1 and HTTP/2 on addr ("127.0.0.1:0" takes any free port) until Close, with a certificate of
// an authority of its own.
func (s *Server) ListenTLS(addr string) (*TLS, error) {
	cert, ca, err := httpd.NewCertificate()
	if err != nil {
		return nil, err
	}
	return s.ListenTLSWith(addr, cert, ca)
}

// ListenReplica serves replica n alone on a free port of the loopback interface.
func (s *Server) ListenReplica(n int, cert tls.Certificate, ca []byte) (*TLS, error) {
	return httpd.OnTLS(s.Front(n), "127.0.0.1:0", cert, ca, s.opts.ClientCA, s.opts.Limits)
}

// ListenTLSWith is ListenTLS with a certificate and the PEM of its authority.
func (s *Server) ListenTLSWith(addr string, cert tls.Certificate, ca []byte) (*TLS, error) {
	return httpd.OnTLS(s, addr, cert, ca, s.opts.ClientCA, s.opts.Limits)
}
