package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/conditions"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
)

// writes is a reconcile function that creates the second child of a thing.
func (w *world) writes(ctx context.Context, k kube.Key) (controller.Outcome, error) {
	return controller.Done, w.client.Create(ctx, configMaps, k.Namespace, map[string]any{"apiVersion": "v1",
		"kind": "ConfigMap", "metadata": map[string]any{"name": "child-1"}}, nil, kube.WriteOptions{})
}

// Rules: LP-09, LP-12
func TestARowSaysHowManyChildrenAreReadyAndUnfoldsWithoutAScript(t *testing.T) {
	var of *world
	f := func(ctx context.Context, k kube.Key) (controller.Outcome, error) {
		if k.Name != "web" {
			return controller.Done, nil
		}
		return of.writes(ctx, k)
	}
	within(t, Options{}, f, func(w *world) {
		of = w
		time.Sleep(time.Second)
		w.create("web", map[string]string{"children": "abc", "Ready": "False/Rollout", "Degraded": "False/Complete"})
		w.create("ok", map[string]string{"Ready": "True/Complete"})
		time.Sleep(3 * time.Minute)
		find := func(query, name string) Owner {
			t.Helper()
			var page Owners
			w.read("/debug/owners?format=json&"+query, &page)
			for _, o := range page.Owners {
				if o.Name == name {
					return o
				}
			}
			t.Fatalf("%s is not there: %+v", name, page)
			return Owner{}
		}
		web := find("", "web")
		if web.Declared != 3 || web.Ready != 2 || web.Children != nil || web.LastWrite.IsZero() {
			t.Errorf("folded: %+v", web)
		}
		web = find("open=ConfigMap/default/web", "web")
		if len(web.Children) != 3 || web.Children[0].Problem != `taken\x1b[31m` || web.Children[0].LastWrite != nil ||
			web.Children[1].LastWrite == nil || web.Children[1].LastWrite.Code != 201 {
			t.Errorf("unfolded: %+v", web)
		}
		if ok := find("open=ConfigMap/default/web", "ok"); len(ok.Facts) != 2 || ok.Children != nil ||
			!ok.LastWrite.IsZero() {
			t.Errorf("another object: %+v", ok)
		}
		folded, unfolded := w.get("/debug/").Body.String(), w.get("/debug/?open=ConfigMap/default/web").Body.String()
		link := `<a href="/debug/?open=ConfigMap%2Fdefault%2Fweb#owners" aria-expanded="false">▸ 2 of 3 ready</a>`
		for _, want := range []string{link, "not ready: Rollout", ">ready</td>", "▸ details", ">3 min<"} {
			if !strings.Contains(folded, want) {
				t.Errorf("%s is not in %s", want, folded)
			}
		}
		for _, want := range []string{`<a href="/debug/?#owners" aria-expanded="true">▾ 2 of 3 ready</a>`, "✖ missing",
			"ConfigMap child-0", `taken\x1b[31m`, "created <time"} {
			if strings.Contains(folded, want) || !strings.Contains(unfolded, want) {
				t.Errorf("%s is not only in the unfolded row: %s", want, unfolded)
			}
		}
		if body := w.get("/debug/object/ConfigMap/default/web").Body.String(); !strings.Contains(body, "child-0") {
			t.Errorf("the page of the object has no children: %s", body)
		}
	})
}

