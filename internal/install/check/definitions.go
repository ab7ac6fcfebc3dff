package check

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"skiff/internal/install/definitions"
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

// Next is what to do about something that is missing. Which command does it is for the caller to say.
type Next int

const (
	NextNone Next = iota
	NextInstall
	NextUpdate       // install a definition that differs
	NextAskInstall   // have an administrator install
	NextAskOrReplace // the same, or run the skiff that the definition is of
	NextPolicy       // install an admission policy, which is optional
	NextUpdatePolicy
	NextBindPolicy    // bind it in the namespaces that are checked
	NextBindPolicyAll // the same where these are all
)

// Definition is how a custom resource definition is in the cluster.
type Definition struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Detail string `json:"detail"` // what else is known; the caller adds the next step
	Next   Next   `json:"-"`
	// Fields says that only the fields were compared: this user may not read definitions.
	Fields bool `json:"onlyFieldsCompared,omitempty"`
}

// compareAll compares the definitions whose resources the rights are about with those in the cluster.
func compareAll(ctx context.Context, o Options) ([]Definition, error) {
	out := []Definition{}
	for _, own := range o.Definitions {
		if !slices.ContainsFunc(o.Rights, func(r kube.Right) bool {
			return r.Resource.Group == own.Defines.Group && r.Resource.Plural == own.Defines.Plural
		}) {
			continue
		}
		d, err := compare(ctx, o.Client, own)
		if err != nil {
			return nil, fmt.Errorf("compare the definition %s: %w", own.Name, err)
		}
		out = append(out, d)
	}
	return out, nil
}

func compare(ctx context.Context, c *kube.Client, own definitions.Definition) (Definition, error) {
	d := Definition{Name: own.Name}
	var object struct {
		Spec   map[string]any     `json:"spec"`
		Status definitions.Status `json:"status"`
	}
	err := c.Get(ctx, definitions.Resource, kube.Key{Name: d.Name}, &object)
	switch {
	case kube.IsForbidden(err):
		return served(ctx, c, own)
	case kube.IsNotFound(err):
		d.State, d.Next = NotInstalled, NextInstall
		return d, nil
	case err != nil:
		return d, err
	}
	for _, cond := range object.Status.Conditions {
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
	at, _, err := definitions.Differences(map[string]any{"spec": own.Object["spec"]},
		map[string]any{"spec": object.Spec})
	if err != nil {
		return d, err
	}
	if len(at) > 0 {
		d.State, d.Next, d.Detail = Differs, NextUpdate, "from that of this skiff in "+at[0]
	}
	if version := own.Unknown(object.Status); version != "" { // which installing would refuse
		d.State, d.Next = Differs, NextNone
		d.Detail = "from that of this skiff: objects may be stored as " + kube.Text(version) + ", which it does not " +
			"define; use a skiff that defines it"
	}
	return d, nil
}

// served answers from discovery, which all users may read, for those who may not read definitions.
func served(ctx context.Context, c *kube.Client, own definitions.Definition) (Definition, error) {
	d := Definition{Name: own.Name, State: NotInstalled, Next: NextInstall}
	r := own.Defines
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
	if !slices.ContainsFunc(list.Resources, func(r resource) bool { return r.Name == own.Defines.Plural }) {
		if other := c.OtherVersions(ctx, r); len(other) > 0 {
			d.State, d.Fields, d.Next = Differs, true, NextAskOrReplace
			d.Detail = fmt.Sprintf("served as %s, and this skiff needs %s", strings.Join(other, ", "), r.Version)
		}
		return d, nil
	}
	fields, err := Lacking(ctx, c, own)
	if err != nil {
		return d, err
	}
	d.State, d.Fields, d.Next = Installed, true, NextNone
	d.Detail = "with all fields of this skiff; validation not compared: this user may not get " +
		definitions.Resource.Plural
	if fields != "" {
		d.State, d.Next, d.Detail = Differs, NextAskInstall, "without the fields "+fields
	}
	return d, nil
}

// maxLacking bounds the names in one line.
const maxLacking = 10

// Lacking returns the fields of a definition that the server does not serve, as text; "" if there are none. It reads
// the OpenAPI document, which every user may.
func Lacking(ctx context.Context, c *kube.Client, own definitions.Definition) (string, error) {
	fields, err := lackingFields(ctx, c, own)
	names := strings.Join(fields[:min(len(fields), maxLacking)], ", ")
	if more := len(fields) - maxLacking; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names, err
}

// lackingFields returns them sorted.
func lackingFields(ctx context.Context, c *kube.Client, own definitions.Definition) ([]string, error) {
	var fields []string
	for _, version := range own.Versions {
		body, err := c.Raw(ctx, http.MethodGet, "/openapi/v3/apis/"+own.Defines.Group+"/"+version.Name, nil)
		if kube.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		var doc struct {
			Components struct {
				Schemas map[string]map[string]any `json:"schemas"`
			} `json:"components"`
		}
		if err := json.Unmarshal(body, &doc); err != nil {
			return nil, fmt.Errorf("decode the OpenAPI document: %w", err)
		}
		for _, have := range doc.Components.Schemas {
			if isKind(have, own.Defines.Group, own.Defines.Kind) {
				fields = append(fields, lacking("", version.Schema.Fields, have)...)
			}
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields), nil
}

// isKind reports whether a schema of an OpenAPI document is that of a kind.
func isKind(schema map[string]any, group, kind string) bool {
	kinds, _ := schema["x-kubernetes-group-version-kind"].([]any)
	return slices.ContainsFunc(kinds, func(k any) bool {
		m, _ := k.(map[string]any)
		return m["group"] == group && m["kind"] == kind
	})
}

// lacking returns the fields of one schema that another does not have.
func lacking(at string, want, have map[string]any) []string {
	if have["x-kubernetes-preserve-unknown-fields"] == true {
		return nil
	}
	var out []string
	fields, _ := want["properties"].(map[string]any)
	served, _ := have["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if at == "" && name == "metadata" {
			continue // the server's own
		}
		path := patch.Join(at, name)
		field, _ := fields[name].(map[string]any)
		if other, ok := served[name].(map[string]any); ok {
			out = append(out, lacking(path, field, other)...)
		} else {
			out = append(out, path)
		}
	}
	for _, word := range []string{"items", "additionalProperties"} {
		field, _ := want[word].(map[string]any)
		if other, ok := have[word].(map[string]any); ok && field != nil {
			out = append(out, lacking(at+"[*]", field, other)...)
		}
	}
	return out
}
