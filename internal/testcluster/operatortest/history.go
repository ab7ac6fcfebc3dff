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

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

var (
	seeds = flag.Uint64("seeds", 1,
		"number of random histories per controller: one for each seed from 1 to this")
	seed = flag.Uint64("seed", 0, "run only the random history of this seed, with its log")
)

// History is a random sequence of actions of users, nodes, the network and the process under test. The seed determines
// it, except for the order in which goroutines run at the same instant.
type History struct {
	*Env
	Rand   *rand.Rand
	faults []func()
	killer *Killer
	// unmanaged are the objects that the controller must not touch, by "PLURAL/NAME".
	unmanaged map[string]*unmanaged
	crowd     *Crowd   // nil: there is memory for all
	crowded   int      // how many members of the crowd there have been
	members   []member // of the crowd, and others that are large
	selected  bool     // a namespace selector selects the namespace
	notes     []string // printed when the test fails
}

// LongWait is longer than any wait of a controller: the longest retry interval (up to 7.5 min), rechecks, the timeout
// of a silent watch.
const LongWait = 20 * time.Minute

// selector selects the namespaces of a history with a namespace selector.
const selector = "selected"

// RandomHistories tests a controller with random histories, several in parallel. Every third has little memory,
// every fourth a namespace selector. A seed that fails can be run again with -seed.
func RandomHistories(t *testing.T, o Options, run func(h *History)) {
	first, last := uint64(1), *seeds
	if o.Quiet = *seed == 0; !o.Quiet {
		first, last = *seed, *seed
	}
	for s := first; s <= last; s++ {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			o := o
			o.Server.Seed = s
			if s%3 == 1 {
				o.Setup.MirrorBytes, o.Setup.ObjectBytes = mirrorBytes, objectBytes
			}
			if s%4 == 1 {
				o.Setup.NamespaceSelector = selector
			}
			Run(t, o, func(w *Env) {
				h := &History{Env: w, Rand: rand.New(rand.NewPCG(s, 7)), unmanaged: map[string]*unmanaged{}}
				defer h.report(s)
				h.selectDefault(true)
				run(h)
			})
		})
	}
}

func (h *History) report(seed uint64) {
	if !h.Failed() {
		return
	}
	test, _, _ := strings.Cut(h.Name(), "/")
	dir, err := os.Getwd()
	if err != nil {
		h.Error(err)
	}
	_, dir, _ = strings.Cut(filepath.ToSlash(dir), "/internal/")
	h.Logf("history:\n  %s\nrun it again: go test ./internal/%s -run '^%s$' -seed %d",
		strings.Join(h.notes, "\n  "), dir, test, seed)
}

