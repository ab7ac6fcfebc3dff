package jsonpatch

import (
	"errors"
	"strings"
	"testing"

	"skiff/internal/runtime/patch"
)

// decode turns a literal of a test into a value. A test writes ' for ".
func decode(t testing.TB, text string) any {
	t.Helper()
	v, err := patch.Decode([]byte(quotes(text)))
	if err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return v
}

func quotes(text string) string { return strings.ReplaceAll(text, "'", `"`) }

func encode(t testing.TB, v any) string {
	t.Helper()
	b, err := patch.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestMergePatchFollowsTheExamplesOfRFC7386(t *testing.T) {
	for _, c := range []struct{ target, patch, want string }{
		{`{'a':'b'}`, `{'a':'c'}`, `{'a':'c'}`},
		{`{'a':'b'}`, `{'b':'c'}`, `{'a':'b','b':'c'}`},
		{`{'a':'b'}`, `{'a':null}`, `{}`},
		{`{'a':'b','b':'c'}`, `{'a':null}`, `{'b':'c'}`},
		{`{'a':['b']}`, `{'a':'c'}`, `{'a':'c'}`},
		{`{'a':'c'}`, `{'a':['b']}`, `{'a':['b']}`},
		{`{'a':{'b':'c'}}`, `{'a':{'b':'d','c':null}}`, `{'a':{'b':'d'}}`},
		{`{'a':[{'b':'c'}]}`, `{'a':[1]}`, `{'a':[1]}`},
		{`['a','b']`, `['c','d']`, `['c','d']`},
		{`{'a':'b'}`, `['c']`, `['c']`},
		{`{'a':'foo'}`, `null`, `null`},
		{`{'a':'foo'}`, `'bar'`, `'bar'`},
		{`{'e':null}`, `{'a':1}`, `{'a':1,'e':null}`},
		{`[1,2]`, `{'a':'b','c':null}`, `{'a':'b'}`},
		{`{}`, `{'a':{'bb':{'ccc':null}}}`, `{'a':{'bb':{}}}`},
	} {
		if got := encode(t, Merge(decode(t, c.target), decode(t, c.patch))); got != quotes(c.want) {
			t.Errorf("%s + %s = %s, want %s", c.target, c.patch, got, c.want)
		}
	}
}

// Rules: FS-18
func TestJSONPatchAppliesEachOperation(t *testing.T) {
	for _, c := range []struct{ doc, ops, want string }{
		{`{'a':1}`, `[{'op':'add','path':'/b','value':[1]}]`, `{'a':1,'b':[1]}`},
		{`{'a':1}`, `[{'op':'add','path':'/a','value':null}]`, `{'a':null}`},
		{`{'l':[1,3]}`, `[{'op':'add','path':'/l/1','value':2}]`, `{'l':[1,2,3]}`},
		{`{'l':[1]}`, `[{'op':'add','path':'/l/-','value':2}]`, `{'l':[1,2]}`},
		{`{'l':[1]}`, `[{'op':'add','path':'/l/1','value':2}]`, `{'l':[1,2]}`},
		{`{'l':[1,2,3]}`, `[{'op':'remove','path':'/l/1'}]`, `{'l':[1,3]}`},
		{`{'l':[{'a':1}]}`, `[{'op':'replace','path':'/l/0/a','value':2}]`, `{'l':[{'a':2}]}`},
		{`{'a':1}`, `[{'op':'replace','path':'','value':{'b':2}}]`, `{'b':2}`},
		{`{'a':{'x':1}}`,
			`[{'op':'copy','from':'/a','path':'/b'},{'op':'replace','path':'/b/x','value':2}]`,
			`{'a':{'x':1},'b':{'x':2}}`},
		{`{'a':1}`, `[{'op':'move','from':'/a','path':'/b'}]`, `{'b':1}`},
		{`{'a':1}`, `[{'op':'move','from':'/a','path':'/a'}]`, `{'a':1}`},
		{`{'l':[1,2,3]}`, `[{'op':'move','from':'/l/0','path':'/l/2'}]`, `{'l':[2,3,1]}`},
		{`{'a':1}`, `[{'op':'test','path':'/a','value':1.0},{'op':'remove','path':'/a'}]`, `{}`},
		{`{'a/b':{'m~n':1}}`, `[{'op':'replace','path':'/a~1b/m~0n','value':2}]`, `{'a/b':{'m~n':2}}`},
		{`{'':1}`, `[{'op':'remove','path':'/'}]`, `{}`},
		{`{'a':1}`, `[]`, `{'a':1}`},
		{`{}`, `[{'op':'replace','path':'/a','value':1}]`, `{'a':1}`},
		{`{}`,
			`[{'op':'add','path':'/a'},{'op':'test','path':'/b','value':null},{'op':'copy','from':'/b','path':'/c'}]`,
			`{'a':null,'c':null}`},
		{`{'l':[1,2]}`, `[{'op':'remove','path':'/l/-1'},{'op':'add','path':'/l/-1','value':3}]`, `{'l':[1,3]}`},
	} {
		doc := decode(t, c.doc)
		got, err := Apply(doc, decode(t, c.ops))
		if err != nil {
			t.Errorf("%s: %v", c.ops, err)
		} else if encode(t, got) != quotes(c.want) {
			t.Errorf("%s on %s = %s, want %s", c.ops, c.doc, encode(t, got), c.want)
		}
		if encode(t, doc) != encode(t, decode(t, c.doc)) {
			t.Errorf("%s changed its argument", c.ops)
		}
	}
}

// Rules: FS-18
func TestJSONPatchErrorsTellTheKindOfFailure(t *testing.T) {
	for _, c := range []struct {
		doc, ops string
		want     error
	}{
		{`{}`, `{}`, ErrMalformedPatch},
		{`{}`, `[1]`, ErrMalformedPatch},
		{`{}`, `[{'op':1}]`, ErrMalformedPatch},
		{`{}`, `[{'op':'add','value':1}]`, ErrBadOperation},
		{`{}`, `[{'op':'spam','path':'/a'}]`, ErrBadOperation},
		{`{}`, `[{'op':'move','path':'/a'}]`, ErrBadOperation},
		{`{}`, `[{'op':'add','path':'a','value':1}]`, ErrMissingPath},
		{`{}`, `[{'op':'add','path':'','value':{}}]`, ErrMissingPath},
		{`{}`, `[{'op':'remove','path':'/a'}]`, ErrMissingPath},
		{`{}`, `[{'op':'replace','path':'/a/b','value':1}]`, ErrMissingPath},
		{`{}`, `[{'op':'move','from':'/a','path':'/b'}]`, ErrMissingPath},
		{`{}`, `[{'op':'add','path':'/a/b','value':1}]`, ErrMissingPath},
		{`{'a':1}`, `[{'op':'add','path':'/a/b','value':1}]`, ErrMissingPath},
		{`{'l':[1]}`, `[{'op':'add','path':'/l/2','value':1}]`, ErrMissingPath},
		{`{'l':[1]}`, `[{'op':'replace','path':'/l/-','value':1}]`, ErrMissingPath},
		{`{'l':[1]}`, `[{'op':'remove','path':'/l/x'}]`, ErrMissingPath},
		{`{'l':[1]}`, `[{'op':'remove','path':'/l/-2'}]`, ErrMissingPath},
		{`{'a':{}}`, `[{'op':'move','from':'/a','path':'/a/b'}]`, ErrMissingPath},
		{`{'a':1}`, `[{'op':'remove','path':''}]`, ErrMissingPath},
		{`{'a':1}`, `[{'op':'copy','path':'/b','from':''}]`, ErrMissingPath},
		{`{'a':1}`, `[{'op':'move','path':'/b','from':'/b'}]`, ErrMissingPath},
		{`{'a':1}`, `[{'op':'replace','path':'','value':1}]`, ErrBadOperation},
		{`{'a':1}`, `[{'op':'test','path':'/a','value':'1'}]`, ErrTestFailed},
		{`{}`, `[` + strings.Repeat(`{'op':'test','path':'','value':{}},`, MaxOperations) + `{}]`, ErrTooManyOps},
		{`{'a':[1,2]}`,
			`[` + strings.Repeat(`{'op':'copy','from':'/a','path':'/a/-'},`, 40) + `{'op':'remove','path':'/a'}]`,
			ErrTooLarge},
	} {
		if _, err := Apply(decode(t, c.doc), decode(t, c.ops)); !errors.Is(err, c.want) {
			t.Errorf("%.80s: got %v, want %v", c.ops, err, c.want)
		}
	}
}

func TestCopiesOfALongStringAreLimitedByTheirBytes(t *testing.T) {
	doc := map[string]any{"a": strings.Repeat("x", 2<<20), "l": []any{}}
	ops := decode(t, `[`+strings.Repeat(`{'op':'copy','from':'/a','path':'/l/-'},`, 9_000)+
		`{'op':'remove','path':'/a'}]`)
	if _, err := Apply(doc, ops); !errors.Is(err, ErrTooLarge) {
		t.Errorf("9,000 copies of 2 MiB gave %v", err)
	}
}

func FuzzPatches(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":2}]}`), []byte(`[{"op":"move","from":"/a/0","path":"/a/-"}]`))
	f.Add([]byte(`{"a":[1,{"b":2}]}`), []byte(`{"a":null,"c":{"d":null}}`))
	f.Add([]byte(`{"a":"x","l":[]}`), []byte(`[`+strings.Repeat(`{"op":"copy","from":"","path":"/l/-"},`, 30)+`{}]`))
	f.Fuzz(func(t *testing.T, docBytes, patchBytes []byte) {
		doc, err := patch.Decode(docBytes)
		if err != nil {
			return
		}
		p, err := patch.Decode(patchBytes)
		if err != nil {
			return
		}
		before := encode(t, doc) + encode(t, p)
		Merge(doc, p)
		_, _ = Apply(doc, p)
		if encode(t, doc)+encode(t, p) != before {
			t.Errorf("a function changed its arguments %s, %s", docBytes, patchBytes)
		}
	})
}
