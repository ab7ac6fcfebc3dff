package cli

import (
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/health"
	"skiff/internal/testcluster/apiserver"
)

// serving is the line of the log that says where the probes are.
var serving = regexp.MustCompile(`"?msg"?="serving probes" "?address"?="?([^"\s]+)"?`)

// statusOf runs `skiff run` on a server and asks it for its status until the output has a text.
func statusOf(t *testing.T, server, until string, args ...string) (clitest.Result, string) {
	t.Helper()
	f := program.Follow(t, append([]string{"run", "--server", server, "--controllers", "webserver",
		"--health-probe-bind-address", "127.0.0.1:0"}, args...)...)
	t.Cleanup(func() { f.Stop() })
	address := probesOf(f)
	var r clitest.Result
	f.Await("the status says "+until, func() bool {
		r = skiff(t, "status", "--health-probe-bind-address", address)
		return strings.Contains(r.Stdout, until)
	})
	return r, address
}

// probesOf returns the address where a skiff that starts serves its probes.
func probesOf(f *clitest.Follower) (address string) {
	f.Await("serving probes", func() bool {
		m := serving.FindStringSubmatch(f.Stderr.String())
		if m != nil {
			address = m[1]
		}
		return m != nil
	})
	return address
}

func TestStatusOfASkiffThatIsFine(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	r, address := statusOf(t, c.url(), "all is well")
	r.Want(t, ExitDone)
	for _, want := range []string{
		"skiff at " + address + " is ready; all is well\n[+]shutdown ok\n    " + c.url() + " answered ",
		" ago\n[+]webserver ok\n",
		"\n    webservers.skiff.dev: streaming, 0 objects, last contact "} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("no %q in %s", want, r.Stdout)
		}
	}
}

func TestStatusOfASkiffWithoutItsDefinitionNeedsAttention(t *testing.T) {
	r, _ := statusOf(t, newCluster(t, apiserver.Options{}).url(), "is ready; 1 line needs attention")
	r.Want(t, ExitDiffer)
	want := "    ! not working: webservers.skiff.dev is not installed; run `skiff crds install`\n"
	if !strings.Contains(r.Stdout, want) {
		t.Errorf("no %q in %s", want, r.Stdout)
	}
}

// Each needs another next step.
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
			"that it lacks: spec.env; run `skiff crds install`\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, apiserver.Options{})
			c.change(test.change)
			r, _ := statusOf(t, c.url(), test.want)
			r.Want(t, ExitDiffer)
		})
	}
}

func TestStatusSaysWhatAnswersThereAndWhatIsWrongWithTheAddress(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	skiff(t, "status", "--health-probe-bind-address", strings.TrimPrefix(other.URL, "http://")).Want(t, ExitFailed,
		"the answer (404 Not Found) is not that of skiff; check the address")
	skiff(t, "status", "--health-probe-bind-address", "127.0.0.1:1").Want(t, ExitFailed,
		"ask skiff at 127.0.0.1:1 for its status: nothing listens on 127.0.0.1:1: start skiff run with "+
			"--health-probe-bind-address 127.0.0.1:1\n")
	for from, want := range map[string]string{":81": "localhost:81", "0.0.0.0:81": "localhost:81",
		"[::]:81":     "localhost:81",
		"10.0.0.1:81": "10.0.0.1:81", "[::1]:81": "[::1]:81", "host:81": "host:81"} {
		if got := reachable(from); got != want {
			t.Errorf("reachable(%q) = %q, want %q", from, got, want)
		}
	}
}

func TestStatusWithoutAFlagFindsASkiffThatRunsWithoutOne(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	first, second := program.Follow(t, "run", "--server", c.url()), program.Follow(t, "run", "--server", c.url())
	if probesOf(first) == probesOf(second) {
		t.Fatalf("both serve their probes at %s", probesOf(first))
	}
	for _, f := range []*clitest.Follower{first, second} {
		address := probesOf(f)
		if !slices.Contains(probeAddresses(), address) {
			t.Fatalf("the probes are at %s, want one of %s: are %d other skiffs running on this machine?", address,
				probeAddresses(), probePorts)
		}
		f.Await("skiff status finds it", func() bool {
			return strings.Contains(skiff(t, "status").Stdout, "skiff at "+address+" is ready; all is well\n")
		})
	}
	first.Stop()
	second.Stop()
}

func TestRunWithAnAddressOfItsProbesServesThemThereOrNowhere(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	l, err := net.Listen("tcp", defaultProbes)
	for n := 0; err != nil && n < 600; n++ { // a test of another package may hold the port for a while
		<-time.After(100 * time.Millisecond)
		l, err = net.Listen("tcp", defaultProbes)
	}
	if err == nil { // else a program has it that does not end, which is as good
		defer l.Close()
	}
	f := program.Follow(t, "run", "--server", c.url(), "--health-probe-bind-address", defaultProbes)
	const want = "--health-probe-bind-address " + defaultProbes + ": port 8081 is taken"
	if code := f.Wait(); code != ExitFailed || !strings.Contains(f.Stderr.String(), want) {
		t.Errorf("exit code %d, log:\n%s", code, f.Stderr)
	}
}

func TestStatusShowsAllThatAnswerAndIgnoresOtherPrograms(t *testing.T) {
	say := func(code int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	fine := say(http.StatusOK, reportOf(health.Check{Name: "shutdown"}))
	failing := say(http.StatusServiceUnavailable, reportOf(health.Check{Name: "redis",
		Failed: []health.Problem{{Public: "x"}}}))
	other := say(http.StatusOK, "hello")
	q := newStatusAsker(statusTimeout)
	defer q.close()
	for _, test := range []struct {
		addresses []string
		want      string
		err       error
	}{
		{[]string{"127.0.0.1:1", fine, other}, "skiff at " + fine + " is ready; all is well\n[+]shutdown ok\n", nil},
		{[]string{failing, other, fine}, "skiff at " + failing + " is not ready; 1 line needs attention\n" +
			"[-]redis failed: x\n\nskiff at " + fine + " is ready; all is well\n[+]shutdown ok\n", errDiffer},
		{[]string{other, "127.0.0.1:1"}, "", nil},
	} {
		all := q.find(t.Context(), test.addresses)
		text := new(statusFlags).textOfAll(all, io.Discard)
		if worst(all) != test.err || text != test.want {
			t.Errorf("got %q, want %q", text, test.want)
		}
	}
}

func TestNoColoursAreWrittenToAFileOrWhereNoColorIsSet(t *testing.T) {
	device := must(os.OpenFile(os.DevNull, os.O_WRONLY, 0))(t) // which passes for a terminal
	defer device.Close()
	t.Setenv("NO_COLOR", "")
	if !Coloured(device) {
		t.Error("a terminal has no colours")
	}
	if Coloured(new(strings.Builder)) {
		t.Error("what is no terminal has colours")
	}
	t.Setenv("NO_COLOR", "1")
	if Coloured(device) {
		t.Error("NO_COLOR is not heeded")
	}
}
