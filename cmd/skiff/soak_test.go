package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
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

// measures are what the process must not have more and more of, with how much more is due to chance.
var measures = []struct {
	name         string
	factor, more float64
}{{"process_resident_memory_bytes", 1.1, 0}, {"go_memstats_heap_inuse_bytes", 1.1, 1 << 20}, {"go_goroutines", 1, 5},
	{"process_open_fds", 1, 5}}

// look scrapes the measures.
func look(t *testing.T, url string) (values []float64) {
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
	for _, m := range measures {
		_, rest, _ := strings.Cut(string(text), "\n"+m.name+" ")
		number, _, _ := strings.Cut(rest, "\n")
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatalf("%s: %v", m.name, err)
		}
		values = append(values, v)
	}
	return values
}

// median is that of one measure in some looks.
func median(looks [][]float64, measure int) float64 {
	var all []float64
	for _, l := range looks {
		all = append(all, l[measure])
	}
	slices.Sort(all)
	return all[len(all)/2]
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
	binary := build(t)
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
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { // a failure says more than that the process has ended before
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()

	webservers := kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
	began, restarted, looked, restarts := time.Now(), time.Now(), time.Now(), 0
	var looks [][]float64
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
			t.Logf("%4s, %d restarts: %.0f", time.Since(began).Round(time.Second), restarts, looks[len(looks)-1])
		}
	}
	signal(t, cmd, os.Interrupt)
	if code := exitCode(t, cmd); code != 0 {
		t.Errorf("exit code %d", code)
	}
	third := len(looks) / 3
	for i, m := range measures {
		early, late := median(looks[third:2*third], i), median(looks[len(looks)-third:], i)
		t.Logf("%s: %.0f in the second third, %.0f in the last", m.name, early, late)
		if late > m.factor*early+m.more {
			t.Errorf("%s has grown", m.name)
		}
	}
}
