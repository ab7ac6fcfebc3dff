package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// figureRounds is how often each server is started: in turn, so that what else the machine does meets all of them.
const figureRounds = 3

// testServer is a server whose figures stand in a column of the table.
type testServer struct {
	name string
	bins Binaries
	rows map[string][]float64 // what was measured, in each round
}

var (
	figureSizes = map[string]int{"14-kb": 80, "small": 0} // namespaces, with how many settings their pods have
	figureForms = map[string]string{"JSON": "application/json", "protobuf": "application/vnd.kubernetes.protobuf"}
)

// BenchmarkTestCluster measures skiff-dev beside etcd and kube-apiserver. Each is two processes with the same flags,
// of which that of etcd has nothing to do for skiff-dev, and serves the same client over TLS.
func BenchmarkTestCluster(b *testing.B) {
	servers := []testServer{
		{name: "etcd and kube-apiserver", bins: must(binaries())(b)},
		{name: "skiff-dev", bins: assets(b, must(skiffDevBinary())(b))},
		{name: "skiff-dev with CEL", bins: assets(b, buildWithCEL(b))},
	}
	for i := range servers {
		servers[i].rows = map[string][]float64{}
	}
	for range figureRounds {
		for _, s := range servers {
			s.measure(b)
		}
	}
	fmt.Print(figureTable(servers))
}

// buildWithCEL builds skiff-dev as it is released.
func buildWithCEL(b *testing.B) string {
	path := filepath.Join(b.TempDir(), "skiff-dev")
	must(goTool(b.Context(), filepath.Join(repository, "internal", "testcluster", "cel"), []string{"CGO_ENABLED=0"},
		"build", "-tags", "grpcnotrace", "-trimpath", "-ldflags", "-s -w", "-o", path, "./skiff-dev"))(b)
	return path
}

// assets are the programs that a skiff-dev writes for envtest.
func assets(b *testing.B, program string) Binaries {
	dir := b.TempDir()
	if r := must(runCommand(b.Context(), nil, "", program, "assets", dir))(b); r.Code != 0 {
		b.Fatal(r)
	}
	return Binaries{etcd: filepath.Join(dir, "etcd"), apiserver: filepath.Join(dir, "kube-apiserver")}
}

// measure starts a server, fills it with pods, and lists them.
func (s testServer) measure(b *testing.B) {
	begin := time.Now()
	c := must(StartControlPlane(b.Context(), s.bins, "--audit-log-path="))(b) // "": no audit
	defer c.Close(b.Failed())
	s.add("ready, s", time.Since(begin).Seconds())
	s.add("RSS when ready, MB", mb(c.usage(b).RSS))
	for size := range figureSizes {
		must(c.Admin.Create(b.Context(), "/api/v1/namespaces", Object{"metadata": Object{"name": size}}))(b)
	}
	const alone = 1000
	begin = time.Now()
	for i := range alone {
		noError(b, createPod(b.Context(), c, "small", i))
	}
	s.add("small pods created per second, 1 client", alone/time.Since(begin).Seconds())
	for _, size := range []string{"small", "14-kb"} {
		first := map[string]int{"small": alone}[size]
		begin = time.Now()
		parallel(b, figurePods-first, func(ctx context.Context, i int) error {
			return createPod(ctx, c, size, first+i)
		})
		s.add(size+" pods created per second, 16 clients", float64(figurePods-first)/time.Since(begin).Seconds())
	}
	for _, size := range slices.Sorted(maps.Keys(figureSizes)) {
		for _, form := range slices.Sorted(maps.Keys(figureForms)) {
			for _, encoding := range []string{"identity", "gzip"} {
				s.list(b, c, size, form, encoding)
			}
		}
	}
	s.add("RSS in the end, MB", mb(c.usage(b).RSS))
}

// list measures the first list of a kind, and the median of some more.
func (s testServer) list(b *testing.B, c *Cluster, size, form, encoding string) {
	row := fmt.Sprintf("list of 10,000 %s pods, %s", size, form)
	if encoding != "identity" {
		row += ", " + encoding
	}
	header := http.Header{"Accept": {figureForms[form]}, "Accept-Encoding": {encoding}}
	var again, cpu []float64
	for i := range 4 {
		before, begin := c.usage(b).CPU, time.Now()
		resp := must(c.Admin.send(b.Context(), http.MethodGet, "/api/v1/namespaces/"+size+"/pods", header, nil))(b)
		n := must(io.Copy(io.Discard, resp.Body))(b)
		took := time.Since(begin)
		noError(b, resp.Body.Close())
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != figureForms[form] {
			b.Fatalf("%s of %s: %s %s", row, s.name, resp.Status, got)
		}
		spent := (c.usage(b).CPU - before).Seconds()
		if i == 0 {
			s.add(row+": MB", mb(n))
			s.add(row+": first, s", took.Seconds())
			s.add(row+": first, CPU s", spent)
			continue
		}
		again, cpu = append(again, took.Seconds()), append(cpu, spent)
	}
	s.add(row+": again, s", medianOf(again))
	s.add(row+": again, CPU s", medianOf(cpu))
}

func (s testServer) add(row string, value float64) { s.rows[row] = append(s.rows[row], value) }

// usage is that of the whole control plane.
func (c *Cluster) usage(t testing.TB) (sum Usage) {
	t.Helper()
	for _, p := range c.processes {
		u := must(p.Usage())(t)
		sum.RSS += u.RSS
		sum.CPU += u.CPU
	}
	return sum
}

func createPod(ctx context.Context, c *Cluster, namespace string, i int) error {
	var env []Object
	for e := range figureSizes[namespace] {
		env = append(env, Object{"name": fmt.Sprintf("SETTING_%d", e),
			"value": fmt.Sprintf("the value of setting %d for the application, as %d others have one", e, i)})
	}
	_, err := c.Admin.Create(ctx, "/api/v1/namespaces/"+namespace+"/pods", Object{"apiVersion": "v1", "kind": "Pod",
		"metadata": Object{"name": fmt.Sprintf("pod-%05d", i), "labels": Object{"app": fmt.Sprintf("app-%d", i%50)}},
		"spec":     Object{"containers": []Object{{"name": "main", "image": "nginx:1.27", "env": env}}}})
	return err
}

func medianOf(all []float64) float64 {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

// figureTable is Markdown: a row for each figure, the median of the rounds.
func figureTable(servers []testServer) string {
	var out strings.Builder
	head, line := "|", "|---|"
	for _, s := range servers {
		head, line = head+" | "+s.name, line+"---|"
	}
	fmt.Fprintf(&out, "%s |\n%s\n", head, line)
	for _, row := range slices.Sorted(maps.Keys(servers[0].rows)) {
		out.WriteString("| " + row)
		for _, s := range servers {
			fmt.Fprintf(&out, " | %.4g", medianOf(s.rows[row]))
		}
		out.WriteString(" |\n")
	}
	return out.String()
}
