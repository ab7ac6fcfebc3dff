package apply

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

type podView struct {
	kube.Meta `json:"metadata"`
	Status    struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

var podsV1 = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}

// onPods runs f with an engine whose children are pods. One that runs is ready.
func onPods(t *testing.T, f func(b *bench)) {
	on(t, InPlace, func(b *bench) {
		ctx, cancel := context.WithCancel(b.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		b.restart = func(o Options) {
			mirror := cache.New[*podView](cache.Options{Resource: podsV1, LabelSelector: ManagedBySelector,
				Client: b.client})
			running.Go(func() { mirror.Run(ctx) })
			b.engine = New(b.client, o, Replace(mirror, ReplaceOptions[*podView]{
				New: func() *podView { return new(podView) }, Revision: "rev",
				Selector: []string{"app"},
				Ready:    func(p *podView) (time.Time, bool) { return time.Time{}, p.Status.Phase == "Running" },
				Ended:    func(p *podView) (string, bool) { return p.Status.Phase, p.Status.Phase == "Failed" }}))
			synctest.Wait()
		}
		b.restart(Own())
		f(b)
	})
}

// pods are n declared pods p-0, p-1 ... of a revision.
func (b *bench) pods(revision string, n int) []Child {
	var out []Child
	for i := range n {
		out = append(out, Child{Body: map[string]any{"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": fmt.Sprint("p-", i), "namespace": "default",
				"labels":          map[string]any{ManagedByLabel: ManagedBy, "rev": revision, "app": "a"},
				"ownerReferences": []any{b.owner.Reference()}},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}}})
	}
	return out
}

// know has the owner's status name the pods that are there.
func (b *bench) know() {
	b.owner.Known = map[kube.Key]string{}
	for _, p := range b.api.List(podsV1, "default") {
		meta := p["metadata"].(map[string]any)
		b.owner.Known[kube.Key{Namespace: "default", Name: meta["name"].(string)}] = meta["uid"].(string)
	}
}

// run makes all pods ready.
func (b *bench) run() {
	b.Helper()
	for _, p := range b.api.List(podsV1, "default") {
		k := kube.Key{Namespace: "default", Name: p["metadata"].(map[string]any)["name"].(string)}
		if err := b.client.Patch(b.Context(), podsV1, k, kube.MergePatch, kube.Raw(`{"status":{"phase":"Running"}}`), nil,
			kube.WriteOptions{Subresource: "status"}); err != nil {
			b.Fatal(err)
		}
	}
	synctest.Wait()
}

func (b *bench) refuse(verb string, skip int) (remove func()) {
	return b.api.Inject(apiserver.Fault{Verb: verb, Resource: "pods", Skip: skip, Reply: refused})
}

func (b *bench) names() string {
	var out []string
	for _, p := range b.api.List(podsV1, "default") {
		out = append(out, p["metadata"].(map[string]any)["name"].(string))
	}
	return strings.Join(out, " ")
}

// Rules: WRT-22
func TestARollTriesTheTemplateOnceBeforeItTakesAPod(t *testing.T) {
	onPods(t, func(b *bench) {
		b.want("first", b.apply(b.pods("1", 2)...), "created created POST POST")
		b.run()
		allow := b.refuse("create", 0)
		const no = "unchanged failed create pods default/p-1: no"
		b.want("refused", b.apply(b.pods("2", 2)...), no+" POST")
		b.want("refused, which is remembered", b.apply(b.pods("2", 2)...), no)
		allow()
		time.Sleep(refusals.Max)
		b.want("tried, then taken", b.apply(b.pods("2", 2)...), "unchanged rolled POST DELETE")
		b.want("the next", b.apply(b.pods("2", 2)...), "unchanged created POST")
		b.want("it is not ready", b.apply(b.pods("2", 2)...), "unchanged unchanged")
		b.run()
		b.want("it is", b.apply(b.pods("2", 2)...), "rolled unchanged DELETE")
	})
}

// What fails for all of them costs few requests.
//
// Rules: WRT-32
func TestAFailureStopsTheChildrenThatWouldFailAlike(t *testing.T) {
	for skip, want := range map[int]int{0: 1, 3: 7, 7: 15} {
		onPods(t, func(b *bench) {
			b.refuse("create", skip)
			if posts := strings.Count(b.apply(b.pods("1", 20)...), "POST"); posts != want {
				t.Errorf("%d POSTs when number %d is refused, want %d", posts, skip+1, want)
			}
		})
	}
}

