package apply

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// bench is an engine with a mirror of Deployments and one of ConfigMaps on an embedded API server.
type bench struct {
	testing.TB
	api    *apiserver.Server
	client *kube.Client
	engine *Engine
	owner  Owner

	restart func(o Options) // begins with a new engine, and mirrors of what that one selects
}

var (
	deploymentsV1 = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
	configMapsV1  = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	servicesV1    = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}
)

// on runs f with an engine whose Deployments have a strategy.
func on(t *testing.T, strategy Strategy, f func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		api := apiserver.New(apiserver.Options{})
		pipe := api.ListenPipe()
		client, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial, UserAgent: "engine"})
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{TB: t, api: api, client: client}
		b.create(configMapsV1, `{"metadata":{"name":"owner"}}`)
		b.owner = Owner{Resource: configMapsV1, Namespace: "default", Name: "owner",
			UID: b.at(configMapsV1, "owner", "metadata", "uid").(string)}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		b.restart = func(o Options) {
			selector := ""
			if o.ManagedBy != "" {
				selector = ManagedByLabel + "=" + o.ManagedBy
			}
			ds := mirrorFor[deploymentView](client, deploymentsV1, selector)
			cs := mirrorFor[struct{}](client, configMapsV1, selector)
			ss := mirrorFor[struct{}](client, servicesV1, selector)
			running.Go(func() { ds.Run(ctx) })
			running.Go(func() { cs.Run(ctx) })
			running.Go(func() { ss.Run(ctx) })
			b.engine = New(client, o, Of(ds, strategy), Of(cs, InPlace), Of(ss, InPlace))
			synctest.Wait()
		}
		b.restart(Own())
		synctest.Wait()
		f(b)
		cancel()
		running.Wait()
		client.Close()
		if err := pipe.Close(); err != nil {
			t.Error(err)
		}
		api.Close()
	})
}

type deploymentView struct {
	Replicas int `json:"replicas"`
}

type deploymentSpec struct {
	Spec struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
}

func mirrorFor[S any](client *kube.Client, r kube.Resource, selector string) *cache.Store[*Live[S]] {
	return cache.New[*Live[S]](cache.Options{Resource: r, LabelSelector: selector, Client: client,
		Log: logr.Discard()})
}

