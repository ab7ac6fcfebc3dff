package cli

import (
	"net"
	"net/http"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

var (
	configMaps = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	namespaces = kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}
)

// cluster is an embedded API server on a port of this machine, which can go away and come back.
type cluster struct {
	t      *testing.T
	api    *apiserver.Server
	http   *http.Server
	addr   string
	client *kube.Client
}

func newCluster(t *testing.T, o apiserver.Options) *cluster {
	t.Helper()
	c := &cluster{t: t, api: apiserver.New(o), addr: "127.0.0.1:0"}
	t.Cleanup(c.api.Close)
	c.up()
	t.Cleanup(c.down)
	client, err := kube.New(kube.Config{Server: c.url()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c.client = client
	return c
}

func (c *cluster) url() string { return "http://" + c.addr }

// up serves, from the second time on at the same address.
func (c *cluster) up() {
	c.t.Helper()
	l, err := net.Listen("tcp", c.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.addr = l.Addr().String()
	c.http = &http.Server{Handler: c.api}
	go c.http.Serve(l) // returns when down closes it
}

// down cuts all connections, as a crash does.
func (c *cluster) down() { c.http.Close() }

func (c *cluster) create(r kube.Resource, namespace string, obj map[string]any) {
	c.t.Helper()
	obj["apiVersion"], obj["kind"] = r.APIVersion(), r.Kind
	if err := c.client.Create(c.t.Context(), r, namespace, obj, nil, kube.WriteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) patch(r kube.Resource, namespace, name string, patch map[string]any) {
	c.t.Helper()
	if err := c.client.Patch(c.t.Context(), r, kube.Key{Namespace: namespace, Name: name}, kube.MergePatch, patch, nil,
		kube.WriteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) delete(r kube.Resource, namespace, name string) {
	c.t.Helper()
	if err := c.client.Delete(c.t.Context(), r, kube.Key{Namespace: namespace, Name: name},
		kube.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func named(name string, labels map[string]string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name, "labels": labels}}
}

// The kinds of skiff and what they make.
var (
	webServers = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
	redises    = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "redis", Kind: "Redis"}
	triggers   = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "restarttriggers",
		Kind: "RestartTrigger"}
	deployments = kube.Resource{Group: "apps", Version: "v1", Plural: "deployments", Kind: "Deployment"}
)

// object is the body of a request.
type object = map[string]any

// must returns what a function returns without an error: must(os.ReadFile(path))(t).
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
