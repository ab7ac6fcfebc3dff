// Package definitions installs skiff's custom resource definitions, and those of hook controllers, in a cluster, and
// compares them with those that are there. Which fields a running skiff misses is package check's matter. It runs on
// the caller's goroutine, and is not on the way of an event.
package definitions

import (
	"encoding/json"
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"

	"skiff/crds"
	"skiff/internal/runtime/kube"
)

// fieldManager is skiff's name in managedFields.
const fieldManager = "skiff"

// Resource is that of custom resource definitions.
var Resource = kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
	Kind: "CustomResourceDefinition", ClusterScoped: true}

// Definition is one of the embedded definitions.
type Definition struct {
	Name     string
	Text     string         // YAML, with its comments
	Object   map[string]any // the same, parsed
	Defines  kube.Resource  // in its first version
	Versions []Version
}

// Version is one in which a definition has its objects.
type Version struct {
	Name   string `json:"name"`
	Schema struct {
		Fields map[string]any `json:"openAPIV3Schema"`
	} `json:"schema"`
}

// All are skiff's own definitions.
func All() ([]Definition, error) { return parse(crds.All()) }

// Hooks are those of hook controllers.
func Hooks() ([]Definition, error) { return parse(crds.Hooks()) }

func parse(texts [][]byte) ([]Definition, error) {
	var out []Definition
	for _, text := range texts {
		d := Definition{Text: string(text)}
		var parts struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Spec struct {
				Group string `json:"group"`
				Names struct {
					Plural string `json:"plural"`
					Kind   string `json:"kind"`
				} `json:"names"`
				Versions []Version `json:"versions"`
			} `json:"spec"`
		}
		err := yaml.Unmarshal(text, &d.Object)
		if err == nil {
			err = decode(d.Object, &parts)
		}
		if err != nil {
			return nil, fmt.Errorf("parse embedded CRD: %w", err)
		}
		d.Name, d.Versions = parts.Metadata.Name, parts.Spec.Versions
		d.Defines = kube.Resource{Group: parts.Spec.Group, Plural: parts.Spec.Names.Plural,
			Kind: parts.Spec.Names.Kind}
		if d.Name == "" || d.Defines.Group == "" || d.Defines.Plural == "" || d.Defines.Kind == "" ||
			len(d.Versions) == 0 {
			return nil, fmt.Errorf("parse embedded CRD %q: its name, group, names or versions are missing", d.Name)
		}
		d.Defines.Version = d.Versions[0].Name
		out = append(out, d)
	}
	return out, nil
}

// decode reads an object into what into points at.
func decode(object map[string]any, into any) error {
	body, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	return err
}

// State is what is read of a definition in a cluster.
type State struct {
	kube.Meta `json:"metadata"`
	Status    Status `json:"status"`
}

// Status is how far the server is with a definition.
type Status struct {
	StoredVersions []string `json:"storedVersions"`
	Conditions     []struct {
		Type    string `json:"type"`
		Status  string `json:"status"`
		Message string `json:"message"`
	} `json:"conditions"`
}

// Unknown returns a version in which objects may be stored in the cluster and that d does not have, or "".
func (d Definition) Unknown(live Status) string {
	for _, stored := range live.StoredVersions {
		if !slices.ContainsFunc(d.Versions, func(v Version) bool { return v.Name == stored }) {
			return stored
		}
	}
	return ""
}
