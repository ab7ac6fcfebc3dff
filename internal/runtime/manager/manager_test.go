package manager

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func expectText(t *testing.T, what, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("%s: no %q in %q", what, part, got)
		}
	}
}

// pipeListener is a net.Listener of net.Pipe connections, for real HTTP in virtual time.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// prober asks a manager's probes as a kubelet does: a connection for each.
type prober struct {
	t      *testing.T
	client *http.Client
}

func newProber(t *testing.T, l *pipeListener) prober {
	return prober{t, &http.Client{Transport: &http.Transport{DialContext: l.dial, DisableKeepAlives: true}}}
}

// get returns the code and the body, or code 0 if nothing listens.
func (p prober) get(path string) (int, string) {
	p.t.Helper()
	resp, err := p.client.Get("http://localhost" + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatalf("read %s: %v", path, err)
	}
	return resp.StatusCode, string(body)
}

type configMap struct {
	kube.Meta `json:"metadata"`
	Data      map[string]string `json:"data"`
}

var (
	configMaps = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	webServers = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
)

func nothing(context.Context, kube.Key) (controller.Outcome, error) { return controller.Done, nil }

// downController returns a controller whose server cannot be reached.
func downController(t *testing.T, name string) *controller.Controller {
	t.Helper()
	client, err := kube.New(kube.Config{
		Server: "http://down.test",
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("connection refused")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	store := cache.New[*configMap](cache.Options{Resource: configMaps, Client: client})
	return controller.New(name, nothing, controller.Options{}, controller.For(store))
}

// run starts a manager on a pipe and returns its prober and how to stop it.
func run(t *testing.T, o Options) (p prober, stop func() error) {
	t.Helper()
	all := runAll(t, o)
	return all.health, all.stop
}

// servers are the probers of all servers of a manager, and how to stop it.
type servers struct {
	health, metrics, debug, page prober
	stop                         func() error
}

// runAll starts a manager with all its servers on pipes.
func runAll(t *testing.T, o Options) servers {
	t.Helper()
	pipes := map[string]*pipeListener{"health": newPipeListener(), "metrics": newPipeListener(),
		"debug": newPipeListener(), "page": newPipeListener()}
	o.HealthAddr, o.MetricsAddr, o.DebugAddr = "health", "metrics", "debug"
	m := New(o)
	m.listen = func(_, address string) (net.Listener, error) { return pipes[address], nil }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	synctest.Wait()
	return servers{newProber(t, pipes["health"]), newProber(t, pipes["metrics"]), newProber(t, pipes["debug"]),
		newProber(t, pipes["page"]), func() error {
			cancel()
			return <-ended
		}}
}

func TestAProbeThatNeverEndsItsHeaderIsHungUpOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeListener()
		m := New(Options{HealthAddr: "pipe"})
		m.listen = func(string, string) (net.Listener, error) { return l, nil }
		p, err := m.open(served{what: "probes", address: "pipe", handler: m.probes()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		c, err := l.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		began := time.Now()
		var dripping sync.WaitGroup
		dripping.Go(func() {
			_, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\n")
			for i := 0; err == nil && i < 100; i++ {
				time.Sleep(time.Second)
				_, err = io.WriteString(c, "X: y\r\n")
			}
			c.Close()
		})
		_, err = io.Copy(io.Discard, c)
		if took := time.Since(began); took > serverTimeout+time.Second {
			t.Errorf("hung up on after %s: %v", took, err)
		}
		dripping.Wait()
	})
}

func TestALineOfTheHTTPServerItselfGoesToTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines := newPipeListener(), make(chan string, 1)
		m := New(Options{Log: funcr.New(func(_, args string) {
			if strings.Contains(args, "superfluous") {
				lines <- args
			}
		}, funcr.Options{Verbosity: 1})})
		m.listen = func(string, string) (net.Listener, error) { return l, nil }
		twice := func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.WriteHeader(http.StatusOK)
		}
		p, err := m.open(served{what: Probes, address: "pipe", handler: http.HandlerFunc(twice)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		newProber(t, l).get("/healthz")
		synctest.Wait()
		select {
		case line := <-lines:
			expectText(t, "the line", line, `"HTTP server"`, `"problem"="http: superfluous response.WriteHeader call`)
		default:
			t.Error("the line is not in the log")
		}
		p.close()
	})
}

