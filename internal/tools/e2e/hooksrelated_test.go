package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// gathererController makes a Deployment, takes in all ConfigMaps with the labels of its parent, and sees Secrets.
const gathererController = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: gatherer}
spec:
  parentResource: {apiVersion: hooks.example.com/v1, resource: gatherers}
  childResources:
  - {apiVersion: apps/v1, resource: deployments, updateStrategy: {method: InPlace}}
  - {apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}
  hooks:
    sync: {webhook: {url: URL}}
    customize: {webhook: {url: RULES}}
`

// gathered is its hook. It declares what it has observed of ConfigMaps, with a field more, and what the parent says of
// a Deployment and its container.
func gathered(r hookRequest) Object {
	deployment := Object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": Object{"name": "web",
		"labels": Object{"app": "web"}}, "spec": copiedSpec()}
	spec, _ := deployment["spec"].(Object)
	more, _ := r.Parent.At("spec", "more").(map[string]any)
	maps.Copy(spec, more)
	children := []any{deployment}
	for _, name := range slices.Sorted(maps.Keys(r.Children["ConfigMap.v1"])) {
		o := r.Children["ConfigMap.v1"][name]
		o["data"] = Object{"gathered": "yes"}
		children = append(children, o)
	}
	seen := strings.Join(slices.Sorted(maps.Keys(r.Related["Secret.v1"])), ",")
	return Object{"status": Object{"secrets": seen}, "children": children}
}

// Rules: HK-19, HK-47, HK-59, HK-60, HK-64, HK-71, HK-83, HK-108
func TestAHookAdoptsSeesRelatedObjectsAndDeclaresFieldsThatTheServerDoesNotKnow(t *testing.T) {
	s := newScope(t)
	installHookDefinitions(t, s, "gatherer", "Gatherer")
	rules := serveHook(t, func(hookRequest) Object {
		return Object{"relatedResources": []any{Object{"apiVersion": "v1", "resource": "secrets",
			"labelSelector": Object{"matchLabels": Object{"app": "web"}}}}}
	})
	s.Apply(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"orphan","labels":{"app":"web"}},
		"data":{"mine":"kept"}}`)
	sk := startHooks(t, s, strings.NewReplacer("URL", serveHook(t, gathered), "RULES", rules).
		Replace(gathererController), "--related", "secrets")
	waitReady(t, sk)
	path := "/apis/hooks.example.com/v1/namespaces/" + s.NS + "/gatherers/a"
	s.Apply(`{"apiVersion":"hooks.example.com/v1","kind":"Gatherer","metadata":{"name":"a"},
		"spec":{"selector":{"matchLabels":{"app":"web"}},"more":{"colour":"red","size":3}}}`)
	uid := s.get(path).UID()
	configMap := "/api/v1/namespaces/" + s.NS + "/configmaps/orphan"
	Eventually(t, limit, "an orphan is adopted", func() (bool, string) {
		o := s.get(configMap)
		owners := o.List("metadata", "ownerReferences")
		return len(owners) == 1 && owners[0].Str("uid") == uid && o.Str("data", "gathered") == "yes" &&
			o.Str("data", "mine") == "kept", o.String()
	})
	Eventually(t, limit, "the Deployment is made without the fields that the server does not know",
		func() (bool, string) {
			d := s.Deployment("web")
			return d.Str("metadata", "name") == "web", d.String()
		})
	made := s.Deployment("web").UID()
	s.Merge(path, `{"spec":{"more":{"shape":"round","smell":"none","minReadySeconds":1}}}`)
	Eventually(t, limit, "an apply leaves them out, too", func() (bool, string) {
		d := s.Deployment("web")
		return d.Int("spec", "minReadySeconds") == 1 && d.UID() == made, d.String()
	})
	s.Apply(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","labels":{"app":"web"}}}`)
	Eventually(t, limit, "a related object is seen", func() (bool, string) {
		return s.get(path).Str("status", "secrets") == "s", s.get(path).String()
	})
	s.Merge(configMap, `{"metadata":{"labels":{"app":"other"}}}`)
	Eventually(t, limit, "a child whose labels do not fit any more is released", func() (bool, string) {
		o := s.get(configMap)
		return len(o.List("metadata", "ownerReferences")) == 0, o.String()
	})
	Eventually(t, limit, "the Events name the fields", func() (bool, string) {
		var notes []string
		for _, e := range s.get("/apis/events.k8s.io/v1/namespaces/" + s.NS + "/events").List("items") {
			if e.Str("reason") == "UnknownFields" {
				notes = append(notes, e.Str("note"))
			}
		}
		all := fmt.Sprint(notes)
		return strings.Contains(all, "spec.colour") && strings.Contains(all, "spec.shape"), all
	})
	noForbidden(s, sk.Log())
}
