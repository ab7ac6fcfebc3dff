package operatortest

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/fakeapi"
	"skiff/internal/kube"
)

var (
	seeds = flag.Uint64("seeds", 2,
		"how many random lives a controller is led through: those of the seeds from 1 to this")
	seed = flag.Uint64("seed", 0, "the seed of the one random life that it is led through, with its log")
)

// Life is a random sequence of what users, nodes, networks and the process itself do. The seed decides, but for what
// goroutines of one instant do first.
type Life struct {
	*World
	Rand    *rand.Rand
	faults  []func()
	killer  *Killer
	foreign map[string]*stranger
	told    []string // what happened, for the one who reads a failure
}

// Calm is longer than all that is waited for: the slow lane (up to 7.5 min), rechecks, a watch that has gone silent.
const Calm = 20 * time.Minute

// Lives leads a controller through random lives, several at a time. A seed that fails can be run again with -seed.
func Lives(t *testing.T, o Options, live func(l *Life)) {
	first, last := uint64(1), *seeds
	if o.Quiet = *seed == 0; !o.Quiet {
		first, last = *seed, *seed
	}
	for s := first; s <= last; s++ {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			o := o
			o.Server.Seed = s
			Run(t, o, func(w *World) {
				l := &Life{World: w, Rand: rand.New(rand.NewPCG(s, 7)), foreign: map[string]*stranger{}}
				defer l.report(s)
				live(l)
			})
		})
	}
}

func (l *Life) report(seed uint64) {
	if !l.Failed() {
		return
	}
	test, _, _ := strings.Cut(l.Name(), "/")
	dir, err := os.Getwd()
	if err != nil {
		l.Error(err)
	}
	l.Logf("what happened:\n  %s\nagain: go test ./internal/operators/%s -run '^%s$' -seed %d",
		strings.Join(l.told, "\n  "), filepath.Base(dir), test, seed)
}

