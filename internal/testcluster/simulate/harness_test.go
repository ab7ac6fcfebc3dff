package simulate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"
	"gopkg.in/yaml.v3"

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
	t.Parallel() // in a bubble of its own
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

// runs returns how often the controllers have reconciled an object.
func (b *bench) runs() (all int64) {
	for _, c := range b.cluster.Controllers() {
		s := c.Stats()
		all += s.Done + s.Again + s.Errors
	}
	return all
}

// parse reads an object in YAML.
func (b *bench) parse(text string) object {
	b.Helper()
	o := object{}
	b.must(yaml.Unmarshal([]byte(text), &o))
	return o
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// keyOf is the key of an object in the namespace default, or in none.
func keyOf(r kube.Resource, name string) kube.Key {
	if r.ClusterScoped {
		return kube.Key{Name: name}
	}
	return kube.Key{Namespace: "default", Name: name}
}

// create creates an object that has what text says.
func (b *bench) create(r kube.Resource, name, text string) {
	b.Helper()
	b.createObject(r, name, b.parse(text))
}

func (b *bench) createObject(r kube.Resource, name string, o object) {
	b.Helper()
	o["apiVersion"], o["kind"] = r.APIVersion(), r.Kind
	member(o, "metadata")["name"] = name
	b.must(b.client.Create(b.Context(), r, keyOf(r, name).Namespace, o, nil, kube.WriteOptions{}))
}

// template is a pod template whose pods have the label app and one container.
func template(app, image string) string {
	return fmt.Sprintf(`{metadata: {labels: {app: %s}}, spec: {containers: [{name: main, image: %q}]}}`, app, image)
}

// deploy creates a workload with such pods. spec is the rest of its spec.
func (b *bench) deploy(r kube.Resource, name, image, spec string) {
	b.Helper()
	o := b.parse("{spec: " + spec + "}")
	member(o, "spec")["template"] = b.parse(template(name, image))
	if r == jobResource {
		member(member(member(o, "spec"), "template"), "spec")["restartPolicy"] = "Never"
	} else {
		member(o, "spec")["selector"] = b.parse("{matchLabels: {app: " + name + "}}")
	}
	b.createObject(r, name, o)
}

// setImage sets the image of such a workload, and what else spec says.
func (b *bench) setImage(r kube.Resource, name, image, spec string) {
	b.Helper()
	o := b.parse("{spec: " + spec + "}")
	member(o, "spec")["template"] = b.parse(template(name, image))
	b.patchObject(r, name, "", kube.MergePatch, o)
}

func (b *bench) scale(r kube.Resource, name string, replicas int) {
	b.Helper()
	b.patch(r, name, fmt.Sprintf("{spec: {replicas: %d}}", replicas))
}

func (b *bench) patch(r kube.Resource, name, text string) {
	b.Helper()
	b.patchObject(r, name, "", kube.MergePatch, b.parse(text))
}

func (b *bench) patchStatus(r kube.Resource, name, status string) {
	b.Helper()
	b.patchObject(r, name, "status", kube.MergePatch, b.parse("{status: "+status+"}"))
}

func (b *bench) patchObject(r kube.Resource, name, sub string, t kube.PatchType, patch object) {
	b.Helper()
	b.must(b.client.Patch(b.Context(), r, keyOf(r, name), t, patch, nil, kube.WriteOptions{Subresource: sub}))
}

func (b *bench) delete(r kube.Resource, name string, policy kube.Propagation) {
	b.Helper()
	b.must(b.client.Delete(b.Context(), r, keyOf(r, name), kube.DeleteOptions{Propagation: policy}))
}

func (b *bench) get(r kube.Resource, name string) object { return b.api.Get(r, keyOf(r, name)) }

// list returns all objects of a resource, those of the namespace default where it has namespaces.
func (b *bench) list(r kube.Resource) []object { return b.api.List(r, keyOf(r, "").Namespace) }

// fields returns a field of all objects of a resource, sorted.
func (b *bench) fields(r kube.Resource, path string) (out []string) {
	for _, o := range b.list(r) {
		out = append(out, str(o, path))
	}
	slices.Sort(out)
	return out
}

func (b *bench) names(r kube.Resource) []string { return b.fields(r, "metadata name") }

// wantNames checks which objects of a resource there are.
func (b *bench) wantNames(r kube.Resource, want ...string) {
	b.Helper()
	if have := b.names(r); !slices.Equal(have, want) {
		b.Errorf("%s are %q, want %q", r, have, want)
	}
}

// want compares fields of an object, each "PATH = VALUE"; without a value it has to be missing.
func (b *bench) want(r kube.Resource, name string, fields ...string) {
	b.Helper()
	wantOf(b.T, b.get(r, name), fields...)
}

func wantOf(t *testing.T, o any, fields ...string) {
	t.Helper()
	for _, f := range fields {
		path, want, _ := strings.Cut(f, " =")
		if have := str(o, path); have != strings.TrimPrefix(want, " ") {
			t.Errorf("%s is %q, want%s: %v", path, have, want, o)
		}
	}
}

// wantEvents compares the reasons of the Events about an object.
func (b *bench) wantEvents(kind, name string, want ...string) {
	b.Helper()
	var have []string
	for _, e := range b.list(kube.Resource{Version: "v1", Plural: "events", Kind: "Event"}) {
		if str(e, "involvedObject kind") == kind && str(e, "involvedObject name") == name {
			have = append(have, str(e, "reason"))
		}
	}
	slices.Sort(have)
	if have = slices.Compact(have); !slices.Equal(have, want) {
		b.Errorf("the Events about %s %s are %q, want %q", kind, name, have, want)
	}
}

// at returns the value at a path of names with spaces between them, nil if it is not there. In a list the name is a
// place, or the name or type of an item.
func at(o any, path string) any {
	for name := range strings.FieldsSeq(path) {
		switch v := o.(type) {
		case object:
			o = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil {
				i = slices.IndexFunc(v, func(item any) bool {
					m, _ := item.(object)
					return m["name"] == name || m["type"] == name
				})
			}
			if i < 0 || i >= len(v) {
				return nil
			}
			o = v[i]
		default:
			return nil
		}
	}
	return o
}

// str returns a value as text, "" if it is not there.
func str(o any, path string) string {
	if v := at(o, path); v != nil {
		return fmt.Sprint(v)
	}
	return ""
}

// number returns the whole number at a path, 0 if it is not there.
func number(o any, path string) int64 {
	n, _ := at(o, path).(int64)
	return n
}

// length returns how many items a list has.
func length(o any, path string) int {
	list, _ := at(o, path).([]any)
	return len(list)
}

// wantRolledOut requires what `kubectl rollout status` waits for, and a number of pods.
func (b *bench) wantRolledOut(name string, pods int) {
	b.Helper()
	d := b.get(deploymentResource, name)
	want := str(d, "spec replicas")
	if want == "0" {
		want = "" // zero counts are left out
	}
	wantOf(b.T, d, "status observedGeneration = "+str(d, "metadata generation"), "status updatedReplicas = "+want,
		"status replicas = "+want, "status availableReplicas = "+want, "status conditions Available status = True",
		"status conditions Progressing status = True")
	if have := b.names(podResource); len(have) != pods {
		b.Errorf("pods are %q, want %d", have, pods)
	}
}
