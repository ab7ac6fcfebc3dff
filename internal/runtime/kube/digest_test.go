package kube

import (
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
	{secretKind, `"type":"Opaque","data":{"tls.key":"` + strings.Repeat("QUJD", 30_000) + `QQ==","a":"eA=="},"immutable":false`,
		digestsOf("a", "x", "tls.key", strings.Repeat("ABC", 30_000)+"A"), nil},
	{secretKind, `"type":"Opaque"`, nil, nil},
}

func TestDigestsAreTheSameInBothEncodingsHoweverTheBytesArrive(t *testing.T) {
	for _, c := range digestCases {
		object := `{"metadata":{"name":"a","uid":"u"},` + c.fields + `}`
		for _, size := range []int{1, 2, 3, 7, 1000, 1 << 20} {
			if c.kind == secretKind {
				s, p := bothEncodings[*hidden](t, c.kind, object, size)
				if !reflect.DeepEqual(s, p) || !reflect.DeepEqual([]NamedDigest(s.Data), c.data) || s.Type != "Opaque" {
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
	if !reflect.DeepEqual(inJSON.Items[0], ofJSON.Object) || !reflect.DeepEqual(inProtobuf.Items[0], ofProtobuf.Object) {
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
		p := Query{Resource: secretKind}.protoReader(&chunked{inProtobuf, size}, protoPlanOf[*hidden](secretKind), most)
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
	if ev, err := nextEvent[*hidden](s); err != nil || !ev.Part.Skimmed || ev.Part.Size > 200 || ev.Object.Data != nil {
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

// protoSecret is a watch event with a Secret called a, and the given fields behind the metadata.
func protoSecret(fields string) string {
	raw := "\x0a\x03\x0a\x01a" + fields
	envelope := "k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Secret\x12" + string(rune(len(raw))) + raw
	return "\x0a\x05ADDED\x12" + string(rune(len(envelope)+2)) + "\x0a" + string(rune(len(envelope))) + envelope
}

func protoEventOf(event string) string { return "\x00\x00\x00" + string(rune(len(event))) + event }

func TestEntriesOfAMapInProtobuf(t *testing.T) {
	for fields, want := range map[string]string{
		"\x12\x06\x0a\x01a\x12\x01x": fmt.Sprint(digestsOf("a", "x")),
		"\x12\x06\x12\x01x\x0a\x01a": fmt.Sprint(digestsOf("a", "x")), // the value first
		"\x12\x03\x0a\x01a":          fmt.Sprint(digestsOf("a", "")),
		"\x12\x00":                   fmt.Sprint(digestsOf("", "")),
		"\x12\x06\x0a\x01a\x12\x01x\x12\x06\x0a\x01a\x12\x01y":     fmt.Sprint(digestsOf("a", "y")),
		"\x12\x09\x0a\x01a\x12\x01x\x12\x01y":                      fmt.Sprint(digestsOf("a", "y")),
		"\x12\x08\x0a\x01a\x12\x01x\x18\x01\x28\x01\x1a\x06Opaque": fmt.Sprint(digestsOf("a", "x")),
		"\x12\x06\x0a\x01a\x12\x07x":                               "decode object a: data: the protobuf message ends within a field",
		"\x12\x06\x0a\x01a\x12\x80":                                "decode object a: the protobuf message ends within a field",
		"\x12\x05\x0a\x01a\x12\x80":                                "decode object a: data: the protobuf message ends within a field",
		"\x12\x05\x0a\x01a\x10\x01":                                "decode object a: data: the field has the wire type 0, want 2",
		"\x10\x01":                                                 "decode object a: data: the field has the wire type 0, want 2",
		"\x12\x7f\x0a\x01a":                                        "decode object a: the protobuf message ends within a field",
		"\x12\x02\x13\x00":                                         "decode object a: data: a field of the protobuf message has the wire type 3",
	} {
		event := protoSecret(fields)
		next := protoFrame("ADDED", protoOf(t, secretKind, item("next", "8")))
		for _, size := range []int{1, 1000} {
			p := newProtoReader(&chunked{protoEventOf(event) + next, size}, protoPlanOf[*hidden](secretKind), expected{})
			ev, err := nextProtoEvent[*hidden](p, nil)
			got := fmt.Sprint(err)
			if err == nil {
				got = fmt.Sprint(ev.Object.Data)
			}
			if got != want {
				t.Errorf("%q: got %s, want %s", fields, got, want)
			}
			if ev, err := nextProtoEvent[*hidden](p, nil); err != nil || ev.Object.Name != "next" {
				t.Errorf("behind %q: %v, %v", fields, ev, err)
			}
		}
	}
}

func TestOtherEventsWithDigestsAreReadAsEver(t *testing.T) {
	p := newProtoReader(iotest.OneByteReader(strings.NewReader(protoStory(t))), protoPlanOf[*hidden](secretKind),
		expected{})
	got := tellEvents(func() (Event[*pod], error) {
		ev, err := nextProtoEvent[*hidden](p, nil)
		told := Event[*pod]{Type: ev.Type, ResourceVersion: ev.ResourceVersion, InitialEventsEnd: ev.InitialEventsEnd}
		if ev.Object != nil {
			told.Object = &pod{Meta: ev.Object.Meta}
		}
		return told, err
	})
	if want := tellProto(strings.NewReader(protoStory(t))); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// An object ahead of its type would have to be held whole.
func TestAnObjectWithDigestsAheadOfItsTypeEndsTheWatch(t *testing.T) {
	s := newScanner(strings.NewReader(`{"object":` + longSecret() + `,"type":"ADDED"}`))
	s.wipes = true
	if _, err := nextEvent[*hidden](s); !errors.Is(err, ErrFrameTooLarge) || len(s.buf) > bulkBuffer {
		t.Errorf("JSON: %v", err)
	}
	p := newProtoReader(strings.NewReader(protoEventOf("\x12\x02\x0a\x00\x0a\x05ADDED")),
		protoPlanOf[*hidden](secretKind), expected{})
	if _, err := nextProtoEvent[*hidden](p, nil); !errors.Is(err, ErrFrameTooLarge) {
		t.Errorf("protobuf: %v", err)
	}
}

func TestDigestsThatDidNotChangeAreThoseOfTheVersionBefore(t *testing.T) {
	object := protoFrame("MODIFIED", protoOf(t, secretKind, `{"metadata":{"name":"a"},"data":{"a":"eA==","b":""}}`))
	p := newProtoReader(strings.NewReader(object+object), protoPlanOf[*hidden](secretKind), expected{})
	first, err := nextProtoEvent[*hidden](p, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := nextProtoEvent(p, func(Key) (*hidden, bool) { return first.Object, true })
	if err != nil || &second.Object.Data[0] != &first.Object.Data[0] {
		t.Errorf("the digests are held twice, %v", err)
	}
}

func TestDigestsBelowTheTopOfAnObjectAreReadFromJSON(t *testing.T) {
	type labeled struct {
		Metadata struct {
			Meta
			Annotations Digests `json:"annotations"`
		} `json:"metadata"`
	}
	if protoStructOf(reflect.TypeFor[labeled](), "v1 Secret") != nil || !holdsDigests(reflect.TypeFor[*labeled]()) ||
		holdsDigests(reflect.TypeFor[*everything]()) {
		t.Error("protobuf is asked for where values would be held")
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
		`{"a":"\ud83d\u0041","b":"\ud83d\ud83d\ude00","c":"\uFFFD"}`, `{"a":"é€😀"}`, `{"a":7,"b":"x"}`, `{"a":{"b":[1]}}`,
		"{\"a\":\"\xff\",\"b\":\"x\xe2\x82\",\"c\":\"\xf0\x9f\x98é\"}", "{\"a\":\"\x01\"}", `{"a":"\q"}`, `{"a":"\u12"}`,
		`{"a":"\u`, `{"a":"\ud83d\u1"}`, `{"a":nul}`, `{"a":no,"b":"x"}`, `{"a":true}`, `{"a":"x",}`, `{"a":"x`,
		`{"a":"eA==","b":"eA=","c":"eA","d":"e"}`, `{"a":"eA==eA=="}`, `{"a":"e A=="}`, `{"a":"eA=\n=\r\n","b":"\neHh4"}`,
		`{"a":"_-8="}`, `{"a":"eA==\u0041"}`, `{"a":"eB=="}`, `{"a":"` + long + `","b":"` + long + `eA==","c":"eA==` + long + `"}`,
		`{"a":"` + long[:1020] + `eA==","b":"` + long[:1020] + `eA==eA=="}`, `{"\u0061":"x","é":"y"}`, `{"a":"\u0065A=\u003d"}`,
		`{"a":"x","A":"y"}`, `{"a":["x"]}`, `{"a":[1,2]}`,
	}
}
