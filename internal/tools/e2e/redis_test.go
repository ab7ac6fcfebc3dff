package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func (s *Scope) podPath(name string) string { return "/api/v1/namespaces/" + s.NS + "/pods/" + name }

// waitMembers returns when a Redis is Ready for its present generation with exactly num pods of its own, each with the
// words in its arguments or image.
func (s *Scope) waitMembers(name string, num int, words ...string) {
	s.Helper()
	Eventually(s, 2*limit, fmt.Sprintf("%s has %d pods and is Ready", name, num), func() (bool, string) {
		rd, pods := s.Redis(name), s.PodsOf(name)
		ready := rd.Condition("Ready")
		ok := len(pods) == num && ready.Str("status") == "True" &&
			ready.Int("observedGeneration") == rd.Int("metadata", "generation") &&
			max(0, rd.Int("status", "replicas")) == num && max(0, rd.Int("status", "readyReplicas")) == num
		for i, p := range pods {
			text := fmt.Sprint(p.At("spec", "containers"))
			ok = ok && p.Name() == fmt.Sprintf("%s-%d", name, i) && p.ControllerUID() == rd.UID() &&
				p.Str("metadata", "deletionTimestamp") == ""
			for _, w := range words {
				ok = ok && strings.Contains(text, w)
			}
		}
		return ok, fmt.Sprintf("%s\n%d pods", rd, len(pods))
	})
}

// uidsOf are the uids of the pods of a Redis, by name.
func (s *Scope) uidsOf(name string) map[string]string {
	s.Helper()
	out := map[string]string{}
	for _, p := range s.PodsOf(name) {
		out[p.Name()] = p.UID()
	}
	return out
}

// The Redis story, each part in a namespace of its own, all of them served by one skiff.
func TestRedis(t *testing.T) {
	s := newScope(t)
	sk := startSkiff(t, s, withRedis...)
	for _, part := range []struct {
		name string
		test func(*Scope, *Skiff)
	}{
		{"ForeignRedisPodIsLeftAlone", testForeignPodIsLeftAlone},
		{"RedisArticleSample", testRedisArticleSample},
		{"RedisPodsComeBack", testRedisPodsComeBack},
		{"RedisRolls", testRedisRolls},
		{"RedisStuckRoll", testRedisStuckRoll},
		{"RedisBadPort", testRedisBadPort},
		{"RedisRefusedTemplate", testRedisRefusedTemplate},
		{"RedisNamespaceIsDeleted", testRedisNamespaceIsDeleted},
	} { // those that wait for a minute come first
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.test(newScope(t), sk)
		})
	}
}

