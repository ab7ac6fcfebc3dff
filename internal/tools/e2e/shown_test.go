package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// What a user of kubectl finds out, and can do, beyond the fields of the objects.
func TestShownByKubectl(t *testing.T) {
	s := newScope(t)
	sk := startSkiff(t, s, withRedis...)
	for _, part := range []struct {
		name string
		test func(*Scope, *Skiff)
	}{
		{"EventsAreShown", testEventsAreShown},
		{"WhatIsInTheWayIsAnEvent", testWhatIsInTheWayIsAnEvent},
		{"WebServerIsPaused", testWebServerIsPaused},
		{"RedisIsPaused", testRedisIsPaused},
		{"ChildrenAreFoundByTheirLabel", testChildrenAreFoundByTheirLabel},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.test(newScope(t), sk)
		})
	}
}

// withRedis are arguments of `skiff run` for tests that want the Redis controller beside that of WebServers.
var withRedis = []string{"--controllers", "redis"}

// RedisManifest is a Redis with a spec in YAML flow style, such as `port: 6379, num: 2`.
func RedisManifest(name, spec string) string {
	return fmt.Sprintf("apiVersion: skiff.dev/v1alpha1\nkind: Redis\nmetadata: {name: %s}\nspec: {%s}\n", name, spec)
}

// Redis reads a Redis; nil if there is none.
func (s *Scope) Redis(name string) Object {
	s.Helper()
	return s.get("/apis/skiff.dev/v1alpha1/namespaces/" + s.NS + "/redis/" + name)
}

// PodsOf are the pods of a Redis by its labels, in the order of their names.
func (s *Scope) PodsOf(name string) []Object {
	s.Helper()
	return s.get("/api/v1/namespaces/" + s.NS + "/pods?labelSelector=" +
		escape("app.kubernetes.io/name=redis,app.kubernetes.io/instance="+name)).List("items")
}

// waitRedis returns when a Redis has exactly the pods NAME-0 to NAME-(num-1), all of the image, ready and its own, and
// says so.
func (s *Scope) waitRedis(name, image string, num int) {
	s.Helper()
	Eventually(s, 2*limit, fmt.Sprintf("%s has %d ready pods of %s", name, num, image), func() (bool, string) {
		rd, pods := s.Redis(name), s.PodsOf(name)
		ok := len(pods) == num && rd.Condition("Ready").Str("status") == "True" &&
			rd.Int("status", "replicas") == num &&
			rd.Int("status", "observedGeneration") == rd.Int("metadata", "generation") &&
			len(rd.List("status", "members")) == num
		for i, p := range pods {
			ok = ok && p.Name() == fmt.Sprintf("%s-%d", name, i) &&
				p.Str("spec", "containers", "0", "image") == image &&
				p.ControllerUID() == rd.UID() && p.Condition("Ready").Str("status") == "True" &&
				p.At("metadata", "deletionTimestamp") == nil
		}
		return ok, fmt.Sprintf("%v\npods %v", rd, pods)
	})
}

// waitText returns when a kubectl command prints all the words. Events are written a moment after what they are about.
func (s *Scope) waitText(words []string, args ...string) {
	s.Helper()
	Eventually(s, limit, fmt.Sprintf("kubectl %s shows %q", strings.Join(args, " "), words), func() (bool, string) {
		text := s.Kubectl(args...)
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }), text
	})
}

func testEventsAreShown(s *Scope, _ *Skiff) {
	s.Apply(WebServerManifest("told", "image: nginx:1.23.1, replicas: 1"))
	s.waitCondition("told", "Ready", "True")
	s.Kubectl("scale", "webserver/told", "--replicas=2")
	s.waitChildren("told", "nginx:1.23.1", 2)
	for _, args := range [][]string{{"describe", "webserver", "told"}, {"events", "--for", "webserver/told"},
		{"events"}} {
		s.waitText([]string{"created Deployment told and Service told-service", "ApplyDeployment", "spec.replicas",
			"Ready"}, args...)
	}
	s.waitText([]string{"skiff.dev/webserver"}, "describe", "webserver", "told")

	s.Apply(RedisManifest("told", "port: 6379, num: 2"))
	s.waitRedis("told", "redis:7-alpine", 2)
	s.Kubectl("scale", "redis/told", "--replicas=1")
	s.waitRedis("told", "redis:7-alpine", 1)
	for _, args := range [][]string{{"describe", "redis", "told"}, {"events", "--for", "redis/told"}} {
		s.waitText([]string{"CreatePod", "created pods told-0, told-1", "CreateService", "DeletePod",
			"deleted pod told-1", "Ready"}, args...)
	}
}

