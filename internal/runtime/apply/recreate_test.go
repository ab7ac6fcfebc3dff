package apply

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver"
)

// oneAtATime is Recreate with another plan: the next child waits until the one before is there again.
type oneAtATime struct{ recreate }

func (r oneAtATime) plan(children []*child, now time.Time) []step {
	var steps []step
	missing := false
	for _, s := range r.recreate.plan(children, now) {
		missing = missing || s.does == Created
		if s.does == Replaced {
			if missing {
				continue
			}
			missing = true
		}
		steps = append(steps, s)
	}
	return steps
}

// A strategy only plans other steps of the same engine.
func TestAStrategyThatDeletesWhatDiffersIsTwoFunctions(t *testing.T) {
	for _, test := range []struct {
		strategy Strategy
		want     []string
	}{
		{Recreate, []string{"replaced replaced GET PATCH PATCH DELETE GET PATCH PATCH DELETE",
			"created created POST POST", "unchanged unchanged"}},
		{oneAtATime{}, []string{"replaced unchanged GET PATCH PATCH DELETE", "created unchanged POST",
			"unchanged replaced GET PATCH PATCH DELETE", "unchanged created POST", "unchanged unchanged"}},
	} {
		on(t, test.strategy, func(b *bench) {
			o := Own()
			o.InOrder = true
			b.restart(o)
			b.want("first", b.apply(b.two(1)...), "created created POST POST")
			for _, want := range test.want {
				b.want(want, b.apply(b.two(2)...), want)
			}
		})
	}
}

// A POST that meets a hidden child of the owner goes on as for a child in the cache, not with an apply in place.
func TestAChildMetByAPOSTIsRecreated(t *testing.T) {
	on(t, Recreate, func(b *bench) {
		b.want("first", b.apply(b.deployment(1)), "created POST")
		uid := b.at(deploymentsV1, "web", "metadata", "uid")
		b.patch(deploymentsV1, "web", `{"metadata":{"labels":{"`+ManagedByLabel+`":null}}}`)
		b.restart(Own())
		b.want("met", b.apply(b.deployment(2)), "replaced POST GET PATCH PATCH DELETE")
		b.want("gone", b.apply(b.deployment(2)), "created GET POST")
		if b.at(deploymentsV1, "web", "metadata", "uid") == uid {
			t.Error("the same object was changed in place")
		}
	})
}

// two are two declared Deployments.
func (b *bench) two(replicas int64) (out []Child) {
	for _, name := range []string{"a", "b"} {
		child := b.deployment(replicas)
		child.Body["metadata"].(map[string]any)["name"] = name
		out = append(out, child)
	}
	return out
}

// A child that would only be stored in another form, or that the server would refuse, is not deleted.
func TestAChildIsRecreatedOnlyIfTheServerSeesADifferenceAndWouldTakeTheNewOne(t *testing.T) {
	on(t, Recreate, func(b *bench) {
		b.want("first", b.apply(b.deployment(1)), "created POST")
		uid := b.at(deploymentsV1, "web", "metadata", "uid")
		refused := b.deployment(1)
		refused.Body["spec"].(map[string]any)["selector"] = map[string]any{"matchLabels": map[string]any{"a": "b"}}
		got := b.apply(refused)
		if !strings.HasPrefix(got, "failed ") || b.at(deploymentsV1, "web", "metadata", "uid") != uid {
			t.Errorf("refused by the server: %s", got)
		}
		same := b.deployment(1)
		same.Body["spec"].(map[string]any)["paused"] = false // the default
		if got := b.apply(same); !strings.HasPrefix(got, "applied ") ||
			b.at(deploymentsV1, "web", "metadata", "uid") != uid {
			t.Errorf("only in another form: %s", got)
		}
		b.want("as declared", b.apply(same), "unchanged")
	})
}

// Another writer is no reason, and the cause is told until it is gone.
func TestADeletionThatFailsIsNoFight(t *testing.T) {
	on(t, Recreate, func(b *bench) {
		b.want("first", b.apply(b.deployment(1)), "created POST")
		end := b.api.Inject(apiserver.Fault{Verb: "delete", Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden",
			Message: "no delete for you"}})
		for range 2 * withChanges.writes {
			if got := b.apply(b.deployment(2)); !strings.HasPrefix(got, "failed ") {
				t.Errorf("the deletion is refused: %s", got)
			}
		}
		end()
		if got := b.apply(b.deployment(2)); !strings.HasPrefix(got, "replaced ") {
			t.Errorf("the deletion is allowed: %s", got)
		}
	})
}

