package faults

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"skiff/internal/testcluster/apiserver/httpd"
)

// Serve serves a request with the faults that Pick found for it.
func Serve(w http.ResponseWriter, r *http.Request, watch bool, next func(http.ResponseWriter)) {
	zip := httpd.Compress(w, r)
	serve(zip, r, watch, next)
	zip.Close() // not after a panic: the answer of a cut has no end
}

func serve(zip *httpd.Compressor, r *http.Request, watch bool, next func(http.ResponseWriter)) {
	hits := hitsOf(r.Context())
	if len(hits) == 0 {
		next(zip)
		return
	}
	if d := Ahead(r.Context()); d != 0 {
		zip.Header().Set("Date", time.Now().Add(d).UTC().Format(http.TimeFormat))
	}
	fw := &writer{ResponseWriter: zip, ctx: r.Context(), watch: watch}
	for _, h := range hits {
		if h.By != ByStream {
			defer func() {
				if p := recover(); p != nil { // a cut
					httpd.HangUp(r.Context(), h.By == ByReset)
					panic(p)
				}
			}()
		}
		if h.GoAway {
			zip.Header().Set("Connection", "close")
		}
		if !Sleep(r.Context(), h.Delay) {
			return
		}
		switch h.Cut {
		case CutBefore:
			panic(http.ErrAbortHandler)
		case Switch, Blackhole:
			if h.Cut == Switch && r.ProtoMajor == 1 {
				switchProtocols(zip)
			}
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}
		if h.Reply != nil {
			h.Reply.write(zip)
			return
		}
		fw.add(h)
		zip.How = max(zip.How, h.Gzip)
	}
	next(fw)
	fw.close()
}

func switchProtocols(w http.ResponseWriter) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "websocket")
	w.WriteHeader(http.StatusSwitchingProtocols)
	_ = http.NewResponseController(w).Flush() // an error means that the client is gone
}

func (rep *Reply) write(w http.ResponseWriter) {
	if rep.RetryAfter != "" {
		w.Header().Set("Retry-After", rep.RetryAfter)
	}
	switch {
	case rep.Empty:
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(rep.Code)
	case rep.Body != "":
		w.Header().Set("Content-Type", rep.ContentType)
		httpd.Bytes(w, rep.Code, []byte(rep.Body))
	default:
		message := cmp.Or(rep.Message, "injected fault: "+http.StatusText(rep.Code)) // kubectl prints nothing else
		httpd.Error(w, httpd.Failure(rep.Code, rep.Reason, message, httpd.NoDetails))
	}
}

// Sleep waits, and returns false if the request ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

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
