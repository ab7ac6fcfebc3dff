package restart

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// watching is a trigger whose status says that it watches pods.
func watching(namespace, name string, spec Spec) *RestartTrigger {
	t := &RestartTrigger{Spec: spec}
	t.Namespace, t.Name, t.UID = namespace, name, namespace+name
	t.Status.Selector, t.Status.TargetNames, t.ResourceVersion = "set", "set", "1"
	for _, ref := range spec.Targets {
		t.Status.Targets = append(t.Status.Targets, TargetStatus{TargetRef: ref,
			PodLabels: "app=" + ref.Name})
	}
	return t
}

func specFor(app, target string) Spec {
	return Spec{Source: SourceSpec{Selector: labels.Selector{MatchLabels: kube.Labels{{Key: "app", Value: app}}}},
		Targets: []TargetRef{{Kind: "Deployment", Name: target}}}
}

func somePod(namespace, app string) *pod {
	p := &pod{}
	p.Namespace, p.Name = namespace, app+"-0"
	p.Labels = kube.Labels{{Key: "app", Value: app}, {Key: "pod-template-hash", Value: "7c5ddbdf54"},
		{Key: "team", Value: "blue"}, {Key: "tier", Value: "back"}, {Key: "version", Value: "v1"}}
	p.OwnerReferences = []kube.OwnerReference{{Kind: "ReplicaSet", Name: app + "-7c5ddbdf54", Controller: true}}
	return p
}

// finderOf returns a finder whose mirrors have read some pods and triggers.
func finderOf(b testing.TB, some []*pod, triggers ...*RestartTrigger) *finder {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		write := func(kind string, object any) {
			text, err := json.Marshal(struct {
				Type   string `json:"type"`
				Object any    `json:"object"`
			}{kind, object})
			if err == nil {
				_, err = w.Write(append(text, '\n'))
			}
			if err != nil {
				b.Error(err)
			}
		}
		for _, t := range triggers {
			if strings.HasSuffix(r.URL.Path, "/"+resource.Plural) {
				write("ADDED", t)
			}
		}
		for _, p := range some {
			if strings.HasSuffix(r.URL.Path, "/pods") {
				write("ADDED", p)
			}
		}
		write("BOOKMARK", map[string]any{"metadata": map[string]any{"resourceVersion": "1",
			"annotations": map[string]string{"k8s.io/initial-events-end": "true"}}})
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	client, err := kube.New(kube.Config{Server: server.URL})
	if err != nil {
		b.Fatal(err)
	}
	ts := cache.New[*RestartTrigger](cache.Options{Resource: resource, Client: client,
		MaxObjectBytes: 64 << 10})
	ps := cache.New[*pod](cache.Options{Resource: pods, Client: client})
	f := newFinder(ts, ps)
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { ts.Run(ctx) })
	running.Go(func() { ps.Run(ctx) })
	news := make(chan struct{}, 1)
	for _, on := range []func(func()) func(){ts.OnServes, ps.OnServes} {
		defer on(func() {
			select {
			case news <- struct{}{}:
			default:
			}
		})()
	}
	b.Cleanup(func() {
		stop()
		running.Wait()
		client.Close()
		server.Close()
	})
	for !ts.Serves("") || !ps.Serves("") {
		<-news
	}
	return f
}

// An event of a pod is handled on the goroutine that all pods come through.
func BenchmarkAPodEventBeside2000Triggers(b *testing.B) {
	var triggers []*RestartTrigger
	for i := range 2000 {
		triggers = append(triggers, watching(fmt.Sprint("tenant-", i/200), fmt.Sprint("t-", i),
			specFor("redis", "predixy")))
	}
	f := finderOf(b, nil, append(triggers, watching("ours", "rt", specFor("redis", "predixy")))...)
	p := somePod("ours", "redis")
	b.ReportAllocs()
	for b.Loop() {
		if n := len(f.forPod(p)); n != 1 {
			b.Fatalf("%d triggers found", n)
		}
	}
}

// What one of 10,000 pods takes in the mirror, with its indexes.
func BenchmarkHeapPerPod(b *testing.B) {
	const n = 10_000
	var some []*pod
	for i := range n {
		p := somePod(fmt.Sprint("ns-", i/100), fmt.Sprint("web-", i/10))
		p.Name, p.UID, p.ResourceVersion = fmt.Sprintf("%s-%05d", p.OwnerReferences[0].Name, i),
			fmt.Sprintf("%036d", i), fmt.Sprint(i+1)
		p.OwnerReferences[0].UID = fmt.Sprintf("%036d", i/10)
		p.Status.Phase, p.Status.PodIP = "Running", fmt.Sprint("10.0.", i/250, ".", i%250)
		some = append(some, p)
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for b.Loop() {
		before := heap()
		f := finderOf(b, some)
		b.ReportMetric((heap()-before)/n, "B/pod")
		runtime.KeepAlive(f)
	}
}

func BenchmarkACycleSearchAmong200TriggersThatSetOffEachOther(b *testing.B) {
	var triggers []*RestartTrigger
	for i := range maxTriggers { // each target sets off all of them, and none comes back to the first
		triggers = append(triggers, watching("ours", fmt.Sprint("t-", i), specFor("x", fmt.Sprint("x", i))))
		triggers[i].Status.Targets[0].PodLabels = fmt.Sprint("app=x,n=", i)
	}
	f := finderOf(b, nil, triggers...)
	first := watching("ours", "first", specFor("redis", "x"))
	r, err := newRule(first)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if way := f.cycle(first, r, []TargetStatus{{PodLabels: "app=x"}}); way != nil {
			b.Fatal(way)
		}
	}
}

