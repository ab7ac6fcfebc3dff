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
// of its source began to run, or its ConfigMap changed, never sooner after another restart than the cooldown, and
// never for nothing.
//
// Rules: MGR-15, PL-04, PL-12, WRT-04
func TestRandomHistoriesEndWithTheTargetsRestarted(t *testing.T) {
	operatortest.RandomHistories(t, withConfigs(), func(h *operatortest.History) {
		(&history{History: h, w: inCluster(h.Env), born: map[string]time.Time{}}).run()
	})
}

// history is a random sequence of what can happen to the triggers one and two, whose targets are predixy and second,
// and to the trigger conf of the ConfigMap app, whose target is third.
type history struct {
	*operatortest.History
	w    *env
	born map[string]time.Time // when the pod of a name came last, not before

	content int       // of the ConfigMap app: each is another one
	changed time.Time // when the content came; zero: it is the first
}

const historyCooldown = 30 * time.Second

func (h *history) run() {
	h.w.deploy("predixy", 1)
	h.w.deploy("second", 1)
	h.w.deploy("third", 1)
	h.w.config("app", `"a":"0"`)
	for i := range 3 {
		h.w.pod(fmt.Sprint("redis-", i))
	}
	h.crowd()
	h.Pass(10 * time.Second)
	h.Start()
	h.w.trigger("one", selectRedis+`,"debounce":"3s","cooldown":"30s",`+toPredixy)
	h.w.trigger("two", selectRedis+`,"debounce":"0s","cooldown":"30s","budget":{"max":5,"per":"10m"},"targets":[{"kind":"Deployment","name":"second"},{"kind":"Deployment","name":"missing"}]`)
	h.w.trigger("conf", `"source":{"configMaps":[{"name":"app"}]},"debounce":"3s","cooldown":"30s","targets":[{"kind":"Deployment","name":"third"}]`)
	h.Pass(10 * time.Second) // they have seen the first pods
	h.Steps(16, 8*time.Second, h.act)
	h.EndFaults()
	h.TryPatch(deployments, "predixy", "", `{"spec":{"paused":false}}`)
	for _, p := range []string{"one", "two", "conf"} {
		h.pause(p, "null")
	}
	h.Overfill()
	h.Pass(operatortest.LongWait)
	h.checkAll()
	h.WantNoWrites()
	h.LeaveAlone(h.edit)
	h.checkAll()
	for range 3 {
		h.PlanAndRun([]kube.Resource{deployments}, h.edit)
	}
	h.checkAll()
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

// configure changes the content of the ConfigMap app, or makes the ConfigMap anew with the same content or another.
func (h *history) configure() {
	anew, same := h.Rand.IntN(3) == 0, h.Rand.IntN(2) == 0
	if anew && !h.TryDelete(configMaps, "app", kube.DeleteOptions{}) {
		return
	}
	if anew {
		h.Pass(2 * time.Second)
	}
	if !anew || !same {
		h.content++
		h.changed = time.Now()
	}
	h.Note("content %d", h.content)
	data := fmt.Sprintf(`"a":"%d"`, h.content)
	if anew {
		h.w.config("app", data)
	} else {
		h.w.setConfig("app", data)
	}
}

// edit is what happens to the sources while the process is down.
func (h *history) edit() {
	if h.Rand.IntN(2) == 0 {
		h.configure()
	}
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
		h.pause(operatortest.Pick(h.History, "one", "two", "conf"), operatortest.Pick(h.History, `"true"`, "null"))
	case n < 48:
		h.TryPatch(deployments, "predixy", "", `{"spec":{"paused":`+operatortest.Pick(h.History, "true", "false")+`}}`)
	case n < 54:
		for _, p := range h.API.List(pods, "default") {
			if pod, _ := at(p, "metadata", "name").(string); strings.HasPrefix(pod, "predixy-") {
				h.TryDelete(pods, pod, kube.DeleteOptions{})
				break
			}
		}
	case n < 66:
		h.configure()
	case n < 80:
		h.InjectFault([]string{"patch", "patch", "get"}, []string{"pods", "restarttriggers", "configmaps"})
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

// checkAll checks all triggers and their targets.
func (h *history) checkAll() {
	h.Helper()
	h.check("one", "predixy", h.born)
	h.check("two", "second", h.born)
	changed := map[string]time.Time{}
	if !h.changed.IsZero() {
		changed["content"] = h.changed
	}
	h.check("conf", "third", changed)
	if n := len(h.restarts("third")); n > h.content {
		h.Errorf("third was restarted %d times for %d changes", n, h.content)
	}
}

// check checks a trigger and its target, which has to be restarted since some times.
func (h *history) check(trigger, target string, since map[string]time.Time) {
	h.Helper()
	restarts := h.restarts(target)
	h.Want("rollouts of "+target, h.w.revision(target), fmt.Sprint(len(restarts)+1))
	for i := range max(len(restarts)-1, 0) {
		if d := restarts[i+1].Sub(restarts[i]); d < historyCooldown {
			h.Errorf("%s was restarted %s after a restart", target, d)
		}
	}
	for source, at := range since {
		if len(restarts) == 0 || restarts[len(restarts)-1].Before(at) {
			h.Errorf("%s was restarted at %v, and %s has come at %s", target, restarts, source, at)
		}
	}
	if c := h.Condition(trigger, "Progressing"); !strings.HasPrefix(c, "False/") {
		h.Errorf("Progressing of %s: %s", trigger, c)
	}
}
