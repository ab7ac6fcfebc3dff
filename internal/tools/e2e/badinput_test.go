package e2e

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Wrong usage is exit code 2 and names what was wrong.
func TestWrongUsageExitsWith2(t *testing.T) {
	s := newScope(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--contollers=webserver"}, "--contollers"},
		{[]string{"run", "--controllers=webservers"}, "webservers"},
		{[]string{"frobnicate"}, "frobnicate"},
		{[]string{"watch"}, "RESOURCE"},
		{[]string{"watch", "pods", "-o", "xml"}, "--output"},
	} {
		r := runSkiff(t, s, tt.args...)
		if r.Code != 2 || !strings.Contains(r.Stderr, tt.want) || r.Stdout != "" {
			t.Errorf("skiff %v: want exit code 2 and %q on stderr, got %v", tt.args, tt.want, r)
		}
	}
}

// An error in a kubeconfig names the file, and the field where there is one.
func TestKubeconfigErrorsNameFileAndField(t *testing.T) {
	s := newScope(t)
	good := Kubeconfig{Server: s.c.Server, CAFile: s.c.CAFile, Token: admin.Token}
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		edit func(string) string // of a good file; nil: the file does not exist
		want string
	}{
		{"missing.yaml", nil, "no such file"},
		{"syntax.yaml", func(string) string { return "clusters: [" }, "line 1"},
		{"kind.yaml", func(string) string { return "hello: world\n" }, "contexts"},
		{"server.yaml", replace("https://", "ftp://"), "server"},
		{"no-server.yaml", replace("server:", "sever:"), "server"},
		{"ca.yaml", replace(s.c.CAFile, "/nowhere/ca.crt"), "certificate-authority"},
		{"ca-data.yaml", replace(fmt.Sprintf("certificate-authority: %q", s.c.CAFile),
			"certificate-authority-data: '%%'"), "certificate-authority-data"},
		{"user.yaml", replace("user: e2e}", "user: nobody}"), "nobody"},
		{"context.yaml", replace("current-context: e2e", "current-context: other"), "other"},
		{"basic.yaml", replace(fmt.Sprintf("token: %q", admin.Token), "username: 'me:you'\n    password: "+canary),
			"username"},
		{"proxy.yaml", replace("server:", "proxy-url: socks4://me:"+canary+"@127.0.0.1:1\n    server:"), "proxy-url"},
	} {
		path := filepath.Join(dir, tt.name)
		if tt.edit != nil {
			noError(t, good.Write(path))
			text := must(os.ReadFile(path))(t)
			writeFile(t, path, tt.edit(string(text)))
		}
		for _, command := range [][]string{{"run", "--controllers=webserver", "--health-probe-bind-address=0",
			"--metrics-bind-address=0"}, {"crds", "diff"}} {
			r := runSkiff(t, s, append(command, "--kubeconfig", path)...)
			if r.Code != 1 || !strings.Contains(r.Stderr, path) || !strings.Contains(r.Stderr, tt.want) {
				t.Errorf("%s, skiff %s: want exit code 1, the file and %q, got %v", tt.name, command[0], tt.want, r)
			}
		}
	}
}

func replace(old, by string) func(string) string {
	return func(text string) string { return strings.Replace(text, old, by, 1) }
}

// What is wrong with a connection is said at once by a command that ends; `skiff run` says it, too, is not ready, goes
// on trying without a storm, and still stops well.
func TestConnectionErrorsSayWhatIsWrong(t *testing.T) {
	s := newScope(t)
	closed := must(freePort())(t)
	html := htmlServer(t, http.StatusOK)
	badGateway := htmlServer(t, http.StatusBadGateway)
	for _, tt := range []struct {
		name string
		Kubeconfig
		want []string // one of them
	}{
		{"unreachable", Kubeconfig{Server: "https://" + loopback(closed), CAFile: s.c.CAFile, Token: admin.Token},
			[]string{"connection refused"}},
		{"wrong CA", Kubeconfig{Server: s.c.Server, CAFile: html.caFile, Token: admin.Token}, []string{"certificate"}},
		{"wrong token", Kubeconfig{Server: s.c.Server, CAFile: s.c.CAFile, Token: canary + "-of-nobody"},
			[]string{"Unauthorized"}},
		{"no rights", Kubeconfig{Server: s.c.Server, CAFile: s.c.CAFile, Token: restricted.Token},
			[]string{"forbidden", "may not list"}},
		{"HTML with 200", Kubeconfig{Server: html.URL, CAFile: html.caFile, Token: admin.Token},
			[]string{"text/html", "HTML", "<html>"}},
		{"HTML with 502", Kubeconfig{Server: badGateway.URL, CAFile: badGateway.caFile, Token: admin.Token},
			[]string{"502 Bad Gateway"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
			noError(t, tt.Write(kubeconfig))
			if r := runSkiff(t, s, "crds", "diff", "--kubeconfig", kubeconfig); r.Code != 1 ||
				!containsAny(r.Stderr, tt.want) {
				t.Errorf("skiff crds diff: want exit code 1 and one of %q, got %v", tt.want, r)
			}

			start := time.Now()
			sk := launchSkiff(t, s, kubeconfig)
			Eventually(t, limit, "the log says what is wrong", func() (bool, string) {
				if sk.Exited() {
					t.Fatalf("skiff ended with exit code %d\n%s", sk.ExitCode(), sk.Tail(20))
				}
				return containsAny(sk.Log(), tt.want), sk.Tail(10)
			})
			if tt.name == "no rights" { // waiting does not help against that: see waitParked
				waitParked(t, sk, "may not list and watch")
			} else {
				Throughout(t, 3*time.Second, "/readyz is 503", func() (bool, string) { return notReady(sk) })
			}
			sent := len(s.skiffRequests(start, func(Request) bool { return true })) +
				int(html.requests.Swap(0)+badGateway.requests.Swap(0))
			if sent > 40 {
				t.Errorf("%d requests in a few seconds: no backoff", sent)
			}
			if lines := len(sk.LogLines("")); lines > 60 {
				t.Errorf("%d log lines in a few seconds:\n%s", lines, sk.Tail(60))
			}
			if err := sk.Terminate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func containsAny(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// proxyServer is a TLS server with a certificate of its own that answers everything with one HTML page.
type proxyServer struct {
	*httptest.Server
	caFile   string
	requests atomic.Int64
}

func htmlServer(t *testing.T, code int) *proxyServer {
	t.Helper()
	p := &proxyServer{caFile: filepath.Join(t.TempDir(), "ca.crt")}
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(code)
		fmt.Fprint(w, "<html><body><h1>Please log in</h1></body></html>")
	}))
	t.Cleanup(p.Close)
	writeFile(t, p.caFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})))
	return p
}