func testWhatIsInTheWayIsAnEvent(s *Scope, _ *Skiff) {
	s.Kubectl("create", "service", "clusterip", "taken-service", "--tcp=8080:8080")
	s.Apply(WebServerManifest("taken", "image: nginx:1.23.1, replicas: 1"))
	for _, args := range [][]string{{"describe", "webserver", "taken"},
		{"events", "--for", "webserver/taken", "--types=Warning"}} {
		s.waitText([]string{"Warning", "NameTaken", "taken-service exists and is not managed by skiff"}, args...)
	}
}

func testWebServerIsPaused(s *Scope, _ *Skiff) {
	s.Apply(WebServerManifest("paused", "image: nginx:1.23.1, replicas: 1"))
	s.waitCondition("paused", "Ready", "True")
	s.Kubectl("annotate", "webserver/paused", "skiff.dev/paused=true")
	s.Kubectl("wait", "--for=condition=Paused", "webserver/paused", "--timeout=4m")
	s.Kubectl("scale", "webserver/paused", "--replicas=3")
	s.Kubectl("delete", "service", "paused-service")
	Eventually(s, limit, "the status says what differs", func() (bool, string) {
		ready := s.WebServer("paused").Condition("Ready")
		return ready.Str("status") == "False" && ready.Str("reason") == "Paused" &&
			strings.Contains(ready.Str("message"), "spec.replicas"), ready.String()
	})
	Throughout(s, 3*time.Second, "nothing is changed", func() (bool, string) {
		d := s.Deployment("paused")
		return d.Int("spec", "replicas") == 1 && s.Service("paused-service") == nil, d.String()
	})
	s.Kubectl("annotate", "webserver/paused", "skiff.dev/paused-")
	s.waitReplaced(freed, s.servicePath("paused-service"), "") // with the port that it had
	s.waitChildren("paused", "nginx:1.23.1", 3)
	s.waitCondition("paused", "Ready", "True")
	s.waitCondition("paused", "Paused", "False")
	s.waitText([]string{"Paused", "Resumed"}, "events", "--for", "webserver/paused")

	s.Kubectl("annotate", "webserver/paused", "skiff.dev/paused=true")
	s.Kubectl("delete", "webserver", "paused", "--timeout=4m")
	Eventually(s, limit, "the garbage collector removes the children", func() (bool, string) {
		left := s.Kubectl("get", "deployments,services,replicasets,pods", "-o", "name")
		return strings.TrimSpace(left) == "", left
	})
}

func testRedisIsPaused(s *Scope, _ *Skiff) {
	s.Apply(RedisManifest("paused", "port: 6379, num: 2"))
	s.waitRedis("paused", "redis:7-alpine", 2)
	s.Kubectl("annotate", "redis/paused", "skiff.dev/paused=true")
	s.Kubectl("wait", "--for=condition=Paused", "redis/paused", "--timeout=4m")
	s.Kubectl("patch", "redis", "paused", "--type=merge", "-p", `{"spec":{"num":3,"image":"redis:8"}}`)
	s.Kubectl("delete", "pod", "paused-0", "--wait=true")
	Throughout(s, 3*time.Second, "nothing is changed", func() (bool, string) {
		pods := s.PodsOf("paused")
		return len(pods) == 1 && pods[0].Str("spec", "containers", "0", "image") == "redis:7-alpine", fmt.Sprint(pods)
	})
	if ready := s.Redis("paused").Condition("Ready"); ready.Str("status") != "False" {
		s.Errorf("a pod is missing, and the status is %v", ready)
	}
	s.Kubectl("annotate", "redis/paused", "skiff.dev/paused-")
	s.waitRedis("paused", "redis:8", 3)

	s.Kubectl("annotate", "redis/paused", "skiff.dev/paused=true")
	s.Kubectl("delete", "redis", "paused", "--timeout=4m")
	if pods := s.PodsOf("paused"); len(pods) > 0 {
		s.Errorf("the Redis is gone, its pods are not: %v", pods)
	}
}

