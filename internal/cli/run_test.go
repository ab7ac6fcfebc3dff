package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// runUntil runs `skiff run` until its log has the text, then stops it as a signal does.
func runUntil(t *testing.T, text string, args ...string) clitest.Result {
	t.Helper()
	f := program.Follow(t, append([]string{"run"}, args...)...)
	f.Await(text, func() bool { return strings.Contains(f.Stderr.String(), text) })
	return clitest.Result{Code: f.Stop(), Stderr: f.Stderr.String(), Program: program.Name}
}

// secretServer answers everything with 401 over TLS. It repeats the token, as servers with debugging on do in other
// headers.
func secretServer(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Debug", r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w,
			`{"kind":"Status","status":"Failure","code":401,"reason":"Unauthorized","message":"Unauthorized"}`)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// Rules: AUTH-26
func TestNoLogShowsAToken(t *testing.T) {
	const canary = "canary-Zq7"
	s := secretServer(t)
	ca := caFile(t, s)
	file := filepath.Join(t.TempDir(), "token")
	noError(t, os.WriteFile(file, []byte(canary+"\n"), 0o600))
	user := func(user string) string {
		path := filepath.Join(t.TempDir(), "config")
		text := "current-context: c\nclusters: [{name: c, cluster: {server: x}}]\ncontexts: [{name: c, context: " +
			"{cluster: c, user: c}}]\nusers: [{name: c, user: {" + user + "}}]\n"
		noError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	plugin := user(`exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: ` +
		`[-c, ` +
		`'printf "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",` +
		`\"status\":{\"token\":\"%s\"}}" $A'], env: [{name: A, value: ` + canary + "}]}")
	basic := user("username: u, password: " + canary)
	for _, format := range []string{"text", "json"} {
		for _, credentials := range [][]string{{"--token", canary}, {"--token-file", file}, {"--kubeconfig", plugin},
			{"--kubeconfig", basic}} {
			r := runUntil(t, "Unauthorized", append(credentials, "-v", "9", "--log-format", format, "--server", s.URL,
				"--certificate-authority", ca)...)
			r.Want(t, ExitDone)
			if strings.Contains(r.Stderr, canary) || strings.Contains(r.Stderr, "exec:") {
				t.Errorf("%v in %s: the log shows the token: %s", credentials, format, r.Stderr)
			}
		}
	}
}

func TestJSONLogIsOneObjectForEachLine(t *testing.T) {
	s := secretServer(t)
	r := runUntil(t, "starting", "--log-format", "json", "--server", s.URL, "--certificate-authority", caFile(t, s))
	r.Want(t, ExitDone)
	for line := range strings.Lines(r.Stderr) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry["msg"] == "" || entry["time"] == "" {
			t.Errorf("line %q: %v", line, err)
		}
	}
}

func TestAnAddressThatIsInUseIsNamedWithItsFlag(t *testing.T) {
	s := secretServer(t)
	taken := strings.TrimPrefix(s.URL, "https://")
	for _, command := range []string{"run", "restart --selector a=b --target deployment/a"} {
		for _, flag := range []string{"--health-probe-bind-address", "--metrics-bind-address",
			"--pprof-bind-address"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // one that ignores the flag goes on
			r := program.Run(ctx, t, append(strings.Fields(command), flag, taken, "--server", s.URL,
				"--certificate-authority", caFile(t, s))...)
			cancel()
			_, port, _ := net.SplitHostPort(taken)
			r.Want(t, ExitFailed, "\nskiff: "+flag+" "+taken+": port "+port+" is taken")
		}
	}
}

// A clock that has jumped, or a certificate that has not been renewed.
func TestACertificateThatIsExpiredOrNotYetValidSaysToLookAtTheClock(t *testing.T) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	for name, at := range map[string]time.Time{"is after": time.Now().Add(-48 * time.Hour),
		"is before": time.Now().Add(48 * time.Hour)} {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: at, NotAfter: at.Add(time.Hour),
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
		der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
		s.StartTLS()
		t.Cleanup(s.Close)
		const next = "correct the clock of this machine, or renew the certificate of the server\n"
		args := []string{"--server", s.URL, "--certificate-authority", caFile(t, s)}
		skiff(t, append(args, "crds", "diff")...).Want(t, ExitFailed,
			"tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time ",
			name, "; "+next)
		r := runUntil(t, `hint=`, args...)
		r.Want(t, ExitDone, `hint="`+strings.TrimSuffix(next, "\n")+`"`)
	}
}

