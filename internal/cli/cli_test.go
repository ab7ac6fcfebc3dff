package cli

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skiff/crds"
	"skiff/internal/cli/clitest"
)

var program = clitest.Program{Name: "skiff", Main: Main}

// skiff runs a command in this process.
func skiff(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return program.Run(t.Context(), t, args...)
}

// pairs reads a file of testdata: lines, each with others that are indented below it.
func pairs(t *testing.T, name string) (out [][2]string) {
	t.Helper()
	for line := range strings.Lines(read(t, "internal/cli/testdata/"+name)) {
		line = strings.TrimSuffix(line, "\n")
		if below, ok := strings.CutPrefix(line, "    "); ok {
			out[len(out)-1][1] = strings.TrimPrefix(out[len(out)-1][1]+"\n"+below, "\n")
		} else if line != "" && line[0] != '#' {
			out = append(out, [2]string{line, ""})
		}
	}
	return out
}

// Rules: LE-03
func TestWrongUsagePrintsOneLineAndAHintAndExitsWith2(t *testing.T) {
	for _, row := range pairs(t, "usage.txt") {
		args, root := strings.Fields(row[0]), newRoot()
		root.InitDefaultHelpCmd()
		help := root.Name()
		if cmd, _, err := root.Find(args); err == nil {
			help = cmd.CommandPath()
		}
		r := skiff(t, args...)
		r.Want(t, ExitUsage, "skiff: ", row[1], "\nrun '"+help+" --help'\n")
		if strings.Count(r.Stderr, "\n") != 2 || r.Stdout != "" || row[1] == "" {
			t.Errorf("skiff %s: want an error line and a hint, got %q and %q", row[0], r.Stdout, r.Stderr)
		}
	}
}

func TestEveryCommandHasHelpWithWhatItDoes(t *testing.T) {
	for _, path := range []string{"", "run", "watch", "crds", "crds print", "crds install", "crds diff",
		"version", "completion"} {
		r := skiff(t, append(strings.Fields(path), "--help")...)
		r.Want(t, ExitDone)
		if !strings.Contains(r.Stdout, "Usage:") || r.Stderr != "" {
			t.Errorf("skiff %s --help: %q, %q", path, r.Stdout, r.Stderr)
		}
	}
	if r := skiff(t, "help", "run"); r.Stdout != skiff(t, "run", "--help").Stdout {
		t.Errorf("skiff help run differs from skiff run --help: %s", r.Stdout)
	}
	if r := skiff(t); r.Code != ExitDone || !strings.Contains(r.Stdout, "skiff-dev demo") {
		t.Errorf("skiff alone: %+v", r)
	}
}

func TestTheCommandsThatMovedToSkiffDevSayWhatToRunInstead(t *testing.T) {
	for args, now := range map[string]string{"dev": "run 'skiff-dev',", "dev --bare -- go test": "run 'skiff-dev',",
		"dev assets bin": "run 'skiff-dev',", "dev --help": "run 'skiff-dev',", "demo": "run 'skiff-dev demo',"} {
		r := skiff(t, strings.Fields(args)...)
		r.Want(t, ExitUsage, now)
		if strings.Count(r.Stderr, "\n") != 1 || r.Stdout != "" {
			t.Errorf("skiff %s: want one line, got %q and %q", args, r.Stdout, r.Stderr)
		}
	}
	if help := skiff(t, "--help").Stdout; strings.Contains(help, "  demo ") {
		t.Errorf("the help lists what has moved: %s", help)
	}
}

func TestVersionNamesTheBuild(t *testing.T) {
	if r := skiff(t, "version"); r.Code != ExitDone || !strings.HasPrefix(r.Stdout, "skiff ") ||
		!strings.Contains(r.Stdout, "go1.") {
		t.Errorf("%+v", r)
	}
	var v map[string]string
	if short := skiff(t, "--version"); short != skiff(t, "version") {
		t.Errorf("skiff --version: %+v", short)
	}
	noError(t, json.Unmarshal([]byte(skiff(t, "version", "-o", "json").Stdout), &v))
	for _, field := range []string{"version", "commit", "goVersion", "platform"} {
		if v[field] == "" {
			t.Errorf("version -o json has no %s: %v", field, v)
		}
	}
}

