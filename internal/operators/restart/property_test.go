package restart

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/kube"
	"skiff/internal/operatortest"
)

// Whatever users, nodes, networks and the process itself do: when all is calm, each target was restarted after the last pod of its
// source began to run, never sooner after another restart than the cooldown, and never for nothing.
//
// Rules: MGR-15, WRT-04
func TestAnyLifeEndsWithTheTargetsRestarted(t *testing.T) {
	operatortest.Lives(t, options, func(l *operatortest.Life) {
		(&life{Life: l, w: inCluster(l.World), born: map[string]time.Time{}}).run()
	})
}

// life is a random sequence of what can happen to the triggers one and two, whose targets are predixy and second.
type life struct {
	*operatortest.Life
	w    *world
	born map[string]time.Time // when the pod of a name came last, not before
}

const lifeCooldown = 30 * time.Second

func (l *life) run() {
	l.w.deploy("predixy", 1)
	l.w.deploy("second", 1)
	for i := range 3 {
		l.w.pod(fmt.Sprint("redis-", i))
	}
	l.Pass(10 * time.Second)
	l.Start()
	l.w.trigger("one", selectRedis+`,"debounce":"3s","cooldown":"30s",`+toPredixy)
	l.w.trigger("two", selectRedis+`,"debounce":"0s","cooldown":"30s","budget":{"max":5,"per":"10m"},"targets":[{"kind":"Deployment","name":"second"},{"kind":"Deployment","name":"missing"}]`)
	l.Pass(10 * time.Second) // they have seen the first pods
	l.Go(16, 8*time.Second, l.act)
	l.Mend()
	l.TryPatch(deployments, "predixy", "", `{"spec":{"paused":false}}`)
	for _, p := range []string{"one", "two"} {
		l.pause(p, "null")
	}
	l.Pass(operatortest.Calm)
	l.check("one", "predixy")
	l.check("two", "second")
	l.Steady()
}

func (l *life) act() {
	name := operatortest.Pick(l.Life, "redis-0", "redis-1", "redis-2")
	switch n := l.Rand.IntN(100); {
	case n < 30:
		l.TryDelete(pods, name, kube.DeleteOptions{})
		l.Pass(2 * time.Second)
		l.Tell("make %s", name)
		l.w.pod(name)
		l.born[name] = time.Now()
	case n < 35:
		if l.TryDelete(pods, name, kube.DeleteOptions{}) {
			l.Pass(2 * time.Second)
			delete(l.born, name)
		}
	case n < 42:
		l.pause(operatortest.Pick(l.Life, "one", "two"), operatortest.Pick(l.Life, `"true"`, "null"))
	case n < 48:
		l.TryPatch(deployments, "predixy", "", `{"spec":{"paused":`+operatortest.Pick(l.Life, "true", "false")+`}}`)
	case n < 54:
		for _, p := range l.API.List(pods, "default") {
			if pod, _ := at(p, "metadata", "name").(string); strings.HasPrefix(pod, "predixy-") {
				l.TryDelete(pods, pod, kube.DeleteOptions{})
				break
			}
		}
	case n < 80:
		l.Break([]string{"patch", "patch", "get"}, []string{"pods", "restarttriggers"})
	case n < 90:
		l.Restart()
	default:
		l.RestartToBeKilled()
	}
}

func (l *life) pause(trigger, value string) {
	l.TryPatch(resource, trigger, "", `{"metadata":{"annotations":{"skiff.dev/paused":`+value+`}}}`)
}

var replicaSets = kube.Resource{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet"}

// restarts returns when a target was restarted: each restart has left a ReplicaSet.
func (l *life) restarts(target string) []time.Time {
	var out []time.Time
	for _, rs := range l.API.List(replicaSets, "default") {
		text, _ := at(rs, "spec", "template", "metadata", "annotations", restartedAt).(string)
		if text == "" || at(rs, "metadata", "ownerReferences", 0, "name") != target {
			continue
		}
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			l.Error(err)
		}
		out = append(out, t)
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// check checks a trigger and its target.
func (l *life) check(trigger, target string) {
	l.Helper()
	restarts := l.restarts(target)
	l.Want("rollouts of "+target, l.w.revision(target), fmt.Sprint(len(restarts)+1))
	for i := range max(len(restarts)-1, 0) {
		if d := restarts[i+1].Sub(restarts[i]); d < lifeCooldown {
			l.Errorf("%s was restarted %s after a restart", target, d)
		}
	}
	for pod, born := range l.born {
		if len(restarts) == 0 || restarts[len(restarts)-1].Before(born) {
			l.Errorf("%s was restarted at %v, and %s has come at %s", target, restarts, pod, born)
		}
	}
	if c := l.Condition(trigger, "Progressing"); !strings.HasPrefix(c, "False/") {
		l.Errorf("Progressing of %s: %s", trigger, c)
	}
}
