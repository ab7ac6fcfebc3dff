package redis

import (
	"fmt"
	"testing"
	"time"

	"skiff/internal/kube"
	"skiff/internal/operatortest"
)

// Whatever users, nodes, networks and the process itself do: when all is calm, the pods are what is declared, and nobody else's pod was
// touched.
//
// Rules: CCH-11, MGR-15, WRT-04, WRT-14, WRT-23
func TestAnyLifeEndsAsDeclared(t *testing.T) {
	operatortest.Lives(t, options, func(l *operatortest.Life) { (&life{l, &world{l.World, startNode(l.World)}}).run() })
}

// life is a random sequence of what can happen to the Redis a and b.
type life struct {
	*operatortest.Life
	w *world
}

var names = []string{"a", "b"}

func (l *life) run() {
	l.Start()
	l.Go(30, 4*time.Second, l.act)
	l.repair()
	l.Pass(operatortest.Calm)
	l.check()
	l.Steady()
	for _, name := range names {
		l.TryDelete(resource, name, kube.DeleteOptions{})
	}
	l.Pass(operatortest.Calm)
	l.check()
}

func (l *life) act() {
	name := operatortest.Pick(l.Life, "a", "a", "b")
	member := podName(name, l.Rand.IntN(4))
	switch n := l.Rand.IntN(100); {
	case n < 20:
		l.TryPost(resource, l.Body(name, fmt.Sprintf(`{"port":6379,"num":%d}`, l.Rand.IntN(4))))
	case n < 32:
		l.TryPatch(resource, name, "", fmt.Sprintf(`{"spec":{"num":%d}}`, l.Rand.IntN(5)))
	case n < 44:
		l.TryPatch(resource, name, "", `{"spec":`+operatortest.Pick(l.Life, `{"image":"redis:8"}`, `{"image":null}`, `{"image":"`+brokenImage+`"}`, `{"image":"`+slowImage+`"}`,
			`{"port":6380}`, `{"config":{"maxmemory":"1mb"}}`, `{"config":{"port":"1"}}`, `{"config":null}`, `{"minReadySeconds":2}`,
			`{"template":{"spec":{"containers":[{"name":"X"}]}}}`, `{"template":{"spec":{"nodeSelector":{"a":"b"}}}}`, `{"template":null}`)+`}`)
	case n < 50:
		l.TryPatch(resource, name, "", `{"metadata":{"annotations":{"skiff.dev/paused":`+operatortest.Pick(l.Life, `"true"`, "null")+`}}}`)
	case n < 54:
		l.TryDelete(resource, name, kube.DeleteOptions{Propagation: operatortest.Pick(l.Life, "", kube.Background, kube.Foreground)})
	case n < 64:
		l.TryDelete(pods, member, operatortest.Pick(l.Life, kube.DeleteOptions{}, kube.DeleteOptions{GracePeriodSeconds: new(int64)}))
	case n < 68:
		l.TryPatch(pods, member, "status", `{"status":{"phase":"Failed","reason":"Evicted"}}`)
	case n < 71:
		l.TryPatch(pods, member, "", `{"metadata":{"labels":{"`+operatortest.Pick(l.Life, "app.kubernetes.io/managed-by", "app.kubernetes.io/instance")+`":null}}}`)
	case n < 73:
		l.TryDelete(services, name, kube.DeleteOptions{})
	case n < 76:
		l.Foreign(pods, foreignPod(member, operatortest.Pick(l.Life, `{"app":"theirs"}`, `{"app.kubernetes.io/managed-by":"skiff"}`)))
	case n < 90:
		l.Break([]string{"create", "patch", "delete", "get"}, []string{"pods", "redis", "services"})
	case n < 95:
		l.Restart()
	default:
		l.RestartToBeKilled()
	}
}

// repair ends what would keep a Redis from ever being ready, but changes nothing of num.
func (l *life) repair() {
	l.Mend()
	for _, name := range names {
		l.TryPatch(resource, name, "",
			`{"metadata":{"annotations":{"skiff.dev/paused":null}},"spec":{"image":"redis:9","config":null,"template":null,"minReadySeconds":1}}`)
	}
	l.Dismiss()
}

// check compares the world with what is declared.
func (l *life) check() {
	l.Helper()
	want := map[string]bool{}
	for _, name := range names {
		rd := l.w.redis(name)
		switch {
		case rd == nil:
			if svc := l.API.Get(services, named(name)); svc != nil {
				l.Errorf("Service %s is left over", name)
			}
		case rd.Deleting():
			l.Errorf("Redis %s is still being deleted: %v %+v", name, rd.Finalizers, rd.Status)
		default:
			l.checkOne(rd, want)
		}
	}
	for _, o := range l.API.List(pods, "default") {
		if p := operatortest.Convert[pod](l.World, o); !want[p.Name] {
			l.Errorf("pod %s is left over: %+v", p.Name, p.Meta)
		}
	}
}

// checkOne checks a Redis and its pods, and adds their names to want.
func (l *life) checkOne(rd *Redis, want map[string]bool) {
	l.Helper()
	d, err := desire(rd)
	if err != nil {
		l.Fatal(err)
	}
	l.WantReady(rd.Name)
	l.Want("finalizers", fmt.Sprint(rd.Finalizers), "["+Finalizer+"]")
	if svc := operatortest.Convert[service](l.World, l.API.Get(services, named(rd.Name))); svc == nil || svc.ControllerUID() != rd.UID {
		l.Errorf("Service %s is not there or not owned", rd.Name)
	}
	l.Want("members of "+rd.Name, len(rd.Status.Members), d.num)
	for i := range d.num {
		want[podName(rd.Name, i)] = true
		p := l.w.pod(podName(rd.Name, i))
		if p == nil || p.ControllerUID() != rd.UID || p.revision() != d.revision || !p.ready() {
			l.Errorf("pod %s is not as declared: %+v", podName(rd.Name, i), p)
			continue
		}
		for key, v := range childLabels(rd.Name) {
			if have, _ := p.Labels.Get(key); have != v {
				l.Errorf("pod %s has the label %s=%q", p.Name, key, have)
			}
		}
	}
}
