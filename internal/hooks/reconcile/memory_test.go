package reconcile

import (
	"fmt"
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
