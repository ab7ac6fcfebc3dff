package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"skiff/internal/testcluster/apiserver"
)

// hostileValues are JSON values of up to 1.5 MB that cost much more than what they are worth, by name.
func hostileValues() map[string]string {
	const size = 1_400_000
	key := strings.Repeat("k", 100_000)
	many := func(item string, size int) string {
		return strings.TrimSuffix(strings.Repeat(item+",", size/(len(item)+1)), ",")
	}
	deep := func(open, shut string, levels int) string {
		return strings.Repeat(open, levels) + "1" + strings.Repeat(shut, levels)
	}
	named := func(format string, n int) string {
		var items []string
		for i := range n {
			items = append(items, fmt.Sprintf(format, i))
		}
		return strings.Join(items, ",")
	}
	return map[string]string{
		"long-key-deep-lists":   `{"` + key + `":` + deep("[", "]", 9_900) + `}`,
		"long-key-deep-objects": `{"` + key + `":` + deep(`{"x":`, "}", 4_900) + `}`,
		"long-key-90-levels":    `{"` + key + `":` + deep(`{"x":`, "}", 90) + `}`,
		"empty-objects":         `{"containers":[` + many(`{}`, size) + `]}`,
		"small-objects":         `{"containers":[` + many(`{"a":0}`, size) + `]}`,
		"containers":            `{"containers":[` + named(`{"name":"c%d","image":"x"}`, 40_000) + `]}`,
		"volumes":               `{"volumes":[` + named(`{"name":"v%d"}`, 900) + `]}`,
		"tolerations":           `{"tolerations":[` + many(`"a"`, size) + `]}`,
		"many-fields":           `{` + named(`"f%d":1`, 100_000) + `}`,
		"huge-number":           `{"priority":` + strings.Repeat("7", size) + `}`,
		"long-string":           `{"nodeName":"` + strings.Repeat("x", size) + `"}`,
		"many-labels":           `{` + named(`"k%d":"v"`, 80_000) + `}`,
		"long-label":            `{"k":"` + strings.Repeat("v", size) + `"}`,
		"duplicates":            `{"` + key + `":{` + many(`"x":1`, size-len(key)) + `}}`,
	}
}

// hostileServer is an API server whose custom resources of one kind are those of a list that is never refused.
type hostileServer struct {
	api              *apiserver.Server
	collection, list string
}

func (s *hostileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/apis/skiff.dev/") ||
		path.Base(r.URL.Path) == s.collection && r.Method != http.MethodGet {
		s.api.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch q := r.URL.Query(); {
	case path.Base(r.URL.Path) != s.collection: // of one object: any write succeeds
		parts := strings.Split(r.URL.Path, "/")
		fmt.Fprintf(w, `{"metadata":{"name":%q,"namespace":%q,"resourceVersion":"2"}}`, parts[7], parts[5])
	case q.Has("sendInitialEvents"):
		http.Error(w, `{"kind":"Status","code":422,"reason":"Invalid","message":"not supported"}`,
			http.StatusUnprocessableEntity)
	case q.Has("watch"):
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		io.WriteString(w, s.list)
	}
}

// peak returns the largest memory that a process has had, in MiB.
func peak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("there is no /proc here")
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("no VmHWM in %s: %v", status, err)
	}
	return kib >> 10
}

func TestHostileObjectsCostLittleMemory(t *testing.T) {
	binary := build(t)
	for _, kind := range []string{"WebServer", "Redis", "RestartTrigger"} {
		for name, value := range hostileValues() {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				t.Logf("peak %d MiB", runAgainst(t, binary, kind, value))
			})
		}
	}
}

// runAgainst runs skiff with one hostile object and a few that are as they should be, and returns its peak of memory.
func runAgainst(t *testing.T, binary, kind, value string) int {
	collection := strings.ToLower(kind) + "s"
	if kind == "Redis" {
		collection = "redis"
	}
	controller := map[string]string{"WebServer": "webserver", "Redis": "redis", "RestartTrigger": "restart"}[kind]
	spec := `{"image":"x","num":1,"port":6379,"template":{"spec":` + value + `}}`
	if kind == "RestartTrigger" {
		spec = `{"source":{"selector":{"matchLabels":` + value + `}},"targets":[{"kind":"Deployment","name":"web"}]}`
	}
	const head = `{"kind":"%sList","apiVersion":"skiff.dev/v1alpha1","metadata":{"resourceVersion":"1"},"items":[` +
		`{"metadata":{"name":"evil","namespace":"default","uid":"u","resourceVersion":"1","generation":1},"spec":`
	s := &hostileServer{api: apiserver.New(apiserver.Options{}), collection: collection,
		list: fmt.Sprintf(head, kind) + spec + `}]}`}
	front := httptest.NewServer(s)
	defer front.Close()
	defer s.api.Close()
	// The limit of virtual memory protects the machine; a Go program reserves more of it than it uses.
	cmd := command(t, "run", "--server", front.URL, "--controllers", controller)
	cmd.Path = "/bin/sh"
	cmd.Args = append([]string{"sh", "-c", `ulimit -v 3000000; exec "$0" "$@"`, binary}, cmd.Args[1:]...)
	lines := start(t, cmd)
	lines.Buffer(nil, 8<<20)
	var log strings.Builder
	var reading sync.WaitGroup
	settled := make(chan struct{})
	reading.Go(func() {
		var once sync.Once
		for lines.Scan() {
			log.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "evil") {
				once.Do(func() { close(settled) })
			}
		}
	})
	said := true
	select {
	case <-settled:
	case <-time.After(40 * time.Second):
		said = false
	}
	<-time.After(200 * time.Millisecond) // for what follows from it
	cost := peak(t, cmd.Process.Pid)
	signal(t, cmd, syscall.SIGTERM)
	reading.Wait()
	exitCode(t, cmd)
	if !said {
		t.Errorf("nothing was said about the object:\n%.2000s", log.String())
	}
	// 15 MiB are what a controller with nothing to do takes.
	if log.Len() > 100_000 || cost > 15+50 {
		t.Errorf("%d MiB, %d bytes of log:\n%.2000s", cost, log.Len(), log.String())
	}
	return cost
}
