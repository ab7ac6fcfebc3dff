package uninstall

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/install/definitions"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

var (
	redis    = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "redis", Kind: "Redis"}
	servers  = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "webservers", Kind: "WebServer"}
	triggers = kube.Resource{Group: "skiff.dev", Version: "v1alpha1", Plural: "restarttriggers",
		Kind: "RestartTrigger"}
)

// cluster is an embedded API server with the definitions, and what was done to it.
type cluster struct {
	*testing.T
	api *apiserver.Server
	o   Options
	did []string
}

func newCluster(t *testing.T) *cluster {
	w := &cluster{T: t, api: apiserver.New(apiserver.Options{})}
	t.Cleanup(w.api.Close)
	pipe := w.api.ListenPipe()
	t.Cleanup(func() { pipe.Close() })
	c, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w.o = Options{Client: c, Resources: []kube.Resource{servers, redis, triggers},
		Did: func(what string) { w.did = append(w.did, what) }}
	all, err := definitions.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		w.create(definitions.Resource, "", d.Object)
	}
	time.Sleep(time.Second) // until they are established
	return w
}

var services = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}

// collect acts as the garbage collector for custom resources and the Services that they own, until the test ends.
func (w *cluster) collect() {
	ctx, stop := context.WithCancel(w.Context())
	var collector sync.WaitGroup
	w.Cleanup(func() { stop(); collector.Wait() })
	collector.Go(func() {
		for ctx.Err() == nil {
			for _, r := range w.o.Resources {
				w.sweep(ctx, r)
			}
			pause(ctx)
		}
	})
}

func (w *cluster) sweep(ctx context.Context, r kube.Resource) {
	list, err := kube.List[*item](ctx, w.o.Client, kube.Query{Resource: r}, kube.ListOptions{})
	if err != nil {
		return // its definition is gone, or the test ends
	}
	for _, i := range list.Items {
		rest := slices.DeleteFunc(slices.Clone(i.Finalizers), func(f string) bool {
			return slices.Contains(collectorFinalizers, f)
		})
		if !i.Deleting() || len(rest) == len(i.Finalizers) {
			continue
		}
		err := w.o.Client.Delete(ctx, services, i.Key(), kube.DeleteOptions{Propagation: kube.Background})
		if err != nil && !kube.IsNotFound(err) {
			w.Error(err)
		}
		patch := map[string]any{"metadata": map[string]any{"finalizers": rest, "resourceVersion": i.ResourceVersion}}
		err = w.o.Client.Patch(ctx, r, i.Key(), kube.MergePatch, patch, nil, kube.WriteOptions{})
		if err != nil && !kube.IsConflict(err) && !kube.IsNotFound(err) {
			w.Error(err)
		}
	}
}

func (w *cluster) create(r kube.Resource, namespace string, object map[string]any) {
	w.Helper()
	if err := w.o.Client.Create(w.Context(), r, namespace, object, nil, kube.WriteOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w *cluster) redis(namespace, name string, finalizers ...string) {
	w.Helper()
	w.create(redis, namespace, map[string]any{"apiVersion": "skiff.dev/v1alpha1", "kind": "Redis",
		"metadata": map[string]any{"name": name, "finalizers": finalizers},
		"spec":     map[string]any{"port": 6379, "num": 1}})
}

// left are the objects that are left of a resource, by key.
func (w *cluster) left(r kube.Resource) (keys []string) {
	w.Helper()
	list, err := kube.List[*item](w.Context(), w.o.Client, kube.Query{Resource: r}, kube.ListOptions{})
	if err != nil && !kube.IsNotFound(err) {
		w.Fatal(err)
	}
	for _, i := range list.Items {
		keys = append(keys, i.Key().String())
	}
	return keys
}

func (w *cluster) do(timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(w.Context(), timeout, errors.New("not done in time"))
	defer cancel()
	return Do(ctx, w.o)
}

func inCluster(t *testing.T, f func(w *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		w.collect()
		f(w)
	})
}