// Note records an action, to be printed when the test fails.
func (h *History) Note(format string, args ...any) {
	h.notes = append(h.notes, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	h.Log.Info("===== " + h.notes[len(h.notes)-1])
}

// Pick returns a random element of a list.
func Pick[T any](h *History, list ...T) T { return list[h.Rand.IntN(len(list))] }

// RandomTime returns a random time below d.
func (h *History) RandomTime(d time.Duration) time.Duration {
	return time.Duration(h.Rand.Int64N(int64(d/time.Millisecond))) * time.Millisecond
}

// Steps calls act n times, pauses after most of the calls, and restarts the process if it was killed.
func (h *History) Steps(n int, pause time.Duration, act func()) {
	for range n {
		switch {
		case h.crowd != nil && h.Rand.IntN(5) == 0:
			h.crowdAct()
		case h.Setup.NamespaceSelector != "" && h.Rand.IntN(8) == 0:
			h.selectDefault(!h.selected)
		default:
			act()
		}
		if h.Rand.IntN(3) > 0 {
			h.Pass(h.RandomTime(pause))
		}
		if h.killer != nil && h.killer.Killed() {
			h.Note("killed at request %d", h.killer.At)
			h.Restart()
		}
	}
}

// EndFaults removes all injected faults and large objects, and selects the namespace, so that the controller can
// converge.
func (h *History) EndFaults() {
	h.Helper()
	h.Note("end all faults")
	h.disperse()
	h.selectDefault(true)
	for _, remove := range h.faults {
		remove()
	}
	if h.killer != nil {
		h.Restart()
	}
}

// WantNoWrites checks that the controller has converged: it sends no more writes.
func (h *History) WantNoWrites() {
	h.Helper()
	h.Forget()
	h.Pass(LongWait)
	h.WantWrites()
}

// Restart stops the process and starts a new one a moment later.
func (h *History) Restart() {
	h.Note("restart")
	h.restart(nil)
}

// RestartToBeKilled is Restart, but the new process is killed at one of its first requests.
func (h *History) RestartToBeKilled() {
	k := &Killer{At: 1 + h.Rand.IntN(30), Late: h.Rand.IntN(2) == 0}
	h.Note("restart, to be killed at request %d, late %t", k.At, k.Late)
	h.restart(k)
}

func (h *History) restart(k *Killer) {
	h.Stop()
	h.Pass(h.RandomTime(3 * time.Second))
	if h.killer = k; k != nil {
		h.StartToBeKilled(k)
	} else {
		h.Start()
	}
}

// selectDefault has the process work in the namespace of the history, or leave it.
func (h *History) selectDefault(yes bool) {
	h.Helper()
	if h.Setup.NamespaceSelector == "" || h.selected == yes {
		return
	}
	h.Note("select the namespace: %t", yes)
	value := "null"
	if yes {
		value = `"yes"`
	}
	h.selected = yes
	h.PatchIn("", namespaceResource, "default", `{"metadata":{"labels":{"`+selector+`":`+value+`}}}`)
}

// LeaveAlone checks that nothing is written in a namespace while the namespace is not selected. edit changes objects
// meanwhile. It does nothing in a history without a namespace selector.
func (h *History) LeaveAlone(edit func()) {
	h.Helper()
	if h.Setup.NamespaceSelector == "" {
		return
	}
	h.selectDefault(false)
	h.Pass(time.Minute)
	h.Forget()
	edit()
	h.Pass(LongWait)
	h.WantWrites()
	h.selectDefault(true)
	h.Pass(LongWait)
}

// try reports whether a request succeeded. It fails the test on any error except NotFound, AlreadyExists and Conflict.
func (h *History) try(err error) (ok bool) {
	h.Helper()
	if err != nil && !kube.IsNotFound(err) && !kube.IsAlreadyExists(err) && !kube.IsConflict(err) {
		h.Fatal(err)
	}
	h.WaitIdle()
	return err == nil
}

// TryPost is Post that allows that the object exists already.
func (h *History) TryPost(r kube.Resource, text string) (ok bool) {
	h.Helper()
	h.Note("post %s", text)
	return h.try(h.User.Create(h.Context(), r, "default", h.JSON(text), nil, asUser))
}

// TryPatch is PatchSub that allows that the object does not exist.
func (h *History) TryPatch(r kube.Resource, name, subresource, text string) (ok bool) {
	h.Helper()
	h.Note("patch %s %s %s %s", r.Kind, name, subresource, text)
	o := asUser
	o.Subresource = subresource
	return h.try(h.User.Patch(h.Context(), r, Named(name), kube.MergePatch, h.JSON(text), nil, o))
}

// TryDelete deletes an object, which may not exist.
func (h *History) TryDelete(r kube.Resource, name string, o kube.DeleteOptions) (ok bool) {
	h.Helper()
	h.Note("delete %s %s %s, at once: %t", r.Kind, name, o.Propagation, o.GracePeriodSeconds != nil)
	ok = h.try(h.User.Delete(h.Context(), r, Named(name), o))
	if s := h.unmanaged[r.Plural+"/"+name]; ok && s != nil && len(s.Finalizers) == 0 {
		delete(h.unmanaged, r.Plural+"/"+name) // an orphan without a finalizer is gone now
	}
	return ok
}

// InjectFault makes some of the controller's next requests fail: requests with one of the verbs, or watches of one of
// the plurals.
func (h *History) InjectFault(verbs, watched []string) {
	f := apiserver.Fault{UserAgent: Agent, Probability: 0.3, Times: 1 + h.Rand.IntN(8)}
	if h.Rand.IntN(3) == 0 {
		h.breakWatch(f, watched)
		return
	}
	f.Verb = Pick(h, verbs...)
	switch h.Rand.IntN(6) {
	case 0:
		f.Reply = &apiserver.Reply{Code: 500, Reason: "InternalError", Message: "etcdserver: leader changed"}
	case 1:
		f.Reply = &apiserver.Reply{Code: 409, Reason: Pick(h, "Conflict", "AlreadyExists"), Message: "injected"}
	case 2:
		f.Reply = &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: "exceeded quota"}
	case 3:
		f.Cut = apiserver.CutBefore
	case 4:
		f.Cut = apiserver.CutAfter
	default:
		f.Delay = h.RandomTime(5 * time.Second)
	}
	h.Note("fault %s: reply %v, cut %d, delay %v, times %d", f.Verb, f.Reply, f.Cut, f.Delay, f.Times)
	h.faults = append(h.faults, h.API.Inject(f))
}

