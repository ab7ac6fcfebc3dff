package kinds

import (
	"testing"
	"time"

	"skiff/internal/runtime/patch"
)

// No path of a column and no object makes the server panic, and what is found can be printed.
func FuzzCustomColumn(f *testing.F) {
	for _, path := range []string{".a.b", ".a[0]['b']", `.a[?(@.type=="Ready")].status`, ".a[*][-1]", "[", ".a[?(@.)]", ".['']"} {
		f.Add(path, `{"a":[{"type":"Ready","status":1},[2]],"":{"b":null}}`)
	}
	f.Fuzz(func(t *testing.T, path, object string) {
		v, err := patch.Decode([]byte(object))
		if o, ok := v.(map[string]any); err == nil && ok {
			for _, kind := range []string{"string", "integer", "number", "boolean", "date"} {
				if _, err := patch.Encode(customCell(path, kind)(o, time.Time{})); err != nil {
					t.Errorf("%s of %s: %v", path, object, err)
				}
			}
		}
	})
}
