package call_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
)

// Rules: HK-30, HK-105
func TestAWebhookGetsAPostWithItsLengthAndTheCause(t *testing.T) {
	var got *http.Request
	var body []byte
	_, hook := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Skiff-Hook-Version", "v7")
		_, _ = io.WriteString(w, `{"status":{}}`)
	})
	c, _ := newCaller(t, hook)
	cause := "Pod shop/wéb\n" + strings.Repeat("x", 600)
	reply, err := c.Call(t.Context(), call.Call{Cause: cause, Attempt: 3, Body: []byte(`{"a":1}`)})
	if err != nil || string(reply.Body) != `{"status":{}}` || reply.Version != "v7" {
		t.Fatalf("%q, version %q, %v", reply.Body, reply.Version, err)
	}
	if got.Method != "POST" || got.ContentLength != 7 || got.TransferEncoding != nil || string(body) != `{"a":1}` ||
		got.Header.Get("Content-Type") != "application/json" || got.URL.Path != "/sync" {
		t.Errorf("got %s %s of %d bytes, %v, %q", got.Method, got.URL, got.ContentLength, got.TransferEncoding, body)
	}
	sent := got.Header.Get("Skiff-Cause")
	if !strings.HasPrefix(sent, `Pod shop/w\u00e9b\u000axxx`) || len(sent) != 512 {
		t.Errorf("cause %q of %d bytes", sent, len(sent))
	}
	if got.Header.Get("Skiff-Attempt") != "3" || got.Header["Idempotency-Key"] != nil {
		t.Errorf("header %v", got.Header)
	}
	ask(t, c, `{}`)
	if got.Header["Skiff-Cause"] != nil || got.Header["Skiff-Attempt"] != nil {
		t.Errorf("header of a call without a cause: %v", got.Header)
	}
}

// Rules: PL-16
func TestAWebhookIsToldThatItIsADryRun(t *testing.T) {
	for _, dry := range []bool{false, true} {
		said := []string{"none"}
		_, hook := serve(t, func(w http.ResponseWriter, r *http.Request) {
			said = r.Header["Skiff-Dry-Run"]
			_, _ = io.WriteString(w, `{}`)
		})
		c, err := call.New(&spec.Controller{Name: "c"}, wire.Sync, hook, call.Options{DryRun: dry})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ask(t, c, `{}`)
		if dry != (len(said) == 1 && said[0] == "true") || !dry && said != nil {
			t.Errorf("dry run %t: header %v", dry, said)
		}
	}
}

// Rules: HK-41
func TestOnlyStatus200Counts(t *testing.T) {
	status := 0
	server, hook := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://169.254.169.254/latest/meta-data")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "it is\nbroken, token=s3cr3t "+strings.Repeat("x", 1<<20))
	})
	c, _ := newCaller(t, hook)
	for _, status = range []int{201, 202, 301, 302, 307, 308, 400, 401, 404, 409, 412, 500, 503} {
		err := refused(t, c, fmt.Sprintf("hook sync at %s/sync: status %d %s", server.URL, status,
			http.StatusText(status)), ": it is broken, token=[redacted] xxx")
		if strings.Contains(err.Error(), "hidden-in-the-query") || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("the error has a secret: %v", err)
		}
		if call.IsUnavailable(err) != (status >= 500) {
			t.Errorf("status %d: unavailable is %v", status, call.IsUnavailable(err))
		}
	}
	for _, status = range []int{204, 304} {
		refused(t, c, fmt.Sprintf("status %d", status))
	}
	status = 302
	refused(t, c, "and redirects are not followed")
}

// Rules: HK-42
func TestAHookThatIsOverloadedIsCalledLater(t *testing.T) {
	after := ""
	_, hook := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(http.StatusTooManyRequests)
	})
	c, _ := newCaller(t, hook)
	var want time.Duration
	for after, want = range map[string]time.Duration{"": time.Second, "soon": time.Second, "-4": time.Second,
		"7": 7 * time.Second, "99999": time.Hour, "Mon, 02 Jan 2006 15:04:05 GMT": time.Second,
		time.Now().Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute} {
		_, err := c.Call(t.Context(), call.Call{Body: []byte(`{}`)})
		var later *call.Later
		if !errors.As(err, &later) || later.After > want || later.After < want-5*time.Second || later.After <= 0 {
			t.Errorf("Retry-After %q: %v, want %s", after, err, want)
		}
	}
}

// Rules: HK-106
func TestAnAnswerThatIsTooLongIsNotReadToItsEnd(t *testing.T) {
	var zipped atomic.Bool
	ended := make(chan struct{}, 2)
	_, hook := serve(t, func(w http.ResponseWriter, r *http.Request) {
		out := io.Writer(w)
		if zipped.Load() {
			w.Header().Set("Content-Encoding", "gzip")
			out = gzip.NewWriter(w)
		}
		for {
			if _, err := out.Write(make([]byte, 64<<10)); err != nil {
				ended <- struct{}{}
				return
			}
		}
	})
	c, _ := newCaller(t, hook, func(o *call.Options) { o.MaxAnswer = 1 << 20 })
	for _, z := range []bool{false, true} {
		zipped.Store(z)
		refused(t, c, "the answer has more than 1 MiB", "--max-answer")
		<-ended
	}
}

