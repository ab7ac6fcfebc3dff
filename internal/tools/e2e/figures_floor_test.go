package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

const (
	// floorRounds is how often the subjects take turns, peerRounds with -peer. A machine that others use swings by a
	// third within minutes: only the ratios of neighbours say something, and the median of three is not that of a bad
	// minute.
	floorRounds, peerRounds = 3, 5
	// floorWebServers and floorDeletions are enough for a ratio within a few percent, and few enough for a command
	// that is run before each change.
	floorWebServers, floorDeletions = 500, 100
)

var (
	peerFlag = flag.Bool("peer", false, "BenchmarkBesideTheFloor: measure a controller on controller-runtime, too")
	// skiff's default is 5, and ten is what the figures of other issues and peers were measured with.
	workersFlag = flag.Int("workers", 10, "BenchmarkBesideTheFloor: how many WebServers each works on at a time")
)

// subject is a program that works for WebServers.
type subject struct {
	name  string
	start func(name, namespace string) (*Skiff, error)
}

// BenchmarkBesideTheFloor measures the webserver controller in turn with the program floor, which makes the same
// requests: WebServers that come while it runs, Services that are deleted, and WebServers that were there before it.
func BenchmarkBesideTheFloor(b *testing.B) {
	c := must(StartControlPlane(b.Context(), must(binaries())(b)))(b) // without controllers: no pods are needed
	b.Cleanup(func() { c.Close(b.Failed()) })
	kubeconfig := must(c.Kubeconfig(admin))(b)
	skiff := must(skiffBinary())(b)
	if r, err := runCommand(b.Context(), nil, "", skiff, "crds", "install", "--kubeconfig", kubeconfig); err != nil ||
		r.Code != 0 {
		b.Fatalf("install the CRDs: %v %v", err, r)
	}
	Eventually(b, limit, "the server has WebServers", func() (bool, string) { // the floor asks once
		_, err := c.Admin.Get(b.Context(), "/apis/skiff.dev/v1alpha1/webservers?resourceVersion=0")
		return err == nil, fmt.Sprint(err)
	})
	rounds, workers := floorRounds, fmt.Sprint("-workers=", *workersFlag)
	subjects := []subject{
		other(b, c, ".", "floor", []string{"FLOOR_TOKEN=" + admin.Token}, "-server", c.Server, "-ca", c.CAFile,
			workers),
		{"skiff", func(name, namespace string) (*Skiff, error) {
			return c.StartSkiff(skiff, name, kubeconfig, "--watch-namespaces", namespace,
				fmt.Sprint("--max-concurrent-reconciles=", *workersFlag))
		}},
	}
	if *peerFlag {
		rounds = peerRounds
		subjects = append(subjects, other(b, c, filepath.Join("..", "outside"), "peer",
			[]string{"KUBECONFIG=" + kubeconfig}, workers))
	}
	all := map[string][]map[string]float64{}
	for round := range rounds {
		for _, s := range subjects {
			name := fmt.Sprintf("%s-%d", s.name, round+1)
			row := besideTheFloor(b, c, name, s.start)
			figure(b, name, row)
			all[s.name] = append(all[s.name], row)
		}
	}
	ratios(b, all, "skiff", "floor")
	if *peerFlag {
		ratios(b, all, "skiff", "peer")
		ratios(b, all, "peer", "floor")
	}
}

// other builds the program of a directory below module.
func other(b *testing.B, c *Cluster, module, program string, env []string, args ...string) subject {
	b.Helper()
	path := filepath.Join(suite.dir, program)
	if _, err := goTool(b.Context(), module, []string{"CGO_ENABLED=0"}, "build", "-trimpath", "-ldflags", "-s -w",
		"-o", path, "./"+program); err != nil {
		b.Fatal(err)
	}
	return subject{program, func(name, namespace string) (*Skiff, error) {
		probes := loopback(must(freePort())(b))
		p, err := c.Start(name, env, slices.Concat([]string{path}, args, []string{"-namespace", namespace,
			"-probes", probes})...)
		return &Skiff{Process: p, probes: "http://" + probes}, err
	}}
}

// ratios prints how the figures of one subject are to those of another that had its turn beside it.
func ratios(b *testing.B, all map[string][]map[string]float64, one, to string) {
	b.Helper()
	for unit := range all[to][0] {
		var ratios []float64
		for round := range all[to] {
			ratios = append(ratios, all[one][round][unit]/all[to][round][unit])
		}
		slices.Sort(ratios)
		figure(b, one+"-to-"+to+"/"+unit, map[string]float64{"least": ratios[0], "median": ratios[len(ratios)/2],
			"most": ratios[len(ratios)-1]})
	}
}

