package restart

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"

	"skiff/internal/fakeapi"
)

// killAt lets the server take no request of the controller any more from its n-th write on, as if the process had been killed then:
// before the server has the write or, if late, after. The function that it returns ends that, for the next process.
func (w *world) killAt(n int, late bool) (disarm func()) {
	f := fakeapi.Fault{UserAgent: agent, Verb: "patch", Skip: n - 1, Cut: fakeapi.Blackhole}
	var first func()
	if late {
		f.Skip = n
		first = w.api.Inject(fakeapi.Fault{UserAgent: agent, Verb: "patch", Skip: n - 1, Times: 1, Cut: fakeapi.CutAfter})
	}
	rest := w.api.Inject(f)
	return func() {
		if late {
			first()
		}
		rest()
	}
}

// writesOf counts the PATCHes of the controller about anything but Events.
func (w *world) writesOf() int {
	n := 0
	for _, r := range w.writes() {
		if strings.HasPrefix(r, "PATCH ") {
			n++
		}
	}
	return n
}

var killStep = flag.Int("kill-step", 8, "kill the controller at each of its writes that this divides; 1 = at each")

// Rules: MGR-15
func TestKillingTheControllerAtAnyWriteNeitherLosesNorDoublesARestart(t *testing.T) {
	for at := 1; at <= 16; at += *killStep { // there are fewer writes in it
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("at %d, the server has it %t", at, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, fakeapi.Options{}, logr.Discard())
					defer w.close()
					w.deploy("predixy", 1)
					w.deploy("second", 1)
					w.pod("redis-0")
					w.pass(5 * time.Second)
					w.forget()
					disarm := w.killAt(at, late)
					w.start()
					killed := false
					live := func(d time.Duration) {
						w.pass(d)
						if !killed && w.writesOf() >= at {
							killed = true
							w.stop()
							disarm()
							w.start()
							w.pass(time.Minute)
						}
					}
					w.trigger("rt", selectRedis+`,"debounce":"2s","cooldown":"30s","targets":[{"kind":"Deployment","name":"predixy"},{"kind":"Deployment","name":"second"}]`)
					live(10 * time.Second)
					for round := 1; round <= 2; round++ {
						w.replace("redis-0")
						live(2 * time.Minute)
						for _, name := range []string{"predixy", "second"} {
							w.want("revision of "+name, w.revision(name), fmt.Sprint(round+1))
						}
						w.want("count", w.status("rt", "restarts"), round)
					}
					w.wantCondition("rt", "Ready", "True/Armed")
					w.want("restart of the second target", w.restartedAt(deployments, "second"), w.restartedAt(deployments, "predixy"))
				})
			})
		}
	}
}

var (
	seeds = flag.Int("seeds", 2, "how many random lives TestAnyLifeEndsWithTheTargetsRestarted goes through")
	seed  = flag.Uint64("seed", 0, "the one random life that TestAnyLifeEndsWithTheTargetsRestarted goes through, with its log")
)

// Whatever users, nodes, networks and the process itself do: when all is calm, each target was restarted after the last pod of its
// source began to run, never sooner after another restart than the cooldown, and never for nothing.
//
// Rules: MGR-15
func TestAnyLifeEndsWithTheTargetsRestarted(t *testing.T) {
	play := func(t *testing.T, s uint64, log logr.Logger) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, fakeapi.Options{Seed: s}, log)
			defer w.close()
			(&life{world: w, dice: rand.New(rand.NewPCG(s, 13)), born: map[string]time.Time{}, restarts: map[string][]string{}}).run()
		})
	}
	if *seed != 0 {
		play(t, *seed, testr.New(t))
		return
	}
	for s := uint64(1); s <= uint64(*seeds); s++ {
		if !t.Run(fmt.Sprint(s), func(t *testing.T) { play(t, s, logr.Discard()) }) {
			t.Logf("go test ./internal/operators/restart -run TestAnyLifeEndsWithTheTargetsRestarted -seed %d", s)
		}
	}
}

// life is a random sequence of what can happen.
type life struct {
	*world
	dice     *rand.Rand
	removes  []func()
	disarm   func()               // of a kill that is armed; nil: none
	born     map[string]time.Time // when the pod of a name came last, not before
	restarts map[string][]string  // the annotations that each target has had
	told     []string
}

const lifeCooldown = 30 * time.Second

func (l *life) run() {
	l.deploy("predixy", 2)
	l.deploy("second", 1)
	for i := range 3 {
		l.pod(fmt.Sprint("redis-", i))
	}
	l.pass(10 * time.Second)
	l.start()
	l.trigger("one", selectRedis+`,"debounce":"3s","cooldown":"30s",`+toPredixy)
	l.trigger("two", selectRedis+`,"debounce":"0s","cooldown":"30s","budget":{"max":5,"per":"10m"},"targets":[{"kind":"Deployment","name":"second"},{"kind":"Deployment","name":"missing"}]`)
	l.pass(10 * time.Second) // they have seen the first pods
	for range 25 {
		l.act()
		for range l.dice.IntN(8) {
			l.pass(time.Second)
			l.note()
		}
	}
	l.calm()
	for name, n := range map[string]string{"predixy": "one", "second": "two"} {
		if len(l.born) == 0 {
			continue
		}
		at, err := time.Parse(time.RFC3339, l.restartedAt(deployments, name))
		if err != nil {
			l.Errorf("%s was never restarted", name)
			continue
		}
		for pod, born := range l.born {
			if at.Before(born) {
				l.Errorf("%s was restarted at %s, and %s has come at %s", name, at, pod, born)
			}
		}
		l.want("condition of "+n, strings.HasPrefix(l.condition(n, "Progressing"), "False"), true)
		l.far(name)
		l.want("rollouts of "+name, l.revision(name), fmt.Sprint(len(l.restarts[name])+1))
	}
	if l.Failed() {
		l.Logf("what happened:\n  %s", strings.Join(l.told, "\n  "))
	}
}

