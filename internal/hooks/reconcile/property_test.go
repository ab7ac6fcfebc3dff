package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

// Whatever users, networks, hooks and the process itself do: in the end the cluster is what the hook wants, what
// others own is what they have made of it, and no foreign object was touched.
//
// Rules: HK-23, HK-24, HK-38, HK-48, HK-50, HK-52, HK-59, HK-60, HK-61, HK-62, HK-71, HK-73, HK-75, HK-76
// Rules: HK-87, HK-89, PL-04, PL-08, PL-12
func TestRandomHistoriesEndAsTheHookWants(t *testing.T) {
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			operatortest.RandomHistories(t, m.options(), func(h *operatortest.History) {
				of := m.script()
				h.New = of.new
				(&history{History: h, model: m, hook: of, others: map[string]bool{}}).run()
			})
		})
	}
}

// Rules: HK-48, HK-50, HK-52, HK-73, HK-74, HK-89
func TestKillingAHookControllerAtAnyRequestLosesNothing(t *testing.T) {
	for _, name := range []string{"selector", "rolling"} {
		t.Run(name, func(t *testing.T) {
			operatortest.KillAtAnyRequest(t, models[name].options(), models[name].scenario)
		})
	}
}

// scenario is the life of one parent.
func (m model) scenario(w *env, start func(), pass func(time.Duration)) {
	h := &history{History: &operatortest.History{Env: w}, model: m}
	h.prepare()
	start()
	w.Post(secrets, secret("one", "related"))
	w.Create("a", h.spec("a", "1", "x", "y"))
	pass(2 * time.Minute)
	h.check()
	w.Patch(things, "a", `{"spec":`+h.spec("a", "2", "y", "z")+`}`)
	pass(2 * time.Minute)
	h.check()
	w.Delete(things, "a")
	pass(2 * time.Minute)
	h.check()
	w.Want("parent", get(w, things, "a"), map[string]any(nil))
}

// history is a random sequence of what can happen to the parents a and b.
type history struct {
	*operatortest.History
	model
	hook   *script
	others map[string]bool // the uids of children that others have added a field to
}

func (h *history) run() {
	h.prepare()
	h.crowd()
	h.Start()
	h.Steps(30, 4*time.Second, h.act)
	h.repair()
	h.Overfill()
	h.Pass(operatortest.LongWait)
	h.check()
	h.WantNoWrites()
	h.LeaveAlone(h.edit)
	h.check()
	for range 3 {
		h.PlanAndRun([]kube.Resource{configMaps, deployments, things}, h.edit)
	}
	h.check()
	for _, name := range []string{"a", "b"} {
		h.TryDelete(things, name, kube.DeleteOptions{Propagation: operatortest.Pick(h.History, kube.Background,
			kube.Foreground)})
	}
	h.Pass(operatortest.LongWait)
	h.check()
	h.Want("parents", len(h.API.List(things, "default")), 0)
}

// prepare installs the definitions, and starts the simulated part of the cluster.
func (h *history) prepare() {
	define(h.Env)
	if h.rolls {
		h.PostYAML("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", revisionsDefinition(h.T))
	}
	operatortest.NewCluster(h.Env, h.step)
}

// step plays the garbage collector.
func (h *history) step(ctx context.Context, c *operatortest.Cluster) {
	c.Collect(ctx, configMaps, deployments, spec.Revisions)
}

// spec is that of a parent.
func (h *history) spec(name, text string, names ...string) string {
	list, _ := json.Marshal(names)
	return fmt.Sprintf(`{"text":%q,"names":%s,"mood":null,"selector":{"matchLabels":{"of":%q}}}`, text, list, name)
}

