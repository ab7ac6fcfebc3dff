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
	_, err := s.c.Admin.Create(t.Context(), collection, Object{"apiVersion": "skiff.dev/v1alpha1", "kind": "WebServer",
		"metadata": Object{"name": "bad"}, "spec": Object{}})
	if !IsCode(err, http.StatusUnprocessableEntity) || !strings.Contains(err.Error(), "spec.image") {
		t.Errorf("no image: want 422 that names spec.image, got %v", err)
	}
}

// An older CRD without the checks lets nonsense in. skiff says so in a condition where the object can be read at all,
// in the log where it cannot, does not loop, and serves the others.
func TestNonsenseThatAnOlderCRDLetIn(t *testing.T) {
	s := newScope(t)
	t.Cleanup(func() { // the other tests need the checks
		s.kubectl.Must(t, "", "replace", "-f", filepath.Join(repository, "crds"))
	})
	relaxCRD(t, s, "webservers")
	collection := "/apis/skiff.dev/v1alpha1/namespaces/" + s.NS + "/webservers"
	create := func(name string, spec any) {
		t.Helper()
		// The server checks with the old schema for a moment after the CRD was changed.
		Eventually(t, limit, "the relaxed CRD takes "+name, func() (bool, string) {
			_, err := s.c.Admin.Create(t.Context(), collection, Object{
				"apiVersion": "skiff.dev/v1alpha1", "kind": "WebServer", "metadata": Object{"name": name},
				"spec": spec})
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
		Eventually(t, limit, "the log names the object that does not decode", func() (bool, string) {
			return len(sk.LogLines(s.NS+"/"+name)) > 0, sk.Tail(20)
		})
	}
	create("words-later", Object{"image": "nginx:1.23.1", "replicas": "four"}) // through the watch this time
	Eventually(t, limit, "the log names it", func() (bool, string) {
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
	s.Kubectl("delete", "webservers", "--all", "--timeout=4m")
}

// The same for the other two kinds, whose nonsense is another.
func TestNonsenseInRedisAndRestartTriggers(t *testing.T) {
	s := newScope(t)
	t.Cleanup(func() {
		s.kubectl.Must(t, "", "replace", "-f", filepath.Join(repository, "crds"))
	})
	relaxCRD(t, s, "redis")
	relaxCRD(t, s, "restarttriggers")
	create := func(plural, kind, name string, spec any) {
		t.Helper()
		Eventually(t, limit, "the relaxed CRD takes "+name, func() (bool, string) {
			_, err := s.c.Admin.Create(t.Context(), "/apis/skiff.dev/v1alpha1/namespaces/"+s.NS+"/"+plural, Object{
				"apiVersion": "skiff.dev/v1alpha1", "kind": kind, "metadata": Object{"name": name}, "spec": spec})
			return err == nil, errorText(err)
		})
	}
	redis := map[string]struct {
		spec Object
		word string
	}{
		"negative":   {Object{"port": 6379, "num": -1}, "spec.num"},
		"privileged": {Object{"port": 80, "num": 1}, "spec.port"},
		"daemon":     {Object{"port": 6379, "num": 1, "config": Object{"daemonize": "yes"}}, "spec.config.daemonize"},
	}
	for name, bad := range redis {
		create("redis", "Redis", name, bad.spec)
	}
	source := Object{"selector": Object{"matchLabels": Object{"app": "redis-cluster"}}}
	web := []Object{{"kind": "Deployment", "name": "web"}}
	triggers := map[string]struct {
		spec Object
		word string
	}{
		"empty": {Object{"source": Object{"selector": Object{}}, "targets": web}, "spec.source.selector"},
		"everything": {Object{"source": Object{"selector": Object{"matchExpressions": []Object{{"key": "no-such",
			"operator": "DoesNotExist"}}}}, "targets": web}, "spec.source.selector"},
		"job": {Object{"source": source, "targets": []Object{{"kind": "Job", "name": "x"}}},
			"spec.targets[0].kind"},
		"penniless": {Object{"source": source, "targets": web, "budget": Object{"max": 0, "per": "1h"}},
			"spec.budget.max"},
		"soon":      {Object{"source": source, "targets": web, "debounce": "soon"}, "spec.debounce"},
		"backwards": {Object{"source": source, "targets": web, "cooldown": "-1m"}, "spec.cooldown"},
		"reasonless": {Object{"source": Object{"selector": source["selector"], "reasons": []string{"FullMoon"}},
			"targets": web}, "spec.source.reasons"},
	}
	for name, bad := range triggers {
		create("restarttriggers", "RestartTrigger", name, bad.spec)
	}

	start := time.Now()
	startSkiff(t, s, "--controllers", "redis,restart")
	s.Apply(RedisManifest("fine", "port: 6379, num: 1"))
	s.waitRedis("fine", "redis:7-alpine", 1)
	refused := func(what string, condition Object, word string) (bool, string) {
		return condition.Str("status") == "True" && condition.Str("reason") == "InvalidSpec" &&
			strings.Contains(condition.Str("message"), word) &&
			strings.HasSuffix(condition.Str("message"), "; correct the spec"), what + ": " + condition.String()
	}
	for name, bad := range redis {
		Eventually(t, limit, name+" is refused", func() (bool, string) {
			return refused(name, s.Redis(name).Condition("Stalled"), bad.word)
		})
	}
	for name, bad := range triggers {
		Eventually(t, limit, name+" is refused", func() (bool, string) {
			return refused(name, s.restartTrigger(name).Condition("Stalled"), bad.word)
		})
	}
	before := time.Now()
	Throughout(t, 5*time.Second, "no loop", func() (bool, string) {
		requests := s.skiffRequests(before, func(r Request) bool { return r.Resource != "events" })
		return len(requests) < 10, fmt.Sprint(requests)
	})
	if requests := s.skiffRequests(start, func(Request) bool { return true }); len(requests) > 120 {
		t.Errorf("%d requests for eleven objects", len(requests))
	}
	if pods := s.PodsOf("privileged"); len(pods) > 0 {
		t.Errorf("a Redis that was refused has pods: %v", pods)
	}
	s.Merge("/apis/skiff.dev/v1alpha1/namespaces/"+s.NS+"/redis/privileged", `{"spec":{"port":6370}}`)
	s.waitRedis("privileged", "redis:7-alpine", 1)
	s.Kubectl("delete", "redis,restarttriggers", "--all", "--timeout=4m")
}

// relaxCRD replaces the schema of the spec by one that takes anything. The scale subresource goes, too: with it the
// server itself refuses negative replicas.
func relaxCRD(t *testing.T, s *Scope, plural string) {
	t.Helper()
	path := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + plural + ".skiff.dev"
	crd := must(s.c.Admin.Get(t.Context(), path))(t)
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
