package schema

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// message makes the bytes of a field that holds bytes.
func field(number uint64, content ...byte) []byte {
	out := binary.AppendUvarint(nil, number<<3|lengthDelimited)
	return append(binary.AppendUvarint(out, uint64(len(content))), content...)
}

// body wraps the fields of an object in the envelope.
func body(apiVersion, kind string, content ...[]byte) []byte {
	typeMeta := append(field(1, []byte(apiVersion)...), field(2, []byte(kind)...)...)
	return bytes.Join([][]byte{magic, field(1, typeMeta...), field(2, bytes.Join(content, nil)...)}, nil)
}

// What all kinds have in common a test of internal/tools/e2e compares with the real types. These are the corners of
// the wire.
//
// Rules: FD-15
func TestProtobufIsReadAsTheWireAllowsIt(t *testing.T) {
	meta := field(1, field(1, []byte("a")...)...)
	for _, c := range []struct {
		what string
		body []byte
		want string
	}{
		{"a struct that comes twice is merged", body("v1", "ConfigMap", meta,
			field(1, field(3, []byte("ns")...)...)),
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"ns"}}`},
		{"unknown fields are dropped, of each wire type", body("v1", "ConfigMap", meta,
			[]byte{0xa0, 0x06, 1, 0xa1, 0x06, 1, 2, 3, 4, 5, 6, 7, 8, 0xa5, 0x06, 1, 2, 3, 4}, field(100, 'x')),
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`},
		{"a member without a value has the zero value", body("v1", "ConfigMap", field(2, field(1, 'k')...)),
			`{"apiVersion":"v1","data":{"k":""},"kind":"ConfigMap"}`},
		{"text that is no UTF-8 becomes some", body("v1", "ConfigMap",
			field(2, append(field(1, 'k'), field(2, 0xff)...)...)),
			`{"apiVersion":"v1","data":{"k":"�"},"kind":"ConfigMap"}`},
		{"numbers may be packed", body("v1", "Pod", field(2, field(14, field(4, 1, 0x80, 0x01)...)...)),
			`{"apiVersion":"v1","kind":"Pod","spec":{"securityContext":{"supplementalGroups":[1,128]}}}`},
		{"or one by one", body("v1", "Pod", field(2, field(14, 0x20, 1, 0x20, 0x80, 0x01)...)),
			`{"apiVersion":"v1","kind":"Pod","spec":{"securityContext":{"supplementalGroups":[1,128]}}}`},
		{"a time that is not set is null", body("v1", "ConfigMap", field(1, field(8)...)),
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"creationTimestamp":null}}`},
		{"a kind that is not known", body("v1", "Boat", meta), `{"apiVersion":"v1","kind":"Boat"}`},
	} {
		got, err := DecodeProtobuf(c.body, "", "")
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != c.want {
			t.Errorf("%s: %s\nwant %s", c.what, text, c.want)
		}
	}
}

func TestProtobufThatIsNoneIsRefused(t *testing.T) {
	schema := []byte{}
	for range maxDepth {
		schema = field(28, schema...) // not
	}
	spec := field(2, field(7, field(4, field(1, schema...)...)...)...)
	for _, c := range []struct {
		body []byte
		want string
	}{
		{[]byte("k8s\x00\x02\x00"), "proto: illegal tag 0 (wire type 2)"},
		{[]byte("k8s\x00\x0b"), "proto: illegal wireType 3"},
		{append(bytes.Clone(magic), bytes.Repeat([]byte{0xff}, 11)...), "unexpected EOF"},
		{body("v1", "ConfigMap", []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}), "unexpected EOF"},
		{body("v1", "ConfigMap", field(1, field(7, 'x')...)), "metadata: generation: proto: wrong wireType = 2"},
		{body("apps/v1", "ControllerRevision", field(2, field(1, '{')...)), "decode JSON: unexpected EOF"},
		{body("apiextensions.k8s.io/v1", "CustomResourceDefinition", spec), "nested more than 1000 levels deep"},
	} {
		if _, err := DecodeProtobuf(c.body, "", ""); err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%.20q: %v, want %s", c.body, err, c.want)
		}
	}
}

// Any bytes are read without a panic into something that is JSON and not much larger.
func FuzzDecodeProtobuf(f *testing.F) {
	text, err := os.ReadFile("../testdata/protobuf.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] != "#" {
			b, err := base64.StdEncoding.DecodeString(words[2])
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		object, err := DecodeProtobuf(b, "apps/v1", "Deployment")
		if err != nil {
			return
		}
		out, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		// An item of a list takes two bytes; the longest name of a field, quoted and with braces around, is below 100.
		if len(out) > 100*len(b)+1000 {
			t.Errorf("%d bytes became %d", len(b), len(out))
		}
	})
}
