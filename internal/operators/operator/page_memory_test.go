package operator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

// inMemory are the options of an environment in which the objects of a resource, and one object, may take so many KiB.
func inMemory(mirrorKiB, objectKiB int64) operatortest.Options {
	o := options
	o.Setup = controller.Setup{MirrorBytes: mirrorKiB << 10, ObjectBytes: objectKiB << 10}
	return o
}

func kib(n int) string { return strings.Repeat("x", n<<10) }

func TestANamespaceThatTakesTooMuchIsLeftAloneAndTheOthersAreWorkedOn(t *testing.T) {
	storyWith(t, inMemory(512, 256), func(w *operatortest.Env) {
		w.Post(kube.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace", ClusterScoped: true},
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"t1"}}`)
		theirs := func(i int) kube.Key { return kube.Key{Namespace: "t1", Name: fmt.Sprint("p", i)} }
		create := func(from, to int) {
			for i := from; i < to; i++ {
				body := w.JSON(w.Body(fmt.Sprint("p", i), `{"replicas":0,"text":"`+kib(40)+`"}`))
				if err := w.User.Create(w.Context(), pages, "t1", body, nil, kube.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			w.Pass(30 * time.Second)
		}
		condition := func(i, at int) any {
			c := operatortest.At(w.API.Get(pages, theirs(i)), "status", "conditions", at)
			return fmt.Sprint(operatortest.At(c, "type"), "=", operatortest.At(c, "status"), "/",
				operatortest.At(c, "reason"))
		}
		replicas := func() any { return at(w.API.Get(deployments, theirs(0)), "spec", "replicas") }
		w.Create("a", hello)
		create(0, 4)
		create(4, 20) // too many
		w.Patch(pages, "a", `{"spec":{"text":"other"}}`)
		if err := w.User.Patch(w.Context(), pages, theirs(0), kube.MergePatch, w.JSON(`{"spec":{"replicas":3}}`), nil,
			kube.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Pass(30 * time.Second)
		w.Want("text in another namespace", text(w), "other")
		w.Want("replicas", replicas(), 0)
		for i := range 20 {
			w.Want("Ready", condition(i, 0), "Ready=Unknown/OverBudget")
			w.Want("Stalled", condition(i, 3), "Stalled=True/OverBudget")
		}
		w.Forget()
		w.Pass(time.Hour)
		w.WantWrites() // each is told once
		w.Stop()
		w.Start() // amid the attack
		w.Patch(pages, "a", `{"spec":{"text":"third"}}`)
		w.Pass(5 * time.Second)
		w.Want("text after a restart", text(w), "third")
		for i := 4; i < 20; i++ {
			for _, r := range []kube.Resource{pages, configMaps} {
				err := w.User.Delete(w.Context(), r, theirs(i), kube.DeleteOptions{})
				if err != nil && !kube.IsNotFound(err) {
					t.Fatal(err)
				}
			}
		}
		w.Pass(time.Minute)
		w.Want("replicas after the attack", replicas(), 3)
		w.Want("Stalled after the attack", condition(0, 3), "Stalled=False/AsExpected")
	})
}

// A child that is too large cannot be read from memory. What its owner declares is applied all the same, once for each
// generation of the owner: nothing else would make it small again.
func TestAChildThatIsTooLargeIsMadeSmallByAChangeOfItsOwner(t *testing.T) {
	storyWith(t, inMemory(10<<10, 64), func(w *operatortest.Env) {
		w.Create("a", `{"replicas":1,"text":"`+kib(40)+`"}`)
		w.RollOut("a")
		uid := uidOf(w, configMaps)
		w.Patch(configMaps, "a", `{"data":{"mine":"`+kib(40)+`"}}`)
		w.Pass(5 * time.Second)
		w.WantCondition("a", "Ready", "Unknown/TooLarge", "ConfigMap default/a takes")
		w.WantCondition("a", "Stalled", "True/TooLarge")
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()
		w.Patch(pages, "a", `{"spec":{"text":"small"}}`)
		w.Pass(5 * time.Second)
		w.Want("text", text(w), "small")
		w.Want("uid", uidOf(w, configMaps), uid)
		w.WantReady("a")

		w.Patch(configMaps, "a", `{"data":{"mine":"`+kib(100)+`"}}`) // it stays too large
		w.Pass(5 * time.Second)
		for _, changed := range []string{"2", "3"} {
			w.Forget()
			w.Patch(pages, "a", `{"spec":{"text":"`+changed+`"}}`)
			w.Pass(time.Hour)
			w.Want("text", text(w), changed)
			w.Want("reads and applies in an hour", []int{w.Count("GET configmaps"), w.Count("APPLY configmaps")},
				[]int{1, 1})
		}
	})
}
