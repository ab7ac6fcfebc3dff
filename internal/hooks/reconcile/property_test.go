package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/operators/operatortest"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/events"
	"skiff/internal/runtime/kube"
)

// Whatever users, networks, hooks and the process itself do: in the end the cluster is what the hook wants, what
// others own is what they have made of it, and no foreign object was touched.
//
// Rules: HK-23, HK-24, HK-38, HK-48, HK-50, HK-52, HK-59, HK-60, HK-61, HK-62, HK-71, HK-73, HK-75, HK-76
func TestRandomHistoriesEndAsTheHookWants(t *testing.T) {
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			operatortest.RandomHistories(t, m.options(), func(h *operatortest.History) {
				(&history{History: h, model: m, others: map[string]bool{}}).run()
			})
		})
	}
}

// Rules: HK-48, HK-50, HK-52, HK-73, HK-74
func TestKillingAHookControllerAtAnyRequestLosesNothing(t *testing.T) {
	m := models["selector"]
	operatortest.KillAtAnyRequest(t, m.options(), func(w *env, start func(), pass func(time.Duration)) {
		define(w)
		h := &history{History: &operatortest.History{Env: w}, model: m}
		operatortest.NewCluster(w, h.step)
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
	})
}

// model is a controller whose hook is a pure function of its request.
type model struct {
	selects   bool // by spec.selector, instead of the uid of the parent
	decorates bool
	finalizes bool
}

var models = map[string]model{
	"generated selector": {finalizes: true},
	"selector":           {selects: true, finalizes: true},
	"without finalizer":  {selects: true},
	"decorator":          {decorates: true, finalizes: true},
}

func (m model) options() operatortest.Options {
	return operatortest.Options{Resource: things, Controller: "model", New: func(s controller.Setup,
		r *events.Recorder) *controller.Controller {
		return m.script().new(s, r)
	}}
}

func (m model) script() *script {
	s := composite(m.hook)
	if m.decorates {
		s = decorator("model", things, m.hook)
	}
	s.controller.GenerateSelector = !m.selects && !m.decorates
	s.controller.Customize = &spec.Hook{Version: 1, Webhook: &spec.Webhook{}}
	s.kind(deployments, spec.Recreate)
	if m.finalizes {
		s.finalizing()
	}
	return s
}

// hook makes a ConfigMap and a Deployment for each of spec.names, with spec.text and the names of related Secrets.
func (m model) hook(hook wire.Hook, request map[string]any) (string, error) {
	parent, observed, list := request["parent"], request["children"], "children"
	if m.decorates && hook != wire.Customize {
		parent, observed, list = request["object"], request["attachments"], "attachments"
	}
	switch at(parent, "spec", "mood") {
	case "fails":
		return "", errors.New("the hook fails")
	case "later":
		return "", &call.Later{After: time.Minute}
	case "wrong":
		return `{"` + list + `":[null],"relatedResources":[null]}`, nil
	}
	if hook == wire.Customize {
		return `{"relatedResources":[{"apiVersion":"v1","resource":"secrets","labelSelector":{"matchLabels":` +
			`{"app":"related"}}}]}`, nil
	}
	configs, _ := at(observed, "ConfigMap.v1").(map[string]any)
	running, _ := at(observed, "Deployment.apps/v1").(map[string]any)
	if hook == wire.Finalize {
		return fmt.Sprintf(`{"finalized":%t,"status":{"left":%d}}`, len(configs)+len(running) == 0, len(configs)), nil
	}
	related, _ := at(request, "related", "Secret.v1").(map[string]any)
	want := wanted(parent, slices.Sorted(maps.Keys(related)))
	status := map[string]any{"text": at(parent, "spec", "text"), "configs": len(configs), "running": len(running)}
	answer := map[string]any{"status": status, list: want}
	if m.decorates {
		answer["labels"] = map[string]any{"decorated": at(parent, "spec", "text"), "never": nil}
	}
	text, err := json.Marshal(answer)
	return string(text), err
}

// wanted are the children of a parent.
func wanted(parent any, related []string) (all []any) {
	name, _ := at(parent, "metadata", "name").(string)
	list, _ := at(parent, "spec", "names").([]any)
	text, _ := at(parent, "spec", "text").(string)
	labels := map[string]any{"of": name}
	for _, n := range list {
		meta := func() map[string]any {
			return map[string]any{"name": fmt.Sprintf("%s-%v", name, n), "labels": labels}
		}
		all = append(all, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(),
			"data": map[string]any{"text": text, "related": strings.Join(related, ",")}},
			map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta(), "spec": map[string]any{
				"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
					"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": []any{
						map[string]any{"name": "c", "image": "image:" + text}}}}}})
	}
	return all
}

// history is a random sequence of what can happen to the parents a and b.
type history struct {
	*operatortest.History
	model
	others map[string]bool // the uids of children that others have added a field to
}

func (h *history) run() {
	define(h.Env)
	operatortest.NewCluster(h.Env, h.step)
	h.Start()
	h.Steps(30, 4*time.Second, h.act)
	h.repair()
	h.Pass(operatortest.LongWait)
	h.check()
	h.WantNoWrites()
	for _, name := range []string{"a", "b"} {
		h.TryDelete(things, name, kube.DeleteOptions{Propagation: operatortest.Pick(h.History, kube.Background,
			kube.Foreground)})
	}
	h.Pass(operatortest.LongWait)
	h.check()
	h.Want("parents", len(h.API.List(things, "default")), 0)
}

// step plays the garbage collector.
func (h *history) step(ctx context.Context, c *operatortest.Cluster) {
	c.Collect(ctx, configMaps, deployments)
}

// spec is that of a parent.
func (h *history) spec(name, text string, names ...string) string {
	list, _ := json.Marshal(names)
	return fmt.Sprintf(`{"text":%q,"names":%s,"mood":null,"selector":{"matchLabels":{"of":%q}}}`, text, list, name)
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
			`{"mood":"later"}`, `{"mood":"wrong"}`, `{"mood":null}`)+`}`)
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
	case n < 88:
		h.InjectFault([]string{"create", "patch", "patch", "delete", "get"},
			[]string{"things", "configmaps", "deployments", "secrets"})
	case n < 94:
		h.Restart()
	default:
		h.RestartToBeKilled()
	}
}

// repair ends what would keep a parent from ever being as its hook wants.
func (h *history) repair() {
	h.EndFaults()
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
	all := 0
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
		h.Want("status of "+name, at(parent, "status"), status)
		h.Want("deletion of "+name, at(parent, "metadata", "deletionTimestamp"), nil)
	}
	h.Want("children", len(h.API.List(configMaps, "default"))+len(h.API.List(deployments, "default")), all)
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
