package redis

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"

	"skiff/internal/fakeapi"
	"skiff/internal/kube"
)

var (
	seeds = flag.Int("seeds", 4, "how many random lives TestAnyLifeEndsAsDeclared goes through")
	seed  = flag.Uint64("seed", 0, "the one random life that TestAnyLifeEndsAsDeclared goes through, with its log")
)

// Rules: CCH-11, MGR-15, WRT-01, WRT-14, WRT-16, WRT-23
func TestAnyLifeEndsAsDeclared(t *testing.T) {
	if *seed != 0 {
		storyWith(t, fakeapi.Options{Seed: *seed}, testr.New(t), func(w *world) { newLife(w, *seed).run() })
		return
	}
	for s := uint64(1); s <= uint64(*seeds); s++ {
		if !t.Run(fmt.Sprint(s), func(t *testing.T) {
			storyWith(t, fakeapi.Options{Seed: s}, logr.Discard(), func(w *world) { newLife(w, s).run() })
		}) {
			t.Logf("go test ./internal/operators/redis -run %s -seed %d", t.Name(), s)
		}
	}
}

// life is a random sequence of what users, nodes, networks and the process itself do.
type life struct {
	*world
	rand    *rand.Rand
	faults  []func()
	killer  *killer
	cancel  func()
	foreign map[string]*pod // as they were made
	told    []string        // what happened, for the one who reads a failure
}

func newLife(w *world, seed uint64) *life {
	return &life{world: w, rand: rand.New(rand.NewPCG(seed, 7)), foreign: map[string]*pod{}}
}

const (
	acts = 30
	// calm is longer than all that is waited for: the slow lane (up to 7.5 min), rechecks, a watch that has gone silent.
	calm = 20 * time.Minute
)

func (l *life) run() {
	for range acts {
		l.act()
		l.pass(time.Duration(l.rand.IntN(4000)) * time.Millisecond)
		if l.killer != nil && l.killer.killed() {
			l.tell("killed at request %d, restart", l.killer.at)
			l.cancel()
			l.restartOn(nil)
		}
	}
	for _, remove := range l.faults {
		remove()
	}
	l.repair()
	l.pass(calm)
	l.check()
	for _, name := range []string{"a", "b"} {
		l.try(l.user.Delete(l.Context(), resource, named(name), kube.DeleteOptions{}))
	}
	l.pass(calm)
	l.check()
	if l.Failed() {
		l.Logf("what happened:\n  %s", strings.Join(l.told, "\n  "))
	}
}

