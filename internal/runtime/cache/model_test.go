package cache

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// This file is the model check of the protocol catalog ("Ground rules for tests", 3 and 5): a writer changes
// objects on the embedded API server while everything that can go wrong between it and the mirrors does.
// Then, at every moment, each mirror must hold the collection as it was at one version that never decreases;
// handlers must hear a legal history of each object; nobody may hammer the server; and when the faults end, each
// mirror must equal the server.

type configMap struct {
	kube.Meta `json:"metadata"`
	Data      kube.Labels `json:"data"`
}

var configMaps = kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}

// shot is a collection at one resource version: key -> uid and resource version.
type shot struct {
	rv      string
	objects map[kube.Key]string
}

func shown(m *kube.Meta) string { return m.UID + " at " + m.ResourceVersion }

// history is what the writer did.
type history struct {
	all, labelled []shot // after each write; labelled: those with app=web
}

// at returns the collection at a version.
func at(shots []shot, rv string) map[kube.Key]string {
	found := map[kube.Key]string{}
	for _, s := range shots {
		if older(rv, s.rv) {
			break
		}
		found = s.objects
	}
	return found
}

// modelled is a mirror under check.
type modelled struct {
	*Store[*configMap]
	name     string
	labelled bool
	lastRV   map[string]string

	mu    sync.Mutex
	heard map[kube.Key]*configMap
	wrong []string
}

func (m *modelled) complain(format string, args ...any) {
	m.wrong = append(m.wrong, m.name+": "+fmt.Sprintf(format, args...))
}

// hear checks that the changes of one object make sense one after the other.
func (m *modelled) hear(c Change[*configMap]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := c.Object().Key()
	known := m.heard[k]
	switch c.Type {
	case Appeared:
		if known != nil {
			m.complain("ADDED %s, which is there", k)
		}
		m.heard[k] = c.New
	case Updated:
		switch {
		case known == nil:
			m.complain("MODIFIED %s, which is not there", k)
		case known != c.Old:
			m.complain("MODIFIED %s: Old is not what was told before", k)
		case known.UID != c.New.UID:
			m.complain("MODIFIED %s from uid %s to %s", k, known.UID, c.New.UID)
		case !older(known.ResourceVersion, c.New.ResourceVersion):
			m.complain("MODIFIED %s from version %s to %s", k, known.ResourceVersion, c.New.ResourceVersion)
		}
		m.heard[k] = c.New
	case Gone:
		if known == nil || known.UID != c.Old.UID {
			m.complain("DELETED %s, which is not there", k)
		}
		delete(m.heard, k)
	}
}

// check compares the mirror, as it is now, with the history.
func (m *modelled) check(h *history) {
	m.Store.mu.RLock()
	defer m.Store.mu.RUnlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	shots := h.all
	if m.labelled {
		shots = h.labelled
	}
	for _, sc := range m.scopes {
		if sc.ResourceVersion == "" {
			continue
		}
		if older(sc.ResourceVersion, m.lastRV[sc.Namespace]) {
			m.complain("version went from %s to %s", m.lastRV[sc.Namespace], sc.ResourceVersion)
		}
		m.lastRV[sc.Namespace] = sc.ResourceVersion
		want := at(shots, sc.ResourceVersion)
		n := 0
		for k, v := range want {
			if !sc.covers(k.Namespace) {
				continue
			}
			n++
			got, ok := m.objects.get(k)
			if !ok {
				m.complain("at version %s: %s is missing", sc.ResourceVersion, k)
			} else if shown(got.ObjectMeta()) != v {
				m.complain("at version %s: %s is %s, want %s", sc.ResourceVersion, k, shown(got.ObjectMeta()), v)
			}
		}
		if got := m.objects.count(sc.Namespace); got != n {
			m.complain("at version %s: %d objects, want %d", sc.ResourceVersion, got, n)
		}
	}
}

// writer changes objects one after the other.
type writer struct {
	t      *testing.T
	client *kube.Client
	rnd    *rand.Rand
	live   map[kube.Key]*configMap
	h      history
}

