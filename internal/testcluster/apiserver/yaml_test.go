package apiserver

import (
	"strings"
	"testing"

	"skiff/internal/testcluster/apiserver/obj"
)

// Rules: FD-25
func TestObjectsComeAndGoInYAMLAndNotInCBOR(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		const yaml, cbor = "application/yaml", "application/cbor"
		read := func(a response) map[string]any {
			if a.header.Get("Content-Type") != yaml {
				t.Errorf("not in YAML: %v %s", a.header, a.raw)
			}
			v, _, err := obj.DecodeYAML([]byte(a.raw))
			if err != nil {
				t.Errorf("%v: %s", err, a.raw)
			}
			o, _ := v.(map[string]any)
			return o
		}
		const body = "metadata:\n  name: a\ndata:\n  number: \"1\"\n  lines: |\n    a\n    b\n"
		a := w.must(201, "POST", configMaps, body, "Content-Type", yaml, "Accept", yaml)
		if data := obj.Map(read(a), "data"); data["number"] != "1" || data["lines"] != "a\nb\n" {
			t.Errorf("created: %v", data)
		}
		list := read(w.must(200, "GET", configMaps, "", "Accept", yaml+", application/json"))
		if items := obj.Maps(list, "items"); len(items) != 1 || obj.String(items[0], "metadata", "name") != "a" {
			t.Errorf("the list: %v", list)
		}
		if n, _ := obj.Int(read(w.must(404, "GET", configMaps+"/b", "", "Accept", yaml)), "code"); n != 404 {
			t.Errorf("the code in a Status is %d", n)
		}
		read(w.must(406, "GET", configMaps+"?watch=1", "", "Accept", yaml))
		a = w.must(200, "GET", configMaps+"/a", "", "Accept", "application/json, "+yaml)
		if a.at("kind") != "ConfigMap" {
			t.Errorf("JSON is preferred: %s", a.raw)
		}
		w.must(406, "GET", configMaps+"/a", "", "Accept", cbor)
		w.must(200, "GET", configMaps+"/a", "", "Accept", cbor+", application/json")
		a = w.must(415, "POST", configMaps, "\xd9\xd9\xf7\xa0", "Content-Type", cbor)
		if !strings.Contains(a.raw, yaml) {
			t.Errorf("CBOR: %s", a.raw)
		}
	})
}