// The pods are read when the page of an object is opened, once for all tabs within ten seconds.
//
// Rules: LP-08, LP-12
func TestThePageOfAnObjectGoesOnToItsPodsWithTheirReasons(t *testing.T) {
	for _, token := range []func() (string, error){nil, func() (string, error) { return "hush", nil }} {
		within(t, Options{Token: token}, fails, func(w *world) {
			w.create("ok", nil)
			w.create("denied", nil)
			time.Sleep(time.Second)
			password := func(r *http.Request) { r.SetBasicAuth("me", "hush") }
			before := podLists.Load()
			w.get("/debug/", password)
			var body string
			for range 3 {
				body = w.get("/debug/object/ConfigMap/default/ok", password).Body.String()
				time.Sleep(podsAge / 4)
			}
			if n := podLists.Load() - before; n != 1 {
				t.Errorf("the pods were read %d times", n)
			}
			for _, want := range []string{"1 of 2 pods ready", "ok-2</td>", "ReplicaSet ok", "ImagePullBackOff"} {
				if !strings.Contains(body, want) {
					t.Errorf("%s is not in %s", want, body)
				}
			}
			if strings.Contains(body, "canary") != (token != nil) {
				t.Errorf("what others say of a pod is shown without the token, or not with it: %s", body)
			}
			time.Sleep(podsAge)
			denied := w.get("/debug/object/ConfigMap/default/denied", password).Body.String()
			if !strings.Contains(denied, "Forbidden") || strings.Contains(denied, "canary") {
				t.Errorf("of pods that may not be read: %s", denied)
			}
		})
	}
}

// Rules: LP-12, LP-15
func TestAnObjectOfThreeControllersIsThereForEachAndItsPageBeginsWithTheWorst(t *testing.T) {
	f := func(ctx context.Context, _ kube.Key) (controller.Outcome, error) {
		if ctx.Value(nameOf{}) == "second" {
			return controller.Done, controller.Terminal(errors.New("no"))
		}
		return controller.Done, nil
	}
	withControllers(t, Options{}, []string{"first", "second", "third"}, f, func(w *world) {
		w.create("ok", nil)
		time.Sleep(time.Second)
		var list Owners
		w.read("/debug/owners?format=json", &list)
		var got []string
		for _, o := range list.Owners {
			got = append(got, o.Controller+" "+Word(o.State))
		}
		if fmt.Sprint(got) != "[second stalled first healthy third healthy]" {
			t.Errorf("the rows are %s", got)
		}
		body := w.get("/debug/owners?state=all").Body.String()
		for _, name := range []string{"first", "second", "third"} {
			if strings.Count(body, `<tr data-key="ConfigMap/default/ok/`+name+`">`) != 1 ||
				!strings.Contains(body, "controller "+name+"<") {
				t.Errorf("the row of %s: %s", name, body)
			}
		}
		var one ObjectAnswer
		w.read("/debug/object/ConfigMap/default/ok?format=json", &one)
		if one.Owner.State != stalled || one.Owner.Controller != "second" || len(one.Others) != 2 {
			t.Errorf("the object is %+v", one)
		}
		body = w.get("/debug/object/ConfigMap/default/ok").Body.String()
		if !strings.Contains(body, "controller second</p>") || !strings.Contains(body, "controller third</p>") {
			t.Error(body)
		}
	})
}

// A hook that fails for all in a namespace has not been asked about the objects there whose runs wait for it.
//
// Rules: LP-10, LP-12
func TestAnObjectThatAFailingHookHasNotBeenAskedAboutIsUnknown(t *testing.T) {
	hook := Hook{Controller: "things", Hook: "sync", Parked: true}
	f := func(_ context.Context, k kube.Key) (controller.Outcome, error) {
		if k.Name == "waits" {
			return controller.After(time.Hour), nil
		}
		return controller.Done, nil
	}
	within(t, Options{Hooks: func() []Hook { return []Hook{hook} }}, f, func(w *world) {
		for _, name := range []string{"waits", "asked"} {
			w.create(name, map[string]string{"Ready": "True/Complete"})
		}
		time.Sleep(time.Second)
		for _, row := range []struct {
			failsIn []string
			want    string
		}{{nil, "asked well waits well"}, {[]string{"other"}, "asked well waits well"},
			{[]string{"default"}, "waits unknown asked well"}} {
			hook.FailsIn = row.failsIn
			var list Owners
			w.read("/debug/owners?format=json", &list)
			var got []string
			for _, o := range list.Owners {
				got = append(got, o.Name, o.State)
			}
			if strings.Join(got, " ") != row.want {
				t.Errorf("while the hook fails in %v: %v, want %s", row.failsIn, got, row.want)
			}
		}
		var s State
		w.read("/debug/state?format=json", &s)
		if s.Unknown != 1 || !strings.Contains(s.Banner.Text, " 1 other is not known.") || len(s.Attention) > 0 {
			t.Errorf("the state is %+v", s)
		}
	})
}

