package kube

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// everything has each kind of field that the structs of this program have.
type everything struct {
	MetaAnnotated `json:"metadata"`
	Type          EventType        `json:"type"`
	Flag          bool             `json:"flag"`
	Small         int8             `json:"small"`
	Number        *int32           `json:"number"`
	Far           **int64          `json:"far"`
	Fraction      float64          `json:"fraction"`
	Unsigned      uint16           `json:"unsigned"`
	Text          *string          `json:"text,omitempty"`
	When          *time.Time       `json:"when,omitzero"`
	Took          time.Duration    `json:"took"`
	Names         []string         `json:"names"`
	Table         [][]int          `json:"table"`
	Tree          []*everything    `json:"tree"`
	Map           map[string][]int `json:"map"`
	Any           any              `json:"any"`
	Bytes         []byte           `json:"bytes"`
	Pair          [2]int           `json:"pair"`
	Raw           Raw              `json:"raw"`
	Unnamed       struct{ A, B int }
	Ignored       string `json:"-"`
	//lint:ignore U1000 that nothing is decoded into it is the point
	hidden string
	Quoted struct {
		N int `json:"n,string"`
	} `json:"quoted"`
	Twice struct {
		Meta
		MetaAnnotated
	} `json:"twice"`
}

// Open keeps the members that it does not declare.
type Open struct {
	Inner
	Names []string `json:"names"`
	Not   Skipped  `json:"z"`
}

type Inner struct {
	MetaAnnotated `json:"metadata"`
	Rest          Raw `json:",embed"`
}

func TestMembersThatAreNotDeclaredAreKeptAsOneObject(t *testing.T) {
	for in, want := range map[string]string{
		`{"metadata":{"name":"a"},"names":["x"]}`:                                                         ``,
		`{"spec":{"n":1},"metadata":{"name":"a"}}`:                                                        `{"spec":{"n":1}}`,
		`{"data":{"k":"v"},"metadata":{"name":"a","uid":"u"},"type":"Opaque","n\u0061mes":["x"],"é":[ ]}`: `{"data":{"k":"v"},"type":"Opaque","é":[ ]}`,
	} {
		obj, err := object[*Open](newScanner(iotest.OneByteReader(strings.NewReader(in))))
		if err != nil || obj.Name != "a" || string(obj.Rest) != want || cap(obj.Rest) != len(want) {
			t.Errorf("%s: got %s (capacity %d), %v, want %s", in, obj.Rest, cap(obj.Rest), err, want)
		}
	}
	if _, err := object[*Open](newScanner(strings.NewReader(`{"metadata":{"name":"a"},"spec":{"n" 1}}`))); err == nil || err.Error() != "decode object a: spec: not valid JSON" {
		t.Errorf("broken member: got %v", err)
	}
}

// seeds are values on which decoders disagree easily.
var seeds = []string{
	`{"metadata":{"name":"a","labels":{"x":"y","x":"z","é":"\u00e9"},"annotations":null,"ownerReferences":[{"uid":"u","controller":true},{}]}}`,
	`{"type":"ADDED","Type":"x","flag":true,"small":127,"number":-1,"far":12345678901234567,"fraction":1e3,"text":"\ud83d\ude00\n"}`,
	`{"small":128}`, `{"small":-128,"number":0}`, `{"number":1.0}`, `{"number":01}`, `{"far":9223372036854775808}`, `{"flag":null,"number":null,"text":null}`,
	`{"names":["a","b","c"],"names":["d"],"table":[[1],[],null,[2,3]],"table":[[4]]}`, `{"names":null,"table":[]}`, `{"tree":[{"names":["x"]},null,{"tree":[{}]}]}`,
	`{"map":{"a":[1]},"map":{"b":[2]},"any":{"a":[1,"x",null]},"bytes":"AAEC","pair":[1,2],"raw": {"a" : [1, 2] } ,"when":"2026-11-20T10:00:00Z"}`,
	`{"Unnamed":{"A":1,"B":2},"hidden":"x","Ignored":"x","-":"x","quoted":{"n":"7"},"twice":{"name":"x","annotations":{"a":"b"}},"took":5,"unsigned":70000}`,
	`{"skipped":{"a":"\\\"}","b":[{"c":"]"},[[[]]],1e5,true,null]},"n\u0061mes":["escaped"],"text":"\u0000","other":"\ud800"}`,
	"{\"text\":\"\xff\",\"\xff\":1,\"metadata\":{\"labels\":{\"a\":\"\xff\"}}}", `{"metadata":7,"names":{},"tree":"x","Unnamed":[],"flag":"true","type":1}`,
	` { "metadata" : { "name" : "a" , "generation" : 3 } , "names" : [ "a" , "b" ] } `, `null`, `[]`, `"x"`, `7`, `{}`, `{"a":[}`, `{"a":]}`, `{"a" "b"}`, `{"flag":tru}`, `{"x":tru,"text":"` + "\n" + `"}`,
	`{"metadata":{"name":"a"},"spec":{"a":[1]},"spec":null,"d\u0061ta":"x","names":["a"], "z" : [ 1 ] }`, `{"spec":{"a" 1}}`,
	`{"metadata":{"name":"a"},}`, `{"names":["a",]}`, `{"names":["a" "b"]}`, `{"x":1 2}`, `{,}`, `{"a":}`, `{"number":-}`, `{"x":"` + strings.Repeat(`\\`, 9) + `"}`, `{"x":"12345678\"}`,
}