// Its holder went away, and has the lease for an hour.
func TestALeaseThatIsNotRenewedIsShownWithItsHolderAndItsEnd(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	c.create(kube.Resource{Group: "coordination.k8s.io", Version: "v1", Plural: "leases", Kind: "Lease"}, "default",
		object{"metadata": object{"name": "skiff"}, "spec": object{"holderIdentity": "gone",
			"leaseDurationSeconds": 3600, "renewTime": "2020-01-01T00:00:00.000000Z"}})
	r, _ := statusOf(t, c.url(), "    this process stands by; the leader is gone, which has not renewed "+
		"the lease since this process saw it first; the lease expires at ",
		"--leader-elect")
	r.Want(t, ExitDone)
	if !strings.Contains(r.Stdout, " is ready; all is well\n") {
		t.Errorf("skiff status: %s", r.Stdout)
	}
}

// That it goes on afterwards is tested where time is virtual, in package controller.
func TestRunWaitsForADefinitionThatIsMissingAndSaysHowToInstallIt(t *testing.T) {
	r := runUntil(t, "skiff crds install", "--server", newCluster(t, apiserver.Options{}).url())
	r.Want(t, ExitDone)
}

// A rolling update of the control plane needs no attention: no error, no warning, and one line that says what it was.
// Objects are written meanwhile, and the process leads.
func TestARestartOfTheAPIServerIsOneLineAtLevelINFO(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	f := program.Follow(t, "run", "--server", c.url(), "--leader-elect", "--leader-election-namespace", "default")
	t.Cleanup(func() { f.Stop() })
	f.Await("all controllers work", func() bool { return strings.Count(f.Stderr.String(), "started") == 3 })
	create := func(name string) {
		c.create(webServers, "default", object{"metadata": object{"name": name},
			"spec": object{"image": "nginx", "replicas": 1}})
	}
	made := func(name string) func() bool {
		return func() bool {
			return c.client.Get(t.Context(), deployments, kube.Key{Namespace: "default", Name: name}, nil) == nil
		}
	}
	create("before")
	f.Await("a Deployment before", made("before"))
	before := len(f.Stderr.String())

	c.down()
	<-time.After(3 * time.Second) // of real time: that is how long a restart takes
	c.up()
	create("after")
	f.Await("a Deployment after", made("after"))
	f.Await("all watches are renewed", func() bool {
		return strings.Contains(skiff(t, "status").Stdout, "is ready; all is well")
	})
	var lines []string
	for line := range strings.Lines(f.Stderr.String()[before:]) {
		election := strings.Contains(line, "renew the lease") // said where the restart took longer than a third of it
		aboutAnObject := strings.Contains(line, "webserver") && !strings.Contains(line, "API server")
		if !election && !aboutAnObject {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "INFO") ||
		!strings.Contains(lines[0], "lost contact with the API server") {
		t.Errorf("the restart is in %d lines: %s", len(lines), strings.Join(lines, ""))
	}
}

// Rules: LE-07
func TestRunWithLeaderElectionTakesTheLeaseAndReleasesItAtTheEnd(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	r := runUntil(t, "leading", "--leader-elect", "--leader-election-id", "mine",
		"--leader-election-namespace", "kube-system", "--controllers", "restart", "--server", c.url())
	r.Want(t, ExitDone, "kube-system/mine", "released the lease")
}

func TestRestartSaysThatItsSelectorMatchesNoPod(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	const matches = "no pod in namespace default matches it now"
	for selector, want := range map[string]string{
		"app==": "--selector app==: " + matches + "; is a value missing after the =?",
		"app=x": "--selector app=x: " + matches,
	} {
		f := program.Follow(t, "restart", "-l", selector, "--target", "deployment/a", "--server", c.url())
		f.Await("the selector is named", func() bool { return strings.Contains(f.Stderr.String(), want) })
		if asks := strings.Contains(f.Stderr.String(), "value missing"); asks != (selector == "app==") {
			t.Errorf("%s: %s", selector, f.Stderr)
		}
		f.Stop()
	}
}

func TestReloadNamesTargetsAndSourcesThatDoNotExist(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	f := program.Follow(t, "reload", "--target", "deploy/a,rollout/b", "--configmap", "c:key", "--secret", "d",
		"--health-probe-bind-address", "127.0.0.1:0", "--server", c.url())
	for _, want := range []string{"--target deployment/a", "--target rollout/b", "--configmap c", "--secret d"} {
		want += ": there is none in namespace default now"
		f.Await(want, func() bool { return strings.Contains(f.Stderr.String(), want) })
	}
	probes := probesOf(f)
	f.Await("status says that all is well", func() bool {
		return skiff(t, "status", "--health-probe-bind-address", probes).Code == ExitDone
	})
	f.Stop()
}
