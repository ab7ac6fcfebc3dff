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
