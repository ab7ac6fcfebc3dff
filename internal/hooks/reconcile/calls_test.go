package reconcile

import (
	"fmt"
	"testing"
	"time"

	"skiff/internal/hooks/wire"
	"skiff/internal/testcluster/apiserver"
)

// slowly runs f with a hook that takes a second, to which the events of parents come meanwhile.
func slowly(t *testing.T, s *script, f func(w *env)) {
	t.Helper()
	hook := s.hook
	s.hook = func(name wire.Hook, request map[string]any) (string, error) {
		<-time.After(time.Second)
		return hook(name, request)
	}
	prepared(t, s, func(w *env) {
		w.API.Inject(apiserver.Fault{Verb: "watch", Resource: things.Plural,
			Watch: apiserver.WatchFault{EventDelay: time.Second / 10}})
		w.Start()
		f(w)
	})
}

// Rules: HK-23
func TestAHookThatCountsItsChildrenIsCalledThreeTimesForANewParentAndItsStatusIsWrittenOnce(t *testing.T) {
	s := composite(echo)
	story(t, s, func(w *env) {
		for _, name := range []string{"a", "b"} {
			w.Create(name, fmt.Sprintf(`{"names":[%q],"text":"1"}`, name))
			w.Pass(time.Minute)
			w.WantRequests("POST configmaps 201", "JSONPATCH things/"+name+"/status 200")
			w.Want("calls: new, with its child, with its status", len(s.called()), 3)
			w.Forget()
		}
	})
}

// Rules: HK-23
func TestAStatusThatDoesNotDependOnTheChildrenIsWrittenBesideThemAndSparesACall(t *testing.T) {
	s := composite(func(hook wire.Hook, request map[string]any) (string, error) {
		return children(configMap(fmt.Sprint(at(request, "parent", "metadata", "name")), "", "")), nil
	})
	slowly(t, s, func(w *env) {
		w.Create("a", `{}`)
		w.Pass(time.Minute)
		w.Want("calls for the first parent", len(s.called()), 3)
		w.Forget()
		w.Create("b", `{}`)
		w.Pass(time.Minute)
		w.WantRequests("POST configmaps 201", "JSONPATCH things/b/status 200")
		w.Want("calls for the second one", len(s.called()), 2)
		w.Forget()
		s.hook = echo // its status counts children: it is written twice at first, and then once
		w.Create("c", `{"names":["c"],"text":"1"}`)
		w.Pass(time.Minute)
		w.WantRequests("POST configmaps 201", "JSONPATCH things/c/status 200", "JSONPATCH things/c/status 200")
		w.Forget()
		w.Create("d", `{"names":["d"],"text":"1"}`)
		w.Pass(time.Minute)
		w.WantRequests("POST configmaps 201", "JSONPATCH things/d/status 200")
	})
}

// Rules: HK-23, HK-50
func TestAHookIsNotCalledAgainForAVersionOfTheParentThatItHasSeen(t *testing.T) {
	s := composite(declared).finalizing()
	slowly(t, s, func(w *env) {
		w.Create("a", answer(`{"status":{"ok":true}}`))
		w.Pass(time.Minute)
		w.Want("calls: with its finalizer, with its status", len(s.called()), 2)
	})
}

// Rules: HK-23
func TestAHookIsCalledForTheStatusThatItHasDeclared(t *testing.T) {
	s := composite(func(hook wire.Hook, request map[string]any) (string, error) {
		step, _ := at(request, "parent", "status", "step").(float64)
		return fmt.Sprintf(`{"status":{"step":%v}}`, min(step+1, 5)), nil
	})
	story(t, s, func(w *env) {
		w.Create("a", `{}`)
		w.Pass(time.Second)
		w.Want("step", at(get(w, things, "a"), "status", "step"), int64(5))
		w.Want("calls", len(s.called()), 6)
	})
}
