package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The server refuses what the schema forbids, and says which field.
func TestInvalidWebServersAreRefused(t *testing.T) {
	s := newScope(t)
	collection := "/apis/skiff.dev/v1alpha1/namespaces/" + s.NS + "/webservers"
	for field, spec := range map[string]Object{
		"spec.image":    {"image": "", "replicas": 1},
		"spec.replicas": {"image": "nginx:1", "replicas": -1},
		"spec.nodePort": {"image": "nginx:1", "nodePort": 80},
		"spec.port":     {"image": "nginx:1", "port": 70000},
	} {
		_, err := s.c.Admin.Create(t.Context(), collection, Object{
			"apiVersion": "skiff.dev/v1alpha1", "kind": "WebServer", "metadata": Object{"name": "bad"}, "spec": spec})
		if !IsCode(err, http.StatusUnprocessableEntity) || !strings.Contains(err.Error(), field) {
			t.Errorf("%v: want 422 that names %s, got %v", spec, field, err)
		}
	}
	_, err := s.c.Admin.Create(t.Context(), collection, Object{"apiVersion": "skiff.dev/v1alpha1", "kind": "WebServer", "metadata": Object{"name": "bad"}, "spec": Object{}})
	if !IsCode(err, http.StatusUnprocessableEntity) || !strings.Contains(err.Error(), "spec.image") {
		t.Errorf("no image: want 422 that names spec.image, got %v", err)
	}
}

// An older CRD without the checks lets nonsense in. skiff says so in a condition where the object can be read at all, in the log
// where it cannot, does not loop, and serves the others.
func TestNonsenseThatAnOlderCRDLetIn(t *testing.T) {
	s := newScope(t)
	t.Cleanup(func() { // the other tests need the checks
		r, err := s.kubectl.Run(noContext, "", "replace", "-f", filepath.Join(repository, "crds"))
		if err != nil || r.Code != 0 {
			t.Errorf("restore the CRD: %v %v", err, r)
		}
	})
	relaxCRD(t, s)
	collection := "/apis/skiff.dev/v1alpha1/namespaces/" + s.NS + "/webservers"
	create := func(name string, spec any) {
		t.Helper()
		// The server checks with the old schema for a moment after the CRD was changed.
		Eventually(t, settle, "the relaxed CRD takes "+name, func() (bool, string) {
			_, err := s.c.Admin.Create(t.Context(), collection, Object{
				"apiVersion": "skiff.dev/v1alpha1", "kind": "WebServer", "metadata": Object{"name": name}, "spec": spec})
			return err == nil, errorText(err)
		})
	}
	create("negative", Object{"image": "nginx:1.23.1", "replicas": -1})
	create("empty", Object{"image": "", "replicas": 1})
	create("words", Object{"image": "nginx:1.23.1", "replicas": "three"})
	create("list", []string{"not", "an", "object"})
	create("fine", Object{"image": "nginx:1.23.1", "replicas": 1})

	start := time.Now()
	sk := startSkiff(t, s) // the bad ones are in its first list
	s.waitChildren("fine", "nginx:1.23.1", 1)
	for name, word := range map[string]string{"negative": "replicas", "empty": "image"} {
		c := s.waitCondition(name, "Ready", "False")
		if !strings.Contains(c.Str("message"), word) {
			t.Errorf("%s: the message should name %s: %s", name, word, c)
		}
	}
	for _, name := range []string{"words", "list"} {
		Eventually(t, settle, "the log names the object that does not decode", func() (bool, string) {
			return len(sk.LogLines(s.NS+"/"+name)) > 0, sk.Tail(20)
		})
	}
	create("words-later", Object{"image": "nginx:1.23.1", "replicas": "four"}) // through the watch this time
	Eventually(t, settle, "the log names it", func() (bool, string) {
		return len(sk.LogLines(s.NS+"/words-later")) > 0, sk.Tail(20)
	})
	create("fine-later", Object{"image": "nginx:1.23.1", "replicas": 1})
	s.waitChildren("fine-later", "nginx:1.23.1", 1)

	// No loop: a handful of requests for each object, and none that read a list again and again.
	before := time.Now()
	Throughout(t, 10*time.Second, "no loop", func() (bool, string) {
		requests := s.skiffRequests(before, func(Request) bool { return true })
		return len(requests) < 20, fmt.Sprint(requests)
	})
	if requests := s.skiffRequests(start, func(r Request) bool { return true }); len(requests) > 120 {
		t.Errorf("%d requests for seven objects", len(requests))
	}

	// A repaired object is served like any other.
	s.Merge(collection+"/words", `{"spec":{"replicas":2}}`)
	s.Merge(collection+"/negative", `{"spec":{"replicas":1}}`)
	s.waitChildren("words", "nginx:1.23.1", 2)
	s.waitChildren("negative", "nginx:1.23.1", 1)
	s.Kubectl("delete", "webservers", "--all", "--timeout=60s")
}

// relaxCRD replaces the schema of the spec by one that takes anything. The scale subresource goes, too: with it the server itself
// refuses negative replicas.
func relaxCRD(t *testing.T, s *Scope) {
	t.Helper()
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/webservers.skiff.dev"
	crd, err := s.c.Admin.Get(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	schema, ok := crd.At("spec", "versions", "0", "schema", "openAPIV3Schema").(map[string]any)
	if !ok {
		t.Fatalf("the CRD has no schema: %s", crd)
	}
	delete(schema, "required")
	delete(crd.List("spec", "versions")[0]["subresources"].(map[string]any), "scale")
	schema["properties"].(map[string]any)["spec"] = Object{"x-kubernetes-preserve-unknown-fields": true}
	if _, err := s.c.Admin.Do(t.Context(), http.MethodPut, path, "application/json", crd); err != nil {
		t.Fatal(err)
	}
}
