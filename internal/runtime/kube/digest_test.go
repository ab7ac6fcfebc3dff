package kube

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// source is a ConfigMap as a reader declares that wants to know of changes alone; hidden is the same for a Secret.
type source struct {
	Meta   `json:"metadata"`
	Data   Digests        `json:"data"`
	Binary EncodedDigests `json:"binaryData"`
}

type hidden struct {
	Meta      `json:"metadata"`
	Type      string         `json:"type"`
	Immutable *bool          `json:"immutable"`
	Data      EncodedDigests `json:"data"`
}

var (
	configMapKind = Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	secretKind    = Resource{Version: "v1", Plural: "secrets", Kind: "Secret"}
)

func digestOf(value string) (d Digest) {
	sum := sha256.Sum256([]byte(value))
	copy(d[:], sum[:])
	return d
}

// digestsOf are the digests of names and values by turns.
func digestsOf(pairs ...string) (all []NamedDigest) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, NamedDigest{pairs[i], digestOf(pairs[i+1])})
	}
	return all
}

// chunked reads a text in pieces of a size.
type chunked struct {
	text string
	size int
}

func (c *chunked) Read(p []byte) (int, error) {
	if c.text == "" {
		return 0, io.EOF
	}
	n := copy(p, c.text[:min(c.size, len(c.text))])
	c.text = c.text[n:]
	return n, nil
}

// digestCases are the fields of an object in JSON, of a kind, and the digests of data and of binaryData.
var digestCases = []struct {
	kind   Resource
	fields string
	data   []NamedDigest
	binary []NamedDigest
}{
	{configMapKind, `"data":{"b":"x\ny","a":"é\ud83d\ude00","empty":""}`,
		digestsOf("a", "é😀", "b", "x\ny", "empty", ""), nil},
	{configMapKind, `"data":{"a":"x"},"binaryData":{"z":"AAEC","y":""}`, digestsOf("a", "x"),
		digestsOf("y", "", "z", "\x00\x01\x02")},
	{configMapKind, `"immutable":true`, nil, nil},
	{configMapKind, `"data":{"long":"` + strings.Repeat("é", 100_000) + `","next":"x"}`,
		digestsOf("long", strings.Repeat("é", 100_000), "next", "x"), nil},
	{secretKind, `"type":"Opaque","data":{"tls.key":"` + strings.Repeat("QUJD", 30_000) +
		`QQ==","a":"eA=="},"immutable":false`,
		digestsOf("a", "x", "tls.key", strings.Repeat("ABC", 30_000)+"A"), nil},
	{secretKind, `"type":"Opaque"`, nil, nil},
}

func TestDigestsAreTheSameInBothEncodingsHoweverTheBytesArrive(t *testing.T) {
	for _, c := range digestCases {
		object := `{"metadata":{"name":"a","uid":"u"},` + c.fields + `}`
		for _, size := range []int{1, 2, 3, 7, 1000, 1 << 20} {
			if c.kind == secretKind {
				s, p := bothEncodings[*hidden](t, c.kind, object, size)
				if !reflect.DeepEqual(s, p) || !reflect.DeepEqual([]NamedDigest(s.Data), c.data) {
					t.Errorf("%.99s by %d bytes: JSON gives %v, protobuf %v", object, size, s, p)
				}
				continue
			}
			s, p := bothEncodings[*source](t, c.kind, object, size)
			if !reflect.DeepEqual(s, p) || !reflect.DeepEqual([]NamedDigest(s.Data), c.data) ||
				!reflect.DeepEqual([]NamedDigest(s.Binary), c.binary) {
				t.Errorf("%.99s by %d bytes: JSON gives %v, protobuf %v", object, size, s, p)
			}
		}
	}
}

