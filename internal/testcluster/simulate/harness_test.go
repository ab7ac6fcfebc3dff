package simulate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// bench is a simulated cluster on an embedded API server, in virtual time.
type bench struct {
	*testing.T
	api     *apiserver.Server
	client  *kube.Client
	cluster *Cluster
}

// testCA is the root CA of the simulated clusters of tests.
const testCA = "-----BEGIN CERTIFICATE-----"

// simulated runs f against a new cluster that is ready.
func simulated(t *testing.T, f func(b *bench)) {
	t.Helper()
	simulatedWith(t, Options{}, f)
}

func simulatedWith(t *testing.T, o Options, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := apiserver.New(apiserver.Options{})
		pipe := api.ListenPipe()
		connect := func(name string) *kube.Client {
			c, err := kube.New(kube.Config{Server: apiserver.PipeURL, DialContext: pipe.Dial, UserAgent: name})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		client, own := connect("test"), connect(manager)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		o.Log, o.RootCA = testr.New(t), testCA
		cluster := New(own, o)
		running.Go(func() {
			if err := cluster.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		defer func() {
			cancel()
			running.Wait()
			client.Close()
			own.Close()
			if err := pipe.Close(); err != nil {
				t.Error(err)
			}
			api.Close()
		}()
		time.Sleep(5 * time.Second)
		if err := cluster.Ready(); err != nil {
			t.Fatal(err)
		}
		f(&bench{t, api, client, cluster})
	})
}

// rest lets the cluster come to rest.
func (b *bench) rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// runs returns how often the controllers have reconciled something.
func (b *bench) runs() int64 {
	var all int64
	for _, p := range b.cluster.parts {
		if c, ok := p.(*controller.Controller); ok {
			s := c.Stats()
			all += s.Done + s.Again + s.Errors
		}
	}
	return all
}

func (b *bench) create(r kube.Resource, namespace string, body map[string]any) {
	b.Helper()
	if err := b.client.Create(b.Context(), r, namespace, body, nil, kube.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) patch(r kube.Resource, name string, patch map[string]any) {
	b.Helper()
	k := kube.Key{Namespace: "default", Name: name}
	if err := b.client.Patch(b.Context(), r, k, kube.MergePatch, patch, nil, kube.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) delete(r kube.Resource, name string, policy kube.Propagation) {
	b.Helper()
	k := kube.Key{Namespace: "default", Name: name}
	if err := b.client.Delete(b.Context(), r, k, kube.DeleteOptions{Propagation: policy}); err != nil {
		b.Fatal(err)
	}
}

// names returns the names of all objects of a resource in the namespace default.
func (b *bench) names(r kube.Resource) []string {
	var out []string
	for _, o := range b.api.List(r, "default") {
		out = append(out, str(o, "metadata", "name"))
	}
	return out
}

// wantNames checks which objects of a resource there are.
func (b *bench) wantNames(r kube.Resource, want ...string) {
	b.Helper()
	if have := b.names(r); !slices.Equal(have, want) {
		b.Errorf("%s are %q, want %q", r, have, want)
	}
}

// at returns the value at a path of an object, nil if it is not there; numbers in the path are places in lists.
func at(o any, path ...any) any {
	for _, p := range path {
		switch v := o.(type) {
		case map[string]any:
			key, _ := p.(string)
			o = v[key]
		case []any:
			i, ok := p.(int)
			if !ok || i >= len(v) {
				return nil
			}
			o = v[i]
		default:
			return nil
		}
	}
	return o
}

func str(o any, path ...any) string {
	s, _ := at(o, path...).(string)
	return s
}

// number returns the whole number at a path, 0 if it is not there.
func number(o any, path ...any) int64 {
	n, _ := at(o, path...).(int64)
	return n
}

func podTemplate(app, image string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": app}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": image}}},
	}
}

func deploymentBody(name, image string, replicas int) map[string]any {
	return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"replicas": replicas, "selector": map[string]any{
			"matchLabels": map[string]any{"app": name}},
			"template": podTemplate(name, image)}}
}

func (b *bench) deployment(name string) map[string]any {
	b.Helper()
	d := b.api.Get(deploymentResource, kube.Key{Namespace: "default", Name: name})
	if d == nil {
		b.Fatalf("there is no deployment %s", name)
	}
	return d
}

// rolledOut says what `kubectl rollout status` would still wait for, "" for nothing.
func rolledOut(d map[string]any) string {
	want := number(d, "spec", "replicas")
	switch s := at(d, "status"); {
	case number(s, "observedGeneration") < number(d, "metadata", "generation"):
		return "the spec update to be observed"
	case condition(d, progressing, "reason") == timedOut:
		return "nothing: it exceeded its progress deadline"
	case number(s, "updatedReplicas") < want:
		return fmt.Sprintf("%d of %d new replicas", number(s, "updatedReplicas"), want)
	case number(s, "replicas") > number(s, "updatedReplicas"):
		return fmt.Sprintf("%d old replicas", number(s, "replicas")-number(s, "updatedReplicas"))
	case number(s, "availableReplicas") < number(s, "updatedReplicas"):
		return fmt.Sprintf("%d of %d available replicas", number(s, "availableReplicas"), want)
	}
	return ""
}

// condition returns a field of a condition.
func condition(o map[string]any, kind, field string) string {
	list, _ := at(o, "status", "conditions").([]any)
	for _, c := range list {
		if str(c, "type") == kind {
			return str(c, field)
		}
	}
	return ""
}

func (b *bench) wantRolledOut(name string, pods int) {
	b.Helper()
	d := b.deployment(name)
	if waits := rolledOut(d); waits != "" {
		b.Errorf("deployment %s waits for %s: %v", name, waits, d["status"])
	}
	for kind, want := range map[string]string{available: "True", progressing: "True"} {
		if have := condition(d, kind, "status"); have != want {
			b.Errorf("deployment %s: %s is %q, want %q", name, kind, have, want)
		}
	}
	if have := b.names(podResource); len(have) != pods {
		b.Errorf("pods are %q, want %d", have, pods)
	}
}
