package browser

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var required = flag.Bool("required", false, "fail where Chromium is not installed, instead of skipping the tests")

// repository is the root of skiff's module, seen from this package.
var repository = filepath.Join("..", "..", "..")

var directory string // for the binaries

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "skiff-browser-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		os.Exit(1)
	}
	directory = dir
	code := m.Run()
	c, err := browser()
	if err == nil {
		err = c.end()
	}
	switch {
	case errors.Is(err, errNone) && !*required:
		fmt.Println("The live page was not tested:", err)
	case err != nil:
		fmt.Fprintln(os.Stderr, "browser:", err)
		code = 1
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		code = 1
	}
	os.Exit(code)
}

var build = sync.OnceValue(func() error {
	build := exec.Command("go", "build", "-trimpath", "-o", directory+"/", "./cmd/skiff", "./cmd/skiff-dev")
	build.Dir, build.Env = repository, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	return nil
})

// browser is the one of all tests.
var browser = sync.OnceValues(start)

// newBrowser returns it, or skips the test where there is none.
func newBrowser(t *testing.T) *chromium {
	t.Helper()
	c, err := browser()
	if errors.Is(err, errNone) && !*required {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// world is a cluster, and a skiff that runs in it.
type world struct {
	*testing.T
	dev    *exec.Cmd // the API server
	server string    // the URL of a proxy in front of it that signs requests
	port   string    // of the live page
	skiff  *exec.Cmd
	tokens string // the file with the token of the page; "": it needs none
	token  string

	mu  sync.Mutex // guards lie
	lie [2]string  // a text that the proxy replaces in answers, and what by
}

// page is the URL of the live page.
func (w *world) page() string { return w.origin() + "/debug/" }

func (w *world) origin() string { return "http://127.0.0.1:" + w.port }

// newWorld starts a cluster with skiff's custom resources, and skiff. token is the one that its page needs; "": none.
func newWorld(t *testing.T, token string) *world {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t}
	dir := t.TempDir()
	if token != "" {
		w.tokens = filepath.Join(dir, "token")
		w.rotate(token)
	}
	ready := filepath.Join(dir, "ready")
	w.dev = w.run("skiff-dev", "--controllers", "none", "--ready-file", ready, "--kubeconfig-out",
		filepath.Join(dir, "kubeconfig"))
	var at struct{ URL, Kubeconfig string }
	w.await("skiff-dev is ready", func() bool {
		text, err := os.ReadFile(ready)
		return err == nil && json.Unmarshal(text, &at) == nil
	})
	kubeconfig, err := os.ReadFile(at.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`token: (\S+)`).FindSubmatch(kubeconfig)
	if m == nil {
		t.Fatal("the kubeconfig has no token")
	}
	w.front(at.URL, string(m[1]))
	w.port = freePort(t)
	w.restart()
	return w
}

// front opens the proxy.
func (w *world) front(server, token string) {
	to, err := url.Parse(server)
	if err != nil {
		w.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1,
		// It would log skiffs that were killed.
		ErrorLog:  log.New(io.Discard, "", 0),
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, // on this machine
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Set("Authorization", "Bearer "+token)
			r.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: func(r *http.Response) error {
			r.Body = &liar{r.Body, w}
			return nil
		}}
	front := httptest.NewServer(proxy)
	w.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	w.server = front.URL
}

// liar replaces a text in what it reads: both have the same length.
type liar struct {
	io.ReadCloser
	w *world
}

func (l *liar) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.w.lie[0] != "" {
		copy(p, bytes.ReplaceAll(p[:n], []byte(l.w.lie[0]), []byte(l.w.lie[1])))
	}
	return n, err
}

// restart starts skiff, on the port that it had before.
func (w *world) restart() {
	w.Helper()
	w.start("skiff")
}

// start starts a binary as skiff.
func (w *world) start(binary string) {
	w.Helper()
	w.skiff = w.run(binary, "run", "--server", w.server, "--wire", "json", "--health-probe-bind-address", "0",
		"--debug-bind-address", "127.0.0.1:"+w.port, "--debug-token-file", w.tokens)
	w.await("the live page is served", func() bool {
		r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.page()+"state?format=json", nil)
		if err != nil {
			w.Fatal(err)
		}
		r.SetBasicAuth("me", w.token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var s struct{ Banner struct{ Well bool } }
		return json.NewDecoder(resp.Body).Decode(&s) == nil && s.Banner.Well
	})
}

// rotate replaces the token that the page needs.
func (w *world) rotate(token string) {
	w.Helper()
	w.token = token
	if err := os.WriteFile(w.tokens, []byte(token), 0o600); err != nil {
		w.Fatal(err)
	}
}

// kill kills skiff without a word.
func (w *world) kill() {
	w.Helper()
	if err := w.skiff.Process.Kill(); err != nil {
		w.Fatal(err)
	}
	_ = w.skiff.Wait() // killed; its port is free then
}

// run starts a program, which is killed at the end of the test.
func (w *world) run(name string, args ...string) *exec.Cmd {
	w.Helper()
	cmd := exec.Command(filepath.Join(directory, name), args...)
	var log lockedBuffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Kill() // or it has ended
		_ = cmd.Wait()
		if w.Failed() {
			w.Logf("the log of %s:\n%s", name, log.String())
		}
	})
	return cmd
}

// lockedBuffer is one that may be read while a process writes.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (w *world) await(what string, is func() bool) {
	w.Helper()
	for began := time.Now(); !is(); {
		if time.Since(began) > awaitTimeout {
			w.Fatalf("not within %s: %s", awaitTimeout, what)
		}
		<-time.After(30 * time.Millisecond)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

const webServers = "/apis/skiff.dev/v1alpha1/namespaces/default/webservers"

// create creates a WebServer. A broken one has a template that is refused.
func (w *world) create(name string, broken bool) {
	w.Helper()
	template := `{}`
	if broken {
		template = `{"spec":{"hostNetwork":true}}`
	}
	w.do(http.MethodPost, webServers, `{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"`+name+
		`"},"spec":{"image":"nginx:1","template":`+template+`}}`)
}

func (w *world) delete(name string) {
	w.Helper()
	w.do(http.MethodDelete, webServers+"/"+name, "")
}

func (w *world) do(method, path, body string) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, w.server+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
		w.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
}
