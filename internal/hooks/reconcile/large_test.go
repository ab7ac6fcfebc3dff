package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/cache"
	"skiff/internal/testcluster/apiserver"
)

// large returns the data of a ConfigMap of some KiB.
func large(kib int) string { return `"large":"` + strings.Repeat("x", kib<<10) + `"` }

// growing answers with a ConfigMap of as many KiB as spec.kib says, and with the text of the one that it sees.
func growing(_ wire.Hook, request map[string]any) (string, error) {
	parent := request["parent"]
	kib, _ := at(parent, "spec", "kib").(float64)
	name, _ := at(parent, "metadata", "name").(string)
	seen, _ := at(request, "children", "ConfigMap.v1", name, "data", "text").(string)
	return fmt.Sprintf(`{"status":{"seen":%q},"children":[%s]}`, seen,
		configMap(name, web, fmt.Sprintf(`"text":%q,%s`, at(parent, "spec", "text"), large(int(kib))))), nil
}

// The cache learns between the call of the hook and the apply that it has no room for the child.
func TestAChildThatTurnsOutToBeTooLargeWhileTheHookIsAskedIsNoPanic(t *testing.T) {
	s := composite(growing)
	s.slow = 400 * time.Millisecond
	prepared(t, s, func(w *env) {
		w.Setup.ObjectBytes = 20 << 10
		defer w.API.Inject(apiserver.Fault{Verb: "watch", Resource: "configmaps",
			Watch: apiserver.WatchFault{EventDelay: 250 * time.Millisecond}})()
		w.Start()
		w.Create("a", `{"kib":30,"text":"1"}`)
		w.Pass(time.Minute)
		w.Want("panics", s.last.Stats().Panics, int64(0))
	})
}

// Rules: HK-34
func TestAForeignObjectThatIsTooLargeConcernsNobody(t *testing.T) {
	for name, s := range map[string]*script{"composite": selecting(growing), "decorator": decorator("thing", things,
		func(hook wire.Hook, request map[string]any) (string, error) {
			request["parent"] = request["object"]
			answer, err := growing(hook, request)
			return strings.Replace(answer, "children", "attachments", 1), err
		})} {
		t.Run(name, func(t *testing.T) {
			prepared(t, s, func(w *env) {
				w.Setup.ObjectBytes = 20 << 10
				w.Post(configMaps, configMap("foreign", `,"labels":{"app":"helm"}`, large(30)))
				w.Start()
				w.Create("a", `{"text":"1",`+selectsWeb+`}`)
				w.Pass(time.Second)
				w.Post(configMaps, configMap("late", "", large(30)))
				w.Patch(things, "a", `{"spec":{"text":"2"}}`)
				w.Create("b", `{"text":"3",`+selectsWeb+`}`)
				w.Pass(time.Second)
				w.Want("a change", at(get(w, configMaps, "a"), "data", "text"), "2")
				w.Want("a new parent", at(get(w, configMaps, "b"), "data", "text"), "3")
				w.Want("status", problems(s), []string{})
				w.Forget()
				w.Pass(time.Hour)
				w.WantRequests()
			})
		})
	}
}

// problems are the lines of the status that need attention.
func problems(s *script) []string {
	out := []string{}
	for _, p := range s.last.Problems() {
		out = append(out, p.Text(time.Now()))
	}
	return append(out, s.notes.Problems()...)
}

// Rules: HK-34
func TestAForeignObjectThatIsTooLargeHasTheNameOfAChild(t *testing.T) {
	s := composite(growing)
	prepared(t, s, func(w *env) {
		w.Setup.ObjectBytes = 20 << 10
		w.Post(configMaps, configMap("a", "", large(30)))
		w.Start()
		w.Create("a", `{"text":"1"}`)
		w.Pass(time.Second)
		w.Want("note", note(w, "NameTaken") != "", true)
		w.Want("text", at(get(w, configMaps, "a"), "data", "text"), nil)
	})
}