// The garbage collector asks the server whether an owner is gone; without its definition there is no answer, and what
// it owned would stay.
func TestADefinitionStaysUntilTheChildrenOfItsObjectsAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		w.redis("default", "a", "skiff.dev/pods")
		w.create(services, "default", map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{
			"name": "a"}, "spec": map[string]any{"ports": []any{map[string]any{"port": 80}}}})
		err := w.do(10 * time.Second)
		const want = "not done in time: redis.skiff.dev default/a waits until the garbage collector of the cluster " +
			"has dealt with what it owns; does kube-controller-manager run, and do these objects have finalizers?"
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
		if len(w.left(definitions.Resource)) != 3 {
			t.Error("a definition went before the children of its objects")
		}
		w.collect()
		if err := w.do(time.Minute); err != nil {
			t.Fatal(err)
		}
		if left := slices.Concat(w.left(redis), w.left(definitions.Resource)); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestAllIsGoneAlsoWhatWasDeletedBeforeWithoutASkiffToLetItGo(t *testing.T) {
	inCluster(t, func(w *cluster) {
		t := w.T
		w.redis("default", "kept", "skiff.dev/pods")
		w.redis("default", "going", "skiff.dev/pods")
		w.redis("default", "plain")
		if err := w.o.Client.Delete(w.Context(), redis, kube.Key{Namespace: "default", Name: "going"},
			kube.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		if n := len(w.left(redis)); n != 3 {
			t.Fatalf("%d objects, the finalizer does not hold", n)
		}
		if err := w.do(time.Minute); err != nil {
			t.Fatal(err)
		}
		if left := slices.Concat(w.left(redis), w.left(definitions.Resource)); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		want := []string{"removed the finalizer skiff.dev/pods of redis.skiff.dev default/going",
			"removed the finalizer skiff.dev/pods of redis.skiff.dev default/kept",
			"deleted redis.skiff.dev default/kept", "deleted redis.skiff.dev default/plain",
			"deleted the definition webservers.skiff.dev", "deleted the definition redis.skiff.dev",
			"deleted the definition restarttriggers.skiff.dev"}
		if !slices.Equal(w.did, want) {
			t.Errorf("did %q, want %q", w.did, want)
		}
		w.did = nil
		if err := w.do(time.Minute); err != nil || len(w.did) > 0 {
			t.Errorf("again: %v, did %q", err, w.did)
		}
	})
}

func TestLookFindsAllAndChangesNothing(t *testing.T) {
	inCluster(t, func(w *cluster) {
		t := w.T
		w.redis("default", "a", "skiff.dev/pods", "example.com/mine")
		before := w.api.Revision()
		found, err := Look(w.Context(), w.o)
		if err != nil || len(found) != 3 || len(found[1].Objects) != 1 {
			t.Fatalf("found %+v, %v", found, err)
		}
		one := found[1].Objects[0]
		if !found[1].Definition || !slices.Equal(one.Ours, []string{"skiff.dev/pods"}) ||
			!slices.Equal(one.Others, []string{"example.com/mine"}) || one.Deleting {
			t.Errorf("found %+v", found[1])
		}
		if w.api.Revision() != before {
			t.Error("something was written")
		}
	})
}

func TestOneNamespaceLeavesTheOthersAndTheDefinitions(t *testing.T) {
	inCluster(t, func(w *cluster) {
		t := w.T
		w.create(kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true}, "",
			map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "other"}})
		w.redis("default", "a", "skiff.dev/pods")
		w.redis("other", "b", "skiff.dev/pods")
		w.o.Namespace = "default"
		if err := w.do(time.Minute); err != nil {
			t.Fatal(err)
		}
		if left := w.left(redis); !slices.Equal(left, []string{"other/b"}) || len(w.left(definitions.Resource)) != 3 {
			t.Errorf("left: %v, %v", left, w.left(definitions.Resource))
		}
	})
}

func TestAForeignFinalizerIsNamedAndLeft(t *testing.T) {
	inCluster(t, func(w *cluster) {
		t := w.T
		w.redis("default", "a", "skiff.dev/pods", "example.com/mine")
		err := w.do(10 * time.Second)
		const want = "not done in time: redis.skiff.dev default/a waits for its finalizer example.com/mine, which " +
			"is not skiff's; the controller that set it has to remove it"
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
		if len(w.left(definitions.Resource)) != 3 {
			t.Error("a definition went before its objects")
		}
		if n := strings.Count(strings.Join(w.did, "\n"), "deleted"); n != 1 {
			t.Errorf("did %q", w.did)
		}
	})
}

// Seen on v1.36: the namespace controller did not know a CRD that had just been made again, and left its objects.
func TestAnObjectWhoseNamespaceIsGoneIsNamedAndHowToLetItGo(t *testing.T) {
	inCluster(t, func(w *cluster) {
		t := w.T
		w.redis("default", "a", "skiff.dev/pods")
		w.redis("default", "b")
		w.api.Inject(apiserver.Fault{Resource: "redis", Verb: "patch", Reply: &apiserver.Reply{Code: 404,
			ContentType: "application/json", Body: `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
				`"message":"namespaces \"default\" not found","reason":"NotFound","details":{"name":"default",` +
				`"kind":"namespaces"},"code":404}`}})
		err := w.do(time.Minute)
		const want = `patch redis.skiff.dev default/a: namespaces "default" not found, and without it the server ` +
			"changes nothing in it: run `kubectl create namespace default`, and then this again"
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
		// The garbage collector cannot let the other one go, either.
		if left := w.left(redis); !slices.Equal(left, []string{"default/a", "default/b"}) {
			t.Errorf("left: %v", left)
		}
	})
}

// A skiff that runs sets its finalizer on what it sees without one.
func TestAFinalizerThatIsSetAgainIsRemovedAgain(t *testing.T) {
	inCluster(t, func(w *cluster) {
		t := w.T
		w.redis("default", "a", "skiff.dev/pods")
		busy := w.api.Inject(apiserver.Fault{Resource: "redis", Verb: "delete",
			Reply: &apiserver.Reply{Code: 409, Reason: "Conflict", Message: "changed"}})
		time.AfterFunc(2*time.Second, busy)
		ended := make(chan error, 1)
		go func() { ended <- w.do(time.Minute) }()
		time.Sleep(100 * time.Millisecond)
		patch := map[string]any{"metadata": map[string]any{"finalizers": []string{"skiff.dev/pods"}}}
		if err := w.o.Client.Patch(t.Context(), redis, kube.Key{Namespace: "default", Name: "a"}, kube.MergePatch,
			patch, nil, kube.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if left := w.left(definitions.Resource); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}
