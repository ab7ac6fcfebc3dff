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
	c.create(crdResource, "", object{"metadata": object{"name": "bluegreendeployments.example.com"},
		"spec": object{"group": "example.com", "scope": "Namespaced",
			"names":    object{"kind": blueGreens.Kind, "plural": blueGreens.Plural},
			"versions": versionsOfThings(object{"status": object{}})}})
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
  ! hook sync: exit status 1: KeyError: 'replicas'
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