func (b *bench) create(r kube.Resource, text string) {
	b.Helper()
	if err := b.client.Create(context.Background(), r, "default", kube.Raw(text), nil,
		kube.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) patch(r kube.Resource, name, text string) {
	b.Helper()
	err := b.client.Patch(context.Background(), r, kube.Key{Namespace: "default", Name: name}, kube.MergePatch,
		kube.Raw(text), nil, kube.WriteOptions{})
	if err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// at returns a value of an object on the server.
func (b *bench) at(r kube.Resource, name string, path ...string) any {
	var v any = b.api.Get(r, kube.Key{Namespace: "default", Name: name})
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

// deployment is a declared Deployment of so many replicas.
func (b *bench) deployment(replicas int64) Child {
	return Child{Body: deploymentBody(b.owner, func(spec map[string]any) { spec["replicas"] = replicas })}
}

// configMap is a declared ConfigMap with these keys and values.
func (b *bench) configMap(data ...string) Child {
	values := map[string]any{}
	for i := 0; i < len(data); i += 2 {
		values[data[i]] = data[i+1]
	}
	return Child{Body: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": values,
		"metadata": map[string]any{"name": "child", "namespace": "default",
			"labels": map[string]any{ManagedByLabel: ManagedBy}, "ownerReferences": []any{b.owner.Reference()}}}}
}

// apply declares children and returns the outcomes and the requests that it took, in short.
func (b *bench) apply(children ...Child) string {
	b.Helper()
	before := len(b.api.Requests())
	r := b.engine.Apply(context.Background(), b.owner, children, false)
	var words []string
	for _, c := range r.All() {
		words = append(words, c.Outcome.String())
		if c.Err != nil {
			words = append(words, c.Err.Error())
		}
	}
	for _, r := range b.api.Requests()[before:] {
		if r.UserAgent == "engine" && r.Query.Get("watch") == "" {
			words = append(words, r.Method)
		}
	}
	synctest.Wait()
	return strings.Join(words, " ")
}

func (b *bench) want(what, got, want string) {
	b.Helper()
	if got != want {
		b.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestAChildOnDeleteIsCreatedAndNeverChanged(t *testing.T) {
	on(t, OnDelete, func(b *bench) {
		b.want("first", b.apply(b.deployment(1)), "created POST")
		b.want("another state", b.apply(b.deployment(2)), "outdated")
		b.want("replicas", fmt.Sprint(b.at(deploymentsV1, "web", "spec", "replicas")), "1")
		if err := b.client.Delete(context.Background(), deploymentsV1, kube.Key{Namespace: "default", Name: "web"},
			kube.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.want("deleted", b.apply(b.deployment(2)), "created GET POST")
		b.want("replicas", fmt.Sprint(b.at(deploymentsV1, "web", "spec", "replicas")), "2")
	})
}

// The copy of the cache is all that a change is compared with: the one GET is for the managedFields.
func TestASettledChildIsChangedWithoutARead(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		b.want("first", b.apply(b.deployment(1)), "created POST")
		b.want("once the cache has it", b.apply(b.deployment(1)), "unchanged")
		cached, _, err := b.engine.kinds[0].mirror.get(kube.Key{Namespace: "default", Name: "web"})
		if err != nil || cached == nil {
			t.Fatalf("cached: %+v, %v", cached, err)
		}
		if read, err := Read[deploymentSpec](cached); err != nil || read.Spec.Replicas != 1 {
			t.Errorf("read %+v, %v, want one replica", read, err)
		}
		b.want("the same again", b.apply(b.deployment(1)), "unchanged")
		b.want("another state, for the first time", b.apply(b.deployment(2)),
			"applied GET PATCH PATCH")
		b.want("settled", b.apply(b.deployment(2)), "unchanged")
		b.want("yet another state", b.apply(b.deployment(3)), "applied PATCH")
		b.patch(deploymentsV1, "web", `{"spec":{"replicas":7}}`)
		b.want("a change by hand", b.apply(b.deployment(3)), "applied PATCH")
		b.want("then", b.apply(b.deployment(3)), "unchanged")
	})
}

func TestAChildDeclaredTwiceOrOfAnUnknownKindIsRefused(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		pod := Child{Body: map[string]any{"apiVersion": "v1", "kind": "Pod",
			"metadata": b.deployment(1).Body["metadata"]}}
		b.want("outcomes", b.apply(b.deployment(1), b.deployment(2), pod),
			"created failed declare a child of ConfigMap default/owner: "+
				"Deployment default/web is declared twice failed declare a child of ConfigMap default/owner: "+
				"Pod default/web is of a kind that the engine was not made for POST")
	})
}

func TestAPanicWhileChildrenAreWrittenSideBySideIsThatOfTheCaller(t *testing.T) {
	defer func() {
		if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "third") || !strings.Contains(p, "engine_test.go") {
			t.Errorf("recovered %q, want the panic with its stack", p)
		}
	}()
	var done sync.WaitGroup
	done.Add(20)
	defer done.Wait() // all of them have run
	sideBySide(20, func(i int) {
		defer done.Done()
		if i == 2 {
			panic("third")
		}
	})
	t.Error("no panic")
}

// Children are declared beside an owner in another namespace only where the owner has none.
func TestAClusterScopedOwnerHasChildrenInANamespace(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		ns := kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}
		uid, _ := b.api.Get(ns, kube.Key{Name: "default"})["metadata"].(map[string]any)["uid"].(string)
		b.owner = Owner{Resource: ns, Name: "default", UID: uid}
		b.want("first", b.apply(b.deployment(1)), "created POST")
		b.want("again", b.apply(b.deployment(1)), "unchanged")
		b.want("not declared", b.apply(), "deleted DELETE")
	})
}