// Rules: LP-10, LP-12
func TestAnObjectWithoutConditionsOfAControllerThatDoesNotWorkIsUnknown(t *testing.T) {
	done := func(context.Context, kube.Key) (controller.Outcome, error) { return controller.Done, nil }
	within(t, Options{}, done, func(w *world) {
		time.Sleep(time.Second)
		c := w.page.o.Controllers()[0]
		if g := w.page.glance(); len(g.idle) > 0 {
			t.Errorf("controllers that work are idle: %v", g.idle)
		}
		silent := controller.Owner{Key: kube.Key{Namespace: "default", Name: "web"}}
		tells := silent
		tells.Conditions = []conditions.Condition{{Type: conditions.Ready, Status: conditions.True}}
		for idle, want := range map[string]string{"none": "well well", "other": "well well", "default": "unknown well",
			"": "unknown well"} {
			g := glance{now: time.Now(), idle: map[string][]string{c.Name(): {idle}}}
			got := w.page.troubleOf(c, &silent, g).State + " " + w.page.troubleOf(c, &tells, g).State
			if got != want {
				t.Errorf("idle in %q: %s, want %s", idle, got, want)
			}
		}
	})
}

// Rules: LP-09
func TestTheErrorOfAHookIsQuotedToReadersWithTheTokenAlone(t *testing.T) {
	hooks := func() []Hook {
		return []Hook{{Controller: "thing", Hook: "sync", Errors: 1, LastError: "wrong answer",
			LastErrorAt: time.Now(), Failing: true, Quoted: "SyntaxError: canary\x1b[2J (hook.py:8)"}}
	}
	token := func() (string, error) { return "hush", nil }
	password := func(r *http.Request) { r.SetBasicAuth("me", "hush") }
	for name, o := range map[string]Options{"none": {}, "a token": {Token: token}, "open": {Open: true}} {
		o.Hooks = hooks
		within(t, o, fails, func(w *world) {
			for _, path := range []string{"/debug/queue", "/debug/queue?format=json"} {
				body, quoted := w.get(path, password).Body.String(), name != "none"
				if strings.Contains(body, "SyntaxError: canary") != quoted ||
					strings.Contains(body, "wrong answer") == quoted || strings.Contains(body, "\x1b") {
					t.Errorf("%s of a page with %s: %s", path, name, body)
				}
			}
		})
	}
}

// Rules: LP-09, LP-16
func TestHooksAreShownAsControllersAreThoseThatFailFirst(t *testing.T) {
	hooks := []Hook{{Controller: "thing", Hook: "sync", Calls: 7, P50: 2, P99: 64},
		{Controller: "third", Hook: "sync", Calls: 7, Errors: 7, LastError: "wrong answer", Failing: true},
		{Controller: "other", Hook: "finalize", Calls: 9, Errors: 3, LastError: "no answer", LastErrorAt: time.Now(),
			Parked: true}}
	within(t, Options{Hooks: func() []Hook { return hooks }}, fails, func(w *world) {
		var q QueueAnswer
		w.read("/debug/queue?format=json", &q)
		if len(q.Hooks) != 3 || !q.Hooks[0].Parked || !q.Hooks[1].Failing || q.Hooks[2].P99 != 64 {
			t.Errorf("%+v", q.Hooks)
		}
		body := w.get("/debug/queue").Body.String()
		_, rest, ok := strings.Cut(body, "finalize of other</td>")
		if !ok || !strings.Contains(rest, "✖ fails, one call at a time") || !strings.Contains(rest, "no answer, ") ||
			!strings.Contains(rest, "✖ its last call failed") ||
			!strings.Contains(rest, "sync of thing</td>") {
			t.Error(body)
		}
	})
}
