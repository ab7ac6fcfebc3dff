package supervise_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"gopkg.in/yaml.v3"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/supervise"
	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
)

// parents is how many BenchmarkParents makes, as in the figures of metacontroller that README has beside it.
const parents = 200

// Each parent gets one ConfigMap and a status that counts it, by a webhook. One operation is 200 parents, from the
// first POST to the last status, with the work of the embedded API server, of the webhook, and of who makes the
// parents.
func BenchmarkParents(b *testing.B) {
	var requests, calls int
	for range b.N {
		r, c := makeParents(b)
		requests, calls = requests+r, calls+c
	}
	b.ReportMetric(float64(requests)/float64(b.N*parents), "requests/parent")
	b.ReportMetric(float64(calls)/float64(b.N*parents), "calls/parent")
}

func makeParents(b *testing.B) (requests, calls int) {
	b.StopTimer()
	api := apiserver.New(apiserver.Options{})
	defer api.Close()
	pipe := api.ListenPipe()
	defer pipe.Close()
	connect := func(agent string) *kube.Client {
		c, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial, UserAgent: agent})
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	client, user := connect("controller"), connect("user")
	defer client.Close()
	defer user.Close()
	ctx, cancel := context.WithCancel(context.Background())
	l := make(listener)
	var called atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called.Add(1)
		var request struct {
			Parent struct{ Metadata struct{ Name string } }

			Children map[string]map[string]any
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			b.Error(err)
		}
		fmt.Fprintf(w, `{"status":{"seen":%d},"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},`+
			`"data":{"a":"b"}}]}`, len(request.Children["ConfigMap.v1"]), request.Parent.Metadata.Name)
	})}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) }) // it ends when it is closed
	recorder := events.New(events.Options{Client: client, Controller: "skiff.dev/hooks", Log: logr.Discard()})
	set := controller.NewSet(logr.Discard())
	hooks := supervise.New(supervise.Options{Set: set, Recorder: recorder, Log: logr.Discard(),
		Call: call.Options{Log: logr.Discard(), Dial: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			l <- there
			return here, nil
		}}, Setup: controller.Setup{Client: client, Mirrors: cache.NewMirrors(), Log: logr.Discard()}})
	running.Go(func() { hooks.Run(ctx) })
	running.Go(func() { _ = set.Run(ctx) })
	running.Go(func() { _ = recorder.Run(ctx) })
	defer func() {
		cancel()
		close(l)
		_ = server.Close() // it waits for Serve, which ends with the listener
		running.Wait()
	}()
	installDefinition(b, user)
	c, err := spec.FromObject(kube.Raw(composite))
	if err != nil {
		b.Fatal(err)
	}
	hooks.Put(c)
	until(func() bool { return len(set.All()) == 1 && set.All()[0].Ready() == nil })
	api.ForgetRequests()
	b.StartTimer()
	var making sync.WaitGroup
	for w := range 10 {
		making.Go(func() {
			for i := w; i < parents; i += 10 {
				text := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t%d"}}`, i)
				if err := user.Create(ctx, things, "default", kube.Raw(text), nil, kube.WriteOptions{}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	making.Wait()
	until(func() bool {
		for _, o := range api.List(things, "default") {
			if operatortest.At(o, "status", "seen") != int64(1) {
				return false
			}
		}
		return true
	})
	b.StopTimer()
	until(func() bool { return set.All()[0].Stats().Queued == 0 && set.All()[0].Stats().Queue.Running == 0 })
	for _, r := range api.Requests() {
		if r.UserAgent == "controller" && r.Query.Get("watch") == "" {
			requests++
		}
	}
	b.StartTimer()
	return requests, int(called.Load())
}

func installDefinition(b *testing.B, user *kube.Client) {
	text, err := os.ReadFile("../reconcile/testdata/things.yaml")
	if err != nil {
		b.Fatal(err)
	}
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		b.Fatal(err)
	}
	if err := user.Create(context.Background(), kube.Resource{Group: "apiextensions.k8s.io", Version: "v1",
		Plural: "customresourcedefinitions", ClusterScoped: true}, "", crd, nil, kube.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
}

// until waits for a condition.
func until(holds func() bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		<-tick.C
	}
}