// Rules: HK-106
func TestAnAnswerMayBeGzip(t *testing.T) {
	_, hook := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			t.Error("the request does not accept gzip")
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, `{"status":{"a":"b"}}`)
		_ = z.Close()
	})
	c, _ := newCaller(t, hook, func(o *call.Options) { o.MaxAnswer = len(`{"status":{"a":"b"}}`) })
	if got := ask(t, c, `{}`); string(got.Body) != `{"status":{"a":"b"}}` {
		t.Errorf("got %q", got.Body)
	}
}

// Rules: HK-41
func TestAWebhookThatIsNotThereOrHangsIsUnavailable(t *testing.T) {
	server, hook := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	server.Close()
	c, _ := newCaller(t, hook)
	if err := refused(t, c, "CompositeController web: hook sync at "+server.URL+"/sync: ", "connection refused",
		"; start it, or correct the url"); !call.IsUnavailable(err) {
		t.Errorf("%v is no outage", err)
	}
	synctest.Test(t, func(t *testing.T) {
		hook, dial := servePipe(t, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		hook.Timeout = 3 * time.Second
		c, _ := newCaller(t, hook, dial)
		before := time.Now()
		err := refused(t, c, "hook sync at http://hook.test/sync: no answer within 3s (answer sooner, or raise "+
			"hooks.sync.webhook.timeout)")
		if brief := call.Brief(err); brief != "no answer" {
			t.Errorf("in brief it is %q", brief)
		}
		if took := time.Since(before); took != 3*time.Second || !call.IsUnavailable(err) {
			t.Errorf("after %s: %v", took, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.Call(ctx, call.Call{Body: []byte(`{}`)})
		if !errors.Is(err, context.Canceled) || call.IsUnavailable(err) {
			t.Errorf("cancelled: %v", err)
		}
		c.Close()
		synctest.Wait()
	})
}

// Package net/http does not close the connection of a 101 at the end of the request's context.
func TestAWebhookThatSwitchesProtocolsHoldsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook, dial := servePipe(t, func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn,
				"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn) // until the caller closes it
		})
		hook.Timeout = 3 * time.Second
		c, _ := newCaller(t, hook, dial)
		before := time.Now()
		err := refused(t, c, "hook sync at http://hook.test/sync: the answer is status 101, Switching Protocols")
		if took := time.Since(before); took > 0 || !call.IsUnavailable(err) {
			t.Errorf("after %s: %v", took, err)
		}
		c.Close()
		synctest.Wait()
	})
}

// deaf is a connection whose reads and writes end at its deadlines alone, not when it is closed.
type deaf struct{ net.Conn }

func (deaf) Close() error { return nil }

// The end of a call does not depend on that a connection can be closed.
func TestAConnectionOfACallHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook, dial := servePipe(t, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		hook.Timeout = 3 * time.Second
		var conns []net.Conn
		c, _ := newCaller(t, hook, dial, func(o *call.Options) {
			open := o.Dial
			o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := open(ctx, network, address)
				conns = append(conns, conn)
				return deaf{conn}, err
			}
		})
		refused(t, c, "no answer within 3s")
		time.Sleep(2 * time.Second) // virtual
		for _, conn := range conns {
			read := make(chan error)
			go func() { _, err := conn.Read(make([]byte, 1)); read <- err }()
			select {
			case err := <-read:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the connection ended with %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("the connection has no deadline")
			}
			_ = conn.Close()
		}
		c.Close()
	})
}

// Rules: HK-107
func TestACallIsRepeatedOnceWhereAKeptConnectionWasClosed(t *testing.T) {
	var requests atomic.Int64
	_, hook := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch requests.Add(1) {
		case 2, 4, 5:
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_ = conn.Close()
			}
			return
		}
		_, _ = io.Copy(w, r.Body)
	})
	c, _ := newCaller(t, hook)
	ask(t, c, `{"n":1}`)
	if got := ask(t, c, `{"n":2}`); string(got.Body) != `{"n":2}` || requests.Load() != 3 {
		t.Errorf("got %q after %d requests", got.Body, requests.Load())
	}
	refused(t, c, "EOF") // on the kept connection, and on a new one
	if requests.Load() != 5 {
		t.Errorf("%d requests", requests.Load())
	}
}