func TestATriggerThatIsTooLargeDoesNotHideThoseOfItsNamespace(t *testing.T) {
	f := finderOf(t, nil, watching("ours", "a", specFor("x", "web")), watching("ours", "b", specFor("x", "web")),
		watching("ours", "large", specFor(strings.Repeat("x", 100<<10), "web")))
	if _, _, err := f.triggers.Get(kube.Key{Namespace: "ours", Name: "large"}); cache.Unheld(err) == nil {
		t.Fatalf("the large one: %v", err)
	}
	if keys := f.forPod(somePod("ours", "web")); len(keys) != 2 {
		t.Errorf("a pod of their target changes, and %v are looked at", keys)
	}
	if found := f.in(all, "ours", ""); len(found) != 2 {
		t.Errorf("%d are counted", len(found))
	}
}

// 400 triggers on one label once cost 49 CPU seconds, and 1,000 stopped the controller for everybody. (Of 1,000, this
// test takes three seconds without the race detector, which compares every object that the cache hands out.)
func TestOfMoreThan200TriggersTheOldestWorkAndOthersAreRefused(t *testing.T) {
	story(t, func(w *env) {
		w.trigger("rt", selectRedis+","+toPredixy)
		w.Pass(10 * time.Second)
		for i := range 205 {
			w.trigger(fmt.Sprintf("t-%04d", i), `"source":{"selector":{"matchLabels":{"app":"x"}}},`+toPredixy)
		}
		w.Pass(time.Minute)
		w.WantCondition("t-0000", "Stalled", "False/AsExpected")
		w.WantCondition("t-0204", "Stalled", "True/TooManyTriggers",
			"namespace default has more than 200 RestartTriggers", "delete some")
		w.replace("redis-0")
		w.Pass(time.Minute)
		w.wantRestarts(1)
		w.Delete(resource, "t-0000")
		w.Pass(10 * time.Minute)
		w.WantCondition("t-0199", "Stalled", "False/AsExpected")
		w.WantCondition("t-0200", "Stalled", "True/TooManyTriggers")
	})
}

func TestATriggerCannotGoBelowTheFloorsThatFlagsSet(t *testing.T) {
	for _, floors := range []bool{false, true} {
		o := options
		o.Quiet = true
		if floors {
			o.New = newWith(DefaultFloors)
		}
		storyWith(t, o, func(w *env) {
			w.deploy("predixy", 1)
			w.pod("redis-0")
			w.Start()
			w.Pass(10 * time.Second)
			w.trigger("rt", selectRedis+","+toPredixy+`,"debounce":"0s","cooldown":"0s"`)
			w.Pass(time.Second)
			said := w.Message("rt", "Ready")
			for range 4 {
				w.replace("redis-0")
			}
			restarts, _ := w.status("rt", "restarts").(int64)
			const raised = "; the debounce of 0s is raised to 1s, the least that this skiff allows " +
				"(--min-debounce); the cooldown of 0s is raised to 10s, the least that this skiff allows " +
				"(--min-cooldown)"
			if floors && (restarts > 2 || !strings.HasSuffix(said, raised)) {
				w.Errorf("%d restarts in 16 seconds; Ready says %q", restarts, said)
			}
			if !floors && (restarts < 3 || strings.Contains(said, "raised")) {
				w.Errorf("%d restarts without floors; Ready says %q", restarts, said)
			}
		})
	}
}

// Of pods that are not held in memory it is not known whether they were replaced.
func TestATriggerWhosePodsTakeTooMuchMemorySaysSoAndRestartsNothing(t *testing.T) {
	o := options
	o.Setup = controller.Setup{MirrorBytes: 8 << 10, ObjectBytes: 64 << 10}
	storyWith(t, o, func(w *env) {
		w.deploy("predixy", 1)
		w.pod("redis-0")
		w.Start()
		w.trigger("rt", selectRedis+","+toPredixy)
		w.Pass(time.Minute)
		w.WantCondition("rt", "Ready", "True/Armed")
		for i := range 40 {
			w.pod(fmt.Sprint("redis-", i+1))
		}
		w.Pass(2 * time.Minute)
		w.WantCondition("rt", "Ready", "Unknown/OverBudget", "the pods of namespace default take",
			"make them smaller")
		w.WantCondition("rt", "Stalled", "True/OverBudget")
		revision := w.revision("predixy")
		w.replace("redis-0")
		w.Pass(5 * time.Minute)
		w.Want("revision of predixy", w.revision("predixy"), revision)
		for i := range 40 {
			w.Delete(pods, fmt.Sprint("redis-", i+1))
		}
		w.Pass(20 * time.Minute)
		w.WantCondition("rt", "Ready", "True/Armed")
	})
}
