package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/operators/redis"
	"skiff/internal/operators/webserver"
	"skiff/internal/runtime/kube"
)

// A role without pods/delete and without events/create: each is said, all else works, and both are picked up when they
// are granted.
func TestRoleLacksEventsAndTheDeletionOfPods(t *testing.T) {
	s := newScope(t)
	all := slices.Concat(webserver.Rights, redis.Rights)
	withoutDelete := without(all, "delete", "pods")
	s.grantRestricted(without(withoutDelete, "create", "events.events.k8s.io"))
	sk := startSkiffAs(t, s, restricted, withRedis...)

	s.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 1"))
	s.Apply(RedisManifest("cache", "port: 6379, num: 2"))
	s.waitChildren("web", "nginx:1.23.1", 1)
	s.waitRedis("cache", "redis:7-alpine", 2)
	const forbidden = "grant create and patch on events in events.k8s.io"
	Eventually(t, limit, "the log says that Events are forbidden", func() (bool, string) {
		return len(sk.LogLines(forbidden)) > 0, sk.Tail(20)
	})
	if events := s.Kubectl("get", "events.events.k8s.io", "-o",
		"jsonpath={.items[*].reportingController}"); strings.Contains(events, "skiff.dev/") {
		t.Errorf("there are Events all the same: %s", events)
	}

	s.Kubectl("scale", "redis/cache", "--replicas=1")
	Eventually(t, limit, "the Redis says that it cannot delete pods", func() (bool, string) {
		c := s.Redis("cache").Condition("Degraded")
		return c.Str("status") == "True" && strings.Contains(c.Str("message"), `cannot delete resource "pods"`),
			c.String()
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
	s.grantRestricted(all)
	s.waitRedis("cache", "redis:7-alpine", 1)
	s.waitText([]string{"DeletePod", "deleted pod cache-1"}, "describe", "redis", "cache")
}

// provocations make a controller use its rights. Each is called again and again, with the number of the call, and
// changes what the controller then has to put right; it must work also where a missing right has kept the controller
// from making anything.
var provocations = map[string]func(s *Scope, n int){
	"webserver": func(s *Scope, n int) {
		if n == 0 {
			s.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 1"))
		}
		s.mergeIfThere(s.deploymentPath("web"), fmt.Sprintf(`{"spec":{"replicas":%d}}`, 2+n%2))
		s.mergeIfThere(s.servicePath("web-service"),
			fmt.Sprintf(`{"metadata":{"labels":{"app.kubernetes.io/name":"other-%d"}}}`, n))
		s.surplusChild(n, "WebServer", s.WebServer("web"), s.servicePath(""), "{ports: [{port: 80}]}")
		s.surplusChild(n, "WebServer", s.WebServer("web"), s.deploymentPath(""), "{replicas: 0, selector: "+
			"{matchLabels: {app: surplus}}, template: {metadata: {labels: {app: surplus}}, "+
			"spec: {containers: [{name: main, image: x}]}}}")
	},
	"redis": func(s *Scope, n int) {
		if n%8 == 0 { // deletes a pod
			s.Apply(RedisManifest("cache", fmt.Sprintf("port: 6379, num: 1, image: 'redis:7.%d'", n/8)))
		}
		s.mergeIfThere(s.servicePath("cache"),
			fmt.Sprintf(`{"metadata":{"labels":{"app.kubernetes.io/name":"other-%d"}}}`, n))
		s.surplusChild(n, "Redis", s.Redis("cache"), s.servicePath(""), "{ports: [{port: 80}]}")
		// A pod without the label is out of the controller's sight: it tries to create it, reads it and patches it.
		s.mergeIfThere("/api/v1/namespaces/"+s.NS+"/pods/cache-0",
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`)
	},
	"restart": func(s *Scope, n int) {
		if n == 0 {
			for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
				s.Apply(workloadManifest(kind, "proxy", 1))
			}
			s.Apply(restartTriggerManifest("proxy", "debounce: 1s, cooldown: 1s, targets: "+
				"[{kind: Deployment, name: proxy}, {kind: StatefulSet, name: proxy}, {kind: DaemonSet, name: proxy}]"))
		}
		if n%4 == 0 {
			s.Apply(sourcePod(fmt.Sprintf("redis-%d", n)))
		}
	},
}

// surplusChild makes a child of an owner, if there is one, that it does not declare and that has to go.
func (s *Scope) surplusChild(n int, ownerKind string, owner Object, collection, spec string) {
	s.Helper()
	if owner.UID() == "" {
		return
	}
	child := fmt.Sprintf("metadata: {name: surplus-%d, labels: {app.kubernetes.io/managed-by: skiff}, "+
		"ownerReferences: [{apiVersion: skiff.dev/v1alpha1, kind: %s, name: %s, uid: %q, controller: true}]}\n"+
		"spec: %s\n", n, ownerKind, owner.Str("metadata", "name"), owner.UID(), spec)
	collection = strings.TrimSuffix(collection, "/")
	_, err := s.c.Admin.Do(s.Context(), http.MethodPost, collection, "application/yaml", child)
	noError(s, err)
}

// mergeIfThere is Merge of an object that need not exist.
func (s *Scope) mergeIfThere(path, patch string) {
	s.Helper()
	if _, err := s.c.Admin.Merge(s.Context(), path, patch); err != nil && !IsCode(err, 404) && !IsCode(err, 409) {
		s.Fatal(err)
	}
}

// rarelyUsed are rights that no provocation makes a controller use within a minute, each with its reason.
var rarelyUsed = map[string]string{
	"get webservers.skiff.dev":      "after a conflict",
	"get redis.skiff.dev":           "after a conflict",
	"get restarttriggers.skiff.dev": "after a conflict",
	"get namespaces":                "for a source in another namespace than the one that this Role is in",
	"patch events.events.k8s.io":    "the end of a series, minutes after its last Event",
	// A server of this version sends the present objects as the beginning of a watch. A list is for older ones, and
	// for the question whether the server's history was rewound, minutes later.
	"list webservers.skiff.dev":      "the watch does it",
	"list redis.skiff.dev":           "the watch does it",
	"list restarttriggers.skiff.dev": "the watch does it",
	"list deployments.apps":          "the watch does it",
	"list services":                  "the watch does it",
	"list pods":                      "the watch does it",
	// The API server checks these itself while a child is created.
	"update webservers.skiff.dev/finalizers": "never asked for by a request",
	"update redis.skiff.dev/finalizers":      "never asked for by a request",
}

// Each controller works with the Role that its table makes, and uses all of it.
func TestEachControllerNeedsWhatItDeclaresAndNoMore(t *testing.T) {
	for name, rights := range operatorRights {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScope(t)
			start := time.Now()
			sk := startSkiffWith(t, s, name, rights)
			unused := map[string]bool{}
			for _, r := range rights {
				for _, verb := range r.Verbs {
					unused[verb+" "+r.String()] = rarelyUsed[verb+" "+r.String()] == ""
				}
			}
			n := 0
			Eventually(t, limit, "each right is used", func() (bool, string) {
				s.provoke(name, &n)
				for _, r := range s.skiffRequests(start, func(r Request) bool { return r.Namespace == s.NS }) {
					right := kube.Right{Resource: kube.Resource{Group: r.Group, Plural: r.Resource},
						Subresource: r.Subresource}
					unused[r.Verb+" "+right.String()] = false
				}
				var left []string
				for right, is := range unused {
					if is {
						left = append(left, right)
					}
				}
				return len(left) == 0, fmt.Sprint(left)
			})
			noForbidden(s, sk.Log())
		})
	}
}

// startSkiffWith runs one controller in the scope's namespace with these rights there, and no others. It need not
// become ready.
func startSkiffWith(t *testing.T, s *Scope, controller string, rights []kube.Right) *Skiff {
	t.Helper()
	s.Apply(grant("Role", "skiff", s.NS, rights))
	kubeconfig := must(s.c.Kubeconfig(admin))(t)
	return launchSkiffCommand(t, s, kubeconfig, "run", "--controllers", controller, "--watch-namespaces", s.NS, "--as",
		s.NS)
}

// provoke calls a provocation, but not faster than a controller can follow that backs off from those who undo what it
// did.
func (s *Scope) provoke(controller string, calls *int) {
	s.Helper()
	if *calls%10 == 0 { // Eventually asks ten times a second
		provocations[controller](s, *calls/10)
	}
	*calls++
}

// A controller that lacks a verb says which one, in its log, in /readyz or in the status of the custom resource.
func TestEachMissingVerbIsNamed(t *testing.T) {
	for name, rights := range operatorRights {
		for _, r := range rights {
			for _, verb := range r.Verbs {
				right := verb + " " + r.String()
				if rarelyUsed[right] != "" && r.Subresource != "finalizers" {
					continue
				}
				t.Run(name+"/"+strings.NewReplacer(" ", "-", ".", "-", "/", "-").Replace(right), func(t *testing.T) {
					t.Parallel()
					missingVerb(t, name, verb, r, without(rights, verb, r.String()))
				})
			}
		}
	}
}

func missingVerb(t *testing.T, controller, verb string, r kube.Right, rights []kube.Right) {
	s := newScope(t)
	sk := startSkiffWith(t, s, controller, rights)
	n := 0
	Eventually(t, limit, "the complaint", func() (bool, string) {
		s.provoke(controller, &n)
		_, probe, _ := sk.probe("/readyz") // no answer is no complaint
		said := sk.Log() + probe + s.custom()
		for line := range strings.Lines(said) {
			if strings.Contains(line, verb) && strings.Contains(line, r.Resource.Plural) &&
				strings.Contains(line, r.Subresource) &&
				(strings.Contains(line, "cannot ") || strings.Contains(line, "grant ") ||
					strings.Contains(line, "may not ")) {
				return true, line
			}
		}
		return false, sk.Tail(5)
	})
}

// custom returns the custom resources, a line for each field.
func (s *Scope) custom() string {
	s.Helper()
	var all []Object
	for _, plural := range []string{"webservers", "redis", "restarttriggers"} {
		all = append(all, s.get("/apis/skiff.dev/v1alpha1/namespaces/"+s.NS+"/"+plural).List("items")...)
	}
	return string(must(json.MarshalIndent(all, "", " "))(s))
}
