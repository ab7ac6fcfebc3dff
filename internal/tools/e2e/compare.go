package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Difference is one place where two trees differ.
type Difference struct {
	Path       string // such as Body.metadata.labels.app or Events.0.type
	Real, Fake string
}

func (d Difference) String() string {
	return fmt.Sprintf("%s\n      real: %s\n      fake: %s", d.Path, d.Real, d.Fake)
}

// Compare lists the differences of two normalised answers, in a stable order.
func Compare(path string, real, fake any) []Difference {
	join := func(step string) string { return strings.TrimPrefix(path+"."+step, ".") }
	switch r := real.(type) {
	case map[string]any:
		f, ok := fake.(map[string]any)
		if !ok {
			break
		}
		keys := map[string]bool{}
		for k := range r {
			keys[k] = true
		}
		for k := range f {
			keys[k] = true
		}
		var out []Difference
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			rv, inReal := r[k]
			fv, inFake := f[k]
			if !inReal || !inFake {
				out = append(out, Difference{join(k), present(rv, inReal), present(fv, inFake)})
				continue
			}
			out = append(out, Compare(join(k), rv, fv)...)
		}
		return out
	case []any:
		f, ok := fake.([]any)
		if !ok || len(f) != len(r) {
			break
		}
		var out []Difference
		for i := range r {
			out = append(out, Compare(join(strconv.Itoa(i)), r[i], f[i])...)
		}
		return out
	case float64:
		if f, ok := fake.(float64); ok && r == f {
			return nil
		}
	default:
		if real == fake {
			return nil
		}
	}
	return []Difference{{path, present(real, true), present(fake, true)}}
}

func present(v any, there bool) string {
	if !there {
		return "(absent)"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
