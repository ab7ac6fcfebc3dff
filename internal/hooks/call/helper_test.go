package call_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
)

// childVariable has this test's binary act as a hook in lines mode.
const childVariable = "SKIFF_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		fmt.Print(line)
	}
}

var controller = &spec.Controller{Kind: spec.Composite, Name: "web"}

// logs has the lines of a log.
type logs struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (l *logs) add(_, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *logs) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}

// newCaller returns a Caller of the sync hook, and its log.
func newCaller(t testing.TB, h *spec.Hook, change ...func(o *call.Options)) (*call.Caller, *logs) {
	t.Helper()
	l := &logs{}
	o := call.Options{Log: funcr.New(l.add, funcr.Options{})}
	for _, f := range change {
		f(&o)
	}
	c, err := call.New(controller, wire.Sync, h, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, l
}

// serve returns a server on loopback, and a hook with its URL.
func serve(t testing.TB, handler http.HandlerFunc) (*httptest.Server, *spec.Hook) {
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s, &spec.Hook{Version: 1, Webhook: &spec.Webhook{URL: s.URL + "/sync?key=hidden-in-the-query"}}
}

// shell returns a hook that is a shell script.
func shell(t testing.TB, mode spec.Mode, script string) *spec.Hook {
	path := filepath.Join(t.TempDir(), "hook.sh")
	if err := os.WriteFile(path, []byte(script+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &spec.Hook{Version: 1, Exec: &spec.Exec{Command: []string{"sh", path}, Mode: mode, Dir: filepath.Dir(path)}}
}

// echo is a hook in lines mode that answers with the request.
func echo() *spec.Hook {
	return &spec.Hook{Exec: &spec.Exec{Command: []string{os.Args[0]}, Mode: spec.Lines,
		Env: map[string]string{childVariable: "1"}}}
}

// ask calls a hook that has to answer.
func ask(t testing.TB, c *call.Caller, body string) call.Reply {
	t.Helper()
	reply, err := c.Call(t.Context(), call.Call{ParentUID: "u1", Body: []byte(body)})
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	return reply
}

// refused calls a hook that must fail, with an error that has all of these parts.
func refused(t testing.TB, c *call.Caller, want ...string) error {
	t.Helper()
	reply, err := c.Call(t.Context(), call.Call{ParentUID: "u1", Body: []byte(`{}`)})
	if err == nil {
		t.Fatalf("the hook answered %q", reply.Body)
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v\nwants %s", err, part)
		}
	}
	if len(err.Error()) > 700 {
		t.Errorf("an error of %d bytes: %v", len(err.Error()), err)
	}
	return err
}

// pipe is a listener whose connections are pipes, for tests in virtual time.
type pipe struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func (p pipe) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipe) Close() error   { p.close(); return nil }
func (p pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// servePipe runs a server in virtual time and returns what dials it.
func servePipe(t *testing.T, handler http.HandlerFunc) (*spec.Hook, func(o *call.Options)) {
	p := pipe{conns: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	s := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(p) // ends with Close
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	hook := &spec.Hook{Version: 1, Webhook: &spec.Webhook{URL: "http://hook.test/sync"}}
	return hook, func(o *call.Options) {
		o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			select {
			case p.conns <- theirs:
				return ours, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}