// A child that is too large for the cache is read from the server when its parent runs: its hook sees it whole, and
// what is declared is applied.
//
// Rules: HK-34
func TestAChildThatIsTooLargeFollowsItsParentAndIsNamed(t *testing.T) {
	s := composite(growing)
	prepared(t, s, func(w *env) {
		w.Setup.ObjectBytes = 20 << 10
		w.Start()
		w.Create("a", `{"kib":30,"text":"1"}`)
		w.Create("b", `{"kib":1,"text":"1"}`)
		w.Pass(time.Minute)
		w.Want("seen", at(get(w, things, "a"), "status", "seen"), "1")
		for _, name := range []string{"a", "b"} {
			w.Patch(things, name, `{"spec":{"text":"2"}}`)
			w.Want("text of "+name, at(get(w, configMaps, name), "data", "text"), "2")
		}
		w.Pass(time.Minute)
		w.Want("seen", at(get(w, things, "a"), "status", "seen"), "2")
		w.Want("note", strings.Contains(note(w, cache.TooLarge), "ConfigMap default/a takes 3"), true)
		w.Want("failed", note(w, "SyncError"), "")
		want := "Thing default/a: ConfigMap default/a takes"
		if got := problems(s); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Error(got)
		}
		w.Patch(configMaps, "a", `{"data":{"text":"spoiled"}}`)
		w.Want("repaired", at(get(w, configMaps, "a"), "data", "text"), "2")
		w.Pass(time.Minute)
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()
		w.Stop()
		w.Start()
		w.Forget()
		w.Patch(things, "a", `{"spec":{"kib":1}}`)
		w.Pass(time.Minute)
		w.Want("applies", w.Count("APPLY as metacontroller configmaps/a 200"), 1)
		w.Want("status", problems(s), []string{})
		w.Forget()
		w.Patch(things, "a", `{"spec":{"text":"3"}}`)
		w.Want("reads of a child that is held", w.Count("GET configmaps"), 0)
		w.Want("text", at(get(w, configMaps, "a"), "data", "text"), "3")
	})
}

// Rules: HK-34
func TestAChildThatIsTooLargeAndNotDeclaredIsDeletedByItsOwnControllerAlone(t *testing.T) {
	s := composite(declared)
	prepared(t, s, func(w *env) {
		w.Setup.ObjectBytes = 20 << 10
		attach := decorator("deco", things, func(_ wire.Hook, request map[string]any) (string, error) {
			return `{"attachments":[` + configMap("attached", "", large(30)) + `]}`, nil
		})
		w.Start()
		beside(w, attach)
		w.Create("a", answer(children(configMap("x", "", ""))))
		w.Patch(configMaps, "x", `{"data":{`+large(30)+`}}`)
		w.Pass(time.Minute)
		w.Want("both", names(w, configMaps), []string{"attached", "x"})
		setAnswer(w, things, "a", `{"children":[]}`)
		w.Pass(time.Minute)
		w.Want("that of the other controller", names(w, configMaps), []string{"attached"})
	})
}

// Rules: HK-19
func TestAnOrphanThatIsTooLargeIsAdopted(t *testing.T) {
	s := selecting(declared)
	prepared(t, s, func(w *env) {
		w.Setup.ObjectBytes = 20 << 10
		w.Post(configMaps, configMap("x", web, large(30)))
		w.Post(configMaps, configMap("theirs", `,"labels":{"app":"web"},"ownerReferences":[{"apiVersion":"v1",`+
			`"kind":"Pod","name":"p","uid":"u","controller":true}]`, large(30)))
		w.Post(things, thing("a", selectsWeb, children(configMap("x", web, `"k":"v"`))))
		w.Start()
		w.Pass(time.Second)
		w.Want("owner", ownerOf(w, "x"), "a")
		w.Want("data", at(get(w, configMaps, "x"), "data", "k"), "v")
		w.Want("owner of another", ownerOf(w, "theirs"), "p")
	})
}

