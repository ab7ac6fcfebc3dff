package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// drill is one way in which a server falls silent, for a skiff that leads.
type drill struct {
	kubeconfig    string
	freeze, thaw  func()
	says, warning string        // in skiff status, and in the log
	lasts         time.Duration // of the silence, but for -short, which ends it when it is noticed
}

// longPlugin is how long the credential plugin hangs: longer than the minute after which skiff kills it.
const longPlugin = 90 * time.Second

// noticed is how long a silent server may go unnoticed, with what a busy machine adds; a renewal finds it within 12 s.
const noticed = time.Minute

func (d drill) run(t *testing.T, c *Cluster, id string) {
	port := must(freePort())(t)
	metrics := "http://" + loopback(port) + "/metrics"
	sk, _ := startMeasured(t, c, d.kubeconfig, id, "run", "--controllers", "webserver", "--leader-elect",
		"--leader-election-id", id, "--leader-election-namespace", "default", "--metrics-bind-address="+loopback(port))
	Eventually(t, limit, "it leads", func() (bool, string) {
		_, text, err := sk.probe("/readyz?verbose")
		return strings.Contains(text, "this process leads; it renewed the lease at "), fmt.Sprint(text, err)
	})
	binary := must(skiffBinary())(t)
	status := func() Result {
		t.Helper()
		r := must(runCommand(t.Context(), []string{"HOME=" + c.Dir}, "", binary, "status",
			"--health-probe-bind-address", strings.TrimPrefix(sk.probes, "http://")))(t)
		return r
	}
	Eventually(t, limit, "all is well", func() (bool, string) { r := status(); return r.Code == 0, r.String() })

	d.freeze()
	thaw := sync.OnceFunc(d.thaw)
	t.Cleanup(thaw)
	began := time.Now()
	Eventually(t, noticed, "it says that nothing answers, and that it has lost the lease", func() (bool, string) {
		r := status()
		return r.Code == 3 && strings.Contains(r.Stdout, d.says) &&
			strings.Contains(r.Stdout, "; nothing can be changed meanwhile; waiting: ") &&
			strings.Contains(r.Stdout, "; /readyz stays 200, because a restart would not help\n") &&
			strings.Contains(r.Stdout, "    ! the lease is lost for ") &&
			strings.Contains(r.Stdout, "; who leads now is unknown; "), r.String()
	})
	t.Logf("said after %s", time.Since(began).Round(time.Second))
	if code, text, err := sk.probe("/readyz"); err != nil || code != 200 {
		t.Errorf("/readyz: %d %s %v", code, text, err)
	}
	page, err := scrape(t.Context(), metrics)
	if err != nil || !strings.Contains(page, "\nskiff_last_answer_timestamp_seconds ") ||
		!strings.Contains(page, "\nskiff_unanswered_seconds ") ||
		strings.Contains(page, "\nskiff_unanswered_seconds 0\n") {
		t.Errorf("/metrics: %v\n%s", err, page)
	}
	if !testing.Short() {
		d.stays(t, sk, status, metrics, began)
	}
	thaw()
	thawed := time.Now()
	Eventually(t, limit, "all is well again", func() (bool, string) { r := status(); return r.Code == 0, r.String() })
	t.Logf("well again %s after the end of %s of silence", time.Since(thawed).Round(time.Second),
		thawed.Sub(began).Round(time.Second))
	if n := len(sk.LogLines(d.warning+" the API server; nothing can be changed meanwhile", "WARN")); n != 1 {
		t.Errorf("%d lines at WARN, want 1", n)
	}
	Eventually(t, limit, "a line says for how long", func() (bool, string) {
		lines := sk.LogLines("the API server answers again", "INFO", "outage")
		return len(lines) == 1, strings.Join(lines, "\n")
	})
}

