package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"skiff/internal/runtime/kube"
	"skiff/internal/runtime/patch"
)

// The states of a Definition. All but Installed are something missing.
const (
	Installed      = "installed"
	NotInstalled   = "not installed"
	NotEstablished = "not established"
	Differs        = "differs"
)

// Definition is how a custom resource definition is in the cluster.
type Definition struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Detail string `json:"detail"` // what else is known, and the next step
	// Fields says that only the fields were compared: this user may not read definitions.
	Fields bool `json:"onlyFieldsCompared,omitempty"`
}

var crdResource = kube.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions",
	Kind: "CustomResourceDefinition", ClusterScoped: true}

type crdVersion struct {
	Name   string `json:"name"`
	Schema struct {
		Fields map[string]any `json:"openAPIV3Schema"`
	} `json:"schema"`
}

// crd is what is read of a CRD.
type crd struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Plural string `json:"plural"`
			Kind   string `json:"kind"`
		} `json:"names"`
		Versions []crdVersion `json:"versions"`
	} `json:"spec"`
	Status struct {
		StoredVersions []string `json:"storedVersions"`
		Conditions     []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

// unknown returns a version in which objects of the live definition may be stored and that own does not have, or "".
func (own crd) unknown(live crd) string {
	for _, stored := range live.Status.StoredVersions {
		if !slices.ContainsFunc(own.Spec.Versions, func(v crdVersion) bool { return v.Name == stored }) {
			return stored
		}
	}
	return ""
}

// definitions compares the definitions whose resources the rights are about with those in the cluster.
func definitions(ctx context.Context, o Options) ([]Definition, error) {
	out := []Definition{}
	for _, object := range o.Definitions {
		var own crd
		want, err := decode(object, &own)
		if err != nil {
			return nil, err
		}
		needed := slices.ContainsFunc(o.Rights, func(r kube.Right) bool {
			return r.Resource.Group == own.Spec.Group && r.Resource.Plural == own.Spec.Names.Plural
		})
		if !needed {
			continue
		}
		d, err := compare(ctx, o.Client, own, want)
		if err != nil {
			return nil, fmt.Errorf("compare the definition %s: %w", own.Metadata.Name, err)
		}
		out = append(out, d)
	}
	return out, nil
}

// decode reads an object into what into points at, and returns it in the form that package patch compares.
func decode(object map[string]any, into any) (map[string]any, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode a definition: %w", err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return nil, fmt.Errorf("decode a definition: %w", err)
	}
	value, err := patch.Decode(body)
	if err != nil {
		return nil, fmt.Errorf("decode a definition: %w", err)
	}
	m, _ := value.(map[string]any)
	return m, nil
}

func compare(ctx context.Context, c *kube.Client, own crd, want map[string]any) (Definition, error) {
	d := Definition{Name: own.Metadata.Name}
	var object map[string]any
	err := c.Get(ctx, crdResource, kube.Key{Name: d.Name}, &object)
	switch {
	case kube.IsForbidden(err):
		return served(ctx, c, own, want)
	case kube.IsNotFound(err):
		d.State, d.Detail = NotInstalled, "run `skiff crds install`"
		return d, nil
	case err != nil:
		return d, err
	}
	var live crd
	if _, err := decode(object, &live); err != nil {
		return d, err
	}
	for _, cond := range live.Status.Conditions {
		if cond.Type == "Established" && cond.Status == "True" {
			d.State = Installed
		} else if cond.Status == "False" && d.State == "" {
			d.Detail = kube.Text(cond.Message)
		}
	}
	if d.State == "" {
		d.State = NotEstablished
		return d, nil
	}
	d.Detail = "the same as in this skiff"
	at, _, err := Differences(map[string]any{"spec": want["spec"]}, object)
	if err != nil {
		return d, err
	}
	if len(at) > 0 {
		d.State = Differs
		d.Detail = "from that of this skiff in " + at[0] + "; `skiff crds diff` shows all, `skiff crds install` " +
			"updates it"
	}
	if version := own.unknown(live); version != "" { // `skiff crds install` would refuse
		d.State = Differs
		d.Detail = "from that of this skiff: objects may be stored as " + kube.Text(version) + ", which it does not " +
			"define; use a skiff that defines it"
	}
	return d, nil
}

// served answers from discovery, which all users may read, for those who may not read definitions.
func served(ctx context.Context, c *kube.Client, own crd, object map[string]any) (Definition, error) {
	d := Definition{Name: own.Metadata.Name, State: NotInstalled, Detail: "run `skiff crds install`"}
	if len(own.Spec.Versions) == 0 {
		return d, errors.New("it has no version")
	}
	r := kube.Resource{Group: own.Spec.Group, Version: own.Spec.Versions[0].Name, Plural: own.Spec.Names.Plural}
	body, err := c.Raw(ctx, http.MethodGet, r.Root(), nil)
	if err != nil && !kube.IsNotFound(err) {
		return d, err
	}
	type resource struct {
		Name string `json:"name"`
	}
	var list struct {
		Resources []resource `json:"resources"`
	}
	if err == nil {
		if err := json.Unmarshal(body, &list); err != nil {
			return d, fmt.Errorf("decode the answer: %w", err)
		}
	}
	if !slices.ContainsFunc(list.Resources, func(r resource) bool { return r.Name == own.Spec.Names.Plural }) {
		if other := c.OtherVersions(ctx, r); len(other) > 0 {
			d.State, d.Fields = Differs, true
			d.Detail = fmt.Sprintf("served as %s, and this skiff needs %s; run the skiff that this definition "+
				"belongs to, or have an administrator run `skiff crds install`", strings.Join(other, ", "), r.Version)
		}
		return d, nil
	}
	fields, err := Lacking(ctx, c, object)
	if err != nil {
		return d, err
	}
	d.State, d.Fields = Installed, true
	d.Detail = "with all fields of this skiff; validation not compared: this user may not get " +
		crdResource.Plural
	if fields != "" {
		d.State, d.Detail = Differs, "without the fields "+fields+"; an administrator runs `skiff crds install`"
	}
	return d, nil
}

// definitionNode matches versions by their names: others may serve more of them.
var definitionNode = &patch.Node{Fields: map[string]*patch.Node{"spec": {Fields: map[string]*patch.Node{
	"versions": {List: patch.ListMap, Keys: []string{"name"}}}}}}

// maxDifferences bounds the paths that are named of one definition.
const maxDifferences = 20

// Differences returns the fields of a definition that another has not, or has with another value: the paths of the
// first ones, and how many there are. What the server sets is left out.
func Differences(want, have map[string]any) (paths []string, count int, err error) {
	for _, object := range []*map[string]any{&want, &have} {
		if *object, err = decode(*object, new(crd)); err != nil {
			return nil, 0, err
		}
		declared(*object)
	}
	paths, count = patch.Differences(definitionNode, want, have, maxDifferences)
	return paths, count, nil
}

// declared leaves of a definition what is declared in it.
func declared(object map[string]any) {
	delete(object, "status")
	if m, ok := object["metadata"].(map[string]any); ok {
		for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"} {
			delete(m, field)
		}
	}
	spec, _ := object["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version, _ := v.(map[string]any)
		subresources, _ := version["subresources"].(map[string]any)
		for name, value := range subresources {
			if m, ok := value.(map[string]any); ok && len(m) == 0 {
				subresources[name] = true // an empty object says something here, and would be covered by none
			}
		}
	}
}
