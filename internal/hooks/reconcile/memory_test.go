package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/hooks/call"
	"skiff/internal/hooks/wire"
)

// Rules: HK-106
func TestLargeAnswersWaitForEachOtherAndAllAreApplied(t *testing.T) {
	s := composite(func(hook wire.Hook, request map[string]any) (string, error) {
		var all []string
		for i := range 150 { // 1 MiB, which takes more than 4 of memory
			all = append(all, configMap(fmt.Sprint(at(request, "parent", "metadata", "name"), i), "",
				`"a":"`+strings.Repeat("x", 2_000)+`","b":"`+strings.Repeat("y", 5_000)+`"`))
		}
		return children(all...), nil
	})
	s.memory = call.NewMemory(32 << 20) // one at a time
	story(t, s, func(w *env) {
		for i := range 6 {
			w.Post(things, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"%c"}}`, 'a'+i))
		}
		w.Pass(time.Minute)
		w.Want("children", len(w.API.List(configMaps, "default")), 6*150)
		w.Want("note", note(w, "SyncError"), "")
		if n := len(s.called()); n > 6*6 {
			t.Errorf("%d calls for 6 parents: one that waits for memory asks before it calls", n)
		}
	})
}

// Rules: HK-106
func TestAnAnswerThatGrowsBeyondTheMemoryIsReportedAndCostsNoOtherParent(t *testing.T) {
	s := composite(func(hook wire.Hook, request map[string]any) (string, error) {
		if at(request, "parent", "metadata", "name") == "a" {
			return `{"status":{"a":[` + strings.TrimSuffix(strings.Repeat(`{"":{}},`, 1<<20), ",") + `]}}`, nil
		}
		return declared(hook, request)
	})
	s.memory = call.NewMemory(1 << 30)
	story(t, s, func(w *env) {
		w.Create("a", `{}`)
		w.Create("b", answer(children(configMap("x", "", ""))))
		w.Pass(time.Second)
		w.Want("children", names(w, configMaps), []string{"x"})
		w.Want("note", strings.Contains(note(w, "SyncError"), "it would take more than 128 MiB of memory"), true)
		w.Want("status", at(get(w, things, "a"), "status"), nil)
	})
}

// Rules: HK-106
func TestChildrenThatAreTooLargeForARequestTogetherCostNoOtherParent(t *testing.T) {
	s := composite(declared)
	s.memory = call.NewMemory(30 << 20)
	story(t, s, func(w *env) {
		w.Create("a", answer(children(configMap("x", "", ""))))
		w.Create("b", answer(children(configMap("y", "", ""))))
		uid := at(get(w, things, "a"), "metadata", "uid")
		for i := range 6 {
			w.Post(configMaps, configMap(fmt.Sprint("c", i), fmt.Sprintf(`,"labels":{"controller-uid":%q},`+
				`"finalizers":["example.com/kept"],"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Thing",`+
				`"name":"a","uid":%q,"controller":true}]`, uid, uid), large(1_000)))
		}
		w.Pass(time.Minute)
		about := "send the children of Thing default/a to the hook: "
		w.Want("note", strings.HasPrefix(note(w, "SyncError"), about), true)
		setAnswer(w, things, "b", children(configMap("z", "", "")))
		w.Pass(time.Minute)
		w.Want("another parent", slices.Contains(names(w, configMaps), "z"), true)
	})
}
