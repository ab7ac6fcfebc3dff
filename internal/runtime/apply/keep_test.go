package apply

import (
	"fmt"
	"testing"

	"skiff/internal/testcluster/apiserver"
)

// refused is the answer to a change that the server does not take.
var refused = &apiserver.Reply{Code: 422, ContentType: "application/json", Body: `{"kind":"Status","apiVersion":"v1",
	"status":"Failure","reason":"Invalid","code":422,"message":"no","details":{"name":"web","kind":"Deployment"}}`}

// What is declared no longer is removed, also by a process that did not declare it, and is named.
//
// Rules: WRT-08
func TestAFieldThatIsDeclaredNoLongerIsRemoved(t *testing.T) {
	for name, restart := range map[string]bool{"by the same process": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			on(t, InPlace, func(b *bench) {
				b.want("first", b.apply(b.configMap("a", "1", "b", "2")), "created POST")
				b.patch(configMapsV1, "child", `{"data":{"mine":"stays"}}`)
				if restart {
					b.restart(Own())
				}
				r := b.engine.Apply(b.Context(), b.owner, []Child{b.configMap("b", "2")}, false).Children[0]
				b.want("outcome", fmt.Sprint(r.Outcome, r.Differences), "applied [data.a]")
				b.want("data", fmt.Sprint(b.at(configMapsV1, "child", "data")), "map[b:2 mine:stays]")
				b.want("then", b.apply(b.configMap("b", "2")), "unchanged")
			})
		})
	}
}

// A field of Child.Keep has the value that it had when it was declared last, whatever happens in between.
func TestAFieldThatIsKeptHasItsLastValue(t *testing.T) {
	kept := func(b *bench, edit func(spec map[string]any)) Child {
		return Child{Body: deploymentBody(b.owner, edit), Keep: []string{"replicas"}}
	}
	replicas := func(n int64) func(map[string]any) { return func(spec map[string]any) { spec["replicas"] = n } }
	for name, meanwhile := range map[string]func(b *bench){
		"nothing":   func(*bench) {},
		"a restart": func(b *bench) { b.restart(Own()) },
		"another change of the same child": func(b *bench) {
			b.want("changed", b.apply(kept(b, func(s map[string]any) { s["replicas"], s["paused"] = int64(4), true })),
				"applied GET PATCH PATCH")
		},
		"a refused change after a restart": func(b *bench) { // what it has learned then is all that it knows
			b.restart(Own())
			remove := b.api.Inject(apiserver.Fault{Verb: "patch", Resource: "deployments", Skip: 1,
				Reply: refused})
			b.apply(kept(b, func(s map[string]any) { s["replicas"], s["paused"] = int64(4), true }))
			b.apply(kept(b, func(s map[string]any) { s["paused"] = true }))
			remove()
		},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, InPlace, func(b *bench) {
				b.want("first", b.apply(kept(b, replicas(4))), "created POST")
				meanwhile(b)
				b.apply(kept(b, func(s map[string]any) { s["minReadySeconds"] = int64(1) }))
				b.want("declared no longer", fmt.Sprint(b.at(deploymentsV1, "web", "spec", "replicas")), "4")
				b.patch(deploymentsV1, "web", `{"spec":{"replicas":9}}`)
				b.want("left to others", b.apply(kept(b, func(s map[string]any) { s["minReadySeconds"] = int64(1) })),
					"unchanged")
				b.apply(kept(b, replicas(2)))
				b.want("declared again", fmt.Sprint(b.at(deploymentsV1, "web", "spec", "replicas")), "2")
			})
		})
	}
}

// A change that is refused needs no other read: neither of the child nor of its managedFields.
func TestAChildThatCannotBeChangedIsReadOnce(t *testing.T) {
	on(t, InPlace, func(b *bench) {
		b.want("first", b.apply(b.deployment(1)), "created POST")
		b.want("once the cache has it", b.apply(b.deployment(1)), "unchanged")
		b.api.Inject(apiserver.Fault{Verb: "patch", Resource: "deployments",
			Reply: refused})
		b.want("refused", b.apply(b.deployment(2)), "failed patch deployments.apps default/web: no GET PATCH")
		b.want("refused again", b.apply(b.deployment(2)), "failed patch deployments.apps default/web: no")
	})
}
