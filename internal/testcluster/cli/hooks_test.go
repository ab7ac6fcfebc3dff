package cli

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestHooksReadsTheObjectsBesideTheControllersAndTheExamples(t *testing.T) {
	const (
		crd        = "{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1, metadata: {name: d}}"
		controller = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: c}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: things}
  hooks: {sync: {exec: {command: ["true"]}}}
`
		example = "{kind: Thing, apiVersion: example.com/v1, metadata: {name: e}}"
	)
	for name, files := range map[string]map[string]string{
		"flat": {"c.yaml": controller, "crd.yaml": crd, "e.yaml": example},
		"in sub-directories": {"hook/c.yaml": controller, "crd.yaml": crd, "example/e.yaml": example,
			"test/want.yaml": example},
	} {
		f, cmd := hooksFlags{dir: writeFiles(t, files)}, new(cobra.Command)
		f.hooks.Add(cmd)
		if err := f.hooks.Read(cmd, f.dir); err != nil {
			t.Fatal(err)
		}
		found, err := f.read()
		if err != nil || len(found.definitions) != 1 || len(found.examples) != 1 ||
			!slices.Equal(f.hooks.Names(), []string{"c"}) {
			t.Errorf("%s: %v, controllers %q, %+v", name, err, f.hooks.Names(), found)
		}
		before := f.state()
		for file := range files {
			if err := os.Chtimes(filepath.Join(f.dir, file), time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			after := f.state()
			if follows := filepath.Dir(file) != "test"; follows != (after != before) {
				t.Errorf("%s: a change of %s is followed: %t", name, file, after != before)
			}
			before = after
		}
	}
}
