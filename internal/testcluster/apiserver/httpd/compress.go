package httpd

import (
	"compress/gzip"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

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