// FuzzDecodeAsStandard holds the decoder to encoding/json: on valid JSON the same value or an error for both, unless
// names are repeated or differ in case, and the stream behind the value; on any other input an end, and the same one
// however the bytes arrive.
func FuzzDecodeAsStandard(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Add(realisticPod(1))
	f.Fuzz(func(t *testing.T, in string) {
		sameAsStandard[*everything](t, in)
		sameAsStandard[*smallPod](t, in)
		sameAsStandard[Status](t, in)
		sameAsStandard[[]Meta](t, in)
		sameAsStandard[*Inner](t, in)
	})
}

func sameAsStandard[T any](t *testing.T, in string) {
	t.Helper()
	const next = `"next"`
	var first error
	for i, r := range []io.Reader{strings.NewReader(in + next), iotest.OneByteReader(strings.NewReader(in + next)),
		iotest.HalfReader(strings.NewReader(in + next))} {
		var got, want T
		s := newScanner(r)
		err := decodeInto(s, &got)
		if i == 0 {
			first = err
		} else if (err == nil) != (first == nil) || err != nil && err.Error() != first.Error() {
			t.Fatalf("%T of %q: the error depends on how the bytes arrive: %v or %v", got, in, first, err)
		}
		if !json.Valid([]byte(in)) || nesting(in) > maxDepth {
			continue
		}
		wantErr := json.Unmarshal([]byte(in), &want)
		if open, ok := any(got).(*Inner); ok && open != nil { // encoding/json knows nothing of the others
			any(want).(*Inner).Rest, open.Rest = nil, nil
		}
		if plainNames(in) && ((err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want)) {
			t.Fatalf("%T of %q:\ngot  %+v, %v\nwant %+v, %v", got, in, got, err, want, wantErr)
		}
		if bad := (*misfit)(nil); err != nil && !errors.As(err, &bad) {
			t.Fatalf("%T of %q broke the stream: %v", got, in, err)
		}
		if v, err := s.value(); err != nil || string(v) != next {
			t.Fatalf("%T of %q: behind it is %q, %v", got, in, v, err)
		}
	}
}

// plainNames says that encoding/json takes the same members of a value as we do: it ignores case, and lets a repeated
// name add to what came before.
func plainNames(in string) bool {
	d := json.NewDecoder(strings.NewReader(in))
	var object func() bool
	object = func() bool {
		open, err := d.Token()
		if open != json.Delim('{') && open != json.Delim('[') {
			return err == nil
		}
		seen := map[string]bool{}
		for d.More() {
			if open == json.Delim('{') {
				token, _ := d.Token()
				name := token.(string)
				folded := strings.ToLower(strings.ToUpper(name))
				if seen[folded] || name != folded && !slices.Contains(mixedCase, name) {
					return false
				}
				seen[folded] = true
			}
			if !object() {
				return false
			}
		}
		_, err = d.Token()
		return err == nil
	}
	return object()
}

var mixedCase = strings.Fields("resourceVersion creationTimestamp deletionTimestamp ownerReferences apiVersion " +
	"blockOwnerDeletion Unnamed A B nodeName podIP retryAfterSeconds")

// nesting is an upper bound of how deep a value is nested.
func nesting(in string) int { return strings.Count(in, "[") + strings.Count(in, "{") }

// Rules: LST-19
func TestWhatDoesNotFitIsNamedAndTheRestIsStillRead(t *testing.T) {
	for in, want := range map[string]string{
		`{"metadata":{"labels":{"x":1},"name":"a"},"flag":7}`:                         "metadata.labels.x: want a string, got a number",
		`{"tree":[{},{"table":[[1],[2,"x"]]}],"metadata":{"name":"a"}}`:               "tree[1].table[1][1]: ",
		`{"names":"x","metadata":{"name":"a"}}`:                                       "names: want an array, got a string",
		`{"small":300,"metadata":{"generation":[],"resourceVersion":"7","name":"a"}}`: "small: ",
	} {
		s := newScanner(strings.NewReader(in))
		_, err := object[*everything](s)
		var bad *DecodeError
		if !errors.As(err, &bad) || bad.Key.Name != "a" || !strings.HasPrefix(bad.Error(), "decode object a: "+want) {
			t.Errorf("%s: got %v, want %q of a", in, err, want)
		}
	}
}

