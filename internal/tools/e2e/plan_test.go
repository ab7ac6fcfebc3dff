package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skiff/internal/operators/redis"
	"skiff/internal/operators/webserver"
	"skiff/internal/runtime/kube"
)

// plan runs `skiff plan` in the namespace of the test.
func (s *Scope) plan(as User, args ...string) Result {
	s.Helper()
	kubeconfig := must(s.c.Kubeconfig(as))(s)
	return runSkiff(s, s, append([]string{"plan", "--kubeconfig", kubeconfig, "--controllers", "webserver,redis",
		"--watch-namespaces", s.NS, "-n", s.NS}, args...)...)
}

// wantPlan checks the exit code and parts of what a plan prints.
func (s *Scope) wantPlan(r Result, code int, parts ...string) {
	s.Helper()
	if r.Code != code {
		s.Errorf("want exit code %d: %v", code, r)
	}
	for _, part := range parts {
		if !strings.Contains(r.Stdout, part) {
			s.Errorf("no %q in\n%s%s", part, r.Stdout, r.Stderr)
		}
	}
}

// On a real control plane: what a plan says is what the run that follows does, the plan after it has nothing to do,
// and of all that a plan sends, the audit log has no write that is no dry run.
//
// Rules: PL-04, PL-06, PL-08, PL-10, PL-12
func TestPlanOnARealControlPlane(t *testing.T) {
	s := newScope(t)
	file := filepath.Join(t.TempDir(), "web.yaml")
	noError(t, os.WriteFile(file, []byte(WebServerManifest("web", "image: nginx:1.23.1, replicas: 2")), 0o600))
	began := time.Now()
	s.wantPlan(s.plan(admin, "-f", file), 3, "WebServer "+s.NS+"/web (new)\n  + Deployment web: 2 pods\n",
		"      spec.ports[http].nodePort: (known after creation)\n", "Plan: 2 to create, 0 to change,")

	sk := startSkiff(t, s, withRedis...)
	s.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 2, env: [{name: A, value: b}]"))
	s.Apply(RedisManifest("cache", "port: 6379, num: 2"))
	s.waitChildren("web", "nginx:1.23.1", 2)
	s.waitRedis("cache", "redis:7-alpine", 2)
	noError(t, sk.Terminate())
	s.wantPlan(s.plan(admin), 0, "No changes: 2 objects of 2 controllers are as declared.\n")

	s.Kubectl("patch", "ws", "web", "--type=merge", "-p", `{"spec":{"port":8080,"env":null}}`)
	s.Kubectl("patch", "redis", "cache", "--type=merge", "-p", `{"spec":{"image":"redis:8-alpine"}}`)
	changes := []string{"  ~ Deployment web: rolls 2 pods (RollingUpdate, 0 unavailable, 1 extra)\n" +
		"      spec.template.spec.containers[webserver].env[A].value: \"b\" -> (removed)\n" +
		"      spec.template.spec.containers[webserver].ports[http].containerPort: 80 -> 8080\n" +
		"  ~ Service web-service\n      spec.ports[http].port: 80 -> 8080\n",
		"  -+ Pod cache-1: its template has changed\n", "  -+ Pod cache-0: its template has changed\n",
		"Plan: 2 to create, 2 to change, 2 to delete, 0 blocked. 4 pods roll.\n"}
	first := s.plan(admin)
	s.wantPlan(first, 3, changes...)
	if again := s.plan(admin); again.Stdout != first.Stdout {
		t.Errorf("two plans differ:\n%s\n%s", first.Stdout, again.Stdout)
	}
	if other := s.plan(operator); other.Stdout != first.Stdout { // with the rights of skiff's own role
		t.Errorf("two plans differ:\n%s\n%s", first.Stdout, other.Stdout)
	}
	s.noWritesSince(began)

	sk = startSkiff(t, s, withRedis...)
	s.waitRedis("cache", "redis:8-alpine", 2)
	Eventually(t, limit, "the port has changed", func() (bool, string) {
		svc := s.Service("web-service")
		return svc.Int("spec", "ports", "0", "port") == 8080, svc.String()
	})
	noError(t, sk.Terminate())
	s.wantPlan(s.plan(admin), 0, "No changes: 2 objects of 2 controllers are as declared.\n")
}

// noWritesSince checks that no plan has written anything, nor read or written an Event or a Lease.
func (s *Scope) noWritesSince(began time.Time) {
	s.Helper()
	plans, err := s.c.Requests(began, func(r Request) bool { return BySkiff(r) && r.User == admin.Name })
	noError(s, err)
	dry := 0
	for _, r := range plans {
		switch {
		case r.Resource == "events" || r.Resource == "leases" || r.Verb == "watch":
			s.Errorf("a plan sends %v", r)
		case r.Write() && !strings.Contains(r.URI, "dryRun=All"):
			s.Errorf("a plan writes: %v", r)
		case r.Write():
			dry++
		}
	}
	if dry == 0 {
		s.Error("the audit log has no dry run: this test does not look at the right requests")
	}
}

// Rules: PL-14
func TestPlanWithoutRightsToWriteComparesHere(t *testing.T) {
	s := newScope(t)
	sk := startSkiff(t, s)
	s.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 2"))
	s.waitChildren("web", "nginx:1.23.1", 2)
	noError(t, sk.Terminate())
	s.Kubectl("patch", "ws", "web", "--type=merge", "-p", `{"spec":{"image":"nginx:1.25.0"}}`)
	const change = "  ~ Deployment web: rolls 2 pods (RollingUpdate, 0 unavailable, 1 extra)\n" +
		"      spec.template.spec.containers[webserver].image: \"nginx:1.23.1\" -> \"nginx:1.25.0\"\n" +
		"      compared here, without a dry run: "
	var reads []kube.Right
	for _, r := range slices.Concat(webserver.Rights, redis.Rights) {
		r.Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return v != "get" && v != "list" })
		if len(r.Verbs) > 0 {
			reads = append(reads, r)
		}
	}
	s.grantRestricted(reads)
	s.wantPlan(s.plan(restricted), 3, change, "cannot patch resource",
		"Plan: 0 to create, 1 to change, 0 to delete, 0 blocked. 2 pods roll.")

}

// A webhook with side effects is told that nothing will come of the request.
//
// Rules: PL-04
func TestAPlanTellsWebhooksThatItIsADryRun(t *testing.T) {
	s := newScope(t)
	h := startWebhooks(t)
	name := "plan-" + s.NS
	s.Apply(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration",
		"metadata":{"name":"` + name + `"},"webhooks":[` +
		h.webhook(s.NS, "effects", "/allow", `,"sideEffects":"NoneOnDryRun"`) + `]}`)
	t.Cleanup(func() { s.kubectl.Must(t, "", "delete", "validatingwebhookconfiguration", name) })
	s.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 2"))
	Eventually(t, limit, "the webhook is asked about both children, in dry runs alone", func() (bool, string) {
		s.wantPlan(s.plan(admin), 3, "Plan: 2 to create, 0 to change, 0 to delete, 0 blocked.")
		h.mu.Lock()
		defer h.mu.Unlock()
		asked := map[string]bool{}
		for _, r := range h.reviews {
			body, _ := r.Body.(map[string]any)
			request, _ := body["review"].(map[string]any)
			review := Object(request)
			asked[review.Str("kind", "kind")] = true
			if dry, _ := review.At("dryRun").(bool); !dry {
				t.Errorf("asked about %v", review)
			}
		}
		return asked["Deployment"] && asked["Service"], ""
	})
}