// Rules: WRT-16, WRT-17
func TestADeleteMissesAnObjectThatTookThePlaceOfAChild(t *testing.T) {
	onPods(t, func(b *bench) {
		b.want("first", b.apply(b.pods("1", 2)...), "created created POST POST")
		b.api.Inject(apiserver.Fault{Verb: "watch", Resource: "pods",
			Watch: apiserver.WatchFault{EventDelay: time.Minute}})
		b.restart(Own())
		time.Sleep(2 * time.Minute)
		k := kube.Key{Namespace: "default", Name: "p-1"}
		now := kube.DeleteOptions{GracePeriodSeconds: new(int64)}
		if err := b.client.Delete(b.Context(), podsV1, k, now); err != nil {
			t.Fatal(err)
		}
		b.create(podsV1, `{"metadata":{"name":"p-1"},"spec":{"containers":[{"name":"own","image":"own"}]}}`)
		uid := b.at(podsV1, "p-1", "metadata", "uid")
		b.want("surplus, by what the cache shows", b.apply(b.pods("1", 1)...), "unchanged DELETE GET")
		b.want("again", b.apply(b.pods("1", 1)...), "unchanged")
		if now := b.at(podsV1, "p-1", "metadata", "uid"); now != uid {
			t.Errorf("the other pod is gone: %v, was %v", now, uid)
		}
	})
}

// A child without our label looks deleted to the watch. It is found where its name is taken, and where the owner's
// status names it.
func TestAPodThatLostALabelIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		labels, refuse string
		declared       int
		want           string
	}{
		"ours":                          {`{"` + ManagedByLabel + `":null}`, "", 2, "unchanged unchanged POST GET PATCH"},
		"that it is selected by":        {`{"app":"other"}`, "", 2, "unchanged unchanged PATCH"},
		"while its template is refused": {`{"` + ManagedByLabel + `":null}`, "create", 2, "unchanged failed create pods default/p-1: no POST GET PATCH"},
		"and is surplus":                {`{"` + ManagedByLabel + `":null}`, "", 1, "unchanged released GET PATCH"},
	} {
		t.Run(name, func(t *testing.T) {
			onPods(t, func(b *bench) {
				b.want("first", b.apply(b.pods("1", 2)...), "created created POST POST")
				b.know()
				b.patch(podsV1, "p-1", `{"metadata":{"labels":`+test.labels+`}}`)
				time.Sleep(firstTrust)
				if test.refuse != "" {
					b.refuse(test.refuse, 0)
				}
				b.want("outcome", b.apply(b.pods("1", test.declared)...), test.want)
				b.want("pods", b.names(), "p-0 p-1")
				owners, _ := b.at(podsV1, "p-1", "metadata", "ownerReferences").([]any)
				labels := b.at(podsV1, "p-1", "metadata", "labels")
				restored := fmt.Sprint(labels) == "map[app:a app.kubernetes.io/managed-by:skiff rev:1]"
				if declared := test.declared == 2; restored != declared || (len(owners) == 1) != declared {
					t.Errorf("labels %v, owners %v", labels, owners)
				}
			})
		})
	}
}

// Rules: WRT-24
func TestChildrenOfADeletedOwnerGoOneAfterTheOtherAlsoWithoutOurLabel(t *testing.T) {
	onPods(t, func(b *bench) {
		b.want("first", b.apply(b.pods("1", 3)...), "created created created POST POST POST")
		b.know()
		b.patch(podsV1, "p-1", `{"metadata":{"labels":{"`+ManagedByLabel+`":null}}}`)
		b.restart(Own())
		for _, left := range []string{"p-0 p-1", "p-0", ""} {
			if rest, err := b.engine.Teardown(b.Context(), b.owner); err != nil || len(rest) == 0 {
				t.Errorf("%v, %v with pods left", rest, err)
			}
			synctest.Wait()
			b.want("pods", b.names(), left)
		}
		if rest, err := b.engine.Teardown(b.Context(), b.owner); err != nil || len(rest) > 0 {
			t.Errorf("%v, %v in the end", rest, err)
		}
	})
}
