package apply

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/cache"
	"skiff/internal/runtime/kube"
)

type podView struct {
	kube.Meta `json:"metadata"`
	Status    struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

// What holds for children that are changed in place holds for those that are replaced, as long as none has ended.
func TestASettledOwnerNeedsNoPodsToBeDeclaredUntilOneChanges(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		podsV1 := kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
		mirror := cache.New[*podView](cache.Options{Resource: podsV1, LabelSelector: ManagedBySelector,
			Client: b.client})
		ctx, cancel := context.WithCancel(b.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { mirror.Run(ctx) })
		b.engine = New(b.client, Own(), Replace(mirror, ReplaceOptions[*podView]{Revision: "rev",
			Ready: func(p *podView) (time.Time, bool) { return time.Time{}, p.Status.Phase == "Running" },
			Ended: func(p *podView) (string, bool) { return p.Status.Phase, p.Status.Phase == "Failed" }}))
		synctest.Wait()
		type spec struct{ Revision string }
		declare := func(revision string) []Child {
			b.owner.Spec = &spec{revision}
			var pods []Child
			for _, name := range []string{"p-0", "p-1"} {
				pods = append(pods, Child{Body: map[string]any{"apiVersion": "v1", "kind": "Pod",
					"metadata": map[string]any{"name": name, "namespace": "default",
						"labels":          map[string]any{ManagedByLabel: ManagedBy, "rev": revision},
						"ownerReferences": []any{b.owner.Reference()}},
					"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}}})
			}
			return pods
		}
		know := func() {
			b.owner.Known = map[kube.Key]string{}
			for _, name := range []string{"p-0", "p-1"} {
				k := kube.Key{Namespace: "default", Name: name}
				b.owner.Known[k], _ = b.at(podsV1, name, "metadata", "uid").(string)
			}
		}
		settled := func(what string, want bool) {
			t.Helper()
			r, ok := b.engine.InSync(b.owner)
			if ok != want || ok && (len(r.Children) != 2 || r.Children[1].Key.Name != "p-1" ||
				r.Children[1].Declared != r.Children[1].Revision) {
				t.Errorf("%s: settled %t, want %t: %+v", what, ok, want, r)
			}
		}
		one := declare("1")
		b.want("first", b.apply(one...), "created created POST POST")
		know()
		b.want("once the cache has them", b.apply(one...), "unchanged unchanged")
		settled("both are there", true)
		status := func(phase string) {
			if err := b.client.Patch(ctx, podsV1, kube.Key{Namespace: "default", Name: "p-1"}, kube.MergePatch,
				kube.Raw(`{"status":{"phase":"`+phase+`"}}`), nil, kube.WriteOptions{Subresource: "status"}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		status("Running")
		settled("ready", true)
		declare("2")
		settled("another spec", false)
		declare("1")
		b.patch(podsV1, "p-0", `{"metadata":{"labels":{"rev":"0"}}}`)
		settled("a label is another one", false)
		b.patch(podsV1, "p-0", `{"metadata":{"labels":{"rev":"1"}}}`)
		settled("it is back", true)
		status("Failed")
		settled("one has ended", false)
		b.want("one has ended", b.apply(one...), "unchanged replaced DELETE")
		settled("and is gone", false)
		b.want("and is gone", b.apply(one...), "unchanged created POST")
		settled("the status does not know the new one", false)
	})
}

// A webhook may store other labels than a POST has: a child that is not found by them is not as declared.
func TestAPodThatIsStoredWithoutALabelThatItIsFoundByIsNotSettled(t *testing.T) {
	for labels, want := range map[string]bool{"app=a,rev=1": true, "rev=1": false, "app=a": false} {
		kind := &Kind{template: &template{revision: "rev", selector: []string{"app"},
			ready: func(kube.Object) (time.Time, bool) { return time.Time{}, true },
			ended: func(kube.Object) (string, bool) { return "", false }}}
		answer := &podView{}
		answer.UID, answer.OwnerReferences = "7", []kube.OwnerReference{{UID: owner.UID, Controller: true}}
		for label := range strings.SplitSeq(labels, ",") {
			key, value, _ := strings.Cut(label, "=")
			answer.Labels = append(answer.Labels, kube.Label{Key: key, Value: value})
		}
		c := &child{application: &application{Engine: New(nil, Options{}), owner: owner}, kind: kind, mem: &memory{},
			want: &declared{hash: "1", labels: map[string]any{"rev": "1", "app": "a"}}}
		if c.answered(answer); c.isSynced() != want {
			t.Errorf("%s: settled %t, want %t", labels, c.isSynced(), want)
		}
	}
}
