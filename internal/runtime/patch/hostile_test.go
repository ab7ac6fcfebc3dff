package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// hostile are objects that cost much more than what they are worth, by name.
func hostile() map[string]string {
	key := strings.Repeat("k", 100_000)
	deep := func(open, shut string, levels int) string {
		return strings.Repeat(open, levels) + "1" + strings.Repeat(shut, levels)
	}
	many := func(item string, size int) string {
		return strings.TrimSuffix(strings.Repeat(item+",", size/(len(item)+1)), ",")
	}
	const size = 1_500_000
	return map[string]string{
		"a long key above deep lists":   `{"spec":{"template":{"spec":{"` + key + `":` + deep("[", "]", 9_900) + `}}}}`,
		"a long key above deep objects": `{"spec":{"template":{"spec":{"` + key + `":` + deep(`{"x":`, "}", 4_900) + `}}}}`,
		"a long key, 90 levels":         `{"spec":{"template":{"spec":{"` + key + `":` + deep(`{"x":`, "}", 90) + `}}}}`,
		"empty lists":                   `{"spec":{"template":{"spec":{"x":[` + many(`[]`, size) + `]}}}}`,
		"empty objects":                 `{"spec":{"template":{"spec":{"containers":[` + many(`{}`, size) + `]}}}}`,
		"small objects":                 `{"spec":{"template":{"spec":{"containers":[` + many(`{"a":0}`, size) + `]}}}}`,
		"named objects": `{"spec":{"template":{"spec":{"containers":[` + many(`{"name":"a"}`, 200_000) +
			`]}}}}`,
		"short strings":   `{"spec":{"template":{"spec":{"x":[` + many(`"a"`, size) + `]}}}}`,
		"numbers":         `{"spec":{"template":{"spec":{"x":[` + many(`7`, size) + `]}}}}`,
		"a huge number":   `{"spec":{"template":{"spec":{"x":` + strings.Repeat("7", size) + `}}}}`,
		"a long string":   `{"spec":{"template":{"spec":{"x":"` + strings.Repeat("x", size) + `"}}}}`,
		"duplicates":      `{"spec":{"template":{"spec":{` + many(`"x":1`, size) + `}}}}`,
		"long duplicates": `{"spec":{"` + key + `":{` + many(`"x":1`, 6*5_000) + `}}}`,
	}
}

func allocated(f func()) (mebibytes uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

func TestAHostileObjectCostsLittleMemoryAndTime(t *testing.T) {
	node := SchemaFor("apps/v1", "Deployment")
	own := object(t, `{'spec':{'replicas':1,'template':{'spec':{'containers':[{'name':'web'}]}}}}`)
	for name, text := range hostile() {
		var duplicates []string
		var read error
		began := time.Now()
		cost := allocated(func() {
			var v any
			if v, duplicates, read = DecodeLenient([]byte(text)); read != nil {
				return
			}
			o := v.(map[string]any)
			merged, err := StrategicMerge(node, own, o)
			if err != nil {
				return
			}
			_, _ = Encode(merged)
			Covered(node, merged, own)
			Differences(node, merged, Copy(merged), 5)
			Differences(node, own, merged, 5)
		})
		reported := 0
		for _, d := range duplicates {
			reported += len(d)
		}
		// With the race detector a second alone, three beside other tests; a quadratic step takes minutes.
		if took := time.Since(began); cost > 50 || took > time.Minute || len(duplicates) > MaxDuplicates ||
			reported > 100_000 {
			t.Errorf("%s: %d MiB, %s, %d duplicates of %d bytes", name, cost, took, len(duplicates), reported)
		}
	}
	for _, name := range []string{"a long key above deep lists", "empty objects", "small objects", "short strings"} {
		if _, err := Decode([]byte(hostile()[name])); !errors.Is(err, ErrTooComplex) {
			t.Errorf("%s: got %.100v", name, err)
		}
	}
}

func TestLongListsAreComparedAsShortOnesAre(t *testing.T) {
	list := func(names ...string) map[string]any {
		var containers, finalizers []any
		for i := range 2_000 {
			containers = append(containers, map[string]any{"name": fmt.Sprint("filler-", i)})
			finalizers = append(finalizers, fmt.Sprint("filler-", i))
		}
		for _, n := range names {
			containers, finalizers = append(containers, map[string]any{"name": n}), append(finalizers, n)
		}
		return map[string]any{"metadata": map[string]any{"finalizers": finalizers},
			"spec": map[string]any{"containers": containers}}
	}
	pod := SchemaFor("v1", "Pod")
	for want, live := range map[string]map[string]any{
		"0 []": list("x", "a", "b"),
		"2 [metadata.finalizers[=b] spec.containers[name=\"b\"]]": list("x", "a"),
		"1 [spec.containers[name=\"b\"] (order)]":                 list("b", "a"),
	} {
		paths, count := Differences(pod, list("a", "b"), live, 5)
		if got := fmt.Sprint(count, " ", paths); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// standard is what encoding/json makes of a value. ok is false where it says nothing of ours: it replaces what is no
// UTF-8, and its numbers are floats.
func standard(in []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	if !json.Valid(in) || !utf8.Valid(in) || bytes.Contains(in, []byte(`\u`)) || d.Decode(&v) != nil {
		return nil, false
	}
	return numbers(v)
}

func numbers(v any) (_ any, ok bool) {
	ok = true
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			if v[name], ok = numbers(v[name]); !ok {
				return nil, false
			}
		}
	case []any:
		for i := range v {
			if v[i], ok = numbers(v[i]); !ok {
				return nil, false
			}
		}
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i, true
		}
		f, err := v.Float64()
		return f, err == nil
	}
	return v, true
}

// FuzzDecode holds the decoder to its limits, to encoding/json, and to Encode.
func FuzzDecode(f *testing.F) {
	for _, text := range hostile() {
		if len(text) > 10_000 { // the fuzzer changes a few bytes at a time
			text = text[:5_000] + text[len(text)-5_000:]
		}
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"a":{"b":1,"b":[{"c":2,"c":3}]},"":{"":1,"":2},"n":1e400,"i":9223372036854775808}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		v, duplicates, err := DecodeLenient(in)
		want, ok := standard(in)
		// encoding/json minds a number out of range only where it is not replaced by the next value of its name.
		refused := err != nil && !errors.Is(err, ErrTooComplex) && json.Unmarshal(in, new(any)) == nil
		if ok && refused || err == nil && !json.Valid(in) ||
			ok && err == nil && len(duplicates) == 0 && !Equal(v, want) {
			t.Errorf("%.100q: got %v, %v, encoding/json says %v, %t", in, v, err, want, ok)
		}
		if err != nil {
			return
		}
		if len(duplicates) > MaxDuplicates {
			t.Errorf("%d duplicates of %.100q", len(duplicates), in)
		}
		again, err := Decode([]byte(encode(t, v)))
		if err != nil || !Equal(again, v) {
			t.Errorf("%.100q: encoded and decoded again: %v", in, err)
		}
	})
}