func (w *writer) write(ctx context.Context) {
	k := kube.Key{Namespace: []string{"default", "kube-system"}[w.rnd.IntN(2)],
		Name: fmt.Sprintf("c%02d", w.rnd.IntN(12))}
	labels := map[string]any{"app": []string{"web", "db"}[w.rnd.IntN(2)]}
	body := map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"data":     map[string]any{"n": strconv.Itoa(w.rnd.Int())},
		"metadata": map[string]any{"name": k.Name, "namespace": k.Namespace, "labels": labels}}
	now := &configMap{}
	var err error
	switch was := w.live[k]; {
	case was == nil:
		err = w.client.Create(ctx, configMaps, k.Namespace, body, now, kube.WriteOptions{})
	case w.rnd.IntN(3) > 0:
		err = w.client.Patch(ctx, configMaps, k, kube.MergePatch, body, now, kube.WriteOptions{})
	default:
		err = w.client.Delete(ctx, configMaps, k, kube.DeleteOptions{})
		now = nil
	}
	if err != nil {
		w.t.Errorf("write: %v", err)
		return
	}
	delete(w.live, k)
	if now != nil {
		w.live[k] = now
	}
}

// note records the collection after a write, under the server's revision of now.
func (w *writer) note(revision int64) {
	all, labelled := shot{strconv.FormatInt(revision, 10), map[kube.Key]string{}}, map[kube.Key]string{}
	for k, c := range w.live {
		all.objects[k] = shown(&c.Meta)
		if v, _ := c.Labels.Get("app"); v == "web" {
			labelled[k] = shown(&c.Meta)
		}
	}
	w.h.all = append(w.h.all, all)
	w.h.labelled = append(w.h.labelled, shot{all.rv, labelled})
}

// randomFault returns something that can happen to the requests of the mirrors.
func randomFault(rnd *rand.Rand) apiserver.Fault {
	f := apiserver.Fault{UserAgent: "mirror", Times: 1 + rnd.IntN(4)}
	watch := func(w apiserver.WatchFault) apiserver.Fault {
		f.Verb, f.Watch = "watch", w
		return f
	}
	reply := func(code int, reason, after string) apiserver.Fault {
		f.Reply = &apiserver.Reply{Code: code, Reason: reason, Message: "injected", RetryAfter: after}
		return f
	}
	few := rnd.IntN(6)
	all := []func() apiserver.Fault{
		func() apiserver.Fault { return watch(apiserver.WatchFault{After: few, End: apiserver.EndCleanly}) },
		func() apiserver.Fault { return watch(apiserver.WatchFault{After: few, End: apiserver.EndCut}) },
		func() apiserver.Fault { return watch(apiserver.WatchFault{After: few, End: apiserver.EndMidFrame}) },
		func() apiserver.Fault { return watch(apiserver.WatchFault{After: few, End: apiserver.EndSilent}) },
		func() apiserver.Fault {
			e := apiserver.ErrorArg{Code: []int{403, 410, 429, 500, 504}[rnd.IntN(5)], Reason: "Injected",
				Message: "injected"}
			return watch(apiserver.WatchFault{After: few, End: apiserver.EndWithError, EndError: e})
		},
		func() apiserver.Fault { return watch(apiserver.WatchFault{Gone: apiserver.GoneInStream}) },
		func() apiserver.Fault { return watch(apiserver.WatchFault{Gone: apiserver.GoneAsHTTP}) },
		func() apiserver.Fault { return watch(apiserver.WatchFault{Bookmarks: apiserver.BookmarksNever}) },
		func() apiserver.Fault {
			return watch(apiserver.WatchFault{Duplicate: true, Replay: true, UnknownType: true})
		},
		func() apiserver.Fault { return watch(apiserver.WatchFault{EventDelay: time.Second}) },
		func() apiserver.Fault { f.Cut = apiserver.CutBefore; return f },
		func() apiserver.Fault { f.Cut = apiserver.CutAfter; f.Verb = "list"; return f },
		func() apiserver.Fault { f.Cut, f.At = apiserver.CutBody, rnd.IntN(2000); return f },
		func() apiserver.Fault { f.Cut, f.At = apiserver.StallBody, rnd.IntN(2000); return f },
		func() apiserver.Fault { f.Chunk = 1 + rnd.IntN(20); return f },
		func() apiserver.Fault { return reply(503, "ServiceUnavailable", "2") },
		func() apiserver.Fault { return reply(500, "InternalError", "") },
		func() apiserver.Fault { return reply(410, "Expired", "") },
		func() apiserver.Fault { return reply(403, "Forbidden", "") },
		func() apiserver.Fault { f.Verb = "watch"; return reply(422, "Invalid", "") },
		func() apiserver.Fault {
			f.Reply = &apiserver.Reply{Code: 200, Body: "<html>log in</html>", ContentType: "text/html"}
			return f
		},
	}
	return all[rnd.IntN(len(all))]()
}

