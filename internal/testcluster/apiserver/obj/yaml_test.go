package obj

import (
	"testing"

	"skiff/internal/runtime/patch"
)

// What is read from YAML can be stored as JSON, and is the same afterwards.
func FuzzYAML(f *testing.F) {
	for _, text := range []string{"a: {b: [1, 1.5, 0x1F, 1e3, ~, yes, 2001-01-01]}\n? x\n: |-\n  text\n",
		"a: .inf\nb: .nan\n",
		"a: &x [1]\nb: *x\n", "a: 1\na: 2\n<<: {c: 3}\n", "!!binary aGk=: !!str 1\n", "\"\\ud800\": \"\\x80\"\n",
		`{"a":[true,null,9223372036854775808,-0,1E400]}`, "--- a\n--- b\n", "[[[[[[", "a: !!int 'x'\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, _, err := DecodeYAML(text)
		if err != nil {
			return
		}
		stored, err := patch.Encode(v)
		if err != nil {
			t.Fatalf("%q is %#v, which cannot be stored: %v", text, v, err)
		}
		if again, err := patch.Decode(stored); err != nil || !patch.Equal(again, v) {
			t.Errorf("%q is %#v, but %#v when it is read again: %v", text, v, again, err)
		}
	})
}