func TestCompletionScriptsAreForSkiff(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := skiff(t, "completion", shell)
		if r.Code != ExitDone || !strings.Contains(r.Stdout, "skiff") {
			t.Errorf("%s: exit code %d, %d bytes", shell, r.Code, len(r.Stdout))
		}
	}
}

func TestCRDsPrintPrintsEveryDefinition(t *testing.T) {
	r := skiff(t, "crds", "print")
	r.Want(t, ExitDone)
	for _, text := range crds.All() {
		if !strings.Contains(r.Stdout, string(text)) {
			t.Errorf("a definition is missing: %.80s", text)
		}
	}
}

// TestAConnectionProblemIsOneErrorThatNamesTheNextStep holds the bad input that concerns where to connect and as
// whom.
func TestAConnectionProblemIsOneErrorThatNamesTheNextStep(t *testing.T) {
	const canary = "canary-Zq7"
	answer := func(code int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(code)
			io.WriteString(w, body)
		}
	}
	serve := func(h http.HandlerFunc) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	const html = "<html><body>Please log in</body></html>"
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"%s","code":%d,"message":"%s"}`
	status401 := strings.NewReplacer("%s", "Unauthorized", "%d", "401").Replace(status)
	unauthorized := serve(answer(401, "application/json", status401))
	portal, badGateway := serve(answer(200, "text/html", html)), serve(answer(502, "text/html", html))
	plain := httptest.NewServer(answer(200, "text/plain", ""))
	t.Cleanup(plain.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	dir := t.TempDir()
	malformed := filepath.Join(dir, "malformed")
	noError(t, os.WriteFile(malformed, []byte("clusters:\n- name: c\n  cluster: {server: [x]}\n"), 0o600))

	for _, tt := range []struct {
		name string
		args []string
		say  []string
	}{
		{"missing kubeconfig", []string{"--kubeconfig", filepath.Join(dir, "nope")}, []string{"nope: no such file"}},
		{"malformed kubeconfig", []string{"--kubeconfig", malformed}, []string{malformed, `cluster "c"`, "line 3"}},
		{"unreachable", []string{"--server", gone.URL},
			[]string{strings.TrimPrefix(gone.URL, "http://"), "refused", "check that the server is running"}},
		{"no TLS there", []string{"--server", strings.Replace(plain.URL, "http:", "https:", 1)},
			[]string{"HTTP response to HTTPS client; the server does not use TLS on this port: check the address"}},
		{"wrong token", []string{"--server", unauthorized.URL, "--certificate-authority",
			caFile(t, unauthorized), "--token", canary},
			[]string{"Unauthorized", "the server refused the token of --token (401); start skiff again with a new"}},
		{"a login page", []string{"--server", portal.URL, "--certificate-authority", caFile(t, portal)},
			[]string{portal.URL, "not JSON from an API server", "proxy"}},
		{"a broken proxy", []string{"--server", badGateway.URL, "--certificate-authority", caFile(t, badGateway)},
			[]string{"502"}},
		{"token over plain http", []string{"--server", "http://h", "--token", canary},
			[]string{"--token", "plain http"}},
	} {
		for _, command := range [][]string{{"watch", "pods"}, {"crds", "install"}, {"crds", "diff"}} {
			if tt.name == "a login page" && command[0] == "crds" {
				continue // another path: held by kube's tests of answers that are no JSON
			}
			t.Run(tt.name+"/"+strings.Join(command, " "), func(t *testing.T) {
				r := skiff(t, append(command, tt.args...)...)
				r.Want(t, ExitFailed, tt.say...)
				if strings.Contains(r.Stderr, canary) {
					t.Errorf("the error shows the token: %s", r.Stderr)
				}
			})
		}
	}
}

// caFile writes the certificate of a test server, which is its own CA, to a file.
func caFile(t *testing.T, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.crt")
	noError(t, os.WriteFile(path, pemOf(s.Certificate()), 0o600))
	return path
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func TestTheHelpBeginsWithWhatOneGains(t *testing.T) {
	readme := must(os.ReadFile("../../README.md"))(t)
	sentence, _, _ := strings.Cut(skiff(t, "--help").Stdout, ":")
	if sentence == "" || !strings.Contains(string(readme), "**"+sentence+".") {
		t.Errorf("README.md does not begin with %q", sentence)
	}
}
