package schema

import (
	"os"
	"strings"
	"testing"

	"skiff/internal/testcluster/apiserver/features"
)

// A name that is wrong in the table would drop nothing.
func TestEachFieldOfTheTableOfVersionsIsOne(t *testing.T) {
	text, err := os.ReadFile("../features/versions.txt")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]*Type{}
	for line := range strings.Lines(table) {
		if words := strings.Fields(line); len(words) == 3 && line[0] != '#' {
			collect(For(words[0], words[1]), types)
		}
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) < 3:
		case words[0] == "drops", words[0] == "field":
			for _, name := range words[3:] {
				if of := types[words[2]]; of == nil || of.Fields[name].Value == nil {
					t.Errorf("%s: no such type, or no field %s", strings.TrimSpace(line), name)
				}
			}
		case words[0] == "kind" && For(words[2], words[3]) == nil:
			t.Errorf("%s: no such kind", strings.TrimSpace(line))
		}
	}
	old, err := features.New("1.32", "")
	if err != nil || In(old, "storage.k8s.io/v1", "VolumeAttributesClass") != nil {
		t.Errorf("1.32 has VolumeAttributesClasses (%v)", err)
	}
}

func collect(t *Type, types map[string]*Type) {
	if t == nil || types[t.Name] != nil {
		return
	}
	types[t.Name] = t
	for _, f := range t.Fields {
		collect(f.within(), types)
	}
}
