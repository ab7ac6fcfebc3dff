package apiserver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// definitionOf is a definition in the group example.com, whose objects have an integer up to max in spec.n.
func definitionOf(plural, kind string, max int) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":
		"%[1]s.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"%[1]s","kind":"%[2]s",
		"shortNames":["x"]},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":
		"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","maximum":%[3]d},"m":{
		"type":"integer"}}}}}}}]}}`, plural, kind, max)
}

// Rules: FC-09
//
// The scripts names-of-definitions and ratcheting of internal/tools/e2e hold the same against a real server.
func TestADefinitionWaitsForNamesThatAnotherHas(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		w.must(201, "POST", definitions, definitionOf("boxes", "Box", 9))
		w.must(201, "POST", definitions, definitionOf("crates", "Crate", 9))
		synctest.Wait()
		a := w.must(200, "GET", definitions+"/crates.example.com", "")
		if !strings.Contains(a.raw, `"message":"\"x\" is already in use","reason":"ShortNamesConflict","status":"False"`) ||
			a.at("status.acceptedNames.kind") != "Crate" {
			t.Error(a.raw)
		}
		const crates = "/apis/example.com/v1/namespaces/default/crates"
		w.must(404, "GET", crates, "")
		w.must(200, "DELETE", definitions+"/boxes.example.com", "")
		synctest.Wait()
		w.must(200, "GET", crates, "")
	})
}

// Rules: FC-09
func TestWhatWasInvalidBeforeAnUpdateMayStay(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		w.must(201, "POST", definitions, definitionOf("boxes", "Box", 9))
		synctest.Wait()
		const boxes = "/apis/example.com/v1/namespaces/default/boxes"
		w.must(201, "POST", boxes, `{"apiVersion":"example.com/v1","kind":"Box","metadata":{"name":"a"},"spec":{"n":7}}`)
		stricter := definitionOf("boxes", "Box", 5)
		w.must(200, "PATCH", definitions+"/boxes.example.com", stricter, "Content-Type", mergeType)
		synctest.Wait()
		w.must(200, "PATCH", boxes+"/a", `{"spec":{"m":1}}`, "Content-Type", mergeType)
		w.must(422, "PATCH", boxes+"/a", `{"spec":{"n":8}}`, "Content-Type", mergeType)
		w.must(200, "PATCH", boxes+"/a", `{"spec":{"n":5}}`, "Content-Type", mergeType)
		w.must(422, "PATCH", boxes+"/a", `{"spec":{"n":7}}`, "Content-Type", mergeType)
	})
}
