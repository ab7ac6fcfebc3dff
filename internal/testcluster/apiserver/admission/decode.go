package admission

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
)

// reviewKind is the group and kind of reviews.
type reviewKind struct{ Group, Kind string }

// Decode decodes an answer, which may not say what it is. The errors are those of the real server, which reads YAML,
// too.
func (k reviewKind) Decode(body []byte, into any) error {
	if !json.Valid(body) {
		if v, _, err := obj.DecodeYAML(body); err == nil {
			if body, err = patch.Encode(v); err != nil {
				return err
			}
		}
	}
	var typed struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if err := json.Unmarshal(body, &typed); err != nil {
		return fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	group, version, _ := strings.Cut(typed.APIVersion, "/")
	known := group == k.Group && (version == "v1" || version == "v1beta1") && typed.Kind == k.Kind
	if typed.APIVersion != "" && typed.Kind != "" && !known {
		return fmt.Errorf("no kind %q is registered for version %q in scheme %q", typed.Kind, typed.APIVersion,
			"pkg/runtime/scheme.go:111")
	}
	return json.Unmarshal(body, into)
}

// Other is the error about an answer that is no review of version v1, nil for one that is.
func (k reviewKind) Other(apiVersion, kind string) error {
	if apiVersion == k.Group+"/v1" && kind == k.Kind {
		return nil
	}
	return fmt.Errorf("expected webhook response of %s/v1, Kind=%s, got %s, Kind=%s", k.Group, k.Kind,
		groupVersion(apiVersion), kind)
}

// groupVersion prints an apiVersion as the real server prints its parts.
func groupVersion(apiVersion string) string { return cmp.Or(apiVersion, "/") }