// Rules: MGR-06, MGR-07
func TestAServerThatIsDownForTenMinutesIsNotReadyButAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := run(t, Options{Controllers: []*controller.Controller{
			downController(t, "maps"),
			controller.New("idle", nothing, controller.Options{}),
		}})
		for range 10 {
			time.Sleep(time.Minute)
			code, body := p.get("/healthz")
			expect(t, "/healthz", code, 200)
			expect(t, "/healthz", body, "ok")
			code, body = p.get("/readyz")
			expect(t, "/readyz", code, 503)
			expectText(t, "/readyz", body, "[-]maps failed: the API server cannot be reached; configmaps have not "+
				"been listed yet (", "connection refused", "[+]idle ok", "readyz check failed")
			code, _ = p.get("/readyz/idle")
			expect(t, "/readyz/idle", code, 200)
		}
		expect(t, "stop", stop(), nil)
		code, _ := p.get("/healthz")
		expect(t, "/healthz after the stop", code, 0)
	})
}

// Rules: MGR-08
func TestProbesHaveTheFormsOfTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := run(t, Options{Controllers: []*controller.Controller{
			downController(t, "maps"),
			controller.New("idle", nothing, controller.Options{}),
		}})
		time.Sleep(time.Minute)
		for _, test := range []struct {
			path  string
			code  int
			parts []string
		}{
			{"/healthz", 200, []string{"ok"}},
			{"/healthz?verbose", 200, []string{"[+]ping ok\nhealthz check passed\n"}},
			{"/healthz/ping", 200, []string{"ok"}},
			{"/healthz/maps", 404, []string{`no check "maps"`}},
			{"/readyz?verbose", 503, []string{"[+]shutdown ok\n[-]maps failed: ",
				"\n[+]idle ok\nreadyz check failed\n"}},
			{"/readyz?exclude=maps", 200, []string{"ok"}},
			{"/readyz?verbose&exclude=maps", 200, []string{"[+]maps excluded: ok\n", "readyz check passed\n"}},
			{"/readyz?exclude=idle", 503, []string{"[-]maps failed", "[+]idle excluded: ok"}},
			{"/readyz?verbose&exclude=maps&exclude=typo", 200, []string{`no matches for ["typo"]`}},
			{"/readyz/maps", 503, []string{"[-]maps failed: ", "readyz maps check failed\n"}},
			{"/readyz/maps?verbose", 503, []string{"[-]maps failed: "}},
			{"/readyz/idle", 200, []string{"ok"}},
			{"/readyz/idle?verbose", 200, []string{"[+]idle ok\nreadyz idle check passed\n"}},
			{"/readyz/none", 404, []string{`no check "none"; /readyz?verbose lists them`}},
			{"/metrics", 404, nil},
		} {
			code, body := p.get(test.path)
			expect(t, test.path, code, test.code)
			expectText(t, test.path, body, test.parts...)
		}
		expect(t, "stop", stop(), nil)
	})
}

func TestProbesOnlyAnswerReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := run(t, Options{Controllers: []*controller.Controller{controller.New("idle", nothing,
			controller.Options{})}})
		resp, err := p.client.Post("http://probes/healthz", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		expect(t, "POST", resp.StatusCode, http.StatusMethodNotAllowed)
		expect(t, "stop", stop(), nil)
	})
}

