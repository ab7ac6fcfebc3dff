package reconcile

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/hooks/wire"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
)

// Rules: HK-64, HK-69
func TestARuleThatCannotBeFollowedFailsItsParentAlone(t *testing.T) {
	s := customizing(2)
	story(t, s, func(w *env) {
		w.Create("fine", rules(webSecrets))
		w.Create("a", rules(`{"apiVersion":"example.com/v1","resource":"widgets"}`))
		w.Want("status of another", seen(w, "fine"), "Secret.v1:")
		w.Want("note", note(w, "SyncError"), "answer of the customize hook: relatedResources[0]: the server has no "+
			"resource widgets in example.com/v1: see `kubectl api-resources`")
		w.Post(secrets, secret("s", "web"))
		w.Want("status of another", seen(w, "fine"), "Secret.v1:default/s")
		crd := strings.NewReplacer("gadget", "widget", "Gadget", "Widget").Replace(definition(w, "gadgets"))
		w.PostYAML("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", []byte(crd))
		w.Pass(10 * time.Minute)
		w.Want("found", seen(w, "a"), "Widget.example.com/v1:")
		calls := slices.DeleteFunc(s.called(), func(c string) bool { return c != "customize a" })
		w.Want("calls of customize", calls, []string{"customize a"})
	})
}

// Rules: HK-27, HK-108
func TestARelatedKindThatMayNotBeListedFailsItsParentAlone(t *testing.T) {
	s := customizing(2)
	story(t, s, func(w *env) {
		allow := w.API.Inject(apiserver.Fault{UserAgent: operatortest.Agent, Resource: "secrets",
			Reply: &apiserver.Reply{Code: 403, Reason: "Forbidden", Message: "secrets is forbidden"}})
		w.Create("a", rules(webSecrets))
		w.Create("fine", `{}`)
		w.Pass(time.Minute)
		w.Want("status of another", seen(w, "fine"), "")
		w.Want("note", strings.Contains(note(w, "SyncError"), "secrets is forbidden"), true)
		allow()
		w.Pass(20 * time.Second)
		w.Want("seen", seen(w, "a"), "Secret.v1:")
	})
}

// Rules: HK-27
func TestARelatedObjectThatIsTooLargeFailsItsParentUntilItIsSmaller(t *testing.T) {
	s := customizing(1)
	prepared(t, s, func(w *env) {
		w.Setup.ObjectBytes = 20 << 10
		w.Post(secrets, strings.Replace(secret("large", "web"), `{"apiVersion"`, `{"data":{"a":"`+
			strings.Repeat("abcd", 10<<10)+`"},"apiVersion"`, 1))
		w.Post(secrets, secret("small", "db"))
		w.Start()
		w.Create("a", rules(webSecrets))
		w.Create("fine", `{}`)
		w.Create("db", rules(strings.Replace(webSecrets, "web", "db", 1)))
		w.Want("status of another", seen(w, "fine"), "")
		w.Want("one that the rules of another do not select", seen(w, "db"), "Secret.v1:small")
		w.Want("calls", slices.Contains(s.called(), "sync a"), false)
		if text := note(w, "SyncError"); !strings.HasPrefix(text, "read related secrets: ") {
			t.Error(text)
		}
		w.Patch(secrets, "large", `{"data":null}`)
		w.Want("seen", seen(w, "a"), "Secret.v1:large")
	})
}

// Rules: HK-29
func TestAFailedSyncOfAClusterScopedParentIsReported(t *testing.T) {
	s := composite(func(wire.Hook, map[string]any) (string, error) { return "", errors.New("no") }).of(realms)
	story(t, s, func(w *env) {
		post(w, realms, "", `{"apiVersion":"example.com/v1","kind":"Realm","metadata":{"name":"a"}}`)
		w.Pass(time.Second)
		w.Want("note", note(w, "SyncError"), "no")
	})
}