// BenchmarkHeapPerChild is what a Deployment of realistic size costs in the mirror and in the engine's memory.
func BenchmarkHeapPerChild(b *testing.B) {
	const n = 2000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for range b.N {
		before := heap()
		c := &child{application: &application{owner: owner}, want: &declared{}, kind: &Kind{}}
		children := make([]kube.Object, n)
		memories := make([]*memory, n)
		for i := range children {
			children[i], memories[i] = realisticDeployment(b), &memory{}
			c.mem, c.live = memories[i], children[i]
			c.markSynced()
		}
		b.ReportMetric(float64(heap()-before)/n, "B/settled")
		runtime.KeepAlive(children)
		runtime.KeepAlive(memories)
	}
}

// realisticDeployment is one as it comes from a watch.
func realisticDeployment(b *testing.B) kube.Object {
	env := strings.Repeat(`{"name":"SOME_VARIABLE","value":"some value of some length"},`, 12)
	text := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default","uid":"4c1a7a52-0001","resourceVersion":"7",
		"labels":{"app.kubernetes.io/name":"webserver","app.kubernetes.io/instance":"web","app.kubernetes.io/managed-by":"skiff"},
		"annotations":{"deployment.kubernetes.io/revision":"1","skiff.dev/desired-hash":"0123456789abcdef"},
		"ownerReferences":[{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","name":"web","uid":"u1","controller":true}]},
		"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"webserver","image":"nginx:1.23.1","env":[` + env[:len(env)-1] + `],
		"resources":{"requests":{"cpu":"100m"}},"terminationMessagePath":"/dev/termination-log","imagePullPolicy":"IfNotPresent"}],
		"restartPolicy":"Always","dnsPolicy":"ClusterFirst","securityContext":{}}}},"status":{"replicas":3}}`
	live := new(Live[deploymentView])
	if err := kube.Unmarshal([]byte(text), live); err != nil {
		b.Fatal(err)
	}
	return live
}

func TestNothingHasToBePreparedBeforeTroubleOfAChildIsReadOrRemembered(t *testing.T) {
	m := &memory{}
	if m.trouble().hidden || m.trouble().foreign != nil || !m.wrong.over() {
		t.Errorf("a child at rest has trouble: %+v", m.wrong)
	}
	m.trouble().hidden = true
	if m.wrong.over() {
		t.Error("a hidden child is no trouble")
	}
}

func TestA404AboutAllChildrenIsNotTheEndOfAnUndeclaredOne(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		b.want("first", b.apply(b.deployment(1)), "created POST")
		end := b.api.Inject(apiserver.Fault{Verb: "delete", Reply: &apiserver.Reply{Code: 404,
			ContentType: "text/plain", Body: "404 page not found"}})
		if got := b.apply(); !strings.HasPrefix(got, "failed ") {
			t.Errorf("the version is not served: %s", got)
		}
		end()
		b.want("served again", b.apply(), "deleted DELETE")
	})
}

// A webhook may answer a 422 that names no object and no cause, like the server for a patch whose test fails.
func TestARefusalByAWebhookIsNoConflict(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		b.want("first", b.apply(b.deployment(1)), "created POST")
		b.api.Inject(apiserver.Fault{Verb: "patch", Reply: &apiserver.Reply{Code: 422, Reason: "Invalid",
			Message: `admission webhook "policy.example" denied the request: no`}})
		if got := b.apply(b.deployment(2)); !strings.HasPrefix(got, "failed ") {
			t.Errorf("the change is refused: %s", got)
		}
	})
}

// The webhook of Crossplane's Usage refuses with a 409.
func TestThe409OfAWebhookIsNoConflict(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		b.want("first", b.apply(b.deployment(1)), "created POST")
		for verb, children := range map[string][]Child{"delete": nil, "patch": {b.deployment(2)}} {
			end := b.api.Inject(apiserver.Fault{Verb: verb, Reply: &apiserver.Reply{Code: 409, Reason: "in use",
				Message: `admission webhook "usages.example" denied the request: in use`}})
			if got := b.apply(children...); !strings.HasPrefix(got, "failed ") {
				t.Errorf("the %s is refused: %s", verb, got)
			}
			end()
		}
		b.want("not in use", b.apply(), "deleted DELETE")
	})
}
