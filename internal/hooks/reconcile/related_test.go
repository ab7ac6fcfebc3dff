package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/controller"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
	"skiff/internal/testcluster/operatortest"
)

var secrets = kube.Resource{Version: "v1", Plural: "secrets", Kind: "Secret"}

// customizing has the rules in spec.rules of a parent, and the names of its related objects in its status.
func customizing(version int) *script {
	s := composite(nil)
	s.hook = func(hook wire.Hook, request map[string]any) (string, error) {
		if hook == wire.Customize {
			rules, _ := at(request, "parent", "spec", "rules").(string)
			return `{"relatedResources":[` + rules + `]}`, nil
		}
		related, _ := request["related"].(map[string]any)
		var seen []string
		for _, kind := range slices.Sorted(maps.Keys(related)) {
			objects, _ := related[kind].(map[string]any)
			seen = append(seen, kind+":"+strings.Join(slices.Sorted(maps.Keys(objects)), ","))
			for key, o := range objects {
				if !strings.HasSuffix(key, fmt.Sprint(at(o, "metadata", "name"))) || at(o, "kind") == nil {
					return "", fmt.Errorf("%s is %v", key, o)
				}
			}
		}
		return fmt.Sprintf(`{"status":{"seen":%q}}`, strings.Join(seen, " ")), nil
	}
	s.controller.Customize = &spec.Hook{Version: version, Webhook: &spec.Webhook{}}
	s.controller.Sync.Version = version
	return s
}

func rules(text string) string { return fmt.Sprintf(`{"rules":%q}`, text) }

// seen is what the sync hook of a parent has seen of related objects.
func seen(w *env, name string) any {
	w.Pass(time.Second)
	return at(w.API.Get(w.Resource, keyOf(w, name)), "status", "seen")
}

func keyOf(w *env, name string) kube.Key {
	if w.Resource.ClusterScoped {
		return kube.Key{Name: name}
	}
	return kube.Key{Namespace: "default", Name: name}
}

func secret(name, label string) string {
	return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + name + `","labels":{"app":"` + label + `"}}}`
}