// stays asserts until the end of the silence that every place keeps saying so, and logs what they say last.
func (d drill) stays(t *testing.T, sk *Skiff, status func() Result, metrics string, began time.Time) {
	t.Helper()
	var last, ready, counted string
	Eventually(t, d.lasts+limit, "the silence ends", func() (bool, string) {
		r := status()
		code, _, err := sk.probe("/readyz")
		page, scraped := scrape(t.Context(), metrics)
		if r.Code != 3 || !strings.Contains(r.Stdout, d.says) || err != nil || code != 200 || scraped != nil ||
			strings.Contains(page, "\nskiff_unanswered_seconds 0\n") {
			t.Fatalf("after %s: %s, /readyz %d %v, /metrics %v\n%s", time.Since(began), r, code, err, scraped, page)
		}
		last, ready = r.Stdout, fmt.Sprint(code)
		counted = strings.Join(grepLines(page, "skiff_unanswered_seconds ", "skiff_last_answer_timestamp_seconds ",
			"skiff_leader "), "\n")
		return time.Since(began) >= d.lasts, ""
	})
	t.Logf("after %s: skiff status exits 3 and says\n%s\n/readyz %s\n/metrics\n%s\nlog\n%s", d.lasts, last, ready,
		counted, strings.Join(sk.LogLines(d.warning, "WARN"), "\n"))
}

// grepLines returns the lines of a page that begin with one of prefixes.
func grepLines(page string, prefixes ...string) []string {
	var found []string
	for line := range strings.Lines(page) {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) }) {
			found = append(found, strings.TrimSuffix(line, "\n"))
		}
	}
	return found
}

// A network that drops everything, a credential plugin that hangs, and an etcd that is stopped: probes stay green, and
// skiff says within half a minute that nothing can be changed.
func TestASilentServerIsShownInTheStatusAndTheLog(t *testing.T) {
	c := ownCluster(t)
	noError(t, applyFiles(c, filepath.Join(repository, "crds")))
	t.Run("both", func(t *testing.T) {
		t.Run("network", func(t *testing.T) {
			t.Parallel()
			proxy := must(StartTCPProxy(strings.TrimPrefix(c.Server, "https://")))(t)
			t.Cleanup(proxy.Close)
			path := c.path("frozen.kubeconfig")
			if err := (Kubeconfig{Server: "https://" + proxy.Addr, CAFile: c.CAFile, Token: admin.Token}).
				Write(path); err != nil {
				t.Fatal(err)
			}
			drill{path, proxy.Freeze, proxy.Thaw, "    ! no answer from https://" + proxy.Addr + " for ",
				"no answer from", 120 * time.Second}.run(t, c, "network")
		})
		t.Run("credential", func(t *testing.T) {
			t.Parallel()
			path, hangs := hangingPlugin(t, c)
			drill{path, func() {
				if err := os.WriteFile(hangs, nil, 0o600); err != nil {
					t.Error(err)
				}
			}, func() {
				if err := os.Remove(hangs); err != nil {
					t.Error(err)
				}
			}, "    ! no credential for " + c.Server + " for ", "no credential for", longPlugin}.run(t, c,
				"credential")
		})
	})
	t.Run("etcd", func(t *testing.T) {
		i := slices.IndexFunc(c.processes, func(p *Process) bool { return p.Name == "etcd" })
		signal := func(s syscall.Signal) func() {
			return func() {
				if err := c.processes[i].Signal(s); err != nil {
					t.Error(err)
				}
			}
		}
		path := must(c.Kubeconfig(admin))(t)
		drill{path, signal(syscall.SIGSTOP), signal(syscall.SIGCONT), "    ! no answer from " + c.Server + " for ",
			"no answer from", 30 * time.Second}.run(t, c, "storage")
	})
}

// hangingPlugin writes a kubeconfig whose credential plugin gives a token for five seconds, and hangs while a file
// exists.
func hangingPlugin(t *testing.T, c *Cluster) (kubeconfig, hangs string) {
	t.Helper()
	hangs = c.path("hangs")
	script := c.path("plugin.sh")
	if err := os.WriteFile(script, []byte("while [ -e "+hangs+" ]; do sleep 0.1; done\n"+
		`printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"`+
		admin.Token+`","expirationTimestamp":"%s"}}' "$(date -u -d '+5 seconds' +%Y-%m-%dT%H:%M:%SZ)"`+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig = c.path("plugin.kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: e2e, cluster: {server: %q, certificate-authority: %q}}]
users:
- name: e2e
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: [%q]}
contexts: [{name: e2e, context: {cluster: e2e, user: e2e}}]
current-context: e2e
`, c.Server, c.CAFile, script), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, hangs
}
