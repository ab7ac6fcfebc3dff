package restart

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/operatortest"
)

// Whatever users, nodes, networks and the process itself do: in the end each target was restarted after the last pod
// of its source began to run, never sooner after another restart than the cooldown, and never for nothing.
//
// Rules: MGR-15, PL-04, PL-12, WRT-04
func TestRandomHistoriesEndWithTheTargetsRestarted(t *testing.T) {
	operatortest.RandomHistories(t, options, func(h *operatortest.History) {
		(&history{History: h, w: inCluster(h.Env), born: map[string]time.Time{}}).run()
	})
}

// history is a random sequence of what can happen to the triggers one and two, whose targets are predixy and second.
type history struct {
	*operatortest.History
	w    *env
	born map[string]time.Time // when the pod of a name came last, not before
}

const historyCooldown = 30 * time.Second

func (h *history) run() {
	h.w.deploy("predixy", 1)
	h.w.deploy("second", 1)
	for i := range 3 {
		h.w.pod(fmt.Sprint("redis-", i))
	}
	h.crowd()
	h.Pass(10 * time.Second)
	h.Start()
	h.w.trigger("one", selectRedis+`,"debounce":"3s","cooldown":"30s",`+toPredixy)
	h.w.trigger("two", selectRedis+`,"debounce":"0s","cooldown":"30s","budget":{"max":5,"per":"10m"},"targets":[{"kind":"Deployment","name":"second"},{"kind":"Deployment","name":"missing"}]`)
	h.Pass(10 * time.Second) // they have seen the first pods
	h.Steps(16, 8*time.Second, h.act)
	h.EndFaults()
	h.TryPatch(deployments, "predixy", "", `{"spec":{"paused":false}}`)
	for _, p := range []string{"one", "two"} {
		h.pause(p, "null")
	}
	h.Overfill()
	h.Pass(operatortest.LongWait)
	h.check("one", "predixy")
	h.check("two", "second")
	h.WantNoWrites()
	h.LeaveAlone(h.edit)
	h.check("one", "predixy")
	h.check("two", "second")
	for range 3 {
		h.PlanAndRun([]kube.Resource{deployments}, h.edit)
	}
	h.check("one", "predixy")
	h.check("two", "second")
}

// crowd has users who create many or large objects.
func (h *history) crowd() {
	elsewhere := func(name string) kube.Key { return kube.Key{Namespace: operatortest.Elsewhere, Name: name} }
	source := podBody("redis-0", "redis")
	h.UseCrowd(operatortest.Crowd{
		Kinds: []operatortest.Member{
			{Resource: resource, Body: func(name string) string {
				return h.Body(name, `{`+selectRedis+`,"targets":[{"kind":"Deployment","name":"missing"}]}`)
			}},
			{Resource: pods, Body: func(name string) string { return podBody(name, "crowd") }},
		},
		Create: func() {
			h.PostIn(operatortest.Elsewhere, deployments, workloadBody("Deployment", "predixy", 1))
			h.PostIn(operatortest.Elsewhere, pods, source)
			h.PostIn(operatortest.Elsewhere, resource, h.Body("quiet", `{`+selectRedis+`,"debounce":"1s",`+toPredixy+`}`))
		},
		Change: func() {
			if err := h.User.Delete(h.Context(), pods, elsewhere("redis-0"), kube.DeleteOptions{}); err != nil {
				h.Fatal(err)
			}
			h.Pass(2 * time.Second)
			h.PostIn(operatortest.Elsewhere, pods, source)
		},
		Within: 9 * time.Second,
		Check: func() {
			h.Want("restarts elsewhere", at(h.API.Get(resource, elsewhere("quiet")), "status", "restarts"), 1)
			h.Want("revision elsewhere", at(h.API.Get(deployments, elsewhere("predixy")), "metadata", "annotations",
				"deployment.kubernetes.io/revision"), "2")
		},
	})
}

// edit is what happens to the source while the process is down.
func (h *history) edit() {
	for _, name := range []string{"redis-0", "redis-1", "redis-2"} {
		if h.Rand.IntN(3) > 0 {
			continue
		}
		h.TryDelete(pods, name, kube.DeleteOptions{})
		h.Pass(2 * time.Second)
		h.w.pod(name)
		h.born[name] = time.Now()
	}
}

func (h *history) act() {
	name := operatortest.Pick(h.History, "redis-0", "redis-1", "redis-2")
	switch n := h.Rand.IntN(100); {
	case n < 30:
		h.TryDelete(pods, name, kube.DeleteOptions{})
		h.Pass(2 * time.Second)
		h.Note("make %s", name)
		h.w.pod(name)
		h.born[name] = time.Now()
	case n < 35:
		if h.TryDelete(pods, name, kube.DeleteOptions{}) {
			h.Pass(2 * time.Second)
			delete(h.born, name)
		}
	case n < 42:
		h.pause(operatortest.Pick(h.History, "one", "two"), operatortest.Pick(h.History, `"true"`, "null"))
	case n < 48:
		h.TryPatch(deployments, "predixy", "", `{"spec":{"paused":`+operatortest.Pick(h.History, "true", "false")+`}}`)
	case n < 54:
		for _, p := range h.API.List(pods, "default") {
			if pod, _ := at(p, "metadata", "name").(string); strings.HasPrefix(pod, "predixy-") {
				h.TryDelete(pods, pod, kube.DeleteOptions{})
				break
			}
		}
	case n < 80:
		h.InjectFault([]string{"patch", "patch", "get"}, []string{"pods", "restarttriggers"})
	case n < 90:
		h.Restart()
	default:
		h.RestartToBeKilled()
	}
}

func (h *history) pause(trigger, value string) {
	h.TryPatch(resource, trigger, "", `{"metadata":{"annotations":{"skiff.dev/paused":`+value+`}}}`)
}

var replicaSets = kube.Resource{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet"}

// restarts returns when a target was restarted: each restart has left a ReplicaSet.
func (h *history) restarts(target string) []time.Time {
	var out []time.Time
	for _, rs := range h.API.List(replicaSets, "default") {
		text, _ := at(rs, "spec", "template", "metadata", "annotations", restartedAt).(string)
		if text == "" || at(rs, "metadata", "ownerReferences", 0, "name") != target {
			continue
		}
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			h.Error(err)
		}
		out = append(out, t)
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// check checks a trigger and its target.
func (h *history) check(trigger, target string) {
	h.Helper()
	restarts := h.restarts(target)
	h.Want("rollouts of "+target, h.w.revision(target), fmt.Sprint(len(restarts)+1))
	for i := range max(len(restarts)-1, 0) {
		if d := restarts[i+1].Sub(restarts[i]); d < historyCooldown {
			h.Errorf("%s was restarted %s after a restart", target, d)
		}
	}
	for pod, born := range h.born {
		if len(restarts) == 0 || restarts[len(restarts)-1].Before(born) {
			h.Errorf("%s was restarted at %v, and %s has come at %s", target, restarts, pod, born)
		}
	}
	if c := h.Condition(trigger, "Progressing"); !strings.HasPrefix(c, "False/") {
		h.Errorf("Progressing of %s: %s", trigger, c)
	}
}
