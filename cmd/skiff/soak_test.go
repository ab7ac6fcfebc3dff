package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// soakFor makes TestSoak run, on request only: it takes as long as it says.
var soakFor = flag.Duration("soak", 0, "how long TestSoak runs the binary against a server that restarts every minute")

// soakServer is an API server on one port, whose process seems to restart: the port is closed for a second, and all
// connections break.
type soakServer struct {
	api     *apiserver.Server
	address string
	server  *http.Server
	done    chan struct{}
}

func (s *soakServer) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	s.address, s.server, s.done = l.Addr().String(), &http.Server{Handler: s.api}, make(chan struct{})
	go func() { defer close(s.done); _ = s.server.Serve(l) }()
}

func (s *soakServer) stop() {
	s.server.Close()
	<-s.done
}

// measured is one look at the process.
type measured struct{ rss, heap, goroutines, fds float64 }

func (m measured) String() string {
	return fmt.Sprintf("RSS %.1f MiB, heap in use %.1f MiB, %.0f goroutines, %.0f file descriptors", m.rss/(1<<20),
		m.heap/(1<<20), m.goroutines, m.fds)
}

// look scrapes /metrics.
func look(t *testing.T, url string) measured {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string) float64 {
		_, rest, _ := strings.Cut(string(text), "\n"+name+" ")
		number, _, _ := strings.Cut(rest, "\n")
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return v
	}
	return measured{value("process_resident_memory_bytes"), value("go_memstats_heap_inuse_bytes"),
		value("go_goroutines"), value("process_open_fds")}
}

// TestSoak runs the binary for -soak against an API server that restarts every minute, with WebServers that are
// created, scaled and deleted all the time. In its last third the process must be as small as in the one before:
// in the first, it still fills what it keeps for six minutes to count repeated Events.
//
//	go test ./cmd/skiff -run 'TestSoak$' -soak 10m -v -timeout 20m
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("takes as long as -soak says")
	}
	binary := filepath.Join(t.TempDir(), "skiff")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build skiff: %v\n%s", err, out)
	}
	s := &soakServer{api: apiserver.New(apiserver.Options{}), address: "127.0.0.1:0"}
	defer s.api.Close()
	s.start(t)
	defer func() { s.stop() }()
	client, err := kube.New(kube.Config{Server: "http://" + s.address})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	install := exec.Command(binary, "crds", "install", "--server", "http://"+s.address)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	metrics := free.Addr().String()
	free.Close()
	cmd := exec.Command(binary, "run", "--server", "http://"+s.address, "--metrics-bind-address", metrics,
		"--leader-elect", "--leader-election-namespace", "default")
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()

	webservers := kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
	began, restarted, looked, restarts := time.Now(), time.Now(), time.Now(), 0
	var looks []measured
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; time.Since(began) < *soakFor; i++ {
		<-tick.C
		name := fmt.Sprintf("web-%d", i%50)
		k := kube.Key{Namespace: "default", Name: name}
		switch i / 50 % 3 { // a refusal of any of these is of no interest: the next round does it again
		case 0:
			_ = client.Create(t.Context(), webservers, "default", map[string]any{
				"apiVersion": "skiff.dev/v1alpha1", "kind": "WebServer",
				"metadata": map[string]any{"name": name}, "spec": map[string]any{"image": "nginx"}},
				nil, kube.WriteOptions{})
		case 1:
			_ = client.Patch(t.Context(), webservers, k, kube.MergePatch,
				map[string]any{"spec": map[string]any{"replicas": i % 7}}, nil, kube.WriteOptions{})
		default:
			_ = client.Delete(t.Context(), webservers, k, kube.DeleteOptions{})
		}
		if time.Since(restarted) >= time.Minute {
			s.stop()
			select {
			case <-time.After(time.Second):
			case <-t.Context().Done():
			}
			s.start(t)
			restarted, restarts = time.Now(), restarts+1
		}
		if time.Since(looked) >= 10*time.Second {
			looks, looked = append(looks, look(t, "http://"+metrics+"/metrics")), time.Now()
			t.Logf("%4s, %d restarts: %s", time.Since(began).Round(time.Second), restarts, looks[len(looks)-1])
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ended = true
	if code := exitCode(t, cmd); code != 0 {
		t.Errorf("exit code %d", code)
	}
	third := len(looks) / 3
	early, late := middle(looks[third:2*third]), middle(looks[len(looks)-third:])
	t.Logf("second third: %s", early)
	t.Logf("last third:   %s", late)
	if late.goroutines > early.goroutines+5 || late.fds > early.fds+5 || late.rss > 1.1*early.rss ||
		late.heap > 1.1*early.heap+(1<<20) {
		t.Error("the process has grown")
	}
}

// middle is the median of each measure.
func middle(looks []measured) measured {
	median := func(of func(measured) float64) float64 {
		var all []float64
		for _, m := range looks {
			all = append(all, of(m))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return measured{median(func(m measured) float64 { return m.rss }),
		median(func(m measured) float64 { return m.heap }),
		median(func(m measured) float64 { return m.goroutines }), median(func(m measured) float64 { return m.fds })}
}
