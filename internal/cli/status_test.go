package cli

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"skiff/internal/fakeapi"
)

// statusOf runs `skiff run` on a server and asks it for its status until the output has a text.
func statusOf(t *testing.T, server, until string, args ...string) (result, string) {
	t.Helper()
	f := follow(t, append([]string{"run", "--server", server, "--controllers", "webserver",
		"--health-probe-bind-address", "127.0.0.1:0"}, args...)...)
	t.Cleanup(func() { f.stop() })
	serving := regexp.MustCompile(`"msg"="serving probes" "address"="([^"]+)"`)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		m := serving.FindStringSubmatch(f.stderr.String())
		if m == nil {
			continue
		}
		if r := skiff(t, "status", "--health-probe-bind-address", m[1]); strings.Contains(r.stdout, until) {
			return r, m[1]
		}
	}
	t.Fatalf("the status never says %q; the log: %s", until, f.stderr)
	return result{}, ""
}

func TestStatusOfASkiffThatIsFine(t *testing.T) {
	c := newCluster(t, fakeapi.Options{})
	skiff(t, "crds", "install", "--server", c.url()).want(t, exitDone)
	r, address := statusOf(t, c.url(), "all is well")
	r.want(t, exitDone)
	for _, want := range []string{"skiff at " + address + " is ready; all is well\n[+]shutdown ok\n[+]webserver ok\n",
		"\n    webservers.skiff.dev: streaming, 0 objects, last contact "} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in %s", want, r.stdout)
		}
	}
}

func TestStatusOfASkiffWithoutItsDefinitionNeedsAttention(t *testing.T) {
	r, _ := statusOf(t, newCluster(t, fakeapi.Options{}).url(), "is ready; 1 line needs attention")
	r.want(t, exitDiffer)
	want := "    ! not working: webservers.skiff.dev is not installed; run `skiff crds install`\n"
	if !strings.Contains(r.stdout, want) {
		t.Errorf("no %q in %s", want, r.stdout)
	}
}

// Each of them can be repaired only by somebody who knows what is wrong.
func TestStatusOfASkiffWithAnIncompatibleDefinitionSaysWhatIsWrongAndTheNextStep(t *testing.T) {
	for name, test := range map[string]struct {
		change func(version object) []any
		want   string
	}{
		"of another version only": {func(version object) []any {
			newer := maps.Clone(version)
			version["served"], version["storage"], newer["name"] = false, false, "v2"
			return []any{version, newer}
		}, "    ! not working: webservers.skiff.dev is served as v2, and this skiff needs v1alpha1; run the skiff " +
			"that these definitions belong to, or `skiff crds install` for this one\n"},
		"no version is served": {func(version object) []any {
			version["served"] = false
			return []any{version}
		}, "    ! not working: webservers.skiff.dev is not installed; run `skiff crds install`\n"},
		"without a field": {func(version object) []any {
			delete(lookup(version, "schema", "openAPIV3Schema", "properties", "spec", "properties").(object), "env")
			return []any{version}
		}, "    ! the cluster has an older definition of webservers.skiff.dev, and the server drops the fields " +
			"that it lacks; run `skiff crds install` (spec.env)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, fakeapi.Options{})
			c.change(test.change)
			r, _ := statusOf(t, c.url(), test.want)
			r.want(t, exitDiffer)
		})
	}
}

func TestStatusSaysWhatAnswersThereAndWhatIsWrongWithTheAddress(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	skiff(t, "status", "--health-probe-bind-address", strings.TrimPrefix(other.URL, "http://")).want(t, exitFailed,
		"the answer (404 Not Found) is not that of skiff; check the address")
	skiff(t, "status", "--health-probe-bind-address", "127.0.0.1:1").want(t, exitFailed,
		"ask skiff at 127.0.0.1:1 for its status: connect: connection refused; does skiff run there, "+
			"with --health-probe-bind-address?\n")
	for address, want := range map[string]string{
		"0":       `--health-probe-bind-address "0": want the HOST:PORT where skiff serves its probes`,
		"nowhere": "--health-probe-bind-address nowhere: want HOST:PORT or :PORT",
		":http":   "--health-probe-bind-address :http: the port must be a number from 0 to 65535",
	} {
		skiff(t, "status", "--health-probe-bind-address", address).want(t, exitUsage, want)
	}
	for from, want := range map[string]string{":81": "localhost:81", "0.0.0.0:81": "localhost:81",
		"[::]:81":     "localhost:81",
		"10.0.0.1:81": "10.0.0.1:81", "[::1]:81": "[::1]:81", "host:81": "host:81"} {
		if got := reachable(from); got != want {
			t.Errorf("reachable(%q) = %q, want %q", from, got, want)
		}
	}
}
