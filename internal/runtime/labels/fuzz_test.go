package labels

import (
	"testing"

	"skiff/internal/runtime/kube"
)

// A selector that is read and checked prints as one that selects the same.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"a=b", "a in (b,c),!d", "a notin (x), b!=c", "a==b,", " ( ", "a in ()", "x/y=z"} {
		f.Add(text, "b")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		requirements := s.Requirements()
		if requirements.Check() != nil {
			return
		}
		again, err := Parse(requirements.String())
		if err != nil {
			t.Fatalf("%q prints as %q: %v", text, requirements, err)
		}
		for _, set := range []kube.Labels{nil, ParseSet("a=" + value), ParseSet("d=" + value)} {
			if requirements.Match(set) != again.Requirements().Match(set) {
				t.Errorf("%q and %q differ about %v", text, requirements, set)
			}
		}
	})
}
