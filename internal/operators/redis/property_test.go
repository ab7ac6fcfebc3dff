package redis

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"skiff/internal/operators/operator"
	"skiff/internal/runtime/apply"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

// Whatever users, nodes, networks and the process itself do: in the end the pods are what is declared, and no
// foreign pod was touched.
//
// Rules: CCH-11, MGR-15, PL-04, PL-12, WRT-04, WRT-14, WRT-23, WRT-27
func TestRandomHistoriesEndAsDeclared(t *testing.T) {
	operatortest.RandomHistories(t, options, func(h *operatortest.History) {
		(&history{h, &env{h.Env, startNode(h.Env)}}).run()
	})
}

// history is a random sequence of what can happen to the Redis a and b.
type history struct {
	*operatortest.History
	w *env
}

var names = []string{"a", "b"}

func (h *history) run() {
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
		h.PlanAndRun([]kube.Resource{pods, services}, h.edit)
	}
	h.check()
	for _, name := range names {
		h.TryDelete(resource, name, kube.DeleteOptions{})
	}
	h.Pass(operatortest.LongWait)
	h.check()
}

// crowd has users who create many or large objects.
func (h *history) crowd() {
	image := ""
	elsewhere := kube.Key{Namespace: operatortest.Elsewhere, Name: "quiet"}
	h.UseCrowd(operatortest.Crowd{
		Kinds: []operatortest.Member{
			{Resource: resource, Body: func(name string) string {
				return h.Body(name, fmt.Sprintf(`{"port":6379,"num":%d}`, h.Rand.IntN(2)))
			}},
			{Resource: pods, Body: func(name string) string { return foreignPod(name, `{"app.kubernetes.io/managed-by":"skiff"}`) }},
			{Resource: services, Body: func(name string) string {
				return `{"apiVersion":"v1","kind":"Service","metadata":{"name":"` + name + `","labels":{"app.kubernetes.io/managed-by":"skiff"}},"spec":{"ports":[{"port":80}]}}`
			}},
		},
		Create: func() {
			h.PostIn(elsewhere.Namespace, resource, h.Body(elsewhere.Name, `{"port":6379,"num":1}`))
		},
		Change: func() {
			image = operatortest.Pick(h.History, "redis:8", "redis:10")
			h.PatchIn(elsewhere.Namespace, resource, elsewhere.Name, `{"spec":{"num":2,"image":"`+image+`"}}`)
		},
		Within: 9 * time.Second,
		Check: func() {
			rd := h.API.Get(resource, elsewhere)
			h.Want("Ready elsewhere", operatortest.At(rd, "status", "conditions", 0, "reason"), "Complete")
			h.Want("generation elsewhere", operatortest.At(rd, "status", "observedGeneration"),
				operatortest.At(rd, "metadata", "generation"))
			running := h.API.List(pods, elsewhere.Namespace)
			h.Want("pods elsewhere", len(running), 2)
			for _, p := range running {
				h.Want("image elsewhere", operatortest.At(p, "spec", "containers", 0, "image"), image)
			}
		},
		Delete: []string{"b"},
	})
}

func (h *history) act() {
	name := operatortest.Pick(h.History, "a", "a", "b")
	member := podName(name, h.Rand.IntN(4))
	switch n := h.Rand.IntN(100); {
	case n < 20:
		h.TryPost(resource, h.Body(name, fmt.Sprintf(`{"port":6379,"num":%d}`, h.Rand.IntN(4))))
	case n < 32:
		h.TryPatch(resource, name, "", fmt.Sprintf(`{"spec":{"num":%d}}`, h.Rand.IntN(5)))
	case n < 44:
		h.TryPatch(resource, name, "", `{"spec":`+operatortest.Pick(h.History, `{"image":"redis:8"}`,
			`{"image":null}`, `{"image":"`+brokenImage+`"}`,
			`{"image":"`+slowImage+`"}`, `{"image":"`+rejectedImage+`"}`, `{"image":"`+failingImage+`"}`,
			`{"port":6380}`, `{"config":{"maxmemory":"1mb"}}`, `{"config":{"port":"1"}}`, `{"config":null}`,
			`{"minReadySeconds":2}`,
			`{"template":{"spec":{"containers":[{"name":"X"}]}}}`, `{"template":{"spec":{"nodeSelector":{"a":"b"}}}}`,
			`{"template":null}`)+`}`)
	case n < 50:
		paused := operatortest.Pick(h.History, `"true"`, "null")
		h.TryPatch(resource, name, "", `{"metadata":{"annotations":{"skiff.dev/paused":`+paused+`}}}`)
	case n < 54:
		h.TryDelete(resource, name, kube.DeleteOptions{Propagation: operatortest.Pick(h.History, "",
			kube.Background, kube.Foreground)})
	case n < 64:
		h.TryDelete(pods, member, operatortest.Pick(h.History, kube.DeleteOptions{},
			kube.DeleteOptions{GracePeriodSeconds: new(int64)}))
	case n < 68:
		h.TryPatch(pods, member, "status", `{"status":{"phase":"Failed","reason":"Evicted"}}`)
	case n < 71:
		label := operatortest.Pick(h.History, apply.ManagedByLabel, "app.kubernetes.io/instance")
		if label != apply.ManagedByLabel || h.isKnown(name, member) {
			h.TryPatch(pods, member, "", `{"metadata":{"labels":{"`+label+`":null}}}`)
		}
	case n < 73:
		h.TryDelete(services, name, kube.DeleteOptions{})
	case n < 76:
		h.CreateUnmanaged(pods, foreignPod(member, operatortest.Pick(h.History, `{"app":"theirs"}`,
			`{"app.kubernetes.io/managed-by":"skiff"}`)))
	case n < 90:
		h.InjectFault([]string{"create", "patch", "delete", "get"}, []string{"pods", "redis", "services"})
	case n < 95:
		h.Restart()
	default:
		h.RestartToBeKilled()
	}
}