// Rules: HK-34
func TestAParentThatIsTooLargeIsToldSo(t *testing.T) {
	s := composite(growing)
	prepared(t, s, func(w *env) {
		w.Setup.ObjectBytes = 20 << 10
		w.Start()
		w.Create("a", `{"text":"`+strings.Repeat("x", 30<<10)+`"}`)
		w.Create("b", `{"text":"1"}`)
		w.Pass(time.Minute)
		w.Want("another", at(get(w, configMaps, "b"), "data", "text"), "1")
		w.Want("note", strings.Contains(note(w, cache.TooLarge), "Thing default/a takes 3"), true)
		w.Want("status", len(problems(s)), 1)
	})
}

// In a namespace that takes too much memory, a change of a parent is applied once to the children that there are, and
// nothing is created: the hook sees them whole.
//
// Rules: HK-34
func TestInANamespaceOverItsBudgetAChangeOfAParentIsAppliedOnceToTheChildrenThereAre(t *testing.T) {
	s := composite(growing)
	prepared(t, s, func(w *env) {
		w.Setup.MirrorBytes = 64 << 10
		w.Start()
		w.Create("a", `{"kib":5,"text":"1"}`)
		w.Create("b", `{"kib":5,"text":"1"}`)
		w.Pass(time.Second)
		owner := fmt.Sprintf(`,"labels":{"controller-uid":%q}`, at(get(w, things, "b"), "metadata", "uid"))
		for i := range 12 {
			w.Post(configMaps, configMap(fmt.Sprint("x", i), owner+`,"ownerReferences":[{"apiVersion":"v1",`+
				`"kind":"Pod","name":"p","uid":"u","controller":true}]`, large(5)))
		}
		w.Pass(time.Second)
		w.Patch(things, "a", `{"spec":{"text":"2"}}`)
		w.Create("c", `{"text":"1"}`)
		w.Pass(time.Second)
		w.Want("text", at(get(w, configMaps, "a"), "data", "text"), "2")
		w.Want("seen", at(get(w, things, "a"), "status", "seen"), "1")
		w.Want("note", strings.Contains(note(w, cache.OverBudget), "configmaps of namespace default take"), true)
		w.Want("created", slices.Contains(names(w, configMaps), "c"), false)
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()
		for i := range 12 {
			w.Delete(configMaps, fmt.Sprint("x", i))
		}
		w.Pass(2 * time.Minute)
		w.Want("created when it fits", slices.Contains(names(w, configMaps), "c"), true)
		w.Want("seen when it fits", at(get(w, things, "a"), "status", "seen"), "2")
	})
}

// A hook cleans up by the spec of the parent and by the children.
//
// Rules: HK-34, HK-52
func TestAParentOfANamespaceOverItsBudgetIsFinalizedWhole(t *testing.T) {
	var seen []any // by the finalize hook: the text of the parent, and that of its child
	s := composite(func(hook wire.Hook, request map[string]any) (string, error) {
		if hook != wire.Finalize {
			return growing(hook, request)
		}
		text := at(request, "parent", "spec", "text")
		child := at(request, "children", "ConfigMap.v1", "b", "data", "text")
		seen = append(seen, text, child)
		return fmt.Sprintf(`{"finalized":%t,"children":[]}`, child == nil), nil
	}).finalizing()
	s.memory = call.NewMemory(64 << 20)
	prepared(t, s, func(w *env) {
		w.Setup.MirrorBytes = 64 << 10
		w.Start()
		w.Create("a", `{"kib":5,"text":"1"}`)
		w.Create("b", `{"kib":5,"text":"2"}`)
		w.Pass(time.Second)
		for i := range 12 {
			w.Create(fmt.Sprint("x", i), `{"kib":5,"text":"`+strings.Repeat("x", 5<<10)+`"}`)
		}
		w.Pass(time.Second)
		w.Delete(things, "b")
		w.Pass(time.Second)
		w.Want("seen", seen, []any{"2", "2", "2", nil})
		w.Want("parent", get(w, things, "b"), map[string]any(nil))
		w.Want("its child", get(w, configMaps, "b"), map[string]any(nil))
		w.Want("another's", at(get(w, configMaps, "a"), "data", "text"), "1")
	})
}
