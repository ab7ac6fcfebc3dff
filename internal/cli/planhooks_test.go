package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"skiff/internal/runtime/kube"
)

// failingHook has two children for the parent site, and fails for it in a dry run.
const failingHook = `#!/bin/sh
if ! grep -q '"name":"site"'; then
  echo '{"children":[]}'
elif [ "$SKIFF_DRY_RUN" = 1 ]; then
  echo x >> "$(dirname "$0")/calls"
  echo "KeyError: 'replicas'" >&2
  exit 1
else
  echo '{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"blue"}},
    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"green"}}]}'
fi
`

var blueGreens = kube.Resource{Group: "example.com", Version: "v1", Plural: "bluegreendeployments",
	Kind: "BlueGreenDeployment"}

// Rules: PL-01, PL-03, PL-16
func TestPlanCallsAHookOnceAndNamesTheOneThatFails(t *testing.T) {
	c := newPlanCluster(t)
	c.defineKind(blueGreens.Kind, blueGreens.Plural, object{"status": object{}})
	dir := t.TempDir()
	program := filepath.Join(dir, "hook")
	noError(t, os.WriteFile(program, []byte(failingHook), 0o700))
	file := hookFile(t, `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: bluegreen}
spec:
  parentResource: {apiVersion: example.com/v1, resource: bluegreendeployments}
  childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
  generateSelector: true
  hooks: {sync: {exec: {command: [`+program+`]}}}
`)
	c.create(namespaces, "", named("shop", nil))
	c.create(blueGreens, "shop", named("site", nil))
	for i := range 13 {
		c.create(blueGreens, "shop", named(fmt.Sprint("other", i), nil))
	}
	f := runHooks(c, file)
	f.Await("all statuses are written", func() bool { return c.settled(blueGreens) })
	f.Stop()
	c.want(1, `BlueGreenDeployment shop/site
  ! hook sync (`+program+`): exit status 1: KeyError: 'replicas'
      its 2 children were not planned
Plan: 0 to create, 0 to change, 0 to delete, 1 blocked. 1 of 14 objects could not be planned.
`, "--controllers", "bluegreen", "--hooks", file)
	if calls := string(must(os.ReadFile(filepath.Join(dir, "calls")))(t)); calls != "x\n" {
		t.Errorf("the hook was called %q", calls)
	}
}

// What a customize hook names is listed before the sync hook is called.
//
// Rules: PL-07, PL-16
func TestPlanListsWhatACustomizeHookNames(t *testing.T) {
	c := newPlanCluster(t)
	c.define(object{"status": object{}})
	program := filepath.Join(t.TempDir(), "hook")
	noError(t, os.WriteFile(program, []byte(`#!/bin/sh
if [ "$SKIFF_HOOK" = customize ]; then
  echo '{"relatedResources":[{"apiVersion":"v1","resource":"configmaps","namespace":"default","names":["seen"]}]}'
elif grep -q '"name":"seen"'; then
  echo '{"children":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"made"}}]}'
else
  exit 1
fi
`), 0o700))
	file := hookFile(t, `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: c}
spec:
  parentResource: {apiVersion: example.com/v1, resource: things}
  childResources: [{apiVersion: v1, resource: secrets}]
  generateSelector: true
  hooks: {sync: {exec: {command: [`+program+`]}}, customize: {exec: {command: [`+program+`]}}}
`)
	c.create(configMaps, "default", named("seen", nil))
	c.create(thingsResource, "default", named("a", nil))
	c.want(ExitDiffer, `Thing default/a
  + Secret made
Plan: 1 to create, 0 to change, 0 to delete, 0 blocked.
`, "--hooks", file)
}

// updatingHook has children of five kinds, all with the text of their parent.
const updatingHook = `#!/bin/sh
text=$(grep -o '"text":"[a-z]*"' | head -n 1 | cut -d '"' -f 4)
meta() { echo '"metadata":{"name":"'$1'"}'; }
spec='{"containers":[{"name":"c","image":"'$text'"}]}'
template='"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":'$spec'}'
cat <<END
{"children":[
 {"apiVersion":"apps/v1","kind":"Deployment",$(meta in-place),"spec":{"replicas":2,$template}},
 {"apiVersion":"apps/v1","kind":"StatefulSet",$(meta recreate),"spec":{$template}},
 {"apiVersion":"v1","kind":"Service",$(meta on-delete),"spec":{"selector":{"a":"$text"},"ports":[{"port":80}]}},
 {"apiVersion":"v1","kind":"ConfigMap",$(meta rolling-0),"data":{"value":"$text"}},
 {"apiVersion":"v1","kind":"ConfigMap",$(meta rolling-1),"data":{"value":"$text"}},
 {"apiVersion":"v1","kind":"Pod",$(meta rolling-recreate-0),"spec":$spec},
 {"apiVersion":"v1","kind":"Pod",$(meta rolling-recreate-1),"spec":$spec}]}
END
`

