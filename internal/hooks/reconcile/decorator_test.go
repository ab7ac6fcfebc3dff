package reconcile

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"skiff/internal/hooks/wire"
	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/labels"
)

// attachment answers with one ConfigMap, of a name.
func attachment(name string) hookFunc {
	return func(hook wire.Hook, request map[string]any) (string, error) {
		if at(request, "finalizing") == true {
			return `{"finalized":true}`, nil
		}
		return `{"attachments":[` + configMap(name, "", "") + `],"children":[` + configMap(name, "", "") + `]}`, nil
	}
}

// Rules: HK-18, HK-38, HK-61
func TestTwoDecoratorsAndACompositeControllerHaveOneParent(t *testing.T) {
	var mu sync.Mutex      // guards of
	of := map[string]any{} // what each controller has seen
	seeing := func(name string) hookFunc {
		return func(hook wire.Hook, request map[string]any) (string, error) {
			children := request["attachments"]
			if children == nil {
				children = request["children"]
			}
			seen, _ := at(children, "ConfigMap.v1").(map[string]any)
			mu.Lock()
			defer mu.Unlock()
			for child := range seen {
				if child != name {
					t.Errorf("%s sees %s", name, child)
				}
				of[name] = child
			}
			return attachment(name)(hook, request)
		}
	}
	s := composite(seeing("composite"))
	story(t, s, func(w *env) {
		for _, name := range []string{"one", "two"} {
			d := decorator(name, things, seeing(name))
			d.hook = seeing(name)
			beside(w, d)
		}
		w.Create("a", `{}`)
		w.Pass(time.Minute)
		w.Want("children", names(w, configMaps), []string{"composite", "one", "two"})
		w.Patch(things, "a", `{"metadata":{"labels":{"touched":"1"}}}`)
		w.Pass(time.Minute)
		w.Want("seen", of, map[string]any{"composite": "composite", "one": "one", "two": "two"})
		w.Want("annotation", at(get(w, configMaps, "two"), "metadata", "annotations", DecoratorAnnotation), "two")
		w.Patch(configMaps, "two", `{"metadata":{"annotations":{"`+DecoratorAnnotation+`":null}}}`)
		w.Pass(time.Minute)
		w.Want("children", names(w, configMaps), []string{"composite", "one", "two"})
	})
}

// Rules: HK-61
func TestADecoratorAdoptsNothing(t *testing.T) {
	s := decorator("d", things, attachment("x"))
	story(t, s, func(w *env) {
		w.Create("a", `{}`)
		w.Want("owner", ownerOf(w, "x"), "a")
		w.Patch(configMaps, "x", `{"metadata":{"ownerReferences":null},"data":{"whose":"mine"}}`) // orphaned
		w.Pass(time.Minute)
		w.Want("owner", ownerOf(w, "x"), nil)
		w.Want("Events", w.EventLines("a"), []string{"Normal CreateConfigMap ConfigMap/x",
			"Warning NameTaken ConfigMap/x"})
	})
}

