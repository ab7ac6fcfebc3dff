package faults

import (
	"context"
	"net/http"
	"time"
)

// writer breaks, stalls, changes or splits answers. It buffers an answer only if the fault changes it as a whole,
// and never a watch.
type writer struct {
	http.ResponseWriter
	ctx   context.Context
	watch bool

	rewrite []Rewrite
	delay   time.Duration
	cut     Cut
	at      int
	chunk   int

	code   int
	buffer []byte // the answer, if it is changed as a whole
	sent   int    // bytes of the body
}

func (w *writer) add(f Fault) {
	if f.Rewrite != nil && !w.watch { // for a watch it is applied to each event
		w.rewrite = append(w.rewrite, f.Rewrite)
	}
	w.delay = max(w.delay, f.AnswerDelay)
	if f.Cut != NoCut {
		w.cut, w.at = f.Cut, f.At
	}
	if f.Chunk > 0 {
		w.chunk = f.Chunk
	}
}

// whole reports whether the answer is buffered until it is complete.
func (w *writer) whole() bool { return len(w.rewrite) > 0 || w.delay > 0 || w.cut == CutAfter }

func (w *writer) WriteHeader(code int) {
	if w.code = code; !w.whole() {
		w.ResponseWriter.WriteHeader(code)
	}
}

func (w *writer) Write(b []byte) (int, error) {
	if w.whole() {
		w.buffer = append(w.buffer, b...)
		return len(b), nil
	}
	for rest := b; len(rest) > 0; {
		n := len(rest)
		if w.chunk > 0 {
			n = min(n, w.chunk)
		}
		if w.cut == CutBody || w.cut == StallBody {
			n = min(n, w.at-w.sent)
		}
		if n > 0 {
			if _, err := w.ResponseWriter.Write(rest[:n]); err != nil {
				return 0, err
			}
			w.sent += n
			rest = rest[n:]
		}
		if w.chunk > 0 {
			w.Flush()
		}
		w.end()
	}
	return len(b), nil
}

// end breaks or stalls the connection once enough bytes were sent.
func (w *writer) end() {
	if w.sent < w.at || w.cut != CutBody && w.cut != StallBody {
		return
	}
	w.Flush()
	if w.cut == StallBody {
		<-w.ctx.Done()
	}
	panic(http.ErrAbortHandler)
}

// Flush sends what is buffered.
func (w *writer) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok && !w.whole() {
		f.Flush()
	}
}

// close sends a buffered answer.
func (w *writer) close() {
	if w.cut == CutAfter {
		panic(http.ErrAbortHandler)
	}
	if !w.whole() || !sleep(w.ctx, w.delay) {
		return
	}
	body := w.buffer
	for _, f := range w.rewrite {
		body = f(body)
		w.Header().Del("Content-Length")
	}
	w.rewrite, w.delay, w.buffer = nil, 0, nil
	w.WriteHeader(w.code)
	w.Write(body) // an error means that the client is gone
}