func (l *life) tell(format string, args ...any) {
	l.told = append(l.told, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	l.log.Info("===== " + l.told[len(l.told)-1])
}

// try fails the test on anything but that the object is not there, or that it is already.
func (l *life) try(err error) {
	l.Helper()
	if err != nil && !kube.IsNotFound(err) && !kube.IsAlreadyExists(err) && !kube.IsConflict(err) {
		l.Fatal(err)
	}
	l.settle()
}

func (l *life) restartOn(k *killer) {
	l.stop()
	l.pass(time.Duration(l.rand.IntN(3000)) * time.Millisecond)
	if l.killer = k; k != nil {
		l.cancel = l.startOn(k.Dial)
	} else {
		l.start()
	}
}

func pick[T any](l *life, list ...T) T { return list[l.rand.IntN(len(list))] }

func (l *life) act() {
	name := pick(l, "a", "a", "b")
	member := podName(name, l.rand.IntN(4))
	merge := func(r kube.Resource, name, text string) {
		l.tell("patch %s %s %s", r.Kind, name, text)
		l.try(l.user.Patch(l.Context(), r, named(name), kube.MergePatch, l.json(text), nil, kube.WriteOptions{FieldManager: "user"}))
	}
	remove := func(r kube.Resource, name string, o kube.DeleteOptions) {
		l.tell("delete %s %s %v", r.Kind, name, o.GracePeriodSeconds != nil)
		l.try(l.user.Delete(l.Context(), r, named(name), o))
	}
	switch n := l.rand.IntN(100); {
	case n < 20:
		spec := fmt.Sprintf(`{"port":6379,"num":%d}`, l.rand.IntN(4))
		l.tell("create %s %s", name, spec)
		l.try(l.user.Create(l.Context(), resource, "default", l.json(fmt.Sprintf(`{"apiVersion":"skiff.dev/v1alpha1","kind":"Redis","metadata":{"name":%q},"spec":%s}`, name, spec)), nil, kube.WriteOptions{}))
	case n < 32:
		merge(resource, name, fmt.Sprintf(`{"spec":{"num":%d}}`, l.rand.IntN(5)))
	case n < 44:
		merge(resource, name, `{"spec":`+pick(l, `{"image":"redis:8"}`, `{"image":null}`, `{"image":"`+brokenImage+`"}`, `{"image":"`+slowImage+`"}`, `{"port":6380}`,
			`{"config":{"maxmemory":"1mb"}}`, `{"config":{"port":"1"}}`, `{"config":null}`, `{"minReadySeconds":2}`,
			`{"template":{"spec":{"containers":[{"name":"X"}]}}}`, `{"template":{"spec":{"nodeSelector":{"a":"b"}}}}`, `{"template":null}`)+`}`)
	case n < 50:
		merge(resource, name, `{"metadata":{"annotations":{"skiff.dev/paused":`+pick(l, `"true"`, "null")+`}}}`)
	case n < 54:
		remove(resource, name, kube.DeleteOptions{})
	case n < 64:
		var none int64
		remove(pods, member, pick(l, kube.DeleteOptions{}, kube.DeleteOptions{GracePeriodSeconds: &none}))
	case n < 68:
		l.failIfThere(member)
	case n < 71:
		merge(pods, member, `{"metadata":{"labels":{"`+pick(l, "app.kubernetes.io/managed-by", "app.kubernetes.io/instance")+`":null}}}`)
	case n < 73:
		remove(services, name, kube.DeleteOptions{})
	case n < 76:
		l.makeForeign(member)
	case n < 90:
		l.breakSomething()
	case n < 95:
		l.tell("restart")
		l.restartOn(nil)
	default:
		k := &killer{dial: l.pipe.Dial, at: 1 + l.rand.IntN(30), late: l.rand.IntN(2) == 0}
		l.tell("restart, to be killed at request %d, late %t", k.at, k.late)
		l.restartOn(k)
	}
}

func (l *life) failIfThere(name string) {
	l.tell("fail pod %s", name)
	l.try(l.user.Patch(l.Context(), pods, named(name), kube.MergePatch, l.json(`{"status":{"phase":"Failed","reason":"Evicted"}}`), nil,
		kube.WriteOptions{FieldManager: "node", Subresource: "status"}))
}

func (l *life) makeForeign(name string) {
	body := l.json(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":%s,"finalizers":["example.com/mine"]},"spec":{"containers":[{"name":"own","image":"own"}]}}`,
		name, pick(l, `{"app":"theirs"}`, `{"app.kubernetes.io/managed-by":"skiff"}`)))
	err := l.user.Create(l.Context(), pods, "default", body, nil, kube.WriteOptions{})
	if err == nil {
		l.tell("foreign pod %s", name)
		l.foreign[name] = l.pod(name)
	}
	l.try(err)
}

// breakSomething lets a few of the controller's requests go wrong from now on.
func (l *life) breakSomething() {
	f := fakeapi.Fault{UserAgent: agent, Probability: 0.3, Times: 1 + l.rand.IntN(8)}
	if l.rand.IntN(3) == 0 {
		f.Verb, f.Resource = "watch", pick(l, "pods", "redis", "services")
		f.Probability, f.Times = 0, 1+l.rand.IntN(2)
		f.Watch = pick(l, fakeapi.WatchFault{Duplicate: true}, fakeapi.WatchFault{Replay: true}, fakeapi.WatchFault{End: fakeapi.EndCut, After: l.rand.IntN(5)},
			fakeapi.WatchFault{End: fakeapi.EndMidFrame, After: l.rand.IntN(5)}, fakeapi.WatchFault{EventDelay: time.Second}, fakeapi.WatchFault{Gone: fakeapi.GoneInStream},
			fakeapi.WatchFault{End: fakeapi.EndSilent, After: l.rand.IntN(5)})
		l.tell("watch fault %s %+v", f.Resource, f.Watch)
		if l.rand.IntN(2) == 0 {
			defer l.api.Compact() // the watch begins anew, and what is lost is found by a list
		}
		defer l.restartOn(nil)
	} else {
		f.Verb = pick(l, "create", "patch", "delete", "get")
		switch l.rand.IntN(6) {
		case 0:
			f.Reply = &fakeapi.Reply{Code: 500, Reason: "InternalError", Message: "etcdserver: leader changed"}
		case 1:
			f.Reply = &fakeapi.Reply{Code: 409, Reason: pick(l, "Conflict", "AlreadyExists"), Message: "injected"}
		case 2:
			f.Reply = &fakeapi.Reply{Code: 403, Reason: "Forbidden", Message: "exceeded quota"}
		case 3:
			f.Cut = fakeapi.CutBefore
		case 4:
			f.Cut = fakeapi.CutAfter
		default:
			f.Delay = time.Duration(l.rand.IntN(3000)) * time.Millisecond
		}
		l.tell("fault %s: reply %v, cut %d, delay %v, times %d", f.Verb, f.Reply, f.Cut, f.Delay, f.Times)
	}
	l.faults = append(l.faults, l.api.Inject(f))
}

