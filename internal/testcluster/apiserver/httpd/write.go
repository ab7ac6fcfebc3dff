package httpd

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"skiff/internal/runtime/patch"
)

// MaxBody is the largest accepted request body, as on the real server.
const MaxBody = 3 << 20

// Encode encodes a value that this server made, which cannot fail.
func Encode(v any) []byte {
	b, err := patch.Encode(v)
	if err != nil {
		panic(err) // not a JSON value: a bug in this package
	}
	return b
}

// JSON answers with a value as JSON.
func JSON(w http.ResponseWriter, code int, body any) { Bytes(w, code, Encode(body)) }

// Bytes answers with a body, of JSON unless the Content-Type is set already.
func Bytes(w http.ResponseWriter, code int, body []byte) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	w.Write(body) // an error means that the client is gone
}

// Warn adds a Warning header, which kubectl prints.
func Warn(w http.ResponseWriter, text string) {
	w.Header().Add("Warning", fmt.Sprintf("299 - %q", text))
}

// RouterNotAcceptable starts the 406 of the real server's router, which does not handle custom resources.
const RouterNotAcceptable = "406: Not Acceptable"

// ReadBody reads a request body of at most MaxBody.
func ReadBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, MaxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, Failure(http.StatusRequestEntityTooLarge, "RequestEntityTooLarge",
			"Request entity too large: limit is "+strconv.Itoa(MaxBody), NoDetails)
	}
	if err != nil {
		return nil, BadRequest("read the body: %v", err)
	}
	return body, nil
}

// Warner adds warnings to an answer, each text once.
type Warner struct {
	to    http.ResponseWriter
	mu    sync.Mutex // guards what follows
	seen  map[string]bool
	runes int
}

// Once the warnings of an answer are longer than maxWarnings, each is cut to maxWarning; in all there are no more than
// twice as many.
const maxWarnings, maxWarning = 4096, 256

// NewWarner returns a Warner for an answer.
func NewWarner(to http.ResponseWriter) *Warner { return &Warner{to: to, seen: map[string]bool{}} }

// Warn adds a warning.
func (w *Warner) Warn(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if runes := []rune(text); w.runes+len(runes) > maxWarnings && len(runes) > maxWarning {
		text = string(runes[:maxWarning])
	}
	if w.runes > 2*maxWarnings || w.seen[text] || strings.ContainsFunc(text, unicode.IsControl) {
		return
	}
	w.seen[text] = true
	w.runes += utf8.RuneCountInString(text)
	Warn(w.to, text)
}

// leastCompressed is the size above which the real server compresses an answer (APIResponseCompression).
const leastCompressed = 128 << 10

// Zip says how an answer is compressed.
type Zip int

// ZipLarge is what a real server does; the others compress every answer, watches included, as proxies do and newer
// servers.
const (
	ZipLarge   Zip = iota
	ZipAll         // as one gzip member, which each flush of the answer flushes
	ZipMembers     // as one gzip member for each flush
	// ZipUnflushed closes each of those members without a flush before: what is read of it comes an event late.
	ZipUnflushed
)

// zippers has gzip.Writers that are not in use: each takes most of a megabyte.
var zippers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the real server's level, which is valid
	return z
}}

// Compressor compresses an answer for a client that accepts gzip.
type Compressor struct {
	http.ResponseWriter
	How     Zip
	accepts bool
	zip     *gzip.Writer // nil while nothing is compressed
	open    bool         // a member was begun
	said    bool         // the header was sent
}

// Compress returns a writer for the answer to r. Its Close ends a complete answer.
func Compress(w http.ResponseWriter, r *http.Request) *Compressor {
	encodings := strings.Split(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",")
	return &Compressor{ResponseWriter: w, accepts: r.Method != http.MethodHead &&
		slices.ContainsFunc(encodings, func(e string) bool { return strings.TrimSpace(e) == "gzip" })}
}

// WriteHeader decides by the length of the answer whether it is compressed.
func (c *Compressor) WriteHeader(code int) {
	h := c.Header()
	length, _ := strconv.Atoi(h.Get("Content-Length")) // 0 for a watch, which has none
	if c.accepts && !c.said && h.Get("Content-Encoding") == "" && (c.How != ZipLarge || length > leastCompressed) {
		h.Del("Content-Length")
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		c.zip = zippers.Get().(*gzip.Writer)
		c.zip.Reset(c.ResponseWriter)
	}
	c.said = true
	c.ResponseWriter.WriteHeader(code)
}

// Write sends a part of the body.
func (c *Compressor) Write(b []byte) (int, error) {
	if !c.said {
		c.WriteHeader(http.StatusOK)
	}
	if c.zip == nil {
		return c.ResponseWriter.Write(b)
	}
	c.open = true
	return c.zip.Write(b)
}

// Flush sends what is buffered.
func (c *Compressor) Flush() {
	if c.zip != nil && c.open {
		if c.How != ZipUnflushed {
			c.zip.Flush() // an error means that the client is gone, here and below
		}
		if c.How >= ZipMembers {
			c.endMember()
		}
	}
	http.NewResponseController(c.ResponseWriter).Flush()
}

func (c *Compressor) endMember() {
	c.zip.Close()
	c.zip.Reset(c.ResponseWriter)
	c.open = false
}

// Close ends the answer.
func (c *Compressor) Close() {
	if c.zip == nil {
		return
	}
	if c.open || c.How <= ZipAll {
		c.endMember()
	}
	zippers.Put(c.zip)
	c.zip = nil
}
