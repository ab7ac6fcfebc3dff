package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A role without pods/delete and without events/create: each is said, all else works, and both are picked up when they are granted.
func TestRoleLacksEventsAndTheDeletionOfPods(t *testing.T) {
	s := newScope(t)
	role, err := os.ReadFile(filepath.Join("testdata", "operator-role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	grant := strings.NewReplacer("skiff-operator", "skiff-restricted", "name: operator", "name: restricted").Replace(string(role))
	t.Cleanup(func() {
		if r, err := s.kubectl.Run(noContext, grant, "delete", "--ignore-not-found", "-f", "-"); err != nil || r.Code != 0 {
			t.Errorf("take the grant back: %v %v", err, r)
		}
	})
	withoutDelete := strings.Replace(grant, "resources: [pods]\n  verbs: [get, list, watch, create, patch, delete]",
		"resources: [pods]\n  verbs: [get, list, watch, create, patch]", 1)
	without := strings.Replace(withoutDelete, "resources: [events]\n  verbs: [create, patch]", "resources: [events]\n  verbs: [patch]", 1)
	if withoutDelete == grant || without == withoutDelete {
		t.Fatal("the role is written in another way than this test takes it apart")
	}
	s.Apply(without)
	sk := startSkiffAs(t, s, restricted, withRedis...)

	s.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 1"))
	s.Apply(RedisManifest("cache", "port: 6379, num: 2"))
	s.waitChildren("web", "nginx:1.23.1", 1)
	s.waitRedis("cache", "redis:7-alpine", 2)
	const forbidden = "grant create and patch on events in events.k8s.io"
	Eventually(t, settle, "the log says that Events are forbidden", func() (bool, string) {
		return len(sk.LogLines(forbidden)) > 0, sk.Tail(20)
	})
	if events := s.Kubectl("get", "events.events.k8s.io", "-o", "jsonpath={.items[*].reportingController}"); strings.Contains(events, "skiff.dev/") {
		t.Errorf("there are Events all the same: %s", events)
	}

	s.Kubectl("scale", "redis/cache", "--replicas=1")
	Eventually(t, settle, "the Redis says that it cannot delete pods", func() (bool, string) {
		c := s.Redis("cache").Condition("Degraded")
		return c.Str("status") == "True" && strings.Contains(c.Str("message"), `cannot delete resource "pods"`), c.String()
	})
	s.Apply(RedisManifest("other", "port: 6379, num: 1"))
	s.waitRedis("other", "redis:7-alpine", 1)
	s.Kubectl("scale", "webserver/web", "--replicas=2")
	s.waitChildren("web", "nginx:1.23.1", 2)
	s.Kubectl("scale", "redis/cache", "--replicas=3")
	s.waitRedis("cache", "redis:7-alpine", 3)
	if lines := sk.LogLines(forbidden); len(lines) > 2 { // once for each of the two controllers
		t.Errorf("%d lines about Events: %q", len(lines), lines)
	}

	s.Kubectl("scale", "redis/cache", "--replicas=1")
	s.Apply(grant)
	s.waitRedis("cache", "redis:7-alpine", 1)
	s.waitText([]string{"DeletePod", "deleted pod cache-1"}, "describe", "redis", "cache")
}
