package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"skiff/internal/runtime/backoff"
)

// maxTries bounds how often one call asks again because the server said "later" (429, or 5xx with a
// Retry-After). Ten is client-go's number.
const maxTries = 10

// maxWait bounds the sleep of one call before a retry. If the server requests a longer wait, or a wait beyond the
// deadline, the caller gets the error: a worker has other keys to work on, and RetryAfter has the time.
const maxWait = time.Minute

// request is a call before the split into HTTP requests.
type request struct {
	verb        string // for error texts: "get", "list", "watch", "create" ...
	what        string // the object of the call, for error texts: "pods default/web"
	method      string
	resource    Resource // with subresource, the subject of the needed right; zero: no right that a Role could grant
	subresource string
	path        string
	query       url.Values
	body        []byte // kept as bytes: each try needs a new reader
	contentType string
	accept      string
	long        bool // a list or watch: own connections, no deadline of ours, no retries but after a 401
	answered    int  // code of the answer to the last try; 0: no try yet
	object      bool // only JSON is an answer; a proxy's page with code 200 must not pass for a successful write
}

func (r *request) write() bool { return r.method != http.MethodGet }

// wrap adds the call to err.
func (r *request) wrap(err error) error { return fmt.Errorf("%s %s: %w", r.verb, r.what, err) }

// call sends r and passes the body of a successful answer to use, which must not keep the body. All short requests go
// through call: the client's timeout bounds the whole exchange, and the answer is small enough for memory.
func (c *Client) call(ctx context.Context, r request, use func(body []byte) error) error {
	buffer := answers.Get().(*shortAnswer)
	defer c.putAnswer(buffer)
	for try := 1; ; try++ {
		body, err := c.callOnce(ctx, &r, buffer)
		if err == nil {
			if err = use(body); err != nil {
				return r.wrap(err)
			}
			return nil
		}
		c.endLarge(buffer)
		wait := retryIn(err)
		deadline, limited := ctx.Deadline()
		if wait == 0 || try == maxTries || wait > maxWait || limited && time.Until(deadline) <= wait {
			return r.wrap(err)
		}
		select {
		case <-ctx.Done():
			return r.wrap(fmt.Errorf("%w, while waiting to try again after: %w", context.Cause(ctx), err))
		case <-time.After(wait):
		}
	}
}

// callBytes is call for an answer to be kept.
func (c *Client) callBytes(ctx context.Context, r request) (body []byte, err error) {
	err = c.call(ctx, r, func(b []byte) error {
		body = bytes.Clone(b)
		clear(b) // the pool of answers holds nothing that the caller does not: ListOne may read a Secret
		return nil
	})
	return body, err
}

// retryIn returns the wait before the same request is sent again, 0 for never: only if the server did not do the work
// and names a time (API priority and fairness, a server that starts or stops). At most a tenth is added, so that many
// callers do not come back at once.
func retryIn(err error) time.Duration {
	s := AsStatus(err)
	if s == nil || s.Code != http.StatusTooManyRequests && s.Code < 500 {
		return 0
	}
	after := s.RetryAfter()
	if after == 0 {
		return 0
	}
	return backoff.Spread(after, 0.1)
}

func (c *Client) callOnce(ctx context.Context, r *request, buffer *shortAnswer) ([]byte, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, c.late)
	defer cancel()
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if r.object {
		if err := jsonBody(resp); err != nil {
			return nil, err
		}
	}
	most := maxAnswer
	if r.write() {
		most = maxObject
	}
	body, err := c.readShort(ctx, resp, buffer, int64(most))
	if err != nil {
		if err == errBusy {
			err = &NoAnswerError{Err: err, alone: true}
		} else {
			err = c.noAnswer(began, readError(ctx, err))
		}
		if r.write() {
			return nil, &unknownOutcome{err}
		}
		return nil, err
	}
	// A 200 may still carry a Status of failure (API conventions, "Response Status Kind").
	if bytes.Contains(body[:min(len(body), 256)], []byte(`"Status"`)) {
		if s := decodeStatus(body); s != nil && s.Status == "Failure" {
			return nil, s
		}
	}
	return body, nil
}

