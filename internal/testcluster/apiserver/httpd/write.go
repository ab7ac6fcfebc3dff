package httpd

import (
	"errors"
	"fmt"
	"io"
	"net/http"
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
