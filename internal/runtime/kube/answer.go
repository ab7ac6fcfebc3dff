package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxAnswer caps the answer to a short request. An object has 1.5 MiB in etcd and grows a few times in JSON;
// discovery and OpenAPI documents of a large cluster are a few MiB.
const maxAnswer = 16 << 20

// maxObject caps the answer to a write, which is one object. Many are in flight at a time.
const maxObject = 8 << 20

const (
	// largeAnswer is the longest answer read beside all others: twenty times a usual object. Longer answers are read
	// one at a time: a server that sends 8 MiB to each worker at once, or a tenant with many large objects, would
	// exceed the memory of the process.
	largeAnswer = 256 << 10
	// longAnswer is the length from which all the memory for an answer is allocated at once: a buffer that doubles
	// holds half as much again as read. Few objects are as long.
	longAnswer = 2 << 20
)

// shortAnswer is a buffer for an answer that is in memory as a whole.
type shortAnswer struct {
	bytes.Buffer
	large bool // longer than largeAnswer, and the only such buffer
}

// errBusy is an answer that has come and was not read in time.
var errBusy = errors.New("skiff reads one large answer at a time, and another one took too long")

var errLongAnswer = fmt.Errorf("the answer is longer than %d MiB, or %d MiB for a write", maxAnswer>>20, maxObject>>20)

// answers is the pool of buffers for answers. Decoded values are copies.
var answers = sync.Pool{New: func() any { return new(shortAnswer) }}

// drain empties and closes a small body, so that the connection can be used again.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxErrorBody) // a failure here concerns the connection, not the request
	_ = body.Close()
}

// protobufType is the media type of objects in protobuf.
const protobufType = "application/vnd.kubernetes.protobuf"

// inProtobuf reports whether the answer to a request for protobuf is protobuf, or JSON: the server, or a proxy, has
// the choice. Any other type fails as in jsonBody.
func inProtobuf(resp *http.Response, asked bool) (protobuf bool, err error) {
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err == nil && asked && mediaType == protobufType {
		return true, nil
	}
	return false, jsonBody(resp)
}

// jsonBody fails where an answer is no JSON, before a byte is parsed: a captive proxy's page for example.
func jsonBody(resp *http.Response) error {
	if resp.Header.Get("Content-Type") == "application/json" {
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err == nil && mediaType == "application/json" {
		return nil
	}
	return unreadable(resp)
}

func unreadable(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorText)) // only for the message
	return &Status{Status: "Failure", Code: resp.StatusCode, Reason: "NotJSON", foreign: true,
		Message: foreignMessage(resp, body) + ": want application/json; check the server address"}
}

// maxWarnings and maxWarning bound the number and the length of remembered warnings. An API server sends at most 4 KiB
// of warnings with an answer, and cuts longer lists to 256 bytes each.
const (
	maxWarnings = 1000
	maxWarning  = 1 << 10
)

// warnings hands each new text of the Warning headers (RFC 7234 section 5.5, KEP-1693) to OnWarning.
type warnings struct {
	report func(text string) // nil: they are not read

	mu   sync.Mutex // guards seen
	seen map[string]struct{}
}

func (w *warnings) read(h http.Header) {
	if w.report == nil {
		return
	}
	for _, line := range h.Values("Warning") {
		for _, text := range warningTexts(line) {
			if text = Printable(text, maxWarning); w.first(text) {
				w.report(text)
			}
		}
	}
}

func (w *warnings) first(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.seen[text]; ok || len(w.seen) >= maxWarnings {
		return false
	}
	w.seen[text] = struct{}{}
	return true
}

// warningTexts returns the texts of a header `299 - "text", 299 - "text"`, except malformed parts.
func warningTexts(line string) []string {
	var out []string
	for {
		_, rest, ok := strings.Cut(line, `"`)
		if !ok || !strings.HasPrefix(strings.TrimLeft(line, " ,"), "299 ") {
			return out
		}
		var text strings.Builder
		i := 0
		for ; i < len(rest) && rest[i] != '"'; i++ {
			if rest[i] == '\\' && i+1 < len(rest) {
				i++
			}
			text.WriteByte(rest[i])
		}
		if i == len(rest) {
			return out // no closing quote
		}
		out = append(out, text.String())
		line = rest[i+1:]
	}
}

// Exchange is an HTTP request with its outcome, for counters of requests.
type Exchange struct {
	Host     string
	Method   string
	Resource Resource      // zero for requests without a resource, such as discovery
	Code     int           // 0: there was no answer
	Conflict bool          // 409 because of a changed object
	Retried  int           // code of the answer before this retry; 0: first try
	Took     time.Duration // until the header of the answer
}