// breakWatch injects a fault into new watches, and restarts the process so that it opens some.
func (h *History) breakWatch(f apiserver.Fault, watched []string) {
	f.Verb, f.Resource = "watch", Pick(h, watched...)
	f.Probability, f.Times = 0, 1+h.Rand.IntN(2)
	f.Watch = Pick(h, apiserver.WatchFault{Duplicate: true}, apiserver.WatchFault{Replay: true},
		apiserver.WatchFault{EventDelay: h.RandomTime(10 * time.Second)},
		apiserver.WatchFault{End: apiserver.EndCut, After: h.Rand.IntN(5)},
		apiserver.WatchFault{End: apiserver.EndMidFrame, After: h.Rand.IntN(5)},
		apiserver.WatchFault{End: apiserver.EndSilent, After: h.Rand.IntN(5)},
		apiserver.WatchFault{Gone: apiserver.GoneInStream})
	h.Note("watch fault %s %+v", f.Resource, f.Watch)
	h.faults = append(h.faults, h.API.Inject(f))
	h.Restart()
	if h.Rand.IntN(2) == 0 {
		h.API.Compact() // the watch cannot resume: a list has to find what it missed
	}
}

// unmanaged is an object not managed by the controller, with the name of one of its children.
type unmanaged struct {
	*kube.Meta
	resource kube.Resource
	since    time.Time
}

// CreateUnmanaged creates an object not managed by the controller, if its name (and node port) is free. A finalizer
// keeps it until RemoveUnmanaged.
func (h *History) CreateUnmanaged(r kube.Resource, text string) {
	body := h.JSON(text)
	meta, _ := body["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	meta["finalizers"] = []any{"example.com/mine"}
	h.Note("unmanaged %s", text)
	err := h.User.Create(h.Context(), r, "default", body, nil, asUser)
	if kube.IsInvalid(err) {
		return // its node port is in use
	}
	if h.try(err) {
		h.MarkUnmanaged(r, h.metaOf(h.API.Get(r, Named(name))))
	}
}

// MarkUnmanaged records that an object is not managed by the controller, or is not any more.
func (h *History) MarkUnmanaged(r kube.Resource, m *kube.Meta) {
	h.unmanaged[r.Plural+"/"+m.Name] = &unmanaged{m, r, time.Now()}
}

// RemoveUnmanaged checks that the controller has not written to unmanaged objects, and deletes them.
func (h *History) RemoveUnmanaged() {
	h.Helper()
	for _, what := range slices.Sorted(maps.Keys(h.unmanaged)) {
		s := h.unmanaged[what]
		now := h.metaOf(h.API.Get(s.resource, s.Key()))
		if now.UID != s.UID || now.ControllerUID() != "" {
			h.Errorf("the unmanaged object %s is now %+v", what, now)
			continue
		}
		h.Want("the controller's writes to the unmanaged object "+what, h.writesTo(what, s.since), 0)
		h.TryPatch(s.resource, s.Name, "", `{"metadata":{"finalizers":null}}`)
		h.TryDelete(s.resource, s.Name, kube.DeleteOptions{UID: s.UID})
	}
	clear(h.unmanaged)
}

// writesTo counts the controller's writes to an object that the server has accepted since a moment.
func (h *History) writesTo(what string, since time.Time) int {
	n := 0
	for _, r := range h.API.Requests() {
		about, ok := object(r)
		if ok && about == what && r.Method != "GET" && r.Status == 200 &&
			r.Query.Get("dryRun") == "" && r.Done.After(since) {
			n++
		}
	}
	return n
}