// edit is what users do while the process is down.
func (h *history) edit() {
	for _, name := range names {
		switch h.Rand.IntN(4) {
		case 0:
			h.TryPost(resource, h.Body(name, fmt.Sprintf(`{"port":6379,"num":%d}`, h.Rand.IntN(4))))
		case 1:
			h.TryPatch(resource, name, "", fmt.Sprintf(`{"spec":{"num":%d}}`, h.Rand.IntN(5)))
		case 2:
			h.TryPatch(resource, name, "", `{"spec":`+operatortest.Pick(h.History, `{"image":"redis:8"}`, `{"image":null}`,
				`{"port":6380}`, `{"config":{"maxmemory":"1mb"}}`, `{"config":null}`,
				`{"template":{"metadata":{"annotations":{"x":"y"}}}}`, `{"template":null}`)+`}`)
		case 3:
			h.TryDelete(services, name, kube.DeleteOptions{})
		}
	}
}

// isKnown says that the status of a Redis names the pod that is there. Of one that it does not name yet, only the
// label tells a process that starts anew: without it nothing finds the pod, unless its name is declared again.
func (h *history) isKnown(name, member string) bool {
	rd, p := h.w.redis(name), h.w.pod(member)
	return rd != nil && p != nil &&
		slices.ContainsFunc(rd.Status.Members, func(m Member) bool { return m.UID == p.UID })
}

// repair ends what would keep a Redis from ever being ready, but changes nothing of num.
func (h *history) repair() {
	h.EndFaults()
	for _, name := range names {
		h.TryPatch(resource, name, "",
			`{"metadata":{"annotations":{"skiff.dev/paused":null}},"spec":{"image":"redis:9","config":null,
				"template":null,"minReadySeconds":1}}`)
	}
	h.RemoveUnmanaged()
	for _, o := range h.API.List(pods, "default") {
		if p := operatortest.Convert[pod](h.Env, o); released(p) {
			h.TryDelete(pods, p.Name, kube.DeleteOptions{UID: p.UID})
		}
	}
}

// released says that a pod was a child, and was released because it was surplus and had lost our label (WRT-27). It
// keeps its name.
func released(p *pod) bool {
	managedBy, _ := p.Labels.Get(apply.ManagedByLabel)
	return revisionOfPod(p) != "" && managedBy == "" && len(p.OwnerReferences) == 0
}

// check compares the cluster with what is declared.
func (h *history) check() {
	h.Helper()
	want := map[string]bool{}
	for _, name := range names {
		rd := h.w.redis(name)
		switch {
		case rd == nil:
			if svc := h.API.Get(services, named(name)); svc != nil {
				h.Errorf("Service %s is left over", name)
			}
		case rd.Deleting():
			h.Errorf("Redis %s is still being deleted: %v %+v", name, rd.Finalizers, rd.Status)
		default:
			h.checkOne(rd, want)
		}
	}
	for _, o := range h.API.List(pods, "default") {
		if p := operatortest.Convert[pod](h.Env, o); !want[p.Name] && !released(p) {
			h.Errorf("pod %s is left over: %+v", p.Name, p.Meta)
		}
	}
}

// checkOne checks a Redis and its pods, and adds their names to want.
func (h *history) checkOne(rd *Redis, want map[string]bool) {
	h.Helper()
	children, err := definition.Declare(rd)
	if err != nil {
		h.Fatal(err)
	}
	num := len(children) - 1
	h.WantReady(rd.Name)
	h.Want("finalizers", fmt.Sprint(rd.Finalizers), "["+Finalizer+"]")
	svc := operatortest.Convert[pod](h.Env, h.API.Get(services, named(rd.Name)))
	if svc == nil || svc.ControllerUID() != rd.UID {
		h.Errorf("Service %s is not there or not owned", rd.Name)
	}
	h.Want("members of "+rd.Name, len(rd.Status.Members), num)
	for i := range num {
		want[podName(rd.Name, i)] = true
		p := h.w.pod(podName(rd.Name, i))
		if p == nil || p.ControllerUID() != rd.UID || revisionOfPod(p) != declaredRevision(h.T, rd) || !isReady(p) {
			h.Errorf("pod %s is not as declared: %+v", podName(rd.Name, i), p)
			continue
		}
		for key, v := range operator.SelectorLabels(app, rd.Name) {
			if have, _ := p.Labels.Get(key); have != v {
				h.Errorf("pod %s has the label %s=%q", p.Name, key, have)
			}
		}
	}
}
