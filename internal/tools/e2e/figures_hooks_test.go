package e2e

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Sizes of what is measured.
const (
	figureParents     = 200
	figureManyParents = 10_000
	figureChanges     = 300 // of children
)

// metacontrollerFlag is a program to measure in the place of skiff.
var metacontrollerFlag = flag.String("metacontroller", "", "the `path` of a metacontroller that BenchmarkHooks "+
	"measures beside skiff")

// countedController makes spec.n ConfigMaps of a Counted, whose status counts them.
const countedController = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: counted}
spec:
  generateSelector: true
  parentResource: {apiVersion: hooks.example.com/v1, resource: counteds%s}
  childResources:
  - {apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}
  hooks:
    sync: {webhook: {url: URL}}
`

// ignoresStatus is what a parentResource has where a change of the status alone calls no hook.
const ignoresStatus = ", ignoreStatusChanges: true"

// countedWorld is a control plane without controllers, with Counteds and the hook that is called for them.
type countedWorld struct {
	*testing.B
	c    *Cluster
	url  string // of the hook
	path string // of the Counteds

	mu     sync.Mutex // guards what follows
	calls  int
	called map[string]chan time.Time // by parent: those whose next call is waited for
}

func newCountedWorld(b *testing.B) *countedWorld {
	w := &countedWorld{B: b, path: "/apis/hooks.example.com/v1/namespaces/default/counteds",
		called: map[string]chan time.Time{}}
	w.c = must(StartControlPlane(b.Context(), must(binaries())(b)))(b)
	b.Cleanup(func() { w.c.Close(b.Failed()) })
	w.url = serveHook(b, w.hook)
	definition := filepath.Join(b.TempDir(), "counteds.yaml")
	writeFile(b, definition, fmt.Sprintf(numberedDefinition, "counted", "Counted"))
	noError(b, applyFiles(w.c, definition, filepath.Join(repository, "crds", "hooks")))
	return w
}

func (w *countedWorld) hook(r hookRequest) Object {
	now, observed := time.Now(), r.Children["ConfigMap.v1"]
	w.mu.Lock()
	w.calls++
	if waits := w.called[r.Parent.Name()]; waits != nil {
		waits <- now
		delete(w.called, r.Parent.Name())
	}
	w.mu.Unlock()
	children := []any{}
	for i := range r.Parent.Int("spec", "n") {
		children = append(children, Object{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": Object{"name": fmt.Sprintf("%s-%d", r.Parent.Name(), i)}, "data": Object{"a": "b"}})
	}
	return Object{"status": Object{"seen": len(observed)}, "children": children}
}

// callsSince returns how often the hook was called since it was asked last.
func (w *countedWorld) callsSince() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.calls
	w.calls = 0
	return n
}

// next returns where the time of the next call for a parent comes.
func (w *countedWorld) next(parent string) <-chan time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.called[parent] = make(chan time.Time, 1)
	return w.called[parent]
}

func countedName(i int) string { return fmt.Sprintf("c%05d", i) }

// make makes parents of n children each.
func (w *countedWorld) make(parents, n int) {
	w.Helper()
	parallel(w, parents, func(ctx context.Context, i int) error {
		_, err := w.c.Admin.Create(ctx, w.path, Object{"apiVersion": "hooks.example.com/v1", "kind": "Counted",
			"metadata": Object{"name": countedName(i)}, "spec": Object{"n": n}})
		return err
	})
}

// remove deletes all parents and their children, of which no garbage collector does it.
func (w *countedWorld) remove() {
	w.Helper()
	for _, path := range []string{w.path, "/api/v1/namespaces/default/configmaps", "/apis/events.k8s.io/v1/events"} {
		if err := w.c.Admin.Delete(noContext, path); err != nil && !strings.HasSuffix(path, "events") {
			w.Fatal(err)
		}
	}
}

// made returns when the status of each parent says that it has n children.
func (w *countedWorld) made(parents, n int) {
	w.Helper()
	Eventually(w, 3*limit, "all parents have their children", func() (bool, string) {
		done := 0
		for _, parent := range must(w.c.Admin.Get(w.Context(), w.path))(w).List("items") {
			if parent.Int("status", "seen") == n {
				done++
			}
		}
		return done == parents, fmt.Sprintf("%d of %d", done, parents)
	})
}

// requests are those of a program, watches and what it reads at its start left out, once none has come for a while.
func (w *countedWorld) requests(agent string, since time.Time) []Request {
	w.Helper()
	return quiet(w, since, func() []Request {
		return must(w.c.Requests(since, func(r Request) bool {
			return strings.HasPrefix(r.UserAgent, agent) && r.Verb != "watch" && r.Verb != "list" &&
				r.Resource != "leases"
		}))(w)
	})
}

// skiff starts skiff, with more in the parentResource of its controller.
func (w *countedWorld) skiff(name, parentResource string) *Skiff {
	w.Helper()
	file := filepath.Join(w.TempDir(), "controller.yaml")
	writeFile(w, file, strings.ReplaceAll(fmt.Sprintf(countedController, parentResource), "URL", w.url))
	sk, _ := startMeasured(w.B, w.c, must(w.c.Kubeconfig(admin))(w), name, "hooks", "run", "-f", file)
	return sk
}

// parents measures how 200 parents of one child each come to be, by a program that is ready.
func (w *countedWorld) parents(name, agent string, p *Process) {
	w.Helper()
	before := must(p.Usage())(w)
	w.callsSince()
	began := time.Now()
	w.make(figureParents, 1)
	w.made(figureParents, 1)
	requests := w.requests(agent, began)
	last := began
	for _, r := range requests {
		if r.Resource == "counteds" && r.Write() && r.Answered.After(last) {
			last = r.Answered
		}
	}
	after := must(p.Usage())(w)
	figure(w.B, name, took(last.Sub(began), after.CPU-before.CPU), memory(after),
		map[string]float64{"calls": float64(w.callsSince()) / figureParents}, requestsFor(figureParents, requests))
}

// BenchmarkHooks measures skiff hooks run on the real control plane: 200 parents with a ConfigMap each, the way from a
// change of a child to the hook, and 10,000 parents with three ConfigMaps each, also after a restart.
func BenchmarkHooks(b *testing.B) {
	w := newCountedWorld(b)
	sk := w.skiff("hooks", "")
	w.parents("parents", "skiff/", sk.Process)
	figure(b, "from-a-change-of-a-child-to-the-hook", w.changes())
	noError(b, sk.Terminate())
	w.remove()
	sk = w.skiff("hooks-ignoring", ignoresStatus)
	w.parents("parents-ignoreStatusChanges", "skiff/", sk.Process)
	noError(b, sk.Terminate())
	w.remove()
	if *metacontrollerFlag != "" {
		w.metacontroller()
	}
	w.many()
}

// changes changes children, one after the other, and returns how long it takes from sending that until the hook is
// called: the server's write is in it, because the event may be faster than the answer.
func (w *countedWorld) changes() map[string]float64 {
	w.Helper()
	var all []time.Duration
	for i := range figureChanges {
		parent := countedName(i % figureParents)
		called := w.next(parent)
		sent := time.Now()
		_, err := w.c.Admin.Merge(w.Context(), "/api/v1/namespaces/default/configmaps/"+parent+"-0",
			Object{"metadata": Object{"labels": Object{"n": fmt.Sprint(i)}}})
		noError(w, err)
		select {
		case at := <-called:
			all = append(all, at.Sub(sent))
		case <-time.After(limit):
			w.Fatalf("the hook of %s is not called", parent)
		}
	}
	ms := func(p float64) float64 { return percentile(all, p).Seconds() * 1000 }
	return map[string]float64{"p50-ms": ms(0.5), "p99-ms": ms(0.99)}
}

// many measures 10,000 parents.
func (w *countedWorld) many() {
	w.Helper()
	sk := w.skiff("hooks-many", "")
	w.callsSince()
	began := time.Now()
	w.make(figureManyParents, 3)
	w.made(figureManyParents, 3)
	w.requests("skiff/", began)
	usage := usageOf(w, sk)
	figure(w.B, "many-parents", memory(usage), map[string]float64{"CPU-s": usage.CPU.Seconds(),
		"calls": float64(w.callsSince()) / figureManyParents})
	noError(w, sk.Terminate())
	began = time.Now()
	sk = w.skiff("hooks-again", "")
	called := 0
	Eventually(w, limit, "the hook is called for all", func() (bool, string) {
		called += w.callsSince()
		return called >= figureManyParents, fmt.Sprint(called)
	})
	wall := time.Since(began)
	requests := w.requests("skiff/", began)
	usage = usageOf(w, sk)
	writes := 0
	for _, r := range requests {
		if r.Write() {
			writes++
		}
	}
	figure(w.B, "many-parents-restarted", took(wall, usage.CPU), memory(usage),
		map[string]float64{"calls": float64(called + w.callsSince()), "writes": float64(writes)})
	noError(w, sk.Terminate())
}

// metacontroller measures the other program with the same hook, with its own limit of requests and with a high one.
func (w *countedWorld) metacontroller() {
	w.Helper()
	controller := filepath.Join(w.TempDir(), "controller.yaml")
	writeFile(w, controller, strings.ReplaceAll(fmt.Sprintf(countedController, ""), "URL", w.url))
	noError(w, applyFiles(w.c, controller))
	agent := filepath.Base(*metacontrollerFlag)
	for name, limits := range map[string][]string{"metacontroller": nil,
		"metacontroller-1000-a-second": {"-client-go-qps=1000", "-client-go-burst=1000"}} {
		port := must(freePort())(w)
		p := must(w.c.Start(name, []string{"HOME=" + w.c.Dir}, append([]string{*metacontrollerFlag, "-kubeconfig",
			must(w.c.Kubeconfig(admin))(w), "-metrics-address=0", "-health-probe-bind-address=" + loopback(port)},
			limits...)...))(w)
		w.make(1, 1) // it works when a first parent has its child
		w.made(1, 1)
		w.remove()
		w.requests(agent, time.Now())
		w.parents(name, agent, p)
		noError(w, p.Kill())
		w.remove()
	}
	noError(w, w.c.Admin.Delete(w.Context(), "/apis/metacontroller.k8s.io/v1alpha1/compositecontrollers/counted"))
}