// bothEncodings reads an object out of a list and out of a watch in each encoding, and returns that of the watch.
func bothEncodings[T Object](t *testing.T, kind Resource, object string, size int) (fromJSON, fromProtobuf T) {
	t.Helper()
	var inJSON, inProtobuf ListResult[T]
	list := `{"kind":"` + kind.Kind + `List","metadata":{"resourceVersion":"9"},"items":[` + object + `]}`
	if _, err := decodePage(newScanner(&chunked{list, size}), kind.Kind, &inJSON); err != nil {
		t.Fatal(err)
	}
	plan := protoPlanOf[T](kind)
	if plan == nil {
		t.Fatalf("%s is not read in protobuf", kind.Kind)
	}
	p := newProtoReader(&chunked{protoListOf(t, kind, "9", object), size}, plan, expected{})
	if _, err := decodeProtoPage(p, kind.Kind, &inProtobuf); err != nil {
		t.Fatal(err)
	}
	ofJSON, err := nextEvent[T](newScanner(&chunked{frame("ADDED", object), size}))
	if err != nil {
		t.Fatal(err)
	}
	in := &chunked{protoFrame("ADDED", protoOf(t, kind, object)), size}
	ofProtobuf, err := nextProtoEvent[T](newProtoReader(in, plan, expected{kind: kind.Kind}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(inJSON.Items[0], ofJSON.Object) ||
		!reflect.DeepEqual(inProtobuf.Items[0], ofProtobuf.Object) {
		t.Errorf("%.99s: a list and a watch differ", object)
	}
	return ofJSON.Object, ofProtobuf.Object
}

// longSecret is a Secret with a value of 1.5 MiB in base64, and a second one behind.
func longSecret() string {
	return `{"metadata":{"name":"a"},"data":{"long":"` + strings.Repeat("QUJD", 3<<17) + `","short":"eA=="}}`
}

func TestALongValueTakesNoMemory(t *testing.T) {
	want := digestsOf("long", strings.Repeat("ABC", 3<<17), "short", "x")
	inJSON := frame("ADDED", longSecret())
	inProtobuf := protoFrame("ADDED", protoOf(t, secretKind, longSecret()))
	for _, size := range []int{7, 1 << 20} {
		s := Query{Resource: secretKind}.scanner(&chunked{inJSON, size}, most)
		ev, err := nextEvent[*hidden](s)
		if err != nil || !reflect.DeepEqual([]NamedDigest(ev.Object.Data), want) || len(s.buf) > bulkBuffer {
			t.Errorf("JSON: %v, %v with a buffer of %d bytes", ev.Object, err, len(s.buf))
		}
		if kept := s.kept; kept > 200 || ev.Part.Size > 200 {
			t.Errorf("%d bytes are kept, of %d", kept, ev.Part.Size)
		}
		plan := protoPlanOf[*hidden](secretKind)
		p := Query{Resource: secretKind}.protoReader(&chunked{inProtobuf, size}, plan, most)
		ev, err = nextProtoEvent[*hidden](p, nil)
		if err != nil || !reflect.DeepEqual([]NamedDigest(ev.Object.Data), want) || len(p.buf) > bulkBuffer ||
			cap(p.slim) > bulkBuffer || ev.Part.Size > 200 {
			t.Errorf("protobuf: %v, %v with buffers of %d and %d bytes", ev.Object, err, len(p.buf), cap(p.slim))
		}
	}
}

func TestTheNamesOfDigestsCountAndTheValuesDoNot(t *testing.T) {
	var entries []string
	for i := range most / digestSize {
		entries = append(entries, fmt.Sprintf(`"%d":""`, i))
	}
	object := `{"metadata":{"name":"a","uid":"u"},"data":{` + strings.Join(entries, ",") + `}}`
	in := frame("ADDED", object) + frame("ADDED", item("next", "8"))
	s := Query{Resource: secretKind}.scanner(strings.NewReader(in), most)
	var bad *DecodeError
	if _, err := nextEvent[*hidden](s); !errors.As(err, &bad) || !errors.Is(err, ErrTooLarge) || bad.UID != "u" {
		t.Errorf("got %v", err)
	}
	if ev, err := nextEvent[*hidden](s); err != nil || ev.Object.Name != "next" {
		t.Errorf("behind many names: %v, %v", ev, err)
	}
}

func TestSkippedDigestsAreNotOfTheSizeOfAnObject(t *testing.T) {
	s := newScanner(strings.NewReader(frame("ADDED", longSecret())))
	s.want.skim = func(Key) bool { return true }
	ev, err := nextEvent[*hidden](s)
	if err != nil || !ev.Part.Skimmed || ev.Part.Size > 200 || ev.Object.Data != nil {
		t.Errorf("got %+v, %v", ev, err)
	}
}

func TestAValueThatDoesNotFitIsNamedAndNotShown(t *testing.T) {
	for in, want := range map[string]string{
		`{"data":{"a":"hunter2!","b":"eA=="}}`:     "data.a: not valid base64",
		`{"data":{"a":"eA==","b":"hunter2\q"}}`:    "data.b: not a valid JSON string",
		"{\"data\":{\"a\":\"hunter2\x01\"}}":       "data.a: not a valid JSON string",
		`{"data":{"a":["hunter2"]}}`:               "data.a: want a string, got an array",
		`{"data":{"a":7777777}}`:                   "data.a: want a string, got a number",
		`{"data":{"a":nhunter2}}`:                  "data.a: not valid JSON",
		`{"data":"hunter2"}`:                       "data: want an object, got a string",
		`{"data":["hunter2"]}`:                     "data: want an object, got an array",
		`{"data":nhunter2}`:                        "data: want an object, got null",
		`{"data":{"a":"hunter2"},"immutable":"x"}`: "data.a: not valid base64",
	} {
		in = strings.Replace(in, "{", `{"metadata":{"name":"a"},`, 1)
		s := newScanner(iotest.OneByteReader(strings.NewReader(in + item("next", "1"))))
		_, err := object[*hidden](s)
		if err == nil || err.Error() != "decode object a: "+want {
			t.Errorf("%s: got %v, want %s", in, err, want)
		}
		if next, err := object[*hidden](s); err != nil || next.Name != "next" {
			t.Errorf("behind %s: got %v", in, err)
		}
	}
}

// FuzzDigestsAsStandard holds the digests to the values that encoding/json reads: on valid JSON the digests of the
// same values, or an error for both; on any other input an end, and the same one however the bytes arrive.
func FuzzDigestsAsStandard(f *testing.F) {
	for _, s := range append(digestSeeds(), seeds...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		sameDigests(t, in, func(values map[string]any) error {
			for name, v := range values {
				if text, ok := v.(string); ok {
					values[name] = text
				} else if v != nil {
					return fmt.Errorf("%T", v)
				}
			}
			return nil
		}, new(Digests))
		sameDigests(t, in, func(values map[string]any) error {
			var decoded map[string][]byte
			for _, v := range values {
				if _, ok := v.(string); !ok && v != nil { // encoding/json takes arrays of numbers for bytes
					return fmt.Errorf("%T", v)
				}
			}
			err := json.Unmarshal([]byte(in), &decoded)
			for name, v := range decoded {
				values[name] = string(v)
			}
			return err
		}, new(EncodedDigests))
	})
}

// sameDigests compares the digests that are read into a target with the values that standard leaves in a map.
func sameDigests(t *testing.T, in string, standard func(map[string]any) error, into any) {
	t.Helper()
	const next = `"next"`
	var first error
	target := reflect.ValueOf(into).Elem()
	for i, r := range []io.Reader{strings.NewReader(in + next), iotest.OneByteReader(strings.NewReader(in + next)),
		&chunked{in + next, 7}} {
		target.SetZero()
		s := newScanner(r)
		err := decodeInto(s, into)
		if i == 0 {
			first = err
		} else if fmt.Sprint(err) != fmt.Sprint(first) {
			t.Fatalf("%T of %q: the error depends on how the bytes arrive: %v or %v", into, in, first, err)
		}
		if !json.Valid([]byte(in)) || nesting(in) > maxDepth {
			continue
		}
		var values map[string]any
		wantErr := json.Unmarshal([]byte(in), &values)
		if wantErr == nil {
			wantErr = standard(values)
		}
		want := []NamedDigest{}
		for name, v := range values {
			text, _ := v.(string)
			want = append(want, NamedDigest{name, digestOf(text)})
		}
		got := target.Convert(reflect.TypeFor[[]NamedDigest]()).Interface()
		if (err == nil) != (wantErr == nil) && plainNames(in) ||
			err == nil && wantErr == nil && !reflect.DeepEqual(got, sortedDigests(want)) {
			t.Fatalf("%T of %q:\ngot  %v, %v\nwant %v, %v", into, in, got, err, want, wantErr)
		}
		if bad := (*misfit)(nil); err != nil && !errors.As(err, &bad) {
			t.Fatalf("%T of %q broke the stream: %v", into, in, err)
		}
		if v, err := s.value(); err != nil || string(v) != next {
			t.Fatalf("%T of %q: behind the value is %q, %v", into, in, v, err)
		}
	}
}

// digestSeeds are maps on which decoders disagree easily.
func digestSeeds() []string {
	long := strings.Repeat("QUJDREVGR0hJSktM", 100)
	return []string{
		`{"a":"x","b":"","c":null}`, `{"b":"x","a":"y","b":"z"}`, `{"a":"x","a":null}`, `null`, `{}`, `[]`, `"x"`,
		`{"a":"\n\t\"\\\/\b\f\r\u00e9\ud83d\ude00"}`, `{"a":"\ud83d","b":"\ud83dx","c":"\ud83d\n","d":"\ude00"}`,
		`{"a":"\ud83d\u0041","b":"\ud83d\ud83d\ude00","c":"\uFFFD"}`, `{"a":"é€😀"}`,
		`{"a":7,"b":"x"}`, `{"a":{"b":[1]}}`,
		"{\"a\":\"\xff\",\"b\":\"x\xe2\x82\",\"c\":\"\xf0\x9f\x98é\"}", "{\"a\":\"\x01\"}",
		`{"a":"\q"}`, `{"a":"\u12"}`,
		`{"a":"\u`, `{"a":"\ud83d\u1"}`, `{"a":nul}`, `{"a":no,"b":"x"}`, `{"a":true}`, `{"a":"x",}`, `{"a":"x`,
		`{"a":"eA==","b":"eA=","c":"eA","d":"e"}`, `{"a":"eA==eA=="}`, `{"a":"e A=="}`,
		`{"a":"eA=\n=\r\n","b":"\neHh4"}`,
		`{"a":"_-8="}`, `{"a":"eA==\u0041"}`, `{"a":"eB=="}`,
		`{"a":"` + long + `","b":"` + long + `eA==","c":"eA==` + long + `"}`,
		`{"a":"` + long[:1020] + `eA==","b":"` + long[:1020] + `eA==eA=="}`,
		`{"\u0061":"x","é":"y"}`, `{"a":"\u0065A=\u003d"}`,
		`{"a":"x","A":"y"}`, `{"a":["x"]}`, `{"a":[1,2]}`,
	}
}

// BenchmarkDecodeSecrets reads 1,000 Secrets of 36 KiB, in each encoding, with the digests of the values and without.
func BenchmarkDecodeSecrets(b *testing.B) {
	const n = 1000
	value := strings.Repeat("QUJDREVGR0hJSktMTU5PUFFSU1RVVldY", 3<<7)
	var objects []string
	for i := range n {
		data := fmt.Sprintf(`{"a":%q,"b":%q,"c":%q}`, value, value, value)
		objects = append(objects, fmt.Sprintf(`{"metadata":{"name":"s-%d"},"data":%s,"type":"Opaque"}`, i, data))
	}
	inJSON := []byte(`{"kind":"SecretList","metadata":{"resourceVersion":"9"},"items":[` +
		strings.Join(objects, ",") + `]}`)
	inProtobuf := []byte(protoListOf(b, secretKind, "9", objects...))
	type plain struct {
		Meta `json:"metadata"`
	}
	decodeSecrets[*hidden](b, "digests", n, inJSON, inProtobuf)
	decodeSecrets[*plain](b, "skipped", n, inJSON, inProtobuf)
}

func decodeSecrets[T Object](b *testing.B, name string, n int, inJSON, inProtobuf []byte) {
	run := func(encoding string, body []byte, decode func(r io.Reader, all *ListResult[T]) (listMeta, error)) {
		b.Run(name+"/"+encoding, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				var all ListResult[T]
				if _, err := decode(bytes.NewReader(body), &all); err != nil || len(all.Items) != n {
					b.Fatalf("decoded %d Secrets: %v", len(all.Items), err)
				}
			}
		})
	}
	run("json", inJSON, func(r io.Reader, all *ListResult[T]) (listMeta, error) {
		s := newScanner(r)
		s.wipes = holdsDigests(reflect.TypeFor[T]())
		return decodePage(s, "Secret", all)
	})
	run("protobuf", inProtobuf, func(r io.Reader, all *ListResult[T]) (listMeta, error) {
		return decodeProtoPage(newProtoReader(r, protoPlanOf[T](secretKind), expected{}), "Secret", all)
	})
}
