package reconcile

import (
	"strings"
	"testing"
	"time"

	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
)

const selectsWeb = `"selector":{"matchLabels":{"app":"web"}}`

// thing returns a parent whose spec has a selector and an answer.
func thing(name, selector, text string) string {
	if selector != "" {
		selector += ","
	}
	return `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"` + name + `"},"spec":{` + selector +
		strings.TrimPrefix(answer(text), "{") + `}`
}

func ownerOf(w *env, name string) any {
	references, _ := at(get(w, configMaps, name), "metadata", "ownerReferences").([]any)
	for _, o := range references {
		if at(o, "controller") == true {
			return at(o, "name")
		}
	}
	return nil
}

const web = `,"labels":{"app":"web"}`

// Rules: HK-19, HK-23, HK-38, HK-59
func TestOrphansThatFitTheSelectorAreAdoptedAndThenFollowTheAnswer(t *testing.T) {
	s := selecting(declared)
	prepared(t, s, func(w *env) {
		w.Post(configMaps, configMap("kept", web, ""))
		w.Post(configMaps, configMap("unlisted", web, ""))
		w.Post(configMaps, configMap("stranger", `,"labels":{"app":"db"}`, ""))
		w.Post(things, thing("a", selectsWeb, children(configMap("kept", web, `"k":"v"`))))
		w.Start()
		w.Want("objects", names(w, configMaps), []string{"kept", "stranger"})
		w.Want("owner", ownerOf(w, "kept"), "a")
		w.Want("data", at(get(w, configMaps, "kept"), "data", "k"), "v")
		w.Want("owner of another", ownerOf(w, "stranger"), nil)
		w.Post(configMaps, configMap("late", web, "")) // wakes the parent
		w.Want("objects", names(w, configMaps), []string{"kept", "stranger"})
		w.Patch(configMaps, "stranger", `{"metadata":{"labels":{"app":"web"}}}`)
		w.Want("objects", names(w, configMaps), []string{"kept"})
	})
}

// Rules: HK-23
func TestAnOrphanWakesAllParentsWhoseSelectorsItFits(t *testing.T) {
	s := selecting(declared)
	story(t, s, func(w *env) {
		exists := `"selector":{"matchExpressions":[{"key":"app","operator":"Exists"}]}`
		unless := `"selector":{"matchExpressions":[{"key":"tier","operator":"DoesNotExist"}]}`
		for name, selector := range map[string]string{"equal": selectsWeb, "exists": exists, "unless": unless,
			"other": `"selector":{"matchLabels":{"app":"db"}}`} {
			w.Post(things, thing(name, selector, children(configMap("x", web, ""))))
		}
		w.Pass(time.Minute)
		s.called()
		w.Post(configMaps, configMap("orphan", web, ""))
		called := map[string]bool{}
		for _, c := range s.called() {
			called[c] = true
		}
		w.Want("calls", called, map[string]bool{"sync equal": true, "sync exists": true, "sync unless": true})
	})
}

// Rules: HK-59
func TestNothingIsAdoptedForAParentThatIsBeingDeletedOrThatIsDeletedItself(t *testing.T) {
	s := selecting(declared)
	story(t, s, func(w *env) {
		w.Post(things, strings.Replace(thing("a", selectsWeb, `{}`), `"name":"a"`,
			`"name":"a","finalizers":["example.com/mine"]`, 1))
		w.Delete(things, "a")
		w.Post(configMaps, configMap("x", web, ""))
		w.Pass(time.Hour)
		w.Want("owner", ownerOf(w, "x"), nil)
		w.Want("objects", names(w, configMaps), []string{"x"})
		w.Post(configMaps, configMap("y", `,"labels":{"app":"db"},"finalizers":["example.com/mine"]`, ""))
		w.Delete(configMaps, "y")
		w.Post(things, thing("b", strings.Replace(selectsWeb, "web", "db", 1), `{}`))
		w.Pass(time.Minute)
		w.Want("owner of what is being deleted", ownerOf(w, "y"), nil)
	})
}