// note takes down the annotations as they come.
func (l *life) note() {
	for _, name := range []string{"predixy", "second"} {
		if at := l.restartedAt(deployments, name); at != "" && !slices.Contains(l.restarts[name], at) {
			l.restarts[name] = append(l.restarts[name], at)
			l.tell("%s restarted", name)
		}
	}
}

// far checks that the restarts of a target are as far apart as the cooldown wants.
func (l *life) far(name string) {
	l.Helper()
	var before time.Time
	for _, text := range l.restarts[name] {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			l.Error(err)
		}
		if at.Sub(before) < lifeCooldown {
			l.Errorf("%s was restarted %s after a restart", name, at.Sub(before))
		}
		before = at
	}
}

func (l *life) tell(format string, args ...any) {
	l.told = append(l.told, time.Now().Format("15:04:05 ")+fmt.Sprintf(format, args...))
	l.log.Info("===== " + l.told[len(l.told)-1])
}

func pick[T any](l *life, list ...T) T { return list[l.dice.IntN(len(list))] }

func (l *life) act() {
	name := pick(l, "redis-0", "redis-1", "redis-2")
	switch n := l.dice.IntN(100); {
	case n < 30:
		l.tell("replace %s", name)
		if l.api.Get(pods, in(name)) != nil {
			l.delete(pods, name)
			l.pass(2 * time.Second)
			l.note()
		}
		l.pod(name)
		l.born[name] = time.Now()
	case n < 35:
		if l.api.Get(pods, in(name)) != nil {
			l.tell("delete %s", name)
			l.delete(pods, name)
			l.pass(2 * time.Second)
			delete(l.born, name)
		}
	case n < 42:
		p := pick(l, "one", "two")
		v := pick(l, `"true"`, "null")
		l.tell("pause %s: %s", p, v)
		l.patch(resource, p, `{"metadata":{"annotations":{"skiff.dev/paused":`+v+`}}}`)
	case n < 48:
		v := pick(l, "true", "false")
		l.tell("pause the rollout of predixy: %s", v)
		l.patch(deployments, "predixy", `{"spec":{"paused":`+v+`}}`)
	case n < 54:
		for _, p := range l.api.List(pods, "default") {
			if pod, _ := at(p, "metadata", "name").(string); strings.HasPrefix(pod, "predixy-") {
				l.tell("delete %s", pod)
				l.delete(pods, pod)
				break
			}
		}
	case n < 80:
		l.breakSomething()
	case n < 90:
		l.tell("restart the process")
		l.again()
	default:
		l.again()
		at, late := 1+l.dice.IntN(6), l.dice.IntN(2) == 0
		l.tell("restart the process, to be killed at write %d, late %t", at, late)
		l.disarm = l.killAt(at, late)
	}
}

// again starts a new process; an armed kill ends with the one before.
func (l *life) again() {
	l.stop()
	if l.disarm != nil {
		l.disarm()
		l.disarm = nil
	}
	l.pass(time.Duration(l.dice.IntN(3000)) * time.Millisecond)
	l.start()
}

func (l *life) breakSomething() {
	f := fakeapi.Fault{UserAgent: agent, Verb: pick(l, "patch", "patch", "get"), Probability: 0.5, Times: 1 + l.dice.IntN(5)}
	switch l.dice.IntN(6) {
	case 0:
		f.Reply = &fakeapi.Reply{Code: 500, Reason: "InternalError", Message: "etcdserver: leader changed"}
	case 1:
		f.Reply = &fakeapi.Reply{Code: 409, Reason: "Conflict", Message: "injected"}
	case 2:
		f.Cut = pick(l, fakeapi.CutBefore, fakeapi.CutAfter)
	case 3:
		f.Reply = &fakeapi.Reply{Code: 403, Reason: "Forbidden", Message: "injected"}
	case 4:
		f.Delay = time.Duration(l.dice.IntN(5000)) * time.Millisecond
	case 5:
		f = fakeapi.Fault{UserAgent: agent, Verb: "watch", Resource: pick(l, "pods", "restarttriggers"), Times: 1 + l.dice.IntN(2),
			Watch: pick(l, fakeapi.WatchFault{Duplicate: true}, fakeapi.WatchFault{Replay: true}, fakeapi.WatchFault{EventDelay: time.Second},
				fakeapi.WatchFault{End: fakeapi.EndCut, After: l.dice.IntN(5)}, fakeapi.WatchFault{Gone: fakeapi.GoneInStream})}
		l.api.Compact()
		defer l.again()
	}
	l.tell("%s: %+v %v %v", f.Verb, f.Watch, f.Reply, f.Cut)
	l.removes = append(l.removes, l.api.Inject(f))
}

// calm ends all trouble and waits until nothing moves any more.
func (l *life) calm() {
	l.tell("calm")
	for _, remove := range l.removes {
		remove()
	}
	l.again()
	l.patch(deployments, "predixy", `{"spec":{"paused":false}}`)
	for _, p := range []string{"one", "two"} {
		l.patch(resource, p, `{"metadata":{"annotations":{"skiff.dev/paused":null}}}`)
	}
	for range 20 * 12 { // twenty minutes: longer than the slow lane
		l.pass(5 * time.Second)
		l.note()
	}
}
