package apiserver

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"skiff/internal/runtime/kube"
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
		for _, a := range []response{
			w.must(200, "GET", configMaps+"/abc", "", "Accept", forms.ProtobufType+";q=0.1"),
			w.must(200, "PATCH", configMaps+"/abc", `{"data":{"k":"v"}}`, "Accept", forms.ProtobufType, "Content-Type",
				string(kube.MergePatch)),
			w.must(200, "DELETE", configMaps+"/abc", "", "Accept", forms.ProtobufType),
			w.must(201, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}", "Accept",
				forms.ProtobufType),
		} {
			if !strings.HasPrefix(a.raw, "k8s\x00") || a.header.Get("Content-Type") != forms.ProtobufType {
				t.Errorf("%s: %q", a.header.Get("Content-Type"), a.raw)
			}
		}
	})
}

// What an answer has encoded is kept for the next ones, but for the same version and the same kind.
func TestProtobufHasTheNewestVersionOfEachObjectHoweverOftenItIsRead(t *testing.T) {
	withServer(t, Options{}, func(w *testServer) {
		list := func(path string) string {
			a := w.must(200, "GET", path, "", "Accept", forms.ProtobufType)
			if a.header.Get("Content-Length") != strconv.Itoa(len(a.raw)) {
				t.Errorf("%s: %d bytes, Content-Length %s", path, len(a.raw), a.header.Get("Content-Length"))
			}
			return a.raw
		}
		w.must(201, "POST", configMaps, `{"metadata":{"name":"a"},"data":{"k":"first \"value\""}}`)
		w.must(201, "POST", configMaps, `{"metadata":{"name":"b"},"data":{"k":"other"}}`)
		was := list(configMaps)
		if !strings.Contains(was, `first "value"`) || !strings.Contains(was, "other") || list(configMaps) != was {
			t.Errorf("%q\nand again %q", was, list(configMaps))
		}
		w.must(200, "PATCH", configMaps+"/a", `{"data":{"k":"second"}}`, "Content-Type", string(kube.MergePatch))
		if is := list(configMaps); strings.Contains(is, "first") || !strings.Contains(is, "second") ||
			!strings.Contains(is, "other") {
			t.Errorf("after a change: %q", is)
		}
		for i := range 600 { // so many that several goroutines encode them
			w.must(201, "POST", configMaps, fmt.Sprintf(`{"metadata":{"name":"many-%d"}}`, i))
		}
		if n := strings.Count(list(configMaps), "many-"); n != 600 {
			t.Errorf("%d of 600 objects", n)
		}
		// The same objects under two kinds, whose fields have other numbers.
		w.must(201, "POST", "/api/v1/namespaces/default/events", `{"metadata":{"name":"e"},"reason":"R",
			"message":"text","involvedObject":{"kind":"Pod","namespace":"default","name":"p"}}`)
		const core, events = "/api/v1/events", "/apis/events.k8s.io/v1/events"
		one, other := list(core), list(events)
		if one == other || list(core) != one || list(events) != other {
			t.Errorf("%q\n%q", one, other)
		}
	})
}