// The error stands in a status, which each of two processes would replace with its own.
//
// Rules: HK-107
func TestAnErrorOfAConnectionDoesNotNameItsOwnPort(t *testing.T) {
	for name, begin := range map[string]string{"before the answer": "",
		"amid an answer": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
		"amid a refusal": "HTTP/1.1 400 Bad Request\r\nContent-Length: 100\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			_, hook := serve(t, func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn, begin)
				if tcp, ok := conn.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0) // a reset, and not the end
				}
				_ = conn.Close()
			})
			c, _ := newCaller(t, hook)
			first := refused(t, c, "connection reset by peer")
			if again := refused(t, c); again.Error() != first.Error() {
				t.Errorf("%v\nbecomes, with another connection, %v", first, again)
			}
		})
	}
	_, hook := serve(t, nil)
	c, _ := newCaller(t, hook, func(o *call.Options) {
		o.Dial = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
				Name: "hook.test", Server: "10.0.0.10:53",
				Err: "read udp 10.0.0.1:33333->10.0.0.10:53: i/o timeout", IsTimeout: true}}
		}
	})
	if err := refused(t, c, "lookup hook.test on 10.0.0.10:53: i/o timeout"); strings.Contains(err.Error(), "33333") {
		t.Error(err)
	}
}

// Rules: HK-107
func TestNoConnectionIsOpenedThatStaysSilent(t *testing.T) {
	var mu sync.Mutex
	state := map[net.Conn]http.ConnState{}
	silent := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{}`)
	}))
	server.Config.ConnState = func(conn net.Conn, now http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if now == http.StateClosed && state[conn] == http.StateNew {
			silent++
		}
		state[conn] = now
	}
	server.Start()
	defer server.Close()
	c, _ := newCaller(t, &spec.Hook{Webhook: &spec.Webhook{URL: server.URL}})
	defer c.Close()
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 100 {
				if _, err := c.Call(t.Context(), call.Call{Body: []byte(`{}`)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	calls.Wait()
	mu.Lock()
	for _, s := range state {
		if s == http.StateNew {
			silent++
		}
	}
	if silent > 0 || len(state) > 8 {
		t.Errorf("%d of %d connections had no request", silent, len(state))
	}
	mu.Unlock()
}

// Rules: HK-05
func TestAURLThatIsNoneIsRefused(t *testing.T) {
	for _, url := range []string{"", "hook", "ftp://host/", "http://", "http://me:hunter2@host:port/", "http://a b/"} {
		hook := &spec.Hook{Webhook: &spec.Webhook{URL: url}}
		_, err := call.New(controller, "sync", hook, call.Options{})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Rules: HK-40
func TestAnAnswerWithAnETagStandsForTheSameOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		answer := http.StatusNotModified
		hook, dial := servePipe(t, func(w http.ResponseWriter, r *http.Request) {
			tag := r.Header.Get("If-None-Match")
			if sent = append(sent, tag); tag != "" {
				w.WriteHeader(answer)
				return
			}
			w.Header().Set("ETag", `"e`+fmt.Sprint(len(sent))+`"`)
			_, _ = fmt.Fprintf(w, `{"n":%d}`, len(sent))
		})
		hook.Webhook.ETag = &spec.ETag{Timeout: time.Minute}
		c, _ := newCaller(t, hook, dial)
		of := func(uid string) string {
			reply, err := c.Call(t.Context(), call.Call{ParentUID: uid, Body: []byte(`{}`)})
			if err != nil {
				t.Fatal(err)
			}
			return string(reply.Body)
		}
		got := []string{of("a"), of("b"), of("a")}
		answer = http.StatusPreconditionFailed
		got = append(got, of("b"))
		time.Sleep(time.Minute + time.Second) // virtual
		got = append(got, of("a"))
		if want := `[{"n":1} {"n":2} {"n":1} {"n":2} {"n":5}]`; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
		if want := `["" "" "\"e1\"" "\"e2\"" ""]`; fmt.Sprintf("%q", sent) != want {
			t.Errorf("sent %q, want %s", sent, want)
		}
		c.Close()
		synctest.Wait()
	})
}

// Rules: HK-40
func TestTheMemoryOfStoredAnswersIsBounded(t *testing.T) {
	asked := 0
	_, hook := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		asked++
		w.Header().Set("ETag", `"x"`)
		_, _ = w.Write(make([]byte, 8<<20))
	})
	hook.Webhook.ETag = &spec.ETag{}
	c, _ := newCaller(t, hook)
	for range 2 {
		for i := range 5 { // of which three fit
			if _, err := c.Call(t.Context(), call.Call{ParentUID: fmt.Sprint(i), Body: []byte(`{}`)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if asked != 10 {
		t.Errorf("%d whole answers", asked)
	}
	for _, next := range []struct {
		uid   string
		whole int
	}{{"2", 10}, {"5", 11}, {"2", 11}, {"3", 12}} { // 2, 3 and 4 are stored; 3 goes for 5, because 2 was just used
		_, err := c.Call(t.Context(), call.Call{ParentUID: next.uid, Body: []byte(`{}`)})
		if err != nil || asked != next.whole {
			t.Errorf("%s: %d whole answers, want %d, %v", next.uid, asked, next.whole, err)
		}
	}
}