// Rules: HK-60, HK-62
func TestAChildThatNoLongerFitsTheSelectorIsReleasedAndLeftAlone(t *testing.T) {
	s := selecting(declared)
	story(t, s, func(w *env) {
		w.Post(things, thing("a", selectsWeb, children(configMap("x", web, `"k":"v"`))))
		w.Pass(time.Minute)
		w.Patch(configMaps, "x", `{"metadata":{"labels":{"app":"mine"}},"data":{"k":"mine"}}`)
		w.Want("owner", ownerOf(w, "x"), nil)
		w.Forget()
		w.Pass(10 * time.Minute)
		w.WantWrites()
		w.Want("data", at(get(w, configMaps, "x"), "data", "k"), "mine")
		w.Want("Event", strings.Contains(strings.Join(w.EventLines("a"), " "), "Warning NameTaken ConfigMap/x"), true)
		w.Delete(configMaps, "x")
		w.Pass(time.Minute)
		w.Want("owner", ownerOf(w, "x"), "a")
	})
}

// The release names the version, and another writer was faster. An apply would put the labels back.
//
// Rules: HK-60
func TestAChildThatChangesBeforeItsReleaseIsReleasedAllTheSame(t *testing.T) {
	s := selecting(declared)
	story(t, s, func(w *env) {
		w.Post(things, thing("a", selectsWeb, children(configMap("x", web, `"k":"v"`))))
		w.Pass(time.Minute)
		w.API.Inject(apiserver.Fault{Verb: "patch", Resource: "configmaps", UserAgent: operatortest.Agent, Times: 1,
			Reply: &apiserver.Reply{Code: 409, Reason: "Conflict", Message: "the object has been modified"}})
		w.Patch(configMaps, "x", `{"metadata":{"labels":{"app":"mine"}}}`)
		w.Pass(time.Minute)
		w.Want("owner", ownerOf(w, "x"), nil)
		w.Want("label", at(get(w, configMaps, "x"), "metadata", "labels", "app"), "mine")
	})
}

// A policy of the cluster may refuse the release with the code of an invalid object.
//
// Rules: HK-60
func TestAReleaseThatIsRefusedIsAnErrorOfTheSync(t *testing.T) {
	s := selecting(declared)
	story(t, s, func(w *env) {
		w.Post(things, thing("a", selectsWeb, children(configMap("x", web, `"k":"v"`))))
		w.Pass(time.Minute)
		w.API.Inject(apiserver.Fault{Verb: "patch", Resource: "configmaps", UserAgent: operatortest.Agent,
			Reply: &apiserver.Reply{Code: 422, Reason: "Invalid", Message: "denied by policy"}})
		w.Forget()
		w.Patch(configMaps, "x", `{"metadata":{"labels":{"app":"mine"}}}`)
		w.Pass(time.Hour)
		if got := note(w, "SyncError"); !strings.Contains(got, "denied by policy") {
			t.Errorf("the Event is %q", got)
		}
		if n := len(w.Writes()); n == 0 || n > 60 {
			t.Errorf("%d writes within an hour", n)
		}
	})
}

// The answer declares the old labels, and an apply of it would undo the change.
//
// Rules: HK-60
func TestAChildWhoseLabelsChangeWhileTheHookIsAskedIsReleased(t *testing.T) {
	s := selecting(declared)
	story(t, s, func(w *env) {
		w.Post(things, thing("a", selectsWeb, children(configMap("x", web, `"k":"v"`))))
		w.Pass(time.Minute)
		s.slow = 5 * time.Second
		w.Patch(things, "a", thing("a", selectsWeb, children(configMap("x", web, `"k":"w"`))))
		w.Pass(time.Second)
		w.Patch(configMaps, "x", `{"metadata":{"labels":{"app":"mine"}}}`)
		w.Pass(time.Minute)
		w.Want("owner", ownerOf(w, "x"), nil)
		w.Want("label", at(get(w, configMaps, "x"), "metadata", "labels", "app"), "mine")
		w.Want("data", at(get(w, configMaps, "x"), "data", "k"), "v")
	})
}

// Rules: HK-60
func TestNothingIsReleasedWhileTheParentIsBeingDeleted(t *testing.T) {
	s := selecting(declared).finalizing()
	story(t, s, func(w *env) {
		w.Post(things, thing("a", selectsWeb, children(configMap("x", web, ""))))
		w.Delete(things, "a")
		w.Patch(configMaps, "x", `{"metadata":{"labels":{"app":"mine"}}}`)
		w.Pass(time.Minute)
		w.Want("owner", ownerOf(w, "x"), "a")
	})
}

