package kube

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// maxStreams is how many lists and watches have a connection of their own over HTTP/1.1: more than a usual set of
// controllers opens. Those of many namespaces share connections over HTTP/2, because each connection costs the server
// and us a TLS session.
const maxStreams = 16

// streams sends lists and watches. Over HTTP/1.1 the reader of a stream reads from its connection; over HTTP/2 another
// goroutine reads, in frames of 16 KiB, and answers with window updates, which takes as much CPU again
// (BenchmarkListOverTLS).
type streams struct {
	http1, http2 *http.Client
	open         atomic.Int32 // answers over HTTP/1.1
	spoken       atomic.Bool  // the server has answered over HTTP/1.1
	refused      atomic.Bool  // it has answered over HTTP/2 after it had not over HTTP/1.1
}

// do sends a request without a body. A server, or a proxy ahead of it, that speaks only HTTP/2 is found by asking it
// over that too, as long as it has not answered over HTTP/1.1.
func (s *streams) do(req *http.Request) (*http.Response, error) {
	if s.refused.Load() || !s.take() {
		return s.http2.Do(req)
	}
	resp, err := s.http1.Do(req)
	if !s.spoken.Load() && refusesHTTP1(resp, err) && req.Context().Err() == nil {
		if other, otherErr := s.http2.Do(req.Clone(req.Context())); otherErr == nil {
			s.refused.Store(true)
			if err == nil {
				drain(resp.Body)
			}
			s.open.Add(-1)
			return other, nil
		}
	}
	if err != nil {
		s.open.Add(-1)
		return nil, err
	}
	s.spoken.Store(true)
	resp.Body = &streamBody{ReadCloser: resp.Body, streams: s}
	return resp, nil
}

// take counts one more answer over HTTP/1.1, if there may be.
func (s *streams) take() bool {
	if s.open.Add(1) <= maxStreams {
		return true
	}
	s.open.Add(-1)
	return false
}

// refusesHTTP1 says whether a server that could be reached may have failed because of the protocol.
func refusesHTTP1(resp *http.Response, err error) bool {
	if err == nil {
		return resp.StatusCode == http.StatusUpgradeRequired || resp.StatusCode == http.StatusHTTPVersionNotSupported
	}
	var dial *net.OpError
	return !errors.As(err, &dial) || dial.Op != "dial"
}

// streamBody is the answer to a stream, which is open until it is closed.
type streamBody struct {
	io.ReadCloser
	streams *streams
	once    sync.Once
}

func (b *streamBody) Close() error {
	b.once.Do(func() { b.streams.open.Add(-1) })
	return b.ReadCloser.Close()
}
