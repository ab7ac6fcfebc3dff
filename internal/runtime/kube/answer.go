package kube

import (
	"bytes"
	"context"
	"errors"
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

const (
	// largeAnswer is how long an answer is that is read beside all others: twenty times that of a usual object. One
	// that goes on is read when no other such one is in memory. A server that sends 8 MiB to each worker at once, or a
	// tenant with many large objects, would need more than the process may take.
	largeAnswer = 256 << 10
	// longAnswer is how long an answer may be before all the memory that it may need is taken at once: a buffer that
	// doubles its size would hold half as much again as it has read. Few objects are as long.
	longAnswer = 2 << 20
)

// shortAnswer is a buffer for an answer that is held as a whole.
type shortAnswer struct {
	bytes.Buffer
	large bool // it is the one that is longer than largeAnswer
}

// readShort reads an answer into a buffer. One that is large keeps others that are waiting until it is settled.
func (c *Client) readShort(ctx context.Context, resp *http.Response, into *shortAnswer, most int64) ([]byte, error) {
	if resp.ContentLength > most {
		return nil, errLongAnswer
	}
	into.Reset()
	into.Grow(int(min(max(resp.ContentLength, 0), 64<<10)) + bytes.MinRead) // the length is the server's word
	_, err := into.ReadFrom(io.LimitReader(resp.Body, largeAnswer))
	if err == nil && into.Len() == largeAnswer {
		select {
		case c.large <- struct{}{}:
			into.large = true
		case <-ctx.Done():
			if why := context.Cause(ctx); !errors.Is(why, context.DeadlineExceeded) {
				return nil, why
			}
			return nil, errBusy
		}
		_, err = into.ReadFrom(io.LimitReader(resp.Body, longAnswer-largeAnswer))
	}
	if err == nil && into.Len() == longAnswer {
		into.Grow(int(most) - longAnswer + bytes.MinRead)
		_, err = into.ReadFrom(io.LimitReader(resp.Body, most+1-longAnswer))
	}
	if err == nil && int64(into.Len()) > most {
		err = errLongAnswer
	}
	return into.Bytes(), err
}

// settle lets the next large answer be read, if a was one: nothing of it is used any more. It may be called again.
func (c *Client) settle(a *shortAnswer) {
	if a.large {
		a.large = false
		<-c.large
	}
}

// errBusy is an answer that has come and was not read in time.
var errBusy = errors.New("skiff reads one large answer at a time, and another one took too long")

var errLongAnswer = fmt.Errorf("the answer is longer than %d MiB, or %d MiB for a write", maxAnswer>>20, maxObject>>20)

// answers holds buffers that answers about one object are read into: what is decoded from them is a copy.
var answers = sync.Pool{New: func() any { return new(shortAnswer) }}

func newAnswer() *shortAnswer { return answers.Get().(*shortAnswer) }

// putAnswer keeps the buffer of a usual object.
func (c *Client) putAnswer(a *shortAnswer) {
	if c.settle(a); a.Cap() <= bulkBuffer {
		answers.Put(a)
	}
}