// A deletion that the server refuses is asked for again after a while, and is no obstacle where none is needed any
// more.
func TestADeletionThatIsRefusedHoldsBackItsDeclarationAlone(t *testing.T) {
	on(t, Recreate, func(b *bench) {
		b.want("first", b.apply(b.deployment(1)), "created POST")
		b.api.Inject(apiserver.Fault{Verb: "delete", Reply: &apiserver.Reply{Code: 422, Reason: "Invalid",
			Message: "protected"}})
		const refused = "failed delete deployments.apps default/web: protected"
		b.want("refused", b.apply(b.deployment(2)), refused+" GET PATCH PATCH DELETE")
		b.want("refused a moment ago", b.apply(b.deployment(2)), refused)
		same := b.deployment(1)
		same.Body["spec"].(map[string]any)["paused"] = false // the default
		b.want("as before, in another form", b.apply(same), "applied PATCH PATCH")
	})
}

// What is found by labels is taken over before it is declared, and let go.
func TestAnObjectIsAdoptedAndReleasedByItsCaller(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		b.restart(Options{Manager: "hooks"})
		b.create(configMapsV1, `{"metadata":{"name":"orphan"},"data":{"a":"1"}}`)
		synctest.Wait()
		get := func() kube.Object {
			live := new(Live[kube.Raw])
			key := kube.Key{Namespace: "default", Name: "orphan"}
			if err := b.client.Get(context.Background(), configMapsV1, key, live); err != nil {
				t.Fatal(err)
			}
			return live
		}
		adopted, err := b.engine.Adopt(context.Background(), b.owner, configMapsV1, []kube.Object{get()})
		if err != nil || len(adopted) != 1 || get().ObjectMeta().ControllerUID() != b.owner.UID {
			t.Fatalf("adopted %v, %v", adopted, err)
		}
		owned, err := b.engine.Owned(context.Background(), b.owner)
		if err != nil || len(owned) != 1 {
			t.Errorf("owned %v, %v", owned, err)
		}
		b.patch(configMapsV1, "orphan", `{"data":{"a":"2"}}`)
		err = b.engine.Release(context.Background(), b.owner, configMapsV1, owned[0].Live)
		if !errors.Is(err, ErrConflict) || get().ObjectMeta().ControllerUID() != b.owner.UID {
			t.Errorf("released by an old copy, %v", err)
		}
		if err := b.engine.Release(context.Background(), b.owner, configMapsV1, get()); err != nil {
			t.Error(err)
		}
		if uid := get().ObjectMeta().ControllerUID(); uid != "" {
			t.Errorf("still a child of %s", uid)
		}
		old := get()
		b.patch(configMapsV1, "orphan", `{"data":{"a":"3"}}`)
		adopted, err = b.engine.Adopt(context.Background(), b.owner, configMapsV1, []kube.Object{old})
		if !errors.Is(err, ErrConflict) || len(adopted) != 0 {
			t.Errorf("adopted %v by an old copy, %v", adopted, err)
		}
		gone := b.owner
		gone.UID = "another"
		adopted, err = b.engine.Adopt(context.Background(), gone, configMapsV1, []kube.Object{get()})
		if err != nil || len(adopted) != 0 || get().ObjectMeta().ControllerUID() != "" {
			t.Errorf("adopted %v for an owner that is not there, %v", adopted, err)
		}
	})
}

// What is not declared goes first, also while a declared child is not in place, and children come in their order.
func TestAnEngineRemovesFirstAndCreatesInOrder(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		b.restart(Options{Manager: "hooks", RemoveFirst: true, InOrder: true,
			Ours: func(head *kube.MetaAnnotated) bool { return head.Name != "other" }})
		b.want("first", b.apply(b.two(1)...), "created created POST POST")
		reference, _ := patch.Encode(b.owner.Reference())
		b.create(configMapsV1, `{"metadata":{"name":"other","ownerReferences":[`+string(reference)+`]}}`)
		b.create(deploymentsV1, `{"metadata":{"name":"c"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":`+
			`{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"c"}]}}}}`)
		synctest.Wait()
		taken := b.two(1)[1:]
		taken[0].Body["metadata"].(map[string]any)["name"] = "c"
		b.want("with a name that is taken", b.apply(append(taken, b.two(1)[1])...),
			"foreign unchanged deleted DELETE")
		if b.at(configMapsV1, "other", "metadata", "name") != "other" {
			t.Error("the child of another engine was removed")
		}
	})
}
