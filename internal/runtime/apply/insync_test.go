package apply

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
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

// What holds for children that are changed in place holds for those that are replaced, as long as none has ended.
func TestASettledOwnerNeedsNoPodsToBeDeclaredUntilOneChanges(t *testing.T) {
	onPods(t, func(b *bench) {
		type spec struct{ Revision string }
		declare := func(revision string) []Child {
			b.owner.Spec = &spec{revision}
			return b.pods(revision, 2)
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
		b.know()
		b.want("once the cache has them", b.apply(one...), "unchanged unchanged")
		settled("both are there", true)
		status := func(phase string) {
			if err := b.client.Patch(b.Context(), podsV1, kube.Key{Namespace: "default", Name: "p-1"}, kube.MergePatch,
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

// A namespace over its memory budget may have more owners than fit; each is read from the server to be deleted.
func TestTheSpecOfAnOwnerBeingDeletedIsNotKept(t *testing.T) {
	onPods(t, func(b *bench) {
		b.owner.Spec = &struct{ Template string }{"large"}
		if left, err := b.engine.Teardown(b.Context(), b.owner); len(left) > 0 || err != nil {
			t.Fatalf("left %v, %v, want nothing", left, err)
		}
		if kept := b.engine.remembered(b.owner).syncedFor; kept != nil {
			t.Errorf("%v is kept", kept)
		}
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

// The end of a child that was deleted comes as an event. Should it not come, the server is asked.
//
// Rules: CCH-15
func TestTheServerIsAskedWhereTheEndOfADeletedChildIsOverdue(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		b.want("first", b.apply(b.configMap("a", "1")), "created POST")
		b.api.Inject(apiserver.Fault{Verb: "watch", Resource: "configmaps",
			Watch: apiserver.WatchFault{EventDelay: time.Minute}})
		b.restart(Own())
		time.Sleep(2 * time.Minute) // until it shows the child
		b.want("as the cache shows it", b.apply(b.configMap("a", "1")), "unchanged")
		b.want("not declared", b.apply(), "deleted DELETE")
		time.Sleep(overdue - time.Second)
		b.want("a moment later", b.apply(), "unchanged")
		time.Sleep(time.Second)
		b.want("overdue", b.apply(), "GET")
		b.want("gone", b.apply(), "")
	})
}