// readShort reads an answer into a buffer. A large answer keeps other large answers waiting until endLarge.
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

// endLarge lets the next large answer be read, after the last use of a large a. Further calls do nothing.
func (c *Client) endLarge(a *shortAnswer) {
	if a.large {
		a.large = false
		<-c.large
	}
}

// putAnswer keeps the buffer of a usual object.
func (c *Client) putAnswer(a *shortAnswer) {
	if c.endLarge(a); a.Cap() <= bulkBuffer {
		answers.Put(a)
	}
}

// noAnswer is the error of a request that began then and has no answer.
func (c *Client) noAnswer(began time.Time, err error) error {
	return &NoAnswerError{Err: err, alone: c.Contact().Served.After(began)}
}

// report passes a finished exchange to OnExchange.
func (c *Client) report(r *request, began time.Time, code int, err error) {
	if c.onExchange == nil {
		return
	}
	c.onExchange(Exchange{Host: c.base.Host, Method: r.method, Resource: r.resource, Code: code,
		Conflict: IsConflict(err), Retried: r.answered, Took: time.Since(began)})
	r.answered = code
}

// send is the one funnel to net/http. The result is an answer with a 2xx code, whose body the caller closes, or an
// error: a Status for any other code, a NoAnswerError without an answer. After a 401 the token is dropped and the
// request is tried once more with a fresh token.
func (c *Client) send(ctx context.Context, r *request) (*http.Response, error) {
	if err := errors.Join(c.covered(r), c.dryOnly(r)); err != nil {
		return nil, err
	}
	if c.dry != nil && r.query.Get("watch") != "" {
		return nil, c.tryStream(ctx, r)
	}
	var writes *Writes
	if r.write() {
		writes = WritesOf(ctx)
		writes.count()
	}
	sent := time.Now()
	resp, err := c.sendOnce(ctx, r)
	if IsUnauthorized(err) && c.credentials != nil {
		resp, err = c.sendOnce(ctx, r)
	}
	writes.answered(r, sent, resp, err)
	return resp, err
}

func (c *Client) sendOnce(ctx context.Context, r *request) (*http.Response, error) {
	began := time.Now()
	var sent atomic.Bool
	// After the headers are out, the server may have acted; before, the server cannot.
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	w := c.contact.begin(r)
	req, err := c.newRequest(httptrace.WithClientTrace(ctx, trace), r)
	if err != nil {
		c.contact.fail(w, err)
		return nil, err
	}
	if err := c.guarded(r); err != nil {
		c.contact.drop(w)
		return nil, err
	}
	c.contact.sending(w)
	send := c.sendOwn
	if r.long {
		send = c.sendStream
	}
	resp, err := send(req, sent.Load)
	if err != nil {
		c.report(r, began, 0, err)
		err = c.noAnswer(began, readError(ctx, stripURL(err)))
		c.contact.fail(w, err)
		if r.write() && sent.Load() {
			return nil, &unknownOutcome{err}
		}
		return nil, err
	}
	c.warnings.read(resp.Header)
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		c.contact.answer(w, serves(r))
		c.report(r, began, resp.StatusCode, nil)
		return resp, nil
	}
	status := readStatus(resp)
	status.fields = fieldErrors(status, r.body)
	switch {
	case outage(status):
		c.contact.fail(w, status)
	case refusal(status):
		c.contact.refuse(w, status.Code)
	default:
		c.contact.answer(w, serves(r))
	}
	c.report(r, began, resp.StatusCode, status)
	drain(resp.Body)
	if resp.StatusCode == http.StatusUnauthorized {
		status.credential = c.credential
		if c.credentials != nil {
			c.credentials.Invalidate(began)
		}
	}
	return nil, status
}

