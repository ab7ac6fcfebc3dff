package apiserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skiff/internal/runtime/patch"
	"skiff/internal/testcluster/apiserver/obj"
	"skiff/internal/testcluster/apiserver/store"
)

// lamp is a definition with a webhook: v1 has spec.color, v2 has spec.colour, and one of them is stored.
func lamp(h *hooks, stored string) string {
	version := func(name, field string) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%v,"subresources":{"status":{},
			"scale":{"specReplicasPath":".spec.bulbs","statusReplicasPath":".status.bulbs"}},
			"selectableFields":[{"jsonPath":".spec.%s"}],"schema":{"openAPIV3Schema":{"type":"object","properties":{
			"spec":{"type":"object","properties":{%q:{"type":"string","enum":["red","blue"]},"bulbs":{"type":"integer"},
			%q:{"type":"boolean","default":true}}},"status":{"type":"object","properties":{"bulbs":{"type":"integer"}}}}}}}`,
			name, name == stored, field, field, "is"+name)
	}
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":
		"lamps.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"lamps","kind":"Lamp"},
		"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{
		"url":"https://127.0.0.1:9/convert","caBundle":"` + h.bundle + `"}}},
		"versions":[` + version("v1", "color") + "," + version("v2", "colour") + `]}}`
}

// convertLamps answers a ConversionReview.
func convertLamps(request map[string]any) string {
	to, out := obj.String(request, "desiredAPIVersion"), []any{}
	for _, o := range obj.Maps(request, "objects") {
		o["apiVersion"] = to
		spec := obj.Map(o, "spec")
		for field, other := range map[string]string{"color": "colour", "colour": "color"} {
			in := map[string]string{"color": "v2", "colour": "v1"}[field]
			if v, ok := spec[field]; ok && strings.HasSuffix(to, in) {
				delete(spec, field)
				spec[other] = v
				break
			}
		}
		obj.Set(o, "x", "metadata", "annotations", "converted")
		obj.Set(o, "another", "metadata", "resourceVersion") // is ignored
		out = append(out, o)
	}
	text, err := patch.Encode(out)
	if err != nil {
		return err.Error()
	}
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"UID",
		"result":{"status":"Success"},"convertedObjects":` + string(text) + `}}`
}

const lamps = "/apis/example.com/%s/namespaces/default/lamps"

func lampBody(version, name, field string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Lamp","metadata":{"name":%q},"spec":{%q:"red","bulbs":2}}`,
		version, name, field)
}

// Rules: FC-07
func TestAWebhookConvertsCustomResources(t *testing.T) {
	withHooks(t, func(w *testServer, h *hooks) {
		v1, v2 := fmt.Sprintf(lamps, "v1"), fmt.Sprintf(lamps, "v2")
		h.by["/convert"] = convertLamps
		w.must(201, "POST", crdPath, lamp(h, "v1"))
		w.established("lamps.example.com")
		watch := w.watch(v2 + "?watch=1")
		defer watch.close()

		w.must(201, "POST", v1, lampBody("v1", "a", "color"))
		if calls := h.called(); calls != "" && calls != "/convert " { // by the watch of v2 only
			t.Errorf("a write in the stored version was converted: %s", calls)
		}
		if f := watch.next(); f.at("spec.colour") != "red" || f.at("apiVersion") != "example.com/v2" {
			t.Errorf("watched: %v", f)
		}
		a := w.must(200, "GET", v2+"/a", "")
		if a.at("spec.colour") != "red" || a.at("spec.color") != nil || a.at("spec.isv2") != nil ||
			a.at("spec.isv1") != nil || a.at("metadata.annotations.converted") != "x" ||
			a.at("metadata.resourceVersion") == "another" {
			t.Errorf("read in v2: %s", a.raw)
		}
		w.must(422, "PATCH", v2+"/a", `{"spec":{"colour":"green"}}`, "Content-Type", "application/merge-patch+json")
		a = w.must(200, "PATCH", v2+"/a", `{"spec":{"colour":"blue"}}`, "Content-Type",
			"application/merge-patch+json")
		if a.at("spec.colour") != "blue" || a.at("metadata.generation") != int64(2) {
			t.Errorf("patched in v2: %s", a.raw)
		}
		w.must(200, "PATCH", v2+"/a/scale", `{"spec":{"replicas":5}}`, "Content-Type", "application/merge-patch+json")
		w.must(201, "POST", v2, lampBody("v2", "b", "colour"))
		if a := w.must(200, "GET", v1+"/a", ""); a.at("spec.color") != "blue" || a.at("spec.bulbs") != int64(5) ||
			a.at("spec.isv1") != true {
			t.Errorf("stored: %s", a.raw)
		}
		h.called()
		a = w.must(200, "GET", v2+"?fieldSelector=spec.colour%3Dblue", "")
		if items := obj.Maps(a.body, "items"); len(items) != 1 || obj.String(items[0], "spec", "colour") != "blue" ||
			h.called() != "/convert " {
			t.Errorf("listed in v2: %s", a.raw)
		}
		// Another version is stored from now on. What is stored stays as it is until it is written.
		w.must(200, "PUT", crdPath+"/lamps.example.com", withVersion(w, crdPath+"/lamps.example.com", lamp(h, "v2")))
		w.established("lamps.example.com")
		h.called()
		w.must(200, "PATCH", v2+"/a", `{"spec":{"bulbs":6}}`, "Content-Type", "application/merge-patch+json")
		w.must(200, "GET", v2+"/a", "")
		if calls := h.called(); !strings.HasPrefix(calls, "/convert ") || strings.Count(calls, "convert") > 2 {
			t.Errorf("called: %s", calls) // once to read it, perhaps once for the watch
		}
		w.must(200, "DELETE", v1+"/a", "")
	})
}

// established waits until a definition is served in its newest form.
func (w *testServer) established(name string) {
	w.t.Helper()
	for range 100 {
		o := w.s.store.Get("customresourcedefinitions.apiextensions.k8s.io", store.Key{Name: name})
		if _, revision := w.s.registry.served(name); revision == o.Revision {
			return
		}
		<-time.After(time.Millisecond)
	}
	w.t.Fatalf("%s is not served", name)
}

func withVersion(w *testServer, path, body string) string {
	version, _ := w.must(200, "GET", path, "").at("metadata.resourceVersion").(string)
	return strings.Replace(body, `"metadata":{`, `"metadata":{"resourceVersion":"`+version+`",`, 1)
}