// crowd has users who create many or large objects.
func (h *history) crowd() {
	text := ""
	elsewhere := func(name string) kube.Key { return kube.Key{Namespace: operatortest.Elsewhere, Name: name} }
	child := func(r kube.Resource, more string) operatortest.Member {
		return operatortest.Member{Resource: r, Delays: r == secrets && h.finalizes, Body: func(name string) string {
			return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"controller-uid":"none"}}%s}`,
				r.APIVersion(), r.Kind, name, more)
		}}
	}
	h.UseCrowd(operatortest.Crowd{
		Kinds: []operatortest.Member{
			{Resource: things, Body: func(name string) string {
				return h.Body(name, operatortest.Pick(h.History, h.spec(name, "1"), h.spec(name, "1", "x")))
			}},
			child(configMaps, ""),
			child(deployments, `,"spec":{"replicas":0,"selector":{"matchLabels":{"app":"own"}},"template":{"metadata":{"labels":{"app":"own"}},"spec":{"containers":[{"name":"own","image":"own"}]}}}`),
			child(secrets, ""),
		},
		Create: func() {
			h.PostIn(operatortest.Elsewhere, things, h.Body("quiet", h.spec("quiet", "1", "x", "y")))
		},
		Change: func() {
			text = operatortest.Pick(h.History, "2", "3")
			h.PatchIn(operatortest.Elsewhere, things, "quiet", `{"spec":`+h.spec("quiet", text, "x", "z")+`}`)
		},
		Within: 4 * time.Second,
		Check: func() {
			for _, name := range []string{"quiet-x", "quiet-z"} {
				h.Want("text elsewhere", at(h.API.Get(configMaps, elsewhere(name)), "data", "text"), text)
			}
			h.Want("old child elsewhere", h.API.Get(configMaps, elsewhere("quiet-y")), map[string]any(nil))
			h.Want("status elsewhere", at(h.API.Get(things, elsewhere("quiet")), "status", "text"), text)
		},
		Delete: []string{"b"},
	})
}

func (h *history) act() {
	name := operatortest.Pick(h.History, "a", "a", "b")
	child := name + "-" + operatortest.Pick(h.History, "x", "y")
	kind := operatortest.Pick(h.History, configMaps, configMaps, deployments)
	text := operatortest.Pick(h.History, "1", "2", "3")
	switch n := h.Rand.IntN(100); {
	case n < 15:
		h.TryPost(things, h.Body(name, h.spec(name, text, "x", "y")))
	case n < 30:
		h.TryPatch(things, name, "", `{"spec":`+operatortest.Pick(h.History, h.spec(name, text, "x", "y"),
			h.spec(name, text, "x"), h.spec(name, text, "y", "z"), h.spec(name, text), `{"mood":"fails"}`,
			`{"mood":"later"}`, `{"mood":"wrong"}`, `{"mood":"hangs"}`, `{"mood":null}`)+`}`)
	case n < 33:
		h.TryPatch(things, name, "", `{"metadata":{"annotations":{"skiff.dev/paused":`+
			operatortest.Pick(h.History, `"true"`, "null")+`}}}`)
	case n < 38:
		h.TryDelete(things, name, kube.DeleteOptions{Propagation: operatortest.Pick(h.History, "", kube.Background,
			kube.Foreground, kube.Orphan)})
	case n < 45:
		h.TryDelete(kind, child, kube.DeleteOptions{})
	case n < 52:
		h.TryPatch(configMaps, child, "", `{"data":{"text":"spoiled","related":null}}`)
	case n < 57:
		if h.TryPatch(configMaps, child, "", `{"data":{"mine":"1"}}`) {
			uid, _ := at(get(h.Env, configMaps, child), "metadata", "uid").(string)
			h.others[uid] = true
		}
	case n < 61:
		h.TryPatch(kind, child, "", `{"metadata":{"labels":{"of":"none","controller-uid":null}}}`)
	case n < 64:
		h.TryPatch(kind, child, "", `{"metadata":{"ownerReferences":null}}`)
	case n < 67:
		h.CreateUnmanaged(configMaps, configMap(child, "", ""))
	case n < 70:
		h.TryPost(secrets, secret(operatortest.Pick(h.History, "s", "t"), "related"))
	case n < 73:
		h.TryPatch(secrets, "s", "", `{"metadata":{"labels":{"app":"`+
			operatortest.Pick(h.History, "related", "other")+`"}}}`)
	case n < 75:
		h.TryDelete(secrets, operatortest.Pick(h.History, "s", "t"), kube.DeleteOptions{})
	case n < 78:
		h.Note("the hook restarts")
		h.hook.restart(h.Rand.IntN(4))
	case n < 89:
		h.InjectFault([]string{"create", "patch", "patch", "delete", "get"},
			[]string{"things", "configmaps", "deployments", "secrets"})
	case n < 94:
		h.Restart()
	default:
		h.RestartToBeKilled()
	}
}

// edit is what users do while the process is down.
func (h *history) edit() {
	for _, name := range []string{"a", "b"} {
		child, text := name+"-"+operatortest.Pick(h.History, "x", "y"), operatortest.Pick(h.History, "1", "2", "3")
		switch h.Rand.IntN(5) {
		case 0:
			h.TryPost(things, h.Body(name, h.spec(name, text, "x", "y")))
		case 1:
			h.TryPatch(things, name, "", `{"spec":`+operatortest.Pick(h.History, h.spec(name, text, "x", "y"),
				h.spec(name, text, "x"), h.spec(name, text, "y", "z"), h.spec(name, text))+`}`)
		case 2:
			h.TryPatch(configMaps, child, "", `{"data":{"text":"spoiled","related":null}}`)
		case 3:
			h.TryDelete(operatortest.Pick(h.History, configMaps, deployments), child, kube.DeleteOptions{})
		case 4:
			h.TryPost(secrets, secret(operatortest.Pick(h.History, "s", "t"), "related"))
		}
	}
}

// repair ends what would keep a parent from ever being as its hook wants.
func (h *history) repair() {
	h.EndFaults()
	h.hook.restart(0)
	h.Pass(2 * time.Second) // until the garbage collector has let orphans go
	h.RemoveUnmanaged()
	for _, name := range []string{"a", "b"} {
		h.TryPatch(things, name, "", `{"metadata":{"annotations":{"skiff.dev/paused":null}},"spec":{"mood":null}}`)
	}
	h.Pass(operatortest.LongWait)
	for _, r := range []kube.Resource{configMaps, deployments} {
		for _, o := range h.API.List(r, "default") {
			name, _ := at(o, "metadata", "name").(string)
			// what nothing adopts, and what has lost the label that a server selects by while no process knew of it
			if at(o, "metadata", "ownerReferences") == nil ||
				!h.selects && !h.decorates && at(o, "metadata", "labels", uidLabel) == nil {
				h.TryDelete(r, name, kube.DeleteOptions{})
			}
		}
	}
}

// check compares the cluster with what the hook wants.
func (h *history) check() {
	h.Helper()
	var related []string
	for _, o := range h.API.List(secrets, "default") {
		if name, _ := at(o, "metadata", "name").(string); at(o, "metadata", "labels", "app") == "related" {
			related = append(related, name)
		}
	}
	slices.Sort(related)
	all, revisions := 0, 0
	for _, name := range []string{"a", "b"} {
		parent := get(h.Env, things, name)
		if parent == nil {
			continue
		}
		want := wanted(parent, related)
		all += len(want)
		for _, child := range want {
			h.checkChild(parent, child)
		}
		status := map[string]any{"text": at(parent, "spec", "text"), "configs": int64(len(want) / 2),
			"running": int64(len(want) / 2)}
		if !h.decorates {
			status["observedGeneration"] = at(parent, "metadata", "generation")
		} else {
			h.Want("label of "+name, at(parent, "metadata", "labels", "decorated"), at(parent, "spec", "text"))
		}
		h.checkRoll(name, parent, status)
		if h.rolls && len(want) > 0 {
			revisions++
		}
		h.Want("status of "+name, at(parent, "status"), status)
		h.Want("deletion of "+name, at(parent, "metadata", "deletionTimestamp"), nil)
	}
	owned := 0 // one that was orphaned with its children stays, like these
	for _, o := range h.API.List(spec.Revisions, "default") {
		if at(o, "metadata", "ownerReferences", 0) != nil {
			owned++
		}
	}
	h.Want("revisions", owned, revisions)
	h.Want("children", len(h.API.List(configMaps, "default"))+len(h.API.List(deployments, "default")), all)
}

// checkRoll checks that the children of a parent that roll have done so, and adds the condition that says it.
func (h *history) checkRoll(name string, parent any, status map[string]any) {
	h.Helper()
	if !h.rolls {
		return
	}
	status["conditions"] = at(parent, "status", "conditions")
	h.Want("roll of "+name, at(parent, "status", "conditions", 0, "reason"), "OnLatestRevision")
}

func (h *history) checkChild(parent, want any) {
	h.Helper()
	r := configMaps
	if at(want, "kind") == deployments.Kind {
		r = deployments
	}
	name, _ := at(want, "metadata", "name").(string)
	child := get(h.Env, r, name)
	uid, _ := at(child, "metadata", "uid").(string)
	h.Want("owner of "+r.Kind+" "+name, at(child, "metadata", "ownerReferences", 0, "uid"),
		at(parent, "metadata", "uid"))
	h.Want("deletion of "+name, at(child, "metadata", "deletionTimestamp"), nil)
	h.Want("label of "+name, at(child, "metadata", "labels", "of"), at(want, "metadata", "labels", "of"))
	if r == deployments {
		h.Want("image of "+name, at(child, "spec", "template", "spec", "containers", 0, "image"),
			at(want, "spec", "template", "spec", "containers", 0, "image"))
		return
	}
	for _, key := range []string{"text", "related"} {
		h.Want(key+" of "+name, at(child, "data", key), at(want, "data", key))
	}
	if h.others[uid] {
		h.Want("what others have added to "+name, at(child, "data", "mine"), "1")
	}
}
