package apiserver

import (
	"testing"

	"skiff/internal/testcluster/apiserver/forms"
)

// Rules: FD-15
func TestProtobufThatCannotBeReadIsRefused(t *testing.T) {
	const configMapType = "k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap"
	withWidgets(t, func(w *testServer) {
		for body, want := range map[string]string{ // all but one are the real server's words
			"abc": "the object provided is unrecognized (must be of type ConfigMap): " +
				"provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (616263)",
			"k8s\x00": "the object provided is unrecognized (must be of type ConfigMap): " +
				"empty body (6b387300)",
			"k8s\x00\x0a\x80": "the object provided is unrecognized (must be " +
				"of type ConfigMap): unexpected EOF (6b3873000a80)",
			configMapType +
				"\x12\x03\x0a\x05a": "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: unexpected EOF",
			configMapType +
				"\x12\x02\x08\x01": "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: metadata: proto: " +
				"wrong wireType = 0",
			"k8s\x00\x0a\x0b\x0a\x02v1\x12\x05Boats\x12\x02\x0a\x00": "Boats in version \"v1\" cannot be handled as " +
				"a ConfigMap: no kind \"Boats\" is registered for version \"v1\"",
		} {
			if a := w.must(400, "POST", configMaps, body, "Content-Type",
				forms.ProtobufType); a.at("message") != want {
				t.Errorf("%q: %v\nwant %s", body, a.at("message"), want)
			}
		}
		// An envelope that does not say what is in it holds what the endpoint takes.
		if a := w.must(201, "POST", configMaps, "k8s\x00\x12\x07\x0a\x05\x0a\x03abc", "Content-Type",
			forms.ProtobufType); a.at("metadata.name") != "abc" {
			t.Error(a.raw)
		}
		w.must(415, "POST", widgetPath, configMapType, "Content-Type", forms.ProtobufType)
		w.must(415, "PATCH", configMaps+"/abc", configMapType, "Content-Type", forms.ProtobufType)
		// only lists and watches are in protobuf
		w.must(406, "GET", configMaps+"/abc", "", "Accept", forms.ProtobufType)
	})
}
