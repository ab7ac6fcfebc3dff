package apply

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"skiff/internal/runtime/kube"
)

// What is as it was declared from an equal spec needs no children to be built, compared or sent; all else does.
func TestASettledOwnerNeedsAnApplyOnlyWhenItsSpecOrItsChildrenChange(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		type spec struct{ Replicas *int64 }
		declare := func(n int64) []Child {
			b.owner.Spec = &spec{&n}
			return []Child{b.deployment(n)}
		}
		settled := func(what string, want bool) {
			t.Helper()
			before := len(b.api.Requests())
			r, ok := b.engine.InSync(b.owner)
			if ok != want || len(b.api.Requests()) != before {
				t.Errorf("%s: settled %t, want %t, with %d requests", what, ok, want, len(b.api.Requests())-before)
			}
			if ok && (len(r.Children) != 1 || r.Children[0].Live == nil || r.Children[0].Outcome != Unchanged) {
				t.Errorf("%s: the report is %+v", what, r)
			}
		}
		one := declare(1)
		settled("before the first apply", false)
		b.want("first", b.apply(one...), "created POST")
		settled("created", true)
		declare(1)
		settled("an equal spec", true)
		two := declare(2)
		settled("another spec", false)
		b.want("another spec", b.apply(two...), "applied GET PATCH PATCH")
		settled("applied", true)

		status := kube.WriteOptions{Subresource: "status"}
		if err := b.client.Patch(context.Background(), deploymentsV1, kube.Key{Namespace: "default", Name: "web"},
			kube.MergePatch, kube.Raw(`{"status":{"replicas":2}}`), nil, status); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		settled("another status", true)
		r, _ := b.engine.InSync(b.owner)
		live := As[deploymentView](r.Children[0].Live)
		read, err := Read[deploymentSpec](live)
		if live.Status.Replicas != 2 || err != nil || read.Spec.Replicas != 2 {
			t.Errorf("live %+v reads %+v, %v, want two replicas in both", live, read, err)
		}

		b.patch(deploymentsV1, "web", `{"metadata":{"annotations":{"someone":"else"}}}`)
		settled("an annotation of others", false)
		b.want("an annotation of others", b.apply(two...), "unchanged")
		settled("seen once", true)
		b.patch(deploymentsV1, "web", `{"spec":{"replicas":7}}`)
		settled("changed by hand", false)
		b.want("changed by hand", b.apply(two...), "applied PATCH")
		settled("changed back", true)

		b.create(configMapsV1, fmt.Sprintf(`{"metadata":{"name":"more","labels":{%q:"skiff"},"ownerReferences":[
			{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":%q,"controller":true}]}}`, ManagedByLabel,
			b.owner.UID))
		synctest.Wait()
		settled("another child", false)
		b.want("another child", b.apply(two...), "unchanged deleted DELETE")
		settled("it is gone, and not forgotten", false)
		b.want("it is gone", b.apply(two...), "unchanged")
		settled("all is as declared", true)

		b.patch(deploymentsV1, "web", `{"metadata":{"labels":{"`+ManagedByLabel+`":null}}}`)
		settled("out of the cache", false)
		b.owner.UID = "another"
		settled("another owner of that name", false)
	})
}

// What a webhook makes of a child may be no child of ours at all.
func TestAnAnswerWithoutOurOwnerReferenceIsNotSettled(t *testing.T) {
	answer := &Live[struct{}]{}
	answer.UID = "7"
	c := &child{application: &application{Engine: New(nil, Own()), owner: owner}, kind: &Kind{}, mem: &memory{},
		want: &declared{hash: "1"}}
	if c.answered(answer); c.live != nil || c.other != answer || c.mem.synced.uid != "" {
		t.Errorf("live %v, other %v, settled %v, want it as another object", c.live, c.other, c.mem.synced)
	}
}