// The source article's tour: create, scale, delete; and what a user sees of it.
func testRedisArticleSample(s *Scope, _ *Skiff) {
	s.Kubectl("apply", "-f", example("redis.yaml"))
	s.waitMembers("cache", 3, "--port 6379", "redis:7-alpine", "maxmemory 64mb")
	row := strings.Fields(strings.Split(s.Kubectl("get", "rds"), "\n")[1])
	if len(row) != 6 || strings.Join(row[:5], " ") != "cache 3/3 Ready 6379 3" {
		s.Errorf("kubectl get rds shows %q", row)
	}
	svc := s.Service("cache")
	if svc.Str("spec", "clusterIP") != "None" || svc.Int("spec", "ports", "0", "port") != 6379 {
		s.Errorf("want a headless Service with port 6379, got %s", svc)
	}

	probe := s.get(s.podPath("cache-0")).List("spec", "containers")[0].At("readinessProbe", "exec", "command")
	if text := fmt.Sprint(probe); !strings.Contains(text, "ping") || !strings.Contains(text, "PONG") {
		s.Errorf("readiness is not by the answer of PING but by %s", text)
	}

	s.Kubectl("scale", "redis/cache", "--replicas=2")
	s.waitMembers("cache", 2)
	start := time.Now()
	s.Kubectl("scale", "redis/cache", "--replicas=0")
	s.waitMembers("cache", 0)
	if gone := s.podsWritten(start, "delete"); !slices.Equal(gone, []string{"cache-1", "cache-0"}) {
		s.Errorf("deleted %q, want the highest ordinal first", gone)
	}
	s.Kubectl("scale", "redis/cache", "--replicas=2")
	s.waitMembers("cache", 2)
	rd := s.Redis("cache")
	for i, m := range rd.List("status", "members") {
		p := s.get(s.podPath(fmt.Sprintf("cache-%d", i)))
		if m.Str("uid") != p.UID() || m.Str("ip") != p.Str("status", "podIP") || m.At("ready") != true ||
			m.Str("revision") == "" {
			s.Errorf("member %d is %v, the pod %s", i, m, p)
		}
	}
	Eventually(s, limit, "kubectl describe shows the Events", func() (bool, string) {
		text := s.Kubectl("describe", "redis", "cache")
		return strings.Contains(text, "CreatePod") && strings.Contains(text, "DeletePod") &&
			strings.Contains(text, "created pods cache-0, cache-1, cache-2"), text
	})
	for field, word := range map[string]string{"redis": "caches", "redis.spec.port": "6380",
		"redis.status.members.uid": "successor"} {
		if text := s.Kubectl("explain", field); !strings.Contains(text, word) {
			s.Errorf("kubectl explain %s does not say %q:\n%s", field, word, text)
		}
	}
	if text := s.Kubectl("get", "all", "-l", "app.kubernetes.io/managed-by=skiff", "-o",
		"name"); !strings.Contains(text, "pod/cache-0") || !strings.Contains(text, "service/cache") {
		s.Errorf("the children should carry the managed-by label, got %s", text)
	}

	quiet := time.Now()
	Throughout(s, 5*time.Second, "nothing is written at rest", func() (bool, string) {
		writes := s.skiffRequests(quiet, s.writesHere)
		return len(writes) == 0, fmt.Sprint(writes)
	})
	start = time.Now()
	s.Kubectl("delete", "redis", "cache", "--timeout=4m")
	writes := s.skiffRequests(start, func(r Request) bool { return s.writesHere(r) && r.Subresource == "" })
	var order []string
	for _, w := range writes {
		order = append(order, w.Verb+" "+w.Name)
	}
	if !slices.Equal(order, []string{"delete cache-1", "delete cache-0", "patch cache"}) { // the last is the finalizer
		s.Errorf("the Redis was taken down by %q", order)
	}
	Eventually(s, limit, "pods and Service are gone", func() (bool, string) {
		left := strings.TrimSpace(s.Kubectl("get", "services,pods", "-o", "name"))
		return left == "", left
	})
}

// podsWritten are the names of the pods for which skiff has sent a verb, in order.
func (s *Scope) podsWritten(since time.Time, verb string) (names []string) {
	s.Helper()
	for _, r := range s.skiffRequests(since, func(r Request) bool {
		return s.writesHere(r) && r.Resource == "pods" &&
			r.Verb == verb && r.Code < 300
	}) {
		names = append(names, r.Name)
	}
	return names
}

// A deleted, failed or vanished pod comes back under its name, once, and the status does not say Ready meanwhile.
func testRedisPodsComeBack(s *Scope, _ *Skiff) {
	s.Apply(RedisManifest("healed", "port: 6379, num: 3"))
	s.waitMembers("healed", 3)
	start := time.Now()
	watch := must(s.c.Start("get-w-"+s.NS, s.kubectl.env(), s.kubectl.argv([]string{"-n", s.NS, "get", "redis", "-w",
		"-o",
		`jsonpath={.status.readyReplicas}{.status.conditions[?(@.type=="Ready")].status}{"\n"}`})...))(s)
	defer watch.Kill()
	Eventually(s, limit, "kubectl get -w has begun", func() (bool, string) { return watch.Log() != "", watch.Log() })
	for _, end := range []func(){
		// Without --wait=false kubectl can take the new pod, which is there within milliseconds, for the old one and
		// wait for ever.
		func() { s.Kubectl("delete", "pod", "healed-1", "--wait=false") },
		func() { s.Kubectl("delete", "pod", "healed-1", "--wait=false", "--grace-period=0", "--force") },
		func() {
			s.Kubectl("patch", "pod", "healed-1", "--subresource=status", "--type=merge", "-p",
				`{"status":{"phase":"Failed","reason":"Evicted"}}`)
		},
	} {
		before := s.get(s.podPath("healed-1")).UID()
		end()
		s.waitReplaced(limit, s.podPath("healed-1"), before)
		s.waitMembers("healed", 3)
	}
	if shown := watch.Log(); strings.Count(shown, "2False") < 3 || strings.Contains(shown, "2True") {
		s.Errorf("a pod was missing three times, and the status was %q", shown)
	}
	// How many were made is no measure: kwok deletes by name, and now and then hits the successor of the pod that it
	// means.
	if met := s.skiffRequests(start, func(r Request) bool {
		return r.Verb == "create" && r.Resource == "pods" && r.Namespace == s.NS && r.Code == http.StatusConflict
	}); len(met) > 0 {
		s.Errorf("skiff tried to make a pod that was there: %v", met)
	}
	// The label is what skiff's watch selects by: a pod that loses it vanishes from its sight, and must be found all
	// the same.
	before := s.get(s.podPath("healed-2")).UID()
	s.Kubectl("label", "pod", "healed-2", "app.kubernetes.io/managed-by-")
	Eventually(s, limit, "the label is back", func() (bool, string) {
		p := s.get(s.podPath("healed-2"))
		return p.Str("metadata", "labels", "app.kubernetes.io/managed-by") == "skiff" && p.UID() == before, p.String()
	})
}