// Rules: RFL-01, RFL-03, RFL-07, WCH-03, WCH-16, WCH-29, WCH-32, WCH-33, WCH-51, WCH-54, LST-04
func TestMirrorsEqualTheServerUnderFaults(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { modelCheck(t, seed) })
		})
	}
}

func modelCheck(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	api := apiserver.New(apiserver.Options{Seed: seed + 1, HistoryEvents: 40, BookmarkInterval: 10 * time.Second})
	t.Cleanup(api.Close)
	wire := servePipe(t, api)
	w := &writer{t: t, client: servePipe(t, api).connect("writer"), rnd: rnd, live: map[kube.Key]*configMap{}}
	w.note(api.Revision())
	ctx, stop := context.WithCancel(t.Context())
	var logged sync.Map
	mirrors := startModelled(t, ctx, stop, wire, &logged)

	began := time.Now()
	for range 300 {
		if rnd.IntN(4) == 0 {
			api.Inject(randomFault(rnd))
		}
		switch rnd.IntN(30) {
		case 0:
			api.Compact()
		case 1, 2, 3:
			wire.crash(false)
		}
		for range rnd.IntN(4) {
			w.write(ctx)
			w.note(api.Revision())
		}
		for _, m := range mirrors {
			m.check(&w.h)
		}
		wait(time.Duration(rnd.ExpFloat64() * float64(3*time.Second)))
		for _, m := range mirrors {
			m.check(&w.h)
		}
	}
	// Let what is armed still hit, and mute watches end by themselves.
	wait(25 * time.Minute)
	requests := 0
	for _, r := range api.Requests() {
		if strings.HasPrefix(r.UserAgent, "mirror") {
			requests++
		}
	}
	scopes := 0
	for _, m := range mirrors {
		scopes += len(m.scopes)
	}
	if rate := float64(requests) / time.Since(began).Minutes() / float64(scopes); rate > 20 {
		t.Errorf("%.1f requests a minute and scope", rate)
	}
	for _, m := range mirrors {
		m.check(&w.h)
		m.finish(t, api, &w.h)
	}
	if testing.Verbose() {
		for _, m := range mirrors {
			t.Logf("%s: %d requests, %+v", m.name, requests, m.State())
		}
	}
	stop()
}

func startModelled(t *testing.T, ctx context.Context, stop func(), wire *pipe, logged *sync.Map) []*modelled {
	log := funcr.New(func(_, args string) { logged.Store(args, true) }, funcr.Options{})
	limit := newLimiter(2)
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	var out []*modelled
	for _, o := range []Options{
		{},
		{Namespaces: []string{"default", "kube-system"}},
		{LabelSelector: "app=web", WatchIdleTimeout: time.Minute},
	} {
		m := &modelled{name: fmt.Sprintf("mirror of %v %s", o.Namespaces, o.LabelSelector),
			labelled: o.LabelSelector != "", lastRV: map[string]string{}, heard: map[kube.Key]*configMap{}}
		o.Resource, o.Client, o.Log, o.lists = configMaps, wire.connect("mirror"), log, limit
		m.Store = New[*configMap](o)
		m.OnChange(m.hear)
		running.Go(func() { m.Run(ctx) })
		out = append(out, m)
	}
	return out
}

// finish compares server, mirror and what the handler was told.
func (m *modelled) finish(t *testing.T, api *apiserver.Server, h *history) {
	t.Helper()
	for _, w := range m.wrong {
		t.Error(w)
	}
	got, err := m.List("")
	if err != nil {
		t.Errorf("%s: %v", m.name, err)
		return
	}
	last := h.all[len(h.all)-1].objects
	if m.labelled {
		last = h.labelled[len(h.labelled)-1].objects
	}
	content, told := map[kube.Key]string{}, map[kube.Key]string{}
	for _, c := range got {
		content[c.Key()] = shown(&c.Meta)
	}
	for k, c := range m.heard {
		told[k] = shown(&c.Meta)
	}
	if !maps.Equal(content, last) {
		t.Errorf("%s holds\n%v\nthe server\n%v\nstate %+v", m.name, content, last, m.State())
	}
	if !maps.Equal(told, content) {
		t.Errorf("%s told\n%v\nholds\n%v", m.name, told, content)
	}
	for _, st := range m.State() {
		if st.Problem != "" {
			t.Errorf("%s: problem %q long after the faults", m.name, st.Problem)
		}
	}
	if m.labelled || len(m.scopes) > 1 {
		return
	}
	if n := len(api.List(configMaps, "")); n != len(content) {
		t.Errorf("the server holds %d objects, the writer knows %d", n, len(content))
	}
}
