package apply

import (
	"context"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// An engine with another field manager, whose children have no label of ours and may have more owners, as a
// controller has whose children were made by another program.
func TestAnEngineWithOptionsOfItsOwn(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		b.restart(Options{Manager: "metacontroller", OtherOwners: true})
		before := len(b.api.Requests())
		other := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "7"}
		declare := func(data string, owners ...any) Child {
			return Child{Body: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
				"name": "child", "namespace": "default", "ownerReferences": append(owners, b.owner.Reference())},
				"data": map[string]any{"a": data}}}
		}
		b.want("first", b.apply(declare("1", other)), "created POST")
		b.want("changed", b.apply(declare("2", other)), "applied GET PATCH PATCH")
		references, _ := b.at(configMapsV1, "child", "metadata", "ownerReferences").([]any)
		if len(references) != 2 {
			t.Errorf("owners %v, want both", references)
		}
		for _, r := range b.api.Requests()[before:] {
			if (r.Method == "POST" || r.Method == "PATCH") && r.Query.Get("fieldManager") != "metacontroller" {
				t.Errorf("%s %s: field manager %q", r.Method, r.Path, r.Query.Get("fieldManager"))
			}
		}
		b.want("not declared: deleted, not released, though it has no label", b.apply(), "deleted DELETE")
		controller := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "7",
			"controller": true}
		b.want("two controllers", b.apply(declare("3", controller)),
			"failed declare a child of ConfigMap default/owner: \"child\" does not declare its owner in "+
				"metadata.ownerReferences, or declares another controller")
	})
}

// A field that must keep its value goes to a manager that is named after the engine's.
func TestAFieldIsHandedOverToTheManagerOfTheEngine(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		b.restart(Options{Manager: "metacontroller"})
		declared := b.deployment(3)
		declared.Keep = []string{"replicas"}
		kept := Child{Body: deploymentBody(b.owner, nil), Keep: []string{"replicas"}}
		b.want("first", b.apply(declared), "created POST")
		b.want("declared no longer", b.apply(kept), "applied GET PATCH PATCH PATCH")
		var live struct {
			Metadata struct {
				ManagedFields []kube.ManagedFields `json:"managedFields"`
			} `json:"metadata"`
		}
		if err := b.client.Get(context.Background(), deploymentsV1, kube.Key{Namespace: "default", Name: "web"},
			&live); err != nil {
			t.Fatal(err)
		}
		managers := map[string]bool{}
		for _, m := range live.Metadata.ManagedFields {
			managers[m.Manager] = true
		}
		if len(managers) != 2 || !managers["metacontroller"] || !managers["metacontroller-handover"] {
			t.Errorf("field managers %v", managers)
		}
	})
}

// A step is weighed when its turn comes: the second Service of an owner does not ask for the port that the first has
// just been refused, and is made in the run in which the first finds the shortage over.
func TestServicesInOrderShareAShortageOfNodePorts(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		b.restart(Options{Manager: "metacontroller", InOrder: true})
		service := func(name string) Child {
			return Child{Body: map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{
				"name": name, "namespace": "default", "ownerReferences": []any{b.owner.Reference()}},
				"spec": map[string]any{"type": "NodePort", "ports": []any{map[string]any{"port": int64(80)}}}}}
		}
		end := b.api.Inject(apiserver.Fault{Verb: "create", Resource: "services", Reply: &apiserver.Reply{
			Code: 500, Reason: "InternalError",
			Message: "Internal error occurred: failed to allocate a nodePort: range is full"}})
		b.want("at the begin of a shortage", b.apply(service("a"), service("b")), "no node port no node port POST")
		end()
		time.Sleep(recheck)
		b.want("at its end", b.apply(service("a"), service("b")), "created created POST POST")
	})
}

// Adoption and release are the caller's alone where children are claimed, and what the engine remembers outlives a
// look at the children.
func TestAnEngineWhoseChildrenAreClaimed(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		b.restart(Options{Manager: "metacontroller", ByClaim: true})
		child := Child{Body: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
			"name": "child", "namespace": "default", "ownerReferences": []any{b.owner.Reference()}}}}
		b.want("first", b.apply(child), "created POST")
		owned, err := b.engine.Owned(context.Background(), b.owner)
		if err != nil || len(owned) != 1 {
			t.Fatalf("children %v, %v", owned, err)
		}
		if err := b.engine.Release(context.Background(), b.owner, configMapsV1, owned[0].Live); err != nil {
			t.Fatal(err)
		}
		b.want("released", b.apply(child), "foreign")
		if owned, err := b.engine.Owned(context.Background(), b.owner); err != nil || len(owned) != 0 {
			t.Errorf("children %v, %v", owned, err)
		}
		b.want("after a look, without a POST", b.apply(child), "foreign")
	})
}
