package webserver

import (
	"encoding/json"
	"testing"

	"gopkg.in/yaml.v3"
)

// What the live page shows where there is no object.
func TestTheExampleDeclaresChildren(t *testing.T) {
	var object map[string]any
	if err := yaml.Unmarshal([]byte(definition.Example), &object); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if marks, err := definition.Marks(raw); err != nil || len(marks) == 0 || object["kind"] != resource.Kind {
		t.Errorf("%v: %v", marks, err)
	}
}
