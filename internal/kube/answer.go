package kube

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// maxAnswer caps the answer to a short request. An object has 1.5 MiB in etcd and grows a few times in JSON;
// discovery and OpenAPI documents of a large cluster are a few MiB.
const maxAnswer = 16 << 20

// maxObject caps the answer to a write, which is one object. Many are in flight at a time.
const maxObject = 8 << 20

// readShort reads an answer that is held as a whole, into body.
func readShort(resp *http.Response, body *bytes.Buffer, most int64) ([]byte, error) {
	if resp.ContentLength > most {
		return nil, errLongAnswer
	}
	body.Reset()
	body.Grow(int(min(max(resp.ContentLength, 0), 64<<10)) + bytes.MinRead) // the length is the server's word
	_, err := body.ReadFrom(io.LimitReader(resp.Body, most+1))
	if err == nil && int64(body.Len()) > most {
		err = errLongAnswer
	}
	return body.Bytes(), err
}

var errLongAnswer = fmt.Errorf("the answer is longer than %d MiB, or %d MiB for a write", maxAnswer>>20, maxObject>>20)

// answers holds buffers that answers about one object are read into: what is decoded from them is a copy.
var answers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func newAnswer() *bytes.Buffer { return answers.Get().(*bytes.Buffer) }

// putAnswer keeps the buffer of a usual object.
func putAnswer(b *bytes.Buffer) {
	if b.Cap() <= bulkBuffer {
		answers.Put(b)
	}
}