// Rules: MGR-05
func TestControllersThatFailStopTheManagerAndAllTheirErrorsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, end := context.WithCancel(t.Context())
		end()
		// A controller that has run before refuses to run again.
		used := func(name string) *controller.Controller {
			c := controller.New(name, nothing, controller.Options{})
			if err := c.Run(ended); err != nil {
				t.Fatal(err)
			}
			return c
		}
		m := New(Options{Controllers: []*controller.Controller{
			used("first"), downController(t, "maps"), used("second"),
		}})
		err := m.Run(t.Context())
		if err == nil {
			t.Fatal("no error")
		}
		expectText(t, "error", err.Error(), "run controller first: ", "run controller second: ")
		if strings.Contains(err.Error(), "maps") {
			t.Errorf("a controller that was stopped counts as failed: %v", err)
		}
	})
}

func TestProbesOnARealAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	idle := func() []*controller.Controller {
		return []*controller.Controller{controller.New("idle", nothing, controller.Options{})}
	}
	// The address is taken: by l.
	err = New(Options{HealthAddr: addr, Controllers: idle()}).Run(t.Context())
	if err == nil {
		t.Fatal("a taken address is no error")
	}
	expectText(t, "taken address", err.Error(), "serve probes on "+addr, "address already in use")

	m := New(Options{HealthAddr: addr, Controllers: idle()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	serving := make(chan struct{})
	m.listen = func(string, string) (net.Listener, error) {
		defer close(serving)
		return l, nil
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	<-serving
	resp, err := http.Get("http://" + addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	expect(t, "/healthz", resp.StatusCode, 200)
	cancel()
	expect(t, "stop", <-ended, nil)
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("the address is still served after Run")
	}
}

func TestAProbeServerThatFailsStopsTheManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeListener()
		m := New(Options{HealthAddr: "pipe", Controllers: []*controller.Controller{downController(t, "maps")}})
		m.listen = func(string, string) (net.Listener, error) { return l, nil }
		ended := make(chan error, 1)
		go func() { ended <- m.Run(t.Context()) }()
		synctest.Wait()
		l.Close()
		err := <-ended
		if err == nil {
			t.Fatal("no error")
		}
		expectText(t, "error", err.Error(), "serve probes on pipe: ")
	})
}

func TestAnAddressThatCannotBeUsedIsAnErrorThatNamesIt(t *testing.T) {
	idle := []*controller.Controller{controller.New("idle", nothing, controller.Options{})}
	for _, test := range []struct {
		o     Options
		parts []string
	}{
		{Options{HealthAddr: "8081", Controllers: idle}, []string{"serve probes on 8081: ", "missing port"}},
		{Options{HealthAddr: "localhost:http-probe", Controllers: idle},
			[]string{"serve probes on localhost:http-probe: "}},
		{Options{MetricsAddr: "8080", Controllers: idle}, []string{"serve metrics on 8080: ", "missing port"}},
		{Options{}, []string{"no controller to run"}},
	} {
		err := New(test.o).Run(t.Context())
		if err == nil {
			t.Errorf("%+v: no error", test.o)
			continue
		}
		expectText(t, "error", err.Error(), test.parts...)
	}
}

func TestControllersNeedNamesOfTheirOwn(t *testing.T) {
	for _, names := range [][]string{{"a", "a"}, {"shutdown"}, {""}, {"a/b"}} {
		var o Options
		for _, name := range names {
			o.Controllers = append(o.Controllers, controller.New(name, nothing, controller.Options{}))
		}
		if err := New(o).Run(t.Context()); err == nil {
			t.Errorf("%q: no error", names)
		}
	}
}

func TestZeroAddressesMeanNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, addr := range []string{"", "0"} {
			m := New(Options{HealthAddr: addr, MetricsAddr: addr, Controllers: []*controller.Controller{
				controller.New("idle", nothing, controller.Options{}),
			}})
			m.listen = func(_, address string) (net.Listener, error) {
				t.Errorf("listens on %q", address)
				return nil, errors.New("unwanted")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			expect(t, "Run", m.Run(ctx), nil)
			cancel()
		}
	})
}