// Rules: HK-62
func TestANameThatIsTakenIsReportedAndLeftAlone(t *testing.T) {
	s := composite(declared)
	prepared(t, s, func(w *env) {
		w.Post(configMaps, configMap("x", "", `"whose":"mine"`))
		w.Post(configMaps, configMap("y", `,"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u",
			"controller":true}]`, ""))
		w.Post(things, thing("a", "", `{"children":[`+configMap("x", "", `"whose":"a"`)+`,`+configMap("y", "", "")+
			`,`+configMap("z", "", "")+`]}`))
		w.Start()
		w.Want("data", at(get(w, configMaps, "x"), "data", "whose"), "mine")
		w.Want("objects", names(w, configMaps), []string{"x", "y", "z"})
		w.Pass(time.Second)
		w.WantLines("Events", w.EventLines("a"), []string{"Normal CreateConfigMap ConfigMap/z",
			"Warning NameTaken ConfigMap/x", "Warning NameTaken ConfigMap/y"})
		w.Forget()
		w.Pass(10 * time.Minute)
		if n := len(w.Requests()); n > 2*11 {
			t.Errorf("%d requests in ten minutes about two names that are taken: %s", n, w.Requests())
		}
		w.Want("owner", ownerOf(w, "y"), "p")
	})
}

// Rules: HK-19
func TestAParentWithoutASelectorFailsBeforeAHookIsCalled(t *testing.T) {
	for name, selector := range map[string]string{"missing": "", "empty": `"selector":{}`,
		"invalid":     `"selector":{"matchExpressions":[{"key":"app","operator":"Like"}]}`,
		"no selector": `"selector":"app=web"`} {
		t.Run(name, func(t *testing.T) {
			s := selecting(declared)
			story(t, s, func(w *env) {
				w.Post(things, thing("a", selector, `{}`))
				w.Pass(time.Second)
				w.Want("calls", len(s.called()), 0)
				w.WantLines("Events", w.EventLines("a"), []string{"Warning SyncError"})
				w.Want("note", strings.Contains(note(w, "SyncError"), "spec.selector"), true)
				w.WantRequests()
			})
		})
	}
}

// note returns the note of the first Event about the parent "a" with a reason.
func note(w *env, reason string) string {
	for _, e := range w.Events(w.Resource.Kind, "a") {
		if e["reason"] == reason {
			s, _ := e["note"].(string)
			return s
		}
	}
	return ""
}

// Rules: HK-21
func TestAChildWhoseLabelsDoNotFitFailsTheWholeSync(t *testing.T) {
	s := selecting(declared)
	story(t, s, func(w *env) {
		w.Post(things, thing("a", selectsWeb, `{"status":{"n":2},"children":[`+configMap("x", web, "")+`,`+
			configMap("y", `,"labels":{"app":"db"}`, "")+`]}`))
		w.Pass(time.Second)
		w.WantRequests()
		w.Want("note", strings.Contains(note(w, "SyncError"), "children[1].metadata.labels"), true)
	})
}

// Rules: HK-20, HK-21
func TestALabelOfGenerateSelectorThatTheHookSetsIsChecked(t *testing.T) {
	s := composite(declared)
	story(t, s, func(w *env) {
		w.Create("a", answer(children(configMap("x", `,"labels":{"controller-uid":"other"}`, ""))))
		w.Pass(time.Second)
		w.WantRequests()
		w.Want("note", strings.Contains(note(w, "SyncError"), "children[0].metadata.labels"), true)
	})
}

// The references of others are written as they are: a flag more would make them the controller's own, and the apply
// that follows would remove them.
//
// Rules: HK-19
func TestAnOrphanThatIsAdoptedKeepsItsOtherOwners(t *testing.T) {
	s := selecting(declared)
	prepared(t, s, func(w *env) {
		w.Post(configMaps, configMap("x", `,"labels":{"app":"web"},"ownerReferences":[{"apiVersion":"v1","kind":"Pod",`+
			`"name":"p","uid":"u"}]`, ""))
		w.Post(things, thing("a", selectsWeb, children(configMap("x", web, `"k":"v"`))))
		w.Start()
		w.Pass(time.Second)
		w.Want("data", at(get(w, configMaps, "x"), "data", "k"), "v")
		owners, _ := at(get(w, configMaps, "x"), "metadata", "ownerReferences").([]any)
		w.Want("owners", len(owners), 2)
	})
}
