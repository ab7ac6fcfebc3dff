package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"skiff/internal/kube"
)

const (
	// skewTimeout bounds how long the definitions of the cluster are asked for: nothing waits for it.
	skewTimeout = 30 * time.Second
	// maxLacking bounds the names in one line.
	maxLacking = 10
)

// warnOfSkew logs which fields of this version the definitions in the cluster lack: the server drops them. It reads
// the OpenAPI document, which every user may. What is not installed at all is for the controllers to report.
func warnOfSkew(ctx context.Context, c *kube.Client, log logr.Logger) {
	ctx, cancel := context.WithTimeout(ctx, skewTimeout)
	defer cancel()
	all, err := definitions()
	if err != nil {
		log.Error(err, "cannot read the definitions of this binary")
		return
	}
	for _, d := range all {
		fields, err := lackingFields(ctx, c, d.object)
		switch {
		case err != nil && ctx.Err() != nil && context.Cause(ctx) != context.DeadlineExceeded:
			return // skiff stops
		case err != nil:
			log.V(1).Info("cannot compare a custom resource definition", "name", d.name, "problem", err.Error())
		case len(fields) > 0:
			names := strings.Join(fields[:min(len(fields), maxLacking)], ", ")
			if more := len(fields) - maxLacking; more > 0 {
				names += fmt.Sprintf(" and %d more", more)
			}
			log.Info(warning, "text", "the cluster has an older definition of "+d.name+", and the server drops the "+
				"fields that it lacks; run `skiff crds install`", "fields", names)
		}
	}
}

// lackingFields returns the fields of a definition that the server does not serve, sorted.
func lackingFields(ctx context.Context, c *kube.Client, definition map[string]any) ([]string, error) {
	group, kind := lookup(definition, "spec", "group"), lookup(definition, "spec", "names", "kind")
	versions, _ := lookup(definition, "spec", "versions").([]any)
	var fields []string
	for _, v := range versions {
		version, _ := v.(map[string]any)
		body, err := c.Raw(ctx, http.MethodGet, fmt.Sprintf("/openapi/v3/apis/%v/%v", group, version["name"]), nil)
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
		want, _ := lookup(version, "schema", "openAPIV3Schema").(map[string]any)
		for _, have := range doc.Components.Schemas {
			if isKind(have, group, kind) {
				fields = append(fields, lacking("", want, have)...)
			}
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields), nil
}

// isKind reports whether a schema of an OpenAPI document is that of a kind.
func isKind(schema map[string]any, group, kind any) bool {
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
		path := strings.TrimPrefix(at+"."+name, ".")
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