// Tell writes down what happens.
func (l *Life) Tell(format string, args ...any) {
	l.told = append(l.told, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	l.Log.Info("===== " + l.told[len(l.told)-1])
}

// Pick draws one of a list.
func Pick[T any](l *Life, list ...T) T { return list[l.Rand.IntN(len(list))] }

// Upto draws a time below d.
func (l *Life) Upto(d time.Duration) time.Duration {
	return time.Duration(l.Rand.Int64N(int64(d/time.Millisecond))) * time.Millisecond
}

// Go does n acts, most of them with a pause behind them, and starts the process again where it was killed.
func (l *Life) Go(n int, pause time.Duration, act func()) {
	for range n {
		act()
		if l.Rand.IntN(3) > 0 {
			l.Pass(l.Upto(pause))
		}
		if l.killer != nil && l.killer.Killed() {
			l.Tell("killed at request %d", l.killer.At)
			l.Restart()
		}
	}
}

// Mend ends all that was broken, so that the controller can come to an end.
func (l *Life) Mend() {
	l.Tell("mend")
	for _, remove := range l.faults {
		remove()
	}
	if l.killer != nil {
		l.Restart()
	}
}

// Steady checks that the controller has come to its end: it writes nothing any more.
func (l *Life) Steady() {
	l.Helper()
	l.Forget()
	l.Pass(Calm)
	l.WantWrites()
}

// Restart starts a new process a moment after the end of the old one.
func (l *Life) Restart() {
	l.Tell("restart")
	l.restart(nil)
}

// RestartToBeKilled is Restart for a process that will be killed at one of its next requests.
func (l *Life) RestartToBeKilled() {
	k := &Killer{At: 1 + l.Rand.IntN(30), Late: l.Rand.IntN(2) == 0}
	l.Tell("restart, to be killed at request %d, late %t", k.At, k.Late)
	l.restart(k)
}

func (l *Life) restart(k *Killer) {
	l.Stop()
	l.Pass(l.Upto(3 * time.Second))
	if l.killer = k; k != nil {
		l.StartToBeKilled(k)
	} else {
		l.Start()
	}
}

// try fails the test on anything but that the object is not there, that it is there already, or that it is being
// deleted.
func (l *Life) try(err error) (ok bool) {
	l.Helper()
	if err != nil && !kube.IsNotFound(err) && !kube.IsAlreadyExists(err) && !kube.IsConflict(err) {
		l.Fatal(err)
	}
	l.Settle()
	return err == nil
}

// TryPost is Post that may meet an object of that name.
func (l *Life) TryPost(r kube.Resource, text string) (ok bool) {
	l.Helper()
	l.Tell("post %s", text)
	return l.try(l.User.Create(l.Context(), r, "default", l.JSON(text), nil, asUser))
}

// TryPatch is PatchSub on an object that need not be there.
func (l *Life) TryPatch(r kube.Resource, name, subresource, text string) (ok bool) {
	l.Helper()
	l.Tell("patch %s %s %s %s", r.Kind, name, subresource, text)
	o := asUser
	o.Subresource = subresource
	return l.try(l.User.Patch(l.Context(), r, Named(name), kube.MergePatch, l.JSON(text), nil, o))
}

// TryDelete deletes an object that need not be there.
func (l *Life) TryDelete(r kube.Resource, name string, o kube.DeleteOptions) (ok bool) {
	l.Helper()
	l.Tell("delete %s %s %s, at once: %t", r.Kind, name, o.Propagation, o.GracePeriodSeconds != nil)
	ok = l.try(l.User.Delete(l.Context(), r, Named(name), o))
	if s := l.foreign[r.Plural+"/"+name]; ok && s != nil && len(s.Finalizers) == 0 {
		delete(l.foreign, r.Plural+"/"+name) // an orphan, which nothing keeps
	}
	return ok
}

// Break lets a few of the controller's requests go wrong from now on: of those with one of the verbs, or the watches
// of one of the plurals.
func (l *Life) Break(verbs, watched []string) {
	f := fakeapi.Fault{UserAgent: Agent, Probability: 0.3, Times: 1 + l.Rand.IntN(8)}
	if l.Rand.IntN(3) == 0 {
		l.breakWatch(f, watched)
		return
	}
	f.Verb = Pick(l, verbs...)
	switch l.Rand.IntN(6) {
	case 0:
		f.Reply = &fakeapi.Reply{Code: 500, Reason: "InternalError", Message: "etcdserver: leader changed"}
	case 1:
		f.Reply = &fakeapi.Reply{Code: 409, Reason: Pick(l, "Conflict", "AlreadyExists"), Message: "injected"}
	case 2:
		f.Reply = &fakeapi.Reply{Code: 403, Reason: "Forbidden", Message: "exceeded quota"}
	case 3:
		f.Cut = fakeapi.CutBefore
	case 4:
		f.Cut = fakeapi.CutAfter
	default:
		f.Delay = l.Upto(5 * time.Second)
	}
	l.Tell("fault %s: reply %v, cut %d, delay %v, times %d", f.Verb, f.Reply, f.Cut, f.Delay, f.Times)
	l.faults = append(l.faults, l.API.Inject(f))
}

// breakWatch restarts the process, so that its watches meet the fault.
func (l *Life) breakWatch(f fakeapi.Fault, watched []string) {
	f.Verb, f.Resource = "watch", Pick(l, watched...)
	f.Probability, f.Times = 0, 1+l.Rand.IntN(2)
	f.Watch = Pick(l, fakeapi.WatchFault{Duplicate: true}, fakeapi.WatchFault{Replay: true},
		fakeapi.WatchFault{EventDelay: l.Upto(10 * time.Second)},
		fakeapi.WatchFault{End: fakeapi.EndCut, After: l.Rand.IntN(5)},
		fakeapi.WatchFault{End: fakeapi.EndMidFrame, After: l.Rand.IntN(5)},
		fakeapi.WatchFault{End: fakeapi.EndSilent, After: l.Rand.IntN(5)},
		fakeapi.WatchFault{Gone: fakeapi.GoneInStream})
	l.Tell("watch fault %s %+v", f.Resource, f.Watch)
	l.faults = append(l.faults, l.API.Inject(f))
	l.Restart()
	if l.Rand.IntN(2) == 0 {
		l.API.Compact() // the watch begins anew, and what is lost is found by a list
	}
}

// stranger is an object that is not the controller's, though it has the name of a child.
type stranger struct {
	*kube.Meta
	resource kube.Resource
	since    time.Time
}

// Foreign makes an object that is not the controller's, if its name (and node port) is free. A finalizer keeps it
// until Dismiss.
func (l *Life) Foreign(r kube.Resource, text string) {
	body := l.JSON(text)
	meta, _ := body["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	meta["finalizers"] = []any{"example.com/mine"}
	l.Tell("foreign %s", text)
	err := l.User.Create(l.Context(), r, "default", body, nil, asUser)
	if kube.IsInvalid(err) {
		return // the node port is not free, either
	}
	if l.try(err) {
		l.Strange(r, l.metaOf(l.API.Get(r, Named(name))))
	}
}

// Strange remembers an object that is not, or no longer, the controller's.
func (l *Life) Strange(r kube.Resource, m *kube.Meta) {
	l.foreign[r.Plural+"/"+m.Name] = &stranger{m, r, time.Now()}
}

// Dismiss checks that nobody but users and the cluster has touched what is not the controller's, and takes it out of
// the way.
func (l *Life) Dismiss() {
	l.Helper()
	for _, what := range slices.Sorted(maps.Keys(l.foreign)) {
		s := l.foreign[what]
		now := l.metaOf(l.API.Get(s.resource, s.Key()))
		if now.UID != s.UID || now.ControllerUID() != "" {
			l.Errorf("the foreign object %s is now %+v", what, now)
			continue
		}
		l.Want("writes of ours about the foreign object "+what, l.writesTo(what, s.since), 0)
		l.TryPatch(s.resource, s.Name, "", `{"metadata":{"finalizers":null}}`)
		l.TryDelete(s.resource, s.Name, kube.DeleteOptions{UID: s.UID})
	}
	clear(l.foreign)
}

// writesTo counts the writes to an object that the server has taken from the controller since a moment.
func (l *Life) writesTo(what string, since time.Time) int {
	n := 0
	for _, r := range l.API.Requests() {
		about, ok := object(r)
		if ok && about == what && r.Method != "GET" && r.Status == 200 &&
			r.Query.Get("dryRun") == "" && r.Done.After(since) {
			n++
		}
	}
	return n
}
