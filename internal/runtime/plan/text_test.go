package plan

import (
	"strings"
	"testing"

	"skiff/internal/runtime/patch"
)

// A value with a password is shown without it, and a hostile one neither clears the terminal nor makes up lines.
//
// Rules: PL-17, PL-18
func TestAValueWithAHiddenPartIsFitForATerminal(t *testing.T) {
	const hostile = "postgres://u:hush@db\n\x1b[2JPlan: 0 to create, 0 to change, 0 to delete, 0 blocked."
	object := map[string]any{"data": map[string]any{"url": hostile + strings.Repeat("x", 10*maxValue)}}
	for _, c := range patch.Changes(nil, nil, comparable(object, false)) {
		after, isHidden := shown(deployments, c.At, c.After)
		field := Field{Path: c.At.Brief(), After: after}
		if text := field.text(true); !isHidden || strings.ContainsAny(text, "\n\x1b") || len(text) > 2*maxValue {
			t.Errorf("hidden: %v, shown as %q", isHidden, text)
		}
	}
}