// Each way of updating a child has its line. A roll is listed whole, although one run changes one child of it.
//
// Rules: PL-12, PL-15, PL-16
func TestPlanShowsEachWayOfUpdatingChildren(t *testing.T) {
	c := newPlanCluster(t)
	skiff(t, "crds", "install", "--hooks", "--server", c.url()).Want(t, ExitDone)
	c.define(object{"status": object{}})
	program := filepath.Join(t.TempDir(), "hook")
	noError(t, os.WriteFile(program, []byte(updatingHook), 0o700))
	file := hookFile(t, `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: c}
spec:
  parentResource: {apiVersion: example.com/v1, resource: things, revisionHistory: {fieldPaths: [spec.text]}}
  childResources:
  - {apiVersion: apps/v1, resource: deployments, updateStrategy: {method: InPlace}}
  - {apiVersion: apps/v1, resource: statefulsets, updateStrategy: {method: Recreate}}
  - {apiVersion: v1, resource: services, updateStrategy: {method: OnDelete}}
  - {apiVersion: v1, resource: configmaps, updateStrategy: {method: RollingInPlace}}
  - {apiVersion: v1, resource: pods, updateStrategy: {method: RollingRecreate}}
  generateSelector: true
  hooks: {sync: {exec: {command: [`+program+`]}}}
`)
	c.create(thingsResource, "default", object{"metadata": object{"name": "a"}, "spec": object{"text": "old"}})
	f := runHooks(c, file)
	pod := kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	f.Await("the children are there", func() bool {
		return len(c.api.List(pod, "")) == 2 && c.settled(thingsResource)
	})
	f.Stop()
	c.patch(thingsResource, "default", "a", object{"spec": object{"text": "new"}})
	c.want(ExitDiffer, `Thing default/a
  ~ Deployment in-place: rolls 2 pods (RollingUpdate, 0 unavailable, 1 extra)
      spec.template.spec.containers[c].image: "old" -> "new"
  -+ StatefulSet recreate: it differs in spec.template.spec.containers[name="c"].image
      spec.template.spec.containers[c].image: "old" -> "new"
  = Service on-delete: it changes when it is deleted (OnDelete)
      spec.selector.a: "old" -> "new"
  ~ ConfigMap rolling-0
      data.value: "old" -> "new"
  ~ ConfigMap rolling-1: when the children before it are updated
      data.value: "old" -> "new"
  -+ Pod rolling-recreate-0: when the children before it are updated
      spec.containers[c].image: "old" -> "new"
  -+ Pod rolling-recreate-1: when the children before it are updated
      spec.containers[c].image: "old" -> "new"
Plan: 3 to create, 3 to change, 3 to delete, 0 blocked. 4 pods roll.
`, "--hooks", file)
	c.patch(thingsResource, "default", "a", object{"metadata": object{"annotations": object{
		"skiff.dev/paused": "true"}}})
	c.want(ExitDone, `Thing default/a
  = is paused: its hook is not called
Plan: 0 to create, 0 to change, 0 to delete, 0 blocked.
`, "--hooks", file)
}

// Rules: HK-83, PL-15
func TestPlanNamesTheFieldsThatTheServerDoesNotKnow(t *testing.T) {
	c := newPlanCluster(t)
	c.define(object{"status": object{}})
	program := filepath.Join(t.TempDir(), "hook")
	noError(t, os.WriteFile(program, []byte(`#!/bin/sh
echo '{"children":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"made"},"dataa":{},"data":{"a":"1"}}]}'
`), 0o700))
	file := hookFile(t, `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: c}
spec:
  parentResource: {apiVersion: example.com/v1, resource: things}
  childResources: [{apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}]
  generateSelector: true
  hooks: {sync: {exec: {command: [`+program+`]}}}
`)
	c.create(thingsResource, "default", named("a", nil))
	c.want(4, `Thing default/a
  ! the server does not know these fields of ConfigMap, and skiff leaves them out: dataa
      next: correct the hook, or the definition
  + ConfigMap made
      data.a: "1"
Plan: 1 to create, 0 to change, 0 to delete, 1 blocked.
`, "--hooks", file)
	f := runHooks(c, file)
	f.Await("the child is made", func() bool { return c.settled(thingsResource) })
	f.Stop()
	c.want(4, `Thing default/a
  ! the server does not know these fields of ConfigMap, and skiff leaves them out: dataa
      next: correct the hook, or the definition
Plan: 0 to create, 0 to change, 0 to delete, 1 blocked.
`, "--hooks", file)
}