// A change rolls the pods, one at a time, the highest first.
func testRedisRolls(s *Scope, _ *Skiff) {
	s.Apply(RedisManifest("rolled", "port: 6379, num: 3, minReadySeconds: 2"))
	s.waitMembers("rolled", 3)
	for _, change := range []struct{ patch, word string }{
		{`{"spec":{"image":"redis:7.4-alpine"}}`, "redis:7.4-alpine"},
		{`{"spec":{"config":{"maxmemory":"8mb"}}}`, "maxmemory 8mb"},
		{`{"spec":{"port":6380}}`, "6380"},
		{`{"spec":{"resources":{"requests":{"memory":"32Mi"}}}}`, "memory:32Mi"},
		{`{"spec":{"template":{"spec":{"containers":[{"name":"redis","env":[{"name":"TZ","value":"UTC"}]}]}}}}`, "TZ"},
	} {
		start, before := time.Now(), s.uidsOf("rolled")
		s.Kubectl("patch", "redis", "rolled", "--type=merge", "-p", change.patch)
		fewest := 3
		Eventually(s, 2*limit, "all pods are replaced, and at most one is missing", func() (bool, string) {
			now := s.uidsOf("rolled")
			ready, replaced := 0, 0
			for _, p := range s.PodsOf("rolled") {
				if p.Str("metadata", "deletionTimestamp") == "" && p.Condition("Ready").Str("status") == "True" {
					ready++
				}
			}
			fewest = min(fewest, ready)
			for name, uid := range now {
				if before[name] != uid {
					replaced++
				}
			}
			return replaced == 3, fmt.Sprint(before, now)
		})
		if fewest < 2 {
			s.Errorf("%s: only %d pods were ready at some time", change.patch, fewest)
		}
		s.waitMembers("rolled", 3, change.word)
		if order := s.podsWritten(start, "delete"); !slices.Equal(order,
			[]string{"rolled-2", "rolled-1", "rolled-0"}) {
			s.Errorf("%s: rolled %q, want the highest ordinal first", change.patch, order)
		}
		made := s.skiffRequests(start, func(r Request) bool {
			// Before it takes a pod away, skiff asks the server whether it would take the new one.
			return s.writesHere(r) && r.Resource == "pods" && r.Verb == "create" && !strings.Contains(r.URI, "dryRun")
		})
		for i := range made[1:] {
			if made[i].Name == made[i+1].Name {
				continue // kwok deletes by name, and now and then hits the successor of the pod that it means
			}
			// the condition that says since when is in whole seconds
			if apart := made[i+1].Received.Sub(made[i].Received); apart < time.Second {
				s.Errorf("%s: %s followed %s after %s, with minReadySeconds: 2", change.patch, made[i+1].Name,
					made[i].Name, apart)
			}
		}
	}
	if svc := s.Service("rolled"); svc.Int("spec", "ports", "0", "port") != 6380 {
		s.Errorf("the Service did not follow: %s", svc)
	}
}

// A pod that no node takes stops the roll; the next change goes on from there.
func testRedisStuckRoll(s *Scope, _ *Skiff) {
	s.Apply(RedisManifest("stuck", "port: 6379, num: 3"))
	s.waitMembers("stuck", 3)
	before := s.uidsOf("stuck")
	s.Kubectl("patch", "redis", "stuck", "--type=merge", "-p",
		`{"spec":{"template":{"spec":{"nodeSelector":{"no":"where"}}}}}`)
	Eventually(s, limit, "Degraded says which pod and why", func() (bool, string) {
		c := s.Redis("stuck").Condition("Degraded")
		return c.Str("status") == "True" && c.Str("reason") == "Unschedulable" &&
			strings.Contains(c.Str("message"), "stuck-2"), s.Redis("stuck").String()
	})
	Throughout(s, 3*time.Second, "the others stay", func() (bool, string) {
		now := s.uidsOf("stuck")
		return now["stuck-0"] == before["stuck-0"] && now["stuck-1"] == before["stuck-1"], fmt.Sprint(before, now)
	})
	s.Kubectl("patch", "redis", "stuck", "--type=json", "-p", `[{"op":"remove","path":"/spec/template"}]`)
	s.waitMembers("stuck", 3)
	now := s.uidsOf("stuck")
	if now["stuck-0"] != before["stuck-0"] || now["stuck-1"] != before["stuck-1"] {
		s.Errorf("pods of the wanted template were replaced: %v, now %v", before, now)
	}
}