func testChildrenAreFoundByTheirLabel(s *Scope, _ *Skiff) {
	s.Apply(WebServerManifest("found", "image: nginx:1.23.1, replicas: 1"))
	s.Apply(RedisManifest("cache", "port: 6379, num: 2"))
	s.Kubectl("create", "service", "clusterip", "unrelated", "--tcp=8080:8080")
	s.waitCondition("found", "Ready", "True")
	s.waitRedis("cache", "redis:7-alpine", 2)
	names := strings.Fields(s.Kubectl("get", "all", "-l", "app.kubernetes.io/managed-by=skiff", "-o", "name"))
	slices.Sort(names)
	if want := []string{"deployment.apps/found", "pod/cache-0", "pod/cache-1", "service/cache",
		"service/found-service"}; !slices.Equal(names, want) {
		s.Errorf("kubectl get all -l app.kubernetes.io/managed-by=skiff: %q, want %q", names, want)
	}
	for _, object := range []Object{s.Deployment("found"), s.Service("found-service"), s.Service("cache"),
		s.PodsOf("cache")[0]} {
		for _, label := range []string{"app.kubernetes.io/name", "app.kubernetes.io/instance"} {
			if object.Str("metadata", "labels", label) == "" {
				s.Errorf("%s has no label %s", object.Name(), label)
			}
		}
	}
	if all := s.Kubectl("get", "all", "-o", "name"); !strings.Contains(all, "webserver.skiff.dev/found") ||
		!strings.Contains(all, "redis.skiff.dev/cache") {
		s.Errorf("kubectl get all does not show the custom resources: %s", all)
	}
}

// Every field that the server publishes has a sentence, and kubectl prints it.
func TestKubectlExplainsEveryField(t *testing.T) {
	s := newScope(t)
	document := s.get("/openapi/v3/apis/skiff.dev/v1alpha1")
	for kind, plural := range map[string]string{"WebServer": "webservers", "Redis": "redis",
		"RestartTrigger": "restarttriggers"} {
		schema := Object(nil)
		for name, v := range document.At("components", "schemas").(map[string]any) {
			if definition, ok := v.(map[string]any); ok && strings.HasSuffix(name, "."+kind) {
				schema = definition
			}
		}
		if schema == nil {
			t.Fatalf("the server publishes no schema of %s", kind)
		}
		fields := 0
		parents := describeFields(t, plural, schema, &fields)
		if fields < 20 { // the smallest of the three has more
			t.Errorf("%s: only %d fields were seen", kind, fields)
		}
		for _, parent := range parents {
			if text := s.Kubectl("explain", parent); strings.Contains(text, "<no description>") ||
				strings.Contains(text, "<empty>") {
				t.Errorf("kubectl explain %s: %s", parent, text)
			}
		}
		t.Logf("%s: %d fields below %d objects", kind, fields, len(parents))
	}
}

// describeFields checks that the fields below a schema are described, and returns the paths that have fields.
func describeFields(t *testing.T, path string, schema Object, fields *int) (parents []string) {
	t.Helper()
	if items, ok := schema.At("items").(map[string]any); ok {
		schema = items // kubectl's paths step over lists
	}
	properties, _ := schema.At("properties").(map[string]any)
	if len(properties) == 0 {
		return nil
	}
	parents = []string{path}
	for name, v := range properties {
		field, _ := v.(map[string]any)
		below := path + "." + name
		if name == "metadata" && !strings.Contains(path, ".") {
			continue // the server's own
		}
		*fields++
		if text := Object(field).Str("description"); len(strings.Fields(text)) < 2 {
			t.Errorf("%s is described as %q", below, text)
		}
		parents = append(parents, describeFields(t, below, field, fields)...)
	}
	return parents
}