// Rules: HK-64
func TestTheRulesOfAParentWithoutGenerationsAreAskedForAgainWhenItChanges(t *testing.T) {
	s := decorator("d", configMaps, func(hook wire.Hook, request map[string]any) (string, error) {
		if hook == wire.Customize {
			app := at(request, "parent", "data", "app")
			return fmt.Sprintf(`{"relatedResources":[{"apiVersion":"v1","resource":"secrets","labelSelector":`+
				`{"matchLabels":{"app":%q}}}]}`, app), nil
		}
		related, _ := at(request, "related", "Secret.v1").(map[string]any)
		return fmt.Sprintf(`{"annotations":{"seen":%q}}`, strings.Join(slices.Sorted(maps.Keys(related)), " ")), nil
	})
	s.controller.Children = nil
	s.controller.Customize = webhook()
	story(t, s, func(w *env) {
		w.Post(secrets, secret("old", "old"))
		w.Post(secrets, secret("new", "new"))
		w.Post(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"app":"old"}}`)
		w.Pass(time.Minute)
		w.Patch(configMaps, "a", `{"data":{"app":"new"}}`)
		w.Pass(time.Minute)
		got, _ := at(get(w, configMaps, "a"), "metadata", "annotations", "seen").(string)
		if !strings.HasSuffix(got, "new") || strings.Contains(got, "old") {
			t.Errorf("seen %q, want the Secret new", got)
		}
	})
}

const webSecrets = `{"apiVersion":"v1","resource":"secrets","labelSelector":{"matchLabels":{"app":"web"}}}`

// Rules: HK-35, HK-64, HK-65, HK-67, HK-71
func TestAChangeOfARelatedObjectRunsTheParentsWhoseRulesMatchIt(t *testing.T) {
	s := customizing(1)
	prepared(t, s, func(w *env) {
		w.Post(secrets, secret("s", "web"))
		w.Start()
		w.Create("a", rules(webSecrets))
		w.Create("b", `{}`)
		w.Want("seen", seen(w, "a"), "Secret.v1:s")
		w.Want("seen", seen(w, "b"), "")
		s.called()
		w.Post(secrets, secret("t", "web"))
		w.Want("added", seen(w, "a"), "Secret.v1:s,t")
		w.Want("calls", slices.Contains(s.called(), "sync b"), false)
		w.Post(secrets, secret("other", "db"))
		w.Pass(time.Second)
		w.Want("calls", len(s.called()), 0)
		w.Patch(secrets, "other", `{"metadata":{"labels":{"app":"web"}}}`)
		w.Want("matches now", seen(w, "a"), "Secret.v1:other,s,t")
		w.Patch(secrets, "other", `{"metadata":{"labels":{"app":"db"}}}`)
		w.Want("matches no longer", seen(w, "a"), "Secret.v1:s,t")
		w.Delete(secrets, "s")
		w.Want("deleted", seen(w, "a"), "Secret.v1:t")
		post(w, secrets, "kube-system", secret("elsewhere", "web"))
		w.Want("in another namespace", seen(w, "a"), "Secret.v1:t")
		w.Want("calls of customize", slices.Contains(s.called(), "customize a"), false)
		w.Patch(things, "a", `{"spec":`+rules(strings.Replace(webSecrets, "web", "db", 1))+`}`)
		w.Want("other rules", seen(w, "a"), "Secret.v1:other")
		calls := slices.DeleteFunc(s.called(), func(c string) bool { return c != "customize a" })
		w.Want("calls of customize", calls, []string{"customize a"})
		s.changes.Add(1)
		s.last.RunAll("", "the hook has changed")
		w.Pass(time.Second)
		w.Want("called again", slices.Contains(s.called(), "customize a"), true)
		s.returns.Add(1)
		s.last.RunAll("", "the hook answers again")
		w.Pass(time.Second)
		w.Want("called again after an outage", slices.Contains(s.called(), "customize a"), true)
	})
}

// A list of all Secrets of a cluster is tens of megabytes.
func TestAChangeOfAParentDoesNotListTheRelatedKindsAgain(t *testing.T) {
	s := customizing(1)
	story(t, s, func(w *env) {
		w.Post(secrets, secret("s", "web"))
		w.Create("a", rules(webSecrets))
		w.Want("seen", seen(w, "a"), "Secret.v1:s")
		s.called()
		w.Forget()
		w.Patch(things, "a", `{"spec":{"other":1}}`)
		w.Want("seen", seen(w, "a"), "Secret.v1:s")
		w.Want("customize is called", slices.Contains(s.called(), "customize a"), true)
		for _, r := range w.API.Requests() {
			if strings.Contains(r.Path, "/secrets") {
				t.Errorf("%s %s?%s", r.Method, r.Path, r.Query.Encode())
			}
		}
	})
}

// Rules: HK-36, HK-66, HK-68, HK-70
func TestRulesByNameAndNamespaceAreUnited(t *testing.T) {
	s := customizing(2)
	prepared(t, s, func(w *env) {
		for _, namespace := range []string{"default", "kube-system"} {
			for _, name := range []string{"x", "y", "z"} {
				post(w, secrets, namespace, secret(name, name))
			}
		}
		w.Start()
		rule := func(fields string) string { return `{"apiVersion":"v1","resource":"secrets"` + fields + `}` }
		for name, test := range map[string]struct{ rules, want string }{
			"names": {rule(`,"names":["x"]`), "Secret.v1:default/x,kube-system/x"},
			"in":    {rule(`,"names":["x","none"],"namespace":"kube-system"`), "Secret.v1:kube-system/x"},
			"labels-in": {rule(`,"labelSelector":{"matchLabels":{"app":"y"}},"namespace":"default"`),
				"Secret.v1:default/y"},
			"united": {rule(`,"names":["x"],"namespace":"default"`) + "," +
				rule(`,"labelSelector":{"matchExpressions":[{"key":"app","operator":"In","values":["x","z"]}]}`),
				"Secret.v1:default/x,default/z,kube-system/x,kube-system/z"},
			"two-kinds": {rule(`,"names":["x"],"namespace":"default"`) + `,{"apiVersion":"v1","resource":"namespaces",
				"names":["kube-system"]}`, "Namespace.v1:kube-system Secret.v1:default/x"},
		} {
			w.Create(name, rules(test.rules))
			w.Want(name, seen(w, name), test.want)
		}
	})
}

// Rules: HK-69
func TestANamespaceSelectorFollowsTheLabelsOfNamespaces(t *testing.T) {
	s := customizing(1).of(realms)
	story(t, s, func(w *env) {
		for _, name := range []string{"one", "two"} {
			post(w, namespaces, "", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`",
				"labels":{"team":"`+name+`"}}}`)
			post(w, secrets, name, secret("s", "web"))
		}
		post(w, realms, "", `{"apiVersion":"example.com/v1","kind":"Realm","metadata":{"name":"r"},"spec":`+rules(
			`{"apiVersion":"v1","resource":"secrets","namespaceSelector":{"matchLabels":{"team":"one"}}}`)+`}`)
		w.Want("seen", seen(w, "r"), "Secret.v1:one/s")
		relabel := func(name, to string) {
			if err := w.User.Patch(w.Context(), namespaces, kube.Key{Name: name}, kube.MergePatch,
				w.JSON(`{"metadata":{"labels":{"team":"`+to+`"}}}`), nil, kube.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		relabel("two", "one")
		w.Want("selected now", seen(w, "r"), "Secret.v1:one/s,two/s")
		relabel("one", "gone")
		w.Want("selected no longer", seen(w, "r"), "Secret.v1:two/s")
		s.called()
		post(w, secrets, "one", secret("t", "web"))
		w.Pass(time.Second)
		w.Want("calls", len(s.called()), 0)
		post(w, secrets, "two", secret("t", "web"))
		w.Want("added", seen(w, "r"), "Secret.v1:two/s,two/t")
	})
}

// Rules: HK-27
func TestNoHookIsCalledBeforeTheRelatedKindsAreListed(t *testing.T) {
	s := customizing(1)
	prepared(t, s, func(w *env) {
		w.Post(secrets, secret("s", "web"))
		defer w.API.Inject(apiserver.Fault{UserAgent: operatortest.Agent, Resource: "secrets",
			Delay: 10 * time.Second})()
		w.Start()
		w.Create("a", rules(webSecrets))
		w.Create("none", rules(strings.Replace(webSecrets, "web", "none", 1)))
		w.Create("named", rules(`{"apiVersion":"v1","resource":"secrets","names":["s"]}`))
		w.Create("b", `{}`)
		w.Pass(5 * time.Second)
		w.Want("calls by name", slices.Contains(s.called(), "sync named"), false)
		w.Want("status", at(get(w, things, "a"), "status"), nil)
		w.Want("status of another", seen(w, "b"), "")
		w.Pass(5 * time.Second)
		w.Want("seen", seen(w, "a"), "Secret.v1:s")
		w.Want("seen, where nothing matches", seen(w, "none"), "Secret.v1:")
		w.WantLines("Events", w.EventLines("a"), nil)
	})
}

// Rules: HK-64
func TestAKindThatNoParentNamesAnyMoreIsNotWatched(t *testing.T) {
	s := customizing(1)
	story(t, s, func(w *env) {
		watched := func() (out []string) {
			for _, state := range controller.WatchStates(s.last) {
				out = append(out, state.Resource.Plural)
			}
			slices.Sort(out)
			return out
		}
		w.Create("a", rules(webSecrets))
		w.Create("b", rules(webSecrets))
		w.Pass(time.Second)
		w.Want("watched", watched(), []string{"configmaps", "secrets", "things"})
		w.Patch(things, "a", `{"spec":`+rules(strings.Replace(webSecrets, "secrets", "pods", 1))+`}`)
		w.Pass(time.Second)
		w.Want("watched", watched(), []string{"configmaps", "pods", "secrets", "things"})
		w.Delete(things, "b")
		w.Want("watched", watched(), []string{"configmaps", "pods", "things"})
		w.Patch(things, "a", `{"spec":{"rules":""}}`)
		w.Want("watched", watched(), []string{"configmaps", "things"})
	})
}

// Rules: HK-85
func TestARevisionHasItsOwnRelatedObjects(t *testing.T) {
	s := rolling(spec.RollingInPlace)
	s.hook = func(hook wire.Hook, request map[string]any) (string, error) {
		parent := request["parent"]
		if hook == wire.Customize {
			return fmt.Sprintf(`{"relatedResources":[{"apiVersion":"v1","resource":"secrets","names":[%q]}]}`,
				at(parent, "spec", "template", "config")), nil
		}
		related, _ := at(request, "related", "Secret.v1").(map[string]any)
		template, _ := at(parent, "spec", "template").(map[string]any)
		template["image"] = strings.Join(slices.Collect(maps.Keys(related)), ",")
		return catset(hook, request)
	}
	s.controller.Customize = webhook()
	storyOfRevisions(t, s, func(w *env) {
		w.Post(secrets, secret("one", ""))
		w.Post(secrets, secret("two", ""))
		w.Create("a", `{"replicas":2,"template":{"config":"one"}}`)
		w.Pass(time.Second)
		ready(w, "a-0", "a-1")
		w.Want("pods", images(w), []string{"a-0=one", "a-1=one"})
		w.PatchSub(pods, "a-1", "status", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
		w.PatchSub(pods, "a-0", "status", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
		w.Patch(things, "a", `{"spec":{"template":{"config":"two"}}}`)
		w.Pass(time.Minute)
		w.Want("pods", images(w), []string{"a-0=two", "a-1=one"})
		s.called()
		w.Delete(secrets, "one")
		w.Want("the older revision hears of it", slices.Contains(s.called(), "sync a"), true)
		w.Post(secrets, secret("one", ""))
		ready(w, "a-0")
		w.Want("pods", images(w), []string{"a-0=two", "a-1=two"})
		w.Pass(time.Minute)
		s.called()
		w.Delete(secrets, "one")
		w.Want("no revision needs it", len(s.called()), 0)
	})
}

// Rules: HK-64, HK-69
func TestARuleThatCannotBeFollowedFailsItsParentAlone(t *testing.T) {
	s := customizing(2)
	story(t, s, func(w *env) {
		w.Create("fine", rules(webSecrets))
		w.Create("a", rules(`{"apiVersion":"example.com/v1","resource":"widgets"}`))
		w.Want("status of another", seen(w, "fine"), "Secret.v1:")
		w.Want("note", note(w, "SyncError"), "answer of the customize hook: relatedResources[0]: the server has no "+
			"resource widgets in example.com/v1: did you mean gadgets?")
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