// besideTheFloor measures one subject in namespaces of its own.
func besideTheFloor(b *testing.B, c *Cluster, name string,
	start func(name, namespace string) (*Skiff, error)) map[string]float64 {
	b.Helper()
	row := map[string]float64{}
	burst, early := name+"-burst", name+"-early"
	for _, namespace := range []string{burst, early} {
		_ = must(c.Admin.Create(b.Context(), "/api/v1/namespaces", Object{"metadata": Object{"name": namespace}}))(b)
	}
	running := must(start(name, burst))(b)
	waitReady(b, running)
	services := arrivals(b, c.Admin, "/api/v1/namespaces/"+burst+"/services", 2*floorWebServers)
	before, began := atRest(b, running), time.Now()
	makeWebServers(b, c, burst)
	row["s"] = services.after(b, floorWebServers).Sub(began).Seconds()
	after := atRest(b, running)
	row["CPU-s"], row["MB"] = (after.CPU - before.CPU).Seconds(), mb(after.RSS)
	heal := heals(b, c, burst, services)
	row["heal-p50-ms"], row["heal-p99-ms"] = heal["p50-ms"], heal["p99-ms"]
	row["heal-CPU-s"] = (atRest(b, running).CPU - after.CPU).Seconds()
	noError(b, running.Kill())
	freeNodePorts(b, c, burst)

	makeWebServers(b, c, early)
	services, began = arrivals(b, c.Admin, "/api/v1/namespaces/"+early+"/services", 2*floorWebServers), time.Now()
	running = must(start(name+"-early", early))(b)
	row["early-s"] = services.after(b, floorWebServers).Sub(began).Seconds()
	row["early-CPU-s"] = atRest(b, running).CPU.Seconds()
	noError(b, running.Kill())
	freeNodePorts(b, c, early)
	return row
}

// freeNodePorts deletes the Services of a namespace: a cluster has 2,768 node ports.
func freeNodePorts(t testing.TB, c *Cluster, namespace string) {
	t.Helper()
	noError(t, c.Admin.Delete(t.Context(), "/api/v1/namespaces/"+namespace+"/services"))
}

func makeWebServers(t testing.TB, c *Cluster, namespace string) {
	t.Helper()
	parallel(t, floorWebServers, func(ctx context.Context, i int) error {
		_, err := c.Admin.Create(ctx, "/apis/skiff.dev/v1alpha1/namespaces/"+namespace+"/webservers",
			WebServerObject(floorName(i), "nginx:1.25", 2))
		return err
	})
}

func floorName(i int) string { return fmt.Sprintf("web-%04d", i) }

// heals deletes one Service after the other, and returns after which time each was there again.
func heals(t testing.TB, c *Cluster, namespace string, services stream) map[string]float64 {
	t.Helper()
	var took []time.Duration
	for i := range floorDeletions {
		name := floorName(i) + "-service"
		noError(t, c.Admin.Delete(t.Context(), "/api/v1/namespaces/"+namespace+"/services/"+name))
		deleted := services.next(t, "DELETED", name)
		took = append(took, services.next(t, "ADDED", name).Sub(deleted))
	}
	return distribution(took)
}

// atRest returns what a program has used once it does next to nothing: after half a second with a hundredth of CPU.
func atRest(t testing.TB, sk *Skiff) (u Usage) {
	t.Helper()
	tick := time.NewTicker(time.Second / 2)
	defer tick.Stop()
	last := time.Duration(-1)
	Eventually(t, limit, "half a second with next to no work", func() (bool, string) {
		if sk.Exited() {
			t.Fatal(sk.Tail(20))
		}
		<-tick.C
		u = usageOf(t, sk)
		did := u.CPU - last
		rests := last >= 0 && did <= time.Second/100
		last = u.CPU
		return rests, fmt.Sprintf("%v of CPU", did)
	})
	return u
}

// arrival is an event of a watch, and when it came.
type arrival struct {
	kind, name string
	at         time.Time
}

// stream is a watch.
type stream <-chan arrival

// arrivals watches a collection from now on until the test ends. most bounds how many events may wait for their
// reader, so that the times are not those of a slow one.
func arrivals(t testing.TB, api *API, collection string, most int) stream {
	t.Helper()
	list := must(api.Get(t.Context(), collection+"?limit=1"))(t)
	resp := must(api.send(t.Context(), http.MethodGet, collection+"?watch=true&resourceVersion="+
		list.Str("metadata", "resourceVersion"), nil, nil))(t)
	events := make(chan arrival, most)
	ended := make(chan struct{})
	t.Cleanup(func() {
		resp.Body.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		defer close(events)
		for frames := json.NewDecoder(resp.Body); ; {
			var frame struct {
				Type   string
				Object struct{ Metadata struct{ Name string } }
			}
			if frames.Decode(&frame) != nil {
				return
			}
			select {
			case events <- arrival{frame.Type, frame.Object.Metadata.Name, time.Now()}:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return events
}

// next returns when an object came or went.
func (s stream) next(t testing.TB, kind, name string) time.Time {
	t.Helper()
	for e := range s {
		if e.kind == kind && e.name == name {
			return e.at
		}
	}
	t.Fatalf("the watch ended before %s %s", kind, name)
	return time.Time{}
}

// after returns when n objects had come.
func (s stream) after(t testing.TB, n int) time.Time {
	t.Helper()
	for e := range s {
		if e.kind == "ADDED" {
			n--
		}
		if n == 0 {
			return e.at
		}
	}
	t.Fatalf("the watch ended before %d more objects", n)
	return time.Time{}
}
