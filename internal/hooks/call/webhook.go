package call

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/kube"
)

const (
	// maxRefusal is how much is read of an answer with another status than 200.
	maxRefusal = 4 << 10
	// maxIdleTime is how long a connection waits for the next call: usual servers and proxies wait longer.
	maxIdleTime = 30 * time.Second
	// dialTimeout bounds how long an address may be silent; the timeout of the hook may end the wait before.
	dialTimeout = 10 * time.Second
	// rereadAfter is how long refused credentials are not read again: a hook that refuses all of them must not have a
	// Secret read for each call.
	rereadAfter = time.Second
)

// webhook is a hook behind an HTTP endpoint.
type webhook struct {
	url    *url.URL // without user and password
	shown  string   // the URL in errors: its query may be a secret
	user   *url.Userinfo
	access spec.Access
	read   func(context.Context, spec.Reference) ([]byte, error)
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	max    int
	etags  *etags // nil: off
	dryRun bool

	mu       sync.Mutex   // guards the rest; held while credentials are read
	secrets  *credentials // nil: to be read
	readTime time.Time
	idle     []*lane // not in use, the last used at the end

	calls sync.WaitGroup
}

// newWebhook returns the endpoint of a webhook; at, if not nil, replaces the address.
func newWebhook(w *spec.Webhook, o Options, at *url.URL) (*webhook, error) {
	u, err := url.Parse(w.URL)
	if err != nil {
		return nil, errors.New("webhook.url: it cannot be read as a URL") // err quotes it, with the password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("webhook.url: %s: want http://HOST/PATH or https://HOST/PATH", u.Redacted())
	}
	if at != nil {
		u.Scheme, u.Host, u.User = at.Scheme, at.Host, nil
		u.Path, u.RawPath = strings.TrimSuffix(at.Path, "/")+u.Path, ""
	}
	h := &webhook{url: u, user: u.User, access: w.Access, read: o.Credential, dial: o.Dial, max: o.MaxAnswer,
		dryRun: o.DryRun}
	u.User, u.Fragment = nil, ""
	shown := *u
	shown.RawQuery = ""
	h.shown = shown.String()
	if h.dial == nil {
		h.dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	if w.ETag != nil {
		h.etags = newETags(w.ETag.Timeout)
	}
	return h, nil
}

// call asks the endpoint, and again where refused credentials have changed, and once where the connection was reset: a
// hook may be called any number of times for a state.
func (w *webhook) call(ctx context.Context, c Call) (Reply, error) {
	w.calls.Add(1)
	defer w.calls.Done()
	room := RoomOf(ctx)
	for wasReset := false; ; {
		secrets, err := w.credentials(ctx)
		if err != nil {
			return Reply{}, err
		}
		taken := room.Taken()
		var sent atomic.Bool // the whole request
		tracing := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteRequest: func(info httptrace.WroteRequestInfo) { sent.Store(info.Err == nil) }})
		reply, err := w.ask(tracing, c, secrets)
		reset := isReset(err, sent.Load())
		switch {
		case err == nil:
			return reply, nil
		case reset && wasReset:
			return reply, fmt.Errorf("%w, twice; an endpoint that answers before it has read the whole request "+
				"causes this: have it read the body to its end first", err)
		case reset && ctx.Err() == nil:
			wasReset = true
			room.Give(room.Taken() - taken)
		case !refusesCredentials(err) || !w.reread(ctx, secrets):
			return reply, err
		}
	}
}

// isReset says whether the endpoint has closed the connection with bytes of the request unread. The kernel then drops
// the received part of the answer, so that large requests fail now and then. The kernel reports a reset once, to a
// read or to a write. If a write got the report, reads find the end of the connection, with the request not sent
// whole, or net.ErrClosed once net/http has closed the connection.
func isReset(err error, sent bool) bool {
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) ||
		ended && !sent
}

// statusError is an answer with a status that skiff does not accept.
type statusError struct {
	code int
	text string
}

// Error names the status and shows the beginning of the body.
func (e *statusError) Error() string {
	text := fmt.Sprintf("status %d %s", e.code, http.StatusText(e.code))
	if e.code >= 300 && e.code < 400 && e.code != http.StatusNotModified {
		text += ", and redirects are not followed"
	}
	if e.text != "" {
		text += ": " + e.text
	}
	return text
}

// refusesCredentials says whether other credentials may help.
func refusesCredentials(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return status.code == http.StatusUnauthorized || status.code == http.StatusForbidden
	}
	return isTLS(err)
}

// isTLS says whether a side did not accept the certificate of the peer.
func isTLS(err error) bool {
	var verify *tls.CertificateVerificationError
	var op *net.OpError
	return errors.As(err, &verify) || errors.As(err, &op) && op.Op == "remote error"
}

