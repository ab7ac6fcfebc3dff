package cache

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/forms"
	protobuf "skiff/internal/testcluster/apiserver/schema" // package cache has fields of its own
)

// This file gives the suite its second turn, in protobuf: scripts stay JSON, and the server sends them as apiserver
// encodes them. Probes are JSON in both turns.

// inProtobuf is set in the second turn. In the first one, clients ask for JSON only.
var inProtobuf bool

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	for _, only := range []string{"test.bench", "test.list", "test.cpuprofile"} {
		if flag.Lookup(only).Value.String() != "" {
			os.Exit(code) // once is what was asked for
		}
	}
	inProtobuf = true
	if again := m.Run(); again != 0 {
		fmt.Println("in the turn in protobuf tests have failed")
		code = again
	}
	os.Exit(code)
}

// inOneTurn skips a test in protobuf that is the same in both turns, where that takes long, or only has JSON.
func inOneTurn(t *testing.T, why string) {
	t.Helper()
	if inProtobuf {
		t.Skip("not in protobuf: " + why)
	}
}

func asksForProtobuf(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Accept"), forms.ProtobufType)
}

// answer sends a body in the encoding that was asked for.
func answer(w http.ResponseWriter, r *http.Request, code int, body string) {
	contentType := "application/json"
	if asksForProtobuf(r) {
		contentType, body = forms.ProtobufType, string(protobufOf(body))
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(code)
	fmt.Fprint(w, body)
}

// openStream sets the header of an answer that is sent piece by piece, in the encoding of the turn.
func openStream(w http.ResponseWriter) {
	contentType := "application/json"
	if inProtobuf {
		contentType = forms.ProtobufType + ";stream=watch"
	}
	w.Header().Set("Content-Type", contentType)
}

// inTurn is a body in the encoding of the turn.
func inTurn(body string) string {
	if inProtobuf {
		return string(protobufOf(body))
	}
	return body
}

func protobufEvent(t, obj string) string { return string(protobuf.EncodeEvent(t, protobufOf(obj))) }

// notANumber makes a string of the priority of a pod (field 25) where protobufOf has put it into schedulerName (19).
var notANumber = strings.NewReplacer("\x9a\x01\x0cnot a number", "\xca\x01\x0cnot a number")

// protobufOf encodes a Status, a list or a pod. What has no kind is a pod.
func protobufOf(text string) []byte {
	var decoded any
	in := json.NewDecoder(strings.NewReader(text))
	in.UseNumber()
	err := in.Decode(&decoded)
	if err != nil {
		panic(fmt.Errorf("the script has %q: %w", text, err))
	}
	o := fieldValues(decoded).(map[string]any)
	kind, _ := o["kind"].(string)
	var body []byte
	switch kind {
	case "", "Pod":
		body, err = protobuf.For("v1", "Pod").Encode("v1", "Pod", stored(o))
	case "Status":
		body, err = protobuf.For("v1", kind).Encode("v1", kind, stored(o))
	default:
		var items []byte
		listed, _ := o["items"].([]any)
		for _, item := range listed {
			fields, itemErr := new(protobuf.Encoder).Append(nil, protobuf.For("v1", "Pod"), stored(item))
			items = append(protobuf.AppendItem(items, len(fields)), fields...)
			err = errors.Join(err, itemErr)
		}
		head, listErr := protobuf.AppendList(nil, "v1", kind, stored(o["metadata"]), len(items))
		body, err = append(append(head, items...), protobuf.EndOfEnvelope...), errors.Join(err, listErr)
	}
	if err != nil {
		panic(fmt.Errorf("the script has %q: %w", text, err))
	}
	return []byte(notANumber.Replace(string(body)))
}

// stored is a value as the server stores it.
func stored(v any) []byte {
	out, err := patch.Encode(v)
	if err != nil {
		panic(err)
	}
	return out
}

// fieldValues makes of decoded JSON what package schema encodes. It changes v.
func fieldValues(v any) any {
	switch v := v.(type) {
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			panic(err)
		}
		return n
	case []any:
		for i := range v {
			v[i] = fieldValues(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = fieldValues(v[name])
		}
		if priority, ok := v["priority"]; ok {
			if _, ok = priority.(int64); !ok {
				delete(v, "priority")
				v["schedulerName"] = "not a number"
			}
		}
	}
	return v
}
