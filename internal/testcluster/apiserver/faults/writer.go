package faults

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
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
	gather  int

	code   int
	buffer []byte // the answer, if it is changed as a whole; what gather holds back
	sent   int    // bytes of the body
}

func (w *writer) add(f Fault) {
	if f.Rewrite != nil && !w.watch { // for a watch it is applied to each event
		w.rewrite = append(w.rewrite, f.Rewrite)
	}
	w.delay = max(w.delay, f.AnswerDelay)
	if f.Cut != NoCut {
		w.cut = f.Cut
	}
	w.at, w.chunk, w.gather = max(w.at, f.At), max(w.chunk, f.Chunk), max(w.gather, f.Gather)
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
	if w.gather == 0 {
		return len(b), w.send(b)
	}
	w.buffer = append(w.buffer, b...)
	for len(w.buffer) >= w.gather {
		if err := w.send(w.buffer[:w.gather]); err != nil {
			return 0, err
		}
		w.flush()
		w.buffer = append([]byte(nil), w.buffer[w.gather:]...)
	}
	return len(b), nil
}

// send sends bytes in pieces.
func (w *writer) send(rest []byte) error {
	for len(rest) > 0 {
		n := len(rest)
		if w.chunk > 0 {
			n = min(n, w.chunk)
		}
		if w.sent < w.at || w.cut != NoCut {
			n = min(n, max(0, w.at-w.sent))
		}
		if _, err := w.ResponseWriter.Write(rest[:n]); err != nil {
			return err
		}
		w.sent += n
		rest = rest[n:]
		if w.chunk > 0 || w.sent == w.at {
			w.flush()
		}
		w.end()
	}
	return nil
}

// end breaks or stalls the connection once enough bytes were sent.
func (w *writer) end() {
	if w.sent < w.at || w.cut != CutBody && w.cut != StallBody {
		return
	}
	w.flush()
	if w.cut == StallBody {
		<-w.ctx.Done()
	}
	panic(http.ErrAbortHandler)
}

// Flush sends what is buffered.
func (w *writer) Flush() {
	if !w.whole() && (w.gather == 0 || len(w.buffer) == 0) {
		w.flush()
	}
}

// flush ignores errors, which mean that the client is gone.
func (w *writer) flush() { http.NewResponseController(w.ResponseWriter).Flush() }

// close sends a buffered answer.
func (w *writer) close() {
	if w.cut == CutAfter {
		panic(http.ErrAbortHandler)
	}
	if !w.whole() {
		w.send(w.buffer) // an error means that the client is gone, here and below
		return
	}
	if !Sleep(w.ctx, w.delay) {
		return
	}
	body := w.buffer
	for _, f := range w.rewrite {
		body = f(body)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.ResponseWriter.WriteHeader(cmp.Or(w.code, http.StatusOK))
	w.send(body)
}