// ask makes a single request. Package net/http replaces, once, a kept connection that the endpoint has closed before
// any byte of the answer.
func (w *webhook) ask(ctx context.Context, c Call, secrets *credentials) (Reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url.String(), bytes.NewReader(c.Body))
	if err != nil {
		return Reply{}, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "skiff")
	req.Header["Idempotency-Key"] = nil // not sent: lets net/http send the request again
	if c.Cause != "" {
		req.Header.Set("Skiff-Cause", c.Cause)
	}
	if w.dryRun {
		req.Header.Set("Skiff-Dry-Run", "true")
	}
	if c.Attempt > 0 {
		req.Header.Set("Skiff-Attempt", strconv.Itoa(c.Attempt))
	}
	w.authorize(req, secrets)
	stored := w.etags.get(c.ParentUID)
	if stored != nil {
		req.Header.Set("If-None-Match", stored.tag)
	}
	lane := w.take(secrets)
	lane.limit(ctx)
	resp, err := lane.RoundTrip(req)
	if err == nil {
		err = kube.RefuseSwitch(resp)
	}
	if err != nil {
		lane.drop()
		return Reply{}, unavailable{cleanDial(err)}
	}
	reply, reusable, err := w.receive(ctx, resp, c, stored)
	if reusable {
		w.giveBack(lane, secrets)
	} else {
		lane.drop()
	}
	return reply, err
}

// cleanDial explains the error of an endpoint without TLS.
func cleanDial(err error) error {
	var header tls.RecordHeaderError
	if errors.As(err, &header) {
		return errors.New("the endpoint does not speak TLS: use http:// in the URL")
	}
	return portless(err)
}

// portless is an error of package net without the port of this process: each connection has another, and the text
// stands in a status, which two processes would replace for ever.
func portless(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) {
		return err
	}
	far := *op
	far.Source = nil
	if dns := new(net.DNSError); errors.As(op.Err, &dns) && dns.IsTimeout { // the text has our port, too
		late := *dns
		late.Err = "i/o timeout"
		far.Err = &late
	}
	return &far
}

// receive reads an answer. reusable says whether another request can follow on the connection.
func (w *webhook) receive(ctx context.Context, resp *http.Response, c Call, stored *etagEntry) (reply Reply,
	reusable bool, err error) {
	defer func() {
		if closing := resp.Body.Close(); err == nil && closing != nil {
			err = unavailable{fmt.Errorf("read answer: %w", closing)}
		}
	}()
	reply.Version = kube.Printable(resp.Header.Get("Skiff-Hook-Version"), maxSaid)
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		reply.Body, err = w.body(ctx, resp)
		if err == nil {
			w.etags.put(c.ParentUID, resp.Header.Get("ETag"), reply.Body)
		}
		return reply, err == nil, err
	case stored != nil && (code == http.StatusNotModified || code == http.StatusPreconditionFailed):
		_, reusable, _ = w.refusal(resp.Body)
		reply.Body = stored.body
		return reply, reusable, nil
	case code == http.StatusTooManyRequests:
		_, reusable, _ = w.refusal(resp.Body)
		return reply, reusable, later(retryAfter(resp.Header.Get("Retry-After")))
	default:
		text, reusable, cutOff := w.refusal(resp.Body)
		if cutOff != nil && text == "" {
			text = portless(cutOff).Error()
		}
		err = &statusError{code, text}
		if code >= 500 {
			err = unavailable{err}
		}
		return reply, reusable, err
	}
}

// body reads an answer of status 200, inflated by net/http where it came as gzip.
func (w *webhook) body(ctx context.Context, resp *http.Response) ([]byte, error) {
	var body bytes.Buffer
	n, err := body.ReadFrom(io.LimitReader(resp.Body, smallAnswer))
	if err == nil && n == smallAnswer {
		length := w.max // unless Content-Length is set
		if resp.ContentLength > 0 {
			length = int(min(resp.ContentLength, int64(w.max)))
		}
		if err = RoomOf(ctx).Take(int64(length)); err != nil {
			return nil, err
		}
		body.Grow(length - smallAnswer + bytes.MinRead) // at once: growing keeps the old buffer beside the new
		_, err = body.ReadFrom(io.LimitReader(resp.Body, int64(w.max)+1-n))
	}
	switch {
	case err != nil:
		return nil, unavailable{fmt.Errorf("read answer: %w", portless(err))}
	case body.Len() > w.max:
		return nil, tooLong(w.max)
	}
	return body.Bytes(), nil
}

// tooLong is the error of an answer beyond the limit.
func tooLong(limit int) error {
	return fmt.Errorf("the answer has more than %s: make it smaller, or raise --max-answer", size(limit))
}

func size(n int) string {
	if n%(1<<20) == 0 {
		return strconv.Itoa(n>>20) + " MiB"
	}
	return strconv.Itoa(n) + " bytes"
}

// refusal reads the beginning of the body of an answer without status 200; reusable says whether nothing is left.
func (w *webhook) refusal(from io.Reader) (text string, reusable bool, err error) {
	body, err := io.ReadAll(io.LimitReader(from, maxRefusal+1))
	return excerpt(string(body), w.known()), err == nil && len(body) <= maxRefusal, err
}

// retryAfter returns the seconds of a Retry-After header; 0: none.
func retryAfter(value string) float64 {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return float64(seconds)
	}
	if at, err := http.ParseTime(value); err == nil {
		return time.Until(at).Seconds()
	}
	return 0
}

// authorize sets who we are.
func (w *webhook) authorize(req *http.Request, secrets *credentials) {
	switch {
	case secrets.header != "":
		req.Header.Set("Authorization", secrets.header)
	case w.user != nil:
		password, _ := w.user.Password()
		req.SetBasicAuth(w.user.Username(), password)
	}
}

func (w *webhook) version() string { return "" }

func (w *webhook) explain(err error) error { return err }

// close waits for the calls, and closes the connections.
func (w *webhook) close() {
	w.calls.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, lane := range w.idle {
		lane.drop()
	}
	w.idle = nil
}