// repair ends what would keep a Redis from ever being ready, but changes nothing of num.
func (l *life) repair() {
	l.tell("repair")
	if l.killer != nil {
		l.cancel()
		l.restartOn(nil)
	}
	for _, name := range []string{"a", "b"} {
		l.try(l.user.Patch(l.Context(), resource, named(name), kube.MergePatch,
			l.json(`{"metadata":{"annotations":{"skiff.dev/paused":null}},"spec":{"image":"redis:9","config":null,"template":null,"minReadySeconds":1}}`), nil, kube.WriteOptions{}))
	}
	for _, name := range slices.Sorted(maps.Keys(l.foreign)) {
		p := l.pod(name)
		was := l.foreign[name]
		if p == nil {
			l.Errorf("the foreign pod %s is gone", name)
			continue
		}
		// The node and the user may have touched it, but nothing of ours.
		l.want("uid and controller of the foreign pod "+name, [2]string{p.UID, p.ControllerUID()}, [2]string{was.UID, ""})
		l.want("requests of ours about the foreign pod "+name, l.requestsAbout(name, was), 0)
		l.try(l.user.Patch(l.Context(), pods, named(name), kube.MergePatch, l.json(`{"metadata":{"finalizers":null}}`), nil, kube.WriteOptions{}))
		l.try(l.user.Delete(l.Context(), pods, named(name), kube.DeleteOptions{UID: was.UID}))
	}
}

// requestsAbout counts the writes of ours that the server took about the pod of that name since the foreign one has it.
func (l *life) requestsAbout(name string, p *pod) int {
	n := 0
	for _, r := range l.api.Requests() {
		write := r.Method == "DELETE" || r.Method == "PATCH"
		if r.UserAgent == agent && write && r.Status == 200 && strings.HasSuffix(r.Path, "/pods/"+name) && r.Time.After(p.CreationTimestamp.Add(time.Second)) {
			n++
		}
	}
	return n
}

// check compares the world with what is declared.
func (l *life) check() {
	l.Helper()
	want := map[string]bool{}
	for _, name := range []string{"a", "b"} {
		rd := l.redis(name)
		if rd == nil {
			if svc := l.api.Get(services, named(name)); svc != nil {
				l.Errorf("Service %s is left over", name)
			}
			continue
		}
		if rd.Deleting() {
			l.Errorf("Redis %s is still being deleted: %v %+v", name, rd.Finalizers, rd.Status)
			continue
		}
		d, err := desire(rd)
		if err != nil {
			l.Fatal(err)
		}
		l.wantReady(name)
		l.want("finalizers", fmt.Sprint(rd.Finalizers), "["+Finalizer+"]")
		if svc := convert[service](l.world, l.api.Get(services, named(name))); svc == nil || svc.ControllerUID() != rd.UID {
			l.Errorf("Service %s is not there or not owned", name)
		}
		l.want("members of "+name, len(rd.Status.Members), d.num)
		for i := range d.num {
			want[podName(name, i)] = true
			p := l.pod(podName(name, i))
			if p == nil || p.ControllerUID() != rd.UID || p.revision() != d.revision || !p.ready() {
				l.Errorf("pod %s is not as declared: %+v", podName(name, i), p)
				continue
			}
			for key, v := range childLabels(name) {
				if have, _ := p.Labels.Get(key); have != v {
					l.Errorf("pod %s has the label %s=%q", p.Name, key, have)
				}
			}
		}
	}
	for _, o := range l.api.List(pods, "default") {
		if p := convert[pod](l.world, o); !want[p.Name] {
			l.Errorf("pod %s is left over: %+v", p.Name, p.Meta)
		}
	}
}
