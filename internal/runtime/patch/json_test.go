package patch

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
)

func TestDecodeKeepsIntegersExactAndRefusesWhatIsAmbiguous(t *testing.T) {
	got := decode(t, `{'a':9223372036854775807,'b':1.5,'c':1e3,'d':[null,true,'x'],'e':18446744073709551615}`)
	want := map[string]any{"a": int64(9223372036854775807), "b": 1.5, "c": float64(1000), "d": []any{nil, true, "x"},
		"e": float64(1 << 64)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
	for _, bad := range []string{``, `{`, `[1`, `{} {}`, `{}x`, `{'a':1,'a':2}`, `{'x':[{'a':1,'a':1}]}`, `01`, `nul`, `'` + "\xff" + `'`, `1e999`} {
		if v, err := Decode([]byte(quotes(bad))); err == nil {
			t.Errorf("%q was accepted as %v", bad, v)
		}
	}
}

// Rules: FS-21
func TestDecodeLenientNamesDuplicateFieldsAndTakesTheLast(t *testing.T) {
	v, duplicates, err := DecodeLenient([]byte(`{"spec":{"a":1,"a":2,"l":[{"n":1},{"n":1,"n":3}]},"spec":{"b":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"spec.a", "spec.l[1].n", "spec"}; !reflect.DeepEqual(duplicates, want) {
		t.Errorf("duplicates %q, want %q", duplicates, want)
	}
	if got := encode(t, v); got != `{"spec":{"b":1}}` {
		t.Errorf("got %s", got)
	}
}

func TestEncodeSortsKeysAndLeavesHTMLAlone(t *testing.T) {
	if got := encode(t, map[string]any{"b": "<&>", "a": int64(1), "c": 1.5}); got != `{"a":1,"b":"<&>","c":1.5}` {
		t.Errorf("got %s", got)
	}
	if _, err := Encode(map[string]any{"f": func() {}}); err == nil {
		t.Error("a func was encoded")
	}
}

func TestEqualComparesNumbersByValue(t *testing.T) {
	for _, c := range []struct {
		a, b any
		want bool
	}{
		{int64(1), 1.0, true}, {int64(1), 1.5, false}, {1.0, int64(1), true}, {int64(1), "1", false},
		{int64(1<<53 + 1), float64(1 << 53), false}, {int64(-1 << 63), float64(-1 << 63), true},
		{int64(1<<63 - 1), float64(1 << 63), false}, {int64(88888888888888900), 88888888888888890.0, true},
		{int64(88888888888888890), 88888888888888890.0, false},
		{nil, false, false}, {nil, nil, true}, {true, true, true},
		{[]any{int64(1)}, []any{1.0}, true}, {[]any{}, nil, false},
		{map[string]any{"a": nil}, map[string]any{}, false},
		{map[string]any{"a": nil}, map[string]any{"b": nil}, false},
	} {
		if got := Equal(c.a, c.b); got != c.want {
			t.Errorf("Equal(%#v, %#v) = %v", c.a, c.b, got)
		}
	}
}

// What encoding/json makes of text that is no UTF-8, a server that is compared with Go's makes of it, too; others
// refuse the text.
func TestTextThatIsNoUTF8IsReplacedWhereThatIsWanted(t *testing.T) {
	for _, text := range []string{"\"a\xffb\"", "\"\xc3\x28\xe2\x82\"", `"\ud800"`, `"\udc00\ud800x"`, `"\ud800A"`,
		"{\"a\xff\":1}", "\"\xed\xa0\x80\""} {
		var want any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		v, _, err := DecodeReplacing([]byte(text), maxMemory, MaxDepth)
		if err != nil || fmt.Sprint(v) != fmt.Sprint(want) {
			t.Errorf("%q: %q, %v, want %q", text, v, err, want)
		}
		if v, _, err := DecodeLenient([]byte(text)); err == nil {
			t.Errorf("%q is read as %q", text, v)
		}
	}
	if v, _, err := DecodeReplacing([]byte(`"\uzzzz"`), maxMemory, MaxDepth); err == nil {
		t.Errorf("no code is read as %q", v)
	}
}