// sendOwn sends a request over HTTP/1.1, on a connection of its own until the answer is read. HTTP/1.1 takes less CPU
// of both sides than HTTP/2: a write is one TLS record instead of two, and the goroutine of the caller reads a long
// answer, where HTTP/2 has another goroutine read frames of 16 KiB and answer with window updates
// (BenchmarkListOverTLS, BenchmarkCreateOverTLS). A server with HTTP/2 only refuses the handshake; sent reports
// whether there was a handshake.
func (c *Client) sendOwn(req *http.Request, sent func() bool) (*http.Response, error) {
	if c.onlyHTTP2.Load() {
		return c.shared.send(req)
	}
	resp, err := c.own.send(req)
	var op *net.OpError
	if err == nil || sent() || !errors.As(err, &op) || op.Op != "remote error" { // a TLS alert
		return resp, err
	}
	again := req.Clone(req.Context())
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	resp, err = c.shared.send(again)
	if err == nil {
		c.onlyHTTP2.Store(true)
	}
	return resp, err
}

// sendStream sends a list or a watch, over a connection of its own up to maxOwn. Those beyond share HTTP/2.
func (c *Client) sendStream(req *http.Request, sent func() bool) (*http.Response, error) {
	select {
	case c.open <- struct{}{}:
	default:
		return c.shared.send(req)
	}
	resp, err := c.sendOwn(req, sent)
	if err != nil {
		<-c.open
		return nil, err
	}
	resp.Body = &ownBody{resp.Body, sync.OnceFunc(func() { <-c.open })}
	return resp, nil
}

// guarded fails for a write refused by a guard.
func (c *Client) guarded(r *request) error {
	for _, ok := range c.guards {
		if err := ok(); err != nil && r.write() {
			return &NoAnswerError{Err: fmt.Errorf("not sent: %w", err)}
		}
	}
	return nil
}

// covered fails for a request outside of the limits.
func (c *Client) covered(r *request) error {
	for _, granted := range c.granted {
		want := grant{r.resource.Group, r.resource.Plural, r.subresource, r.rbacVerb()}
		if !granted[want] {
			return fmt.Errorf("%w: add %s on %s to the controller's Rights", ErrNotDeclared, want.verb,
				Right{Resource: r.resource, Subresource: r.subresource})
		}
	}
	return nil
}

// tryStream replaces a watch of a dry client: a streaming list is refused, as by a server without streaming lists, and
// a watch waits for the end of ctx.
func (c *Client) tryStream(ctx context.Context, r *request) error {
	if r.query.Get("sendInitialEvents") != "" {
		no := &Status{Status: "Failure", Code: http.StatusBadRequest, Message: "a dry run lists in pages"}
		return no.withReason()
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// dryOnly fails for a request of a dry client with an effect.
func (c *Client) dryOnly(r *request) error {
	if c.dry != nil && r.write() && r.query.Get("dryRun") != dryRunAll {
		return errors.New("not sent: it is no dry run")
	}
	return nil
}

func (c *Client) newRequest(ctx context.Context, r *request) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body) // net/http makes ContentLength and GetBody of it
	}
	req, err := http.NewRequestWithContext(ctx, r.method, "", body)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	*req.URL = c.base
	req.Host = c.base.Host
	req.URL.Path += r.path
	req.URL.RawQuery = r.query.Encode()
	req.Header = make(http.Header, len(c.header)+4)
	maps.Copy(req.Header, c.header) // which is never changed, nor are the values
	req.Header["Accept"] = acceptJSON
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.long {
		// Set explicitly: a server may compress a watch (v1.37 does by default), and a proxy may change the default.
		req.Header.Set("Accept-Encoding", "identity")
	}
	if c.credentials != nil {
		authorization, err := c.credentials.Authorization(ctx)
		if err != nil {
			return nil, &NoAnswerError{Err: &CredentialError{err}}
		}
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
	}
	return req, nil
}

// protoPlan makes r ask for protobuf if the objects can be decoded, and returns the plan.
func (c *Client) protoPlan(r *request, planOf func(Resource) *protoStruct) *protoStruct {
	if c.onlyJSON {
		return nil
	}
	plan := planOf(r.resource)
	if plan != nil {
		r.accept = protobufType + ", application/json"
	}
	return plan
}

var acceptJSON = []string{"application/json"}

// stripURL removes the *url.Error from err: our own wrapping names the call, and a query holds nothing useful.
func stripURL(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

// readError prefers the cause of an ended context to the error of net/http.
func readError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