// Rules: HK-14, HK-17, HK-49, HK-51
func TestADecoratorOfPodsMakesServicesForThoseThatAreSelected(t *testing.T) {
	s := decorator("service-per-pod", pods, func(hook wire.Hook, request map[string]any) (string, error) {
		if hook == wire.Finalize {
			return `{"finalized":true,"labels":{"pod-name":null}}`, nil
		}
		name := at(request, "object", "metadata", "name")
		return fmt.Sprintf(`{"labels":{"pod-name":%q},"annotations":{"temporary":null},"attachments":[{"apiVersion":"v1",
			"kind":"Service","metadata":{"name":%[1]q},"spec":{"selector":{"pod-name":%[1]q},"ports":[{"port":80}]}}]}`,
			name), nil
	})
	s.controller.Children = nil
	s.kind(services, "InPlace").finalizing()
	s.controller.Parents[0].Labels = labels.Requirements{{Key: "app", Operator: "Exists"}}
	s.controller.Parents[0].Annotations = labels.Requirements{{Key: "service-per-pod", Operator: "Exists"}}
	story(t, s, func(w *env) {
		pod := func(name, metadata string) {
			w.Post(pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"`+name+`",`+metadata+`},
				"spec":{"containers":[{"name":"c","image":"i"}]}}`)
		}
		pod("a", `"labels":{"app":"web","mine":"1"},"annotations":{"service-per-pod":"x","temporary":"1"}`)
		pod("b", `"labels":{"app":"web"}`)
		pod("c", `"annotations":{"service-per-pod":"x"}`)
		w.Pass(time.Minute)
		w.Want("services", names(w, services), []string{"a", "kubernetes"})
		w.Want("labels", at(get(w, pods, "a"), "metadata", "labels"),
			map[string]any{"app": "web", "mine": "1", "pod-name": "a"})
		w.Want("annotations", at(get(w, pods, "a"), "metadata", "annotations"), map[string]any{"service-per-pod": "x"})
		w.Want("finalizers", finalizers(w, pods, "a"), []any{"metacontroller.io/decoratorcontroller-service-per-pod"})
		w.Want("status", at(get(w, pods, "a"), "status", "observedGeneration"), nil)
		w.WantRequests("PATCH pods/a 200", "PATCH pods/a 200", "POST services 201")
		w.Forget()
		w.Pass(time.Hour)
		w.WantRequests()
		w.Patch(pods, "a", `{"metadata":{"annotations":null}}`)
		w.WantRequests("PATCH pods/a 200", "DELETE services/a 200", "PATCH pods/a 200")
		w.Want("labels", at(get(w, pods, "a"), "metadata", "labels"), map[string]any{"app": "web", "mine": "1"})
		w.Want("finalizers", finalizers(w, pods, "a"), nil)
	})
}

// Rules: HK-49
func TestADecoratorReplacesAStatusOnlyWhereItSaysOne(t *testing.T) {
	for _, parent := range []kube.Resource{things, gadgets} {
		t.Run(parent.Kind, func(t *testing.T) {
			s := decorator("d", parent, func(_ wire.Hook, request map[string]any) (string, error) {
				if text, _ := at(request, "object", "spec", "answer").(string); text != "" {
					return text, nil
				}
				return `{}`, nil
			})
			story(t, s, func(w *env) {
				w.Create("a", `{}`)
				w.Pass(time.Second)
				w.WantRequests()
				setAnswer(w, parent, "a", `{"status":{"kept":"1"}}`)
				w.Want("status", at(get(w, parent, "a"), "status", "kept"), "1")
				w.Want("status", at(get(w, parent, "a"), "status", "observedGeneration"), nil)
				want := "JSONPATCH things/a/status 200"
				if parent == gadgets {
					want = "JSONPATCH gadgets/a 200"
				}
				w.WantRequests(want)
				w.Forget()
				setAnswer(w, parent, "a", `{"status":null}`)
				w.Pass(time.Hour)
				w.WantRequests()
				w.Want("status", at(get(w, parent, "a"), "status", "kept"), "1")
			})
		})
	}
}

// Rules: HK-48
func TestAStatusOfWhichTheServerDropsAFieldAndDefaultsAnotherIsWrittenOnce(t *testing.T) {
	s := decorator("d", gadgets, func(wire.Hook, map[string]any) (string, error) {
		return `{"status":{"kept":"1","dropped":"2"}}`, nil
	})
	story(t, s, func(w *env) {
		w.Create("a", `{}`)
		w.Pass(time.Hour)
		w.WantRequests("JSONPATCH gadgets/a 200")
		w.Want("status", at(get(w, gadgets, "a"), "status"), map[string]any{"kept": "1", "defaulted": "by the server"})
		w.Patch(gadgets, "a", `{"status":{"kept":"changed"}}`)
		w.Want("status", at(get(w, gadgets, "a"), "status", "kept"), "1")
	})
}

// The Event about an Event would be a parent, too.
//
// Rules: HK-14, HK-29
func TestADecoratorOfEventsMakesNoEvents(t *testing.T) {
	s := decorator("noter", eventKind, func(wire.Hook, map[string]any) (string, error) { return "", errors.New("no") })
	story(t, s, func(w *env) {
		w.Post(eventKind, `{"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},"reason":"r","message":"m",
			"type":"Normal","involvedObject":{"kind":"Pod","name":"p","namespace":"default"}}`)
		w.Pass(10 * time.Minute)
		w.Want("events", names(w, eventKind), []string{"e"})
		w.Want("the hook is called", len(s.called()) > 3, true)
	})
}