// The server refuses a port out of range, and names field and range.
func testRedisBadPort(s *Scope, _ *Skiff) {
	for port, bound := range map[int]string{80: "6370", 6381: "6380"} {
		_, err := s.c.Admin.Create(s.Context(), "/apis/skiff.dev/v1alpha1/namespaces/"+s.NS+"/redis", Object{
			"apiVersion": "skiff.dev/v1alpha1", "kind": "Redis", "metadata": Object{"name": "bad"},
			"spec": Object{"port": port, "num": 1}})
		if !IsCode(err, http.StatusUnprocessableEntity) || !strings.Contains(err.Error(), "spec.port") ||
			!strings.Contains(err.Error(), bound) {
			s.Errorf("port %d: want 422 that names spec.port and %s, got %v", port, bound, err)
		}
	}
}

func testForeignPodIsLeftAlone(s *Scope, _ *Skiff) {
	s.Kubectl("run", "taken-1", "--image=httpd:2")
	uid := s.get(s.podPath("taken-1")).UID()
	s.Apply(RedisManifest("taken", "port: 6379, num: 3"))
	Eventually(s, limit, "a condition names the foreign pod", func() (bool, string) {
		rd := s.Redis("taken")
		return rd.Condition("Ready").Str("reason") == "NameTaken" &&
			strings.Contains(rd.Condition("Ready").Str("message"), "taken-1") &&
			rd.Int("status", "readyReplicas") == 2, rd.String()
	})
	if p := s.get(s.podPath("taken-1")); p.UID() != uid || p.ControllerUID() != "" {
		s.Errorf("the foreign pod was touched: %s", p)
	}
	s.Kubectl("delete", "pod", "taken-1")
	s.waitMembers("taken", 3)
}

// What the server refuses costs no pod.
func testRedisRefusedTemplate(s *Scope, _ *Skiff) {
	s.Apply(RedisManifest("refused", "port: 6379, num: 2"))
	s.waitMembers("refused", 2)
	before := s.uidsOf("refused")
	s.Kubectl("patch", "redis", "refused", "--type=merge", "-p",
		`{"spec":{"template":{"spec":{"restartPolicy":"Sometimes"}}}}`)
	Eventually(s, limit, "Stalled says why", func() (bool, string) {
		c := s.Redis("refused").Condition("Stalled")
		return c.Str("status") == "True" && strings.Contains(c.Str("message"), "restartPolicy"),
			s.Redis("refused").String()
	})
	if now := s.uidsOf("refused"); fmt.Sprint(now) != fmt.Sprint(before) {
		s.Errorf("pods were replaced: %v, now %v", before, now)
	}
}

func testRedisNamespaceIsDeleted(s *Scope, _ *Skiff) {
	s.Apply(RedisManifest("doomed", "port: 6379, num: 3"))
	s.waitMembers("doomed", 3)
	s.Kubectl("delete", "namespace", s.NS, "--timeout=4m")
	s.Kubectl("create", "namespace", s.NS) // which the clean-up of the scope expects
}

// Deleted while no controller runs: the finalizer keeps the Redis until one does.
func TestRedisDeletedWhileSkiffIsDown(t *testing.T) {
	s := newScope(t)
	sk := startSkiff(t, s, withRedis...)
	s.Apply(RedisManifest("late", "port: 6379, num: 3"))
	s.waitMembers("late", 3)
	noError(t, sk.Terminate())
	s.Kubectl("delete", "redis", "late", "--wait=false")
	s.Kubectl("delete", "pod", "late-1")
	if s.Redis("late") == nil {
		t.Fatal("nothing kept the Redis")
	}
	startSkiff(t, s, withRedis...)
	Eventually(t, limit, "the pods are gone, and then the Redis", func() (bool, string) {
		return s.Redis("late") == nil, s.Redis("late").String()
	})
	if pods := s.PodsOf("late"); len(pods) != 0 {
		t.Errorf("%d pods are left", len(pods))
	}
}

// waitMoment waits: for the randomness of a test, never for a condition.
func (s *Scope) waitMoment(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.Context().Done():
	}
}
