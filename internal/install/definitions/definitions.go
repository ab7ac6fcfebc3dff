// Package definitions installs skiff's custom resource definitions in a cluster, and compares them with those that are
// there. Which fields a running skiff misses is package check's matter. It runs on the caller's goroutine, and is not
// on the way of an event.
package definitions

import (
	"fmt"

	"gopkg.in/yaml.v3"

	"skiff/crds"
	"skiff/internal/runtime/kube"
)

// fieldManager is skiff's name in managedFields.
const fieldManager = "skiff"

var resource = kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
	Kind: "CustomResourceDefinition", ClusterScoped: true}

// Definition is one of the embedded definitions.
type Definition struct {
	Name    string
	Text    string         // YAML, with its comments
	Object  map[string]any // the same, parsed
	Defines kube.Resource  // in its first version

	versions []string // which it has
}

// All parses the embedded definitions.
func All() ([]Definition, error) {
	var out []Definition
	for _, text := range crds.All() {
		d := Definition{Text: string(text)}
		var parts struct {
			Metadata struct{ Name string }
			Spec     struct {
				Group    string
				Names    struct{ Plural, Kind string }
				Versions []struct{ Name string }
			}
		}
		if err := yaml.Unmarshal(text, &d.Object); err != nil {
			return nil, fmt.Errorf("parse embedded CRD: %w", err)
		}
		if err := yaml.Unmarshal(text, &parts); err != nil {
			return nil, fmt.Errorf("parse embedded CRD: %w", err)
		}
		d.Name = parts.Metadata.Name
		for _, v := range parts.Spec.Versions {
			d.versions = append(d.versions, v.Name)
		}
		r := kube.Resource{Group: parts.Spec.Group, Plural: parts.Spec.Names.Plural, Kind: parts.Spec.Names.Kind}
		if d.Name == "" || r.Group == "" || r.Plural == "" || r.Kind == "" || len(d.versions) == 0 {
			return nil, fmt.Errorf("parse embedded CRD %q: its name, group, names or versions are missing", d.Name)
		}
		r.Version = d.versions[0]
		d.Defines = r
		out = append(out, d)
	}
	return out, nil
}
