package webhook

import (
	"encoding/json"
	"fmt"
	"strings"

	"skiff/internal/fakeapi/obj"
	"skiff/internal/patch"
)

// Decode decodes an answer, a review of a group and kind, which may say neither. The errors are those of the real
// server, which reads YAML, too.
func Decode(body []byte, group, kind string, into any) error {
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
	is, version, _ := strings.Cut(typed.APIVersion, "/")
	if known := is == group && (version == "v1" || version == "v1beta1"); typed.APIVersion != "" && typed.Kind != "" &&
		!(known && typed.Kind == kind) {
		return fmt.Errorf("no kind %q is registered for version %q in scheme %q", typed.Kind, typed.APIVersion,
			"pkg/runtime/scheme.go:111")
	}
	return json.Unmarshal(body, into)
}

// GroupVersion prints an apiVersion as the real server prints its parts.
func GroupVersion(apiVersion string) string {
	if apiVersion == "" {
		return "/"
	}
	return apiVersion
}