func TestDeepNestingConcernsOneObjectOnlyAndOnlyWhereItIsDeclared(t *testing.T) {
	deep := func(open, shut string) string { return strings.Repeat(open, 9_998) + "1" + strings.Repeat(shut, 9_998) }
	for member, wrong := range map[string]bool{
		`"other":` + deep(`[`, `]`):             false,
		`"other":` + deep(`{"x":`, `}`):         false,
		`"raw":` + deep(`[`, `]`):               true,
		`"any":` + deep(`[`, `]`):               true,
		`"table":` + deep(`[`, `]`):             true,
		`"tree":` + deep(`[{"tree":`, `}]`):     true,
		`"metadata":` + deep(`[`, `]`):          true,
		`"names":[` + deep(`[`, `]`) + `]`:      true,
		`"tree":[{"x":` + deep(`[`, `]`) + `}]`: false,
	} {
		in := `{"metadata":{"name":"a"},` + member + `}` + item("next", "1")
		s := newScanner(strings.NewReader(in))
		_, err := object[*everything](s)
		if bad := (*DecodeError)(nil); wrong != errors.As(err, &bad) || !wrong && err != nil {
			t.Errorf("%.40s: got %v", member, err)
		}
		if next, err := object[*pod](s); err != nil || next.Name != "next" {
			t.Errorf("behind %.40s: got %v", member, err)
		}
	}
}

// Rules: LST-19
func TestBrokenTextInLabelsAndNamesConcernsOneObjectOnly(t *testing.T) {
	for in, want := range map[string]string{
		`{"metadata":{"name":"a","labels":{"x":"\q"}}}`:               "metadata.labels.x: ",
		"{\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"\x00\"}}}": "metadata.labels.x: ",
		`{"metadata":{"name":"a","annotations":{"\q":"y"}}}`:          "metadata.annotations.: ",
		`{"metadata":{"name":"a"},"\u12":{"b":["}"]}}`:                "invalid ",
		"{\"metadata\":{\"name\":\"a\"},\"a\nb\":1}":                  "invalid ",
	} {
		s := newScanner(iotest.OneByteReader(strings.NewReader(in + item("next", "1"))))
		_, err := object[*Open](s)
		var bad *DecodeError
		if !errors.As(err, &bad) || bad.Key.Name != "a" || !strings.HasPrefix(bad.Error(), "decode object a: "+want) {
			t.Errorf("%q: got %v, want %q of a", in, err, want)
		}
		if next, err := object[*pod](s); err != nil || next.Name != "next" {
			t.Errorf("behind %q: got %v", in, err)
		}
	}
}

func TestTheKindMayBeEscaped(t *testing.T) {
	s := newScanner(strings.NewReader(`{"k\u0069nd":"\u0050od","metadata":{"name":"a"}}`))
	s.want.kind = "Pod"
	if obj, err := object[*pod](s); err != nil || obj.Name != "a" {
		t.Errorf("got %v", err)
	}
}

func TestTheNameOfTheKindIsKeptHoweverTheBytesArrive(t *testing.T) {
	for _, pad := range []int{0, firstBuffer - 100, firstBuffer - 20} {
		in := `{"metadata":{"name":"a"},"x":"` + strings.Repeat("x", pad) + `","kind":"` + strings.Repeat("K", 200) + `"}`
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			obj, err := object[*Inner](newScanner(r))
			if err != nil || !strings.Contains(string(obj.Rest), `","kind":"K`) || !json.Valid(obj.Rest) {
				t.Errorf("%d bytes ahead: got %.100q, %v", pad, obj.Rest, err)
			}
		}
	}
}

func TestManyMembersAreNotCopiedForEachOfThem(t *testing.T) {
	members := strings.Repeat(`,"n":1`, 100_000)
	in := `{"metadata":{"name":"a"}` + members + `}`
	var obj *Inner
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Unmarshal([]byte(in), &obj)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; err != nil || allocated > 20<<20 {
		t.Fatalf("%d MiB were allocated, %v", allocated>>20, err)
	}
	if want := "{" + members[1:] + "}"; string(obj.Rest) != want {
		t.Errorf("got %.40s... of %d bytes, want %d", obj.Rest, len(obj.Rest), len(want))
	}
}

func TestATextIsNotChangedByReadingIt(t *testing.T) {
	var n int
	if err := Unmarshal([]byte("\n 5"), &n); err != nil || n != 5 {
		t.Errorf("a number behind white space: got %d, %v", n, err)
	}
	in := []byte(`{"x":"` + strings.Repeat("x", 2*bulkBuffer) + `","names":["a`)
	text := string(in)
	if err := Unmarshal(in, &everything{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half an object: got %v", err)
	}
	if string(in) != text {
		t.Error("reading half an object has changed its text")
	}
}
