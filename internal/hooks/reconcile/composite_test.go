package reconcile

import (
	"testing"
	"time"

	"skiff/internal/testcluster/operatortest"
)

// Rules: HK-20, HK-23, HK-31, HK-45, HK-48, HK-58, HK-73, HK-74, HK-76, HK-77
func TestAWholeLifeOfAParentWithTheRequestsOfEachStep(t *testing.T) {
	s := composite(echo)
	story(t, s, func(w *operatortest.Env) {
		w.Create("a", `{"names":["x","y"],"text":"1"}`)
		w.WantRequests("POST configmaps 201", "POST configmaps 201", "JSONPATCH things/a/status 200")
		w.Want("children", names(w, configMaps), []string{"x", "y"})
		child := get(w, configMaps, "x")
		uid := at(get(w, things, "a"), "metadata", "uid")
		w.Want("label", at(child, "metadata", "labels", "controller-uid"), uid)
		owner := at(child, "metadata", "ownerReferences", 0)
		w.Want("owner", []any{at(owner, "kind"), at(owner, "uid"), at(owner, "controller"),
			at(owner, "blockOwnerDeletion")}, []any{"Thing", uid, true, true})
		w.Want("status", at(get(w, things, "a"), "status"),
			map[string]any{"observed": int64(2), "observedGeneration": int64(1)})
		s.called()
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()
		w.Want("calls while nothing changes", len(s.called()), 0)
		w.Patch(things, "a", `{"spec":{"names":["y","z"],"text":"2"}}`)
		w.Want("children", names(w, configMaps), []string{"y", "z"})
		w.Want("text", at(get(w, configMaps, "y"), "data", "text"), "2")
		w.Patch(configMaps, "y", `{"data":{"text":"spoiled","other":"kept"}}`)
		w.Want("repaired", at(get(w, configMaps, "y"), "data"), map[string]any{"text": "2", "other": "kept"})
		w.Delete(configMaps, "z")
		w.Want("made again", names(w, configMaps), []string{"y", "z"})
		w.Stop()
		w.Forget()
		s.called()
		w.Start()
		w.Pass(time.Minute)
		w.WantRequests()
		w.Want("calls after a restart", s.called(), []string{"sync a"})
	})
}
