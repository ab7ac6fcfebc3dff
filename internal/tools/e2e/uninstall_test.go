package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// No skiff runs any more, and a Redis with skiff's finalizer keeps itself, its namespace and its definition from
// going: skiff uninstall lets all of it go.
func TestUninstallWithoutASkiffLeavesNothingTerminating(t *testing.T) {
	s := newScope(t)
	t.Cleanup(func() { // also after a failure: the other tests need them
		installCRDs(t, s)
		s.kubectl.Must(t, "", "wait", "--for=condition=Established", "crd/redis.skiff.dev",
			"crd/restarttriggers.skiff.dev", "--timeout=4m")
	})
	going := s.NS + "-going"
	s.Kubectl("create", "namespace", going)
	kubeconfig := must(s.c.Kubeconfig(admin))(t)
	sk := startSkiff(t, s, withRedis...)
	s.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 1"))
	s.Apply(RedisManifest("cache", "port: 6379, num: 2"))
	s.waitChildren("web", "nginx:1.23.1", 1)
	s.waitRedis("cache", "redis:7-alpine", 2)
	s.kubectl.Must(t, RedisManifest("cache", "port: 6379, num: 1"), "-n", going, "apply", "-f",
		"-")
	s.Kubectl("-n", going, "wait", "--for=condition=Ready", "redis/cache", "--timeout=2m")
	noError(t, sk.Terminate())
	s.Kubectl("delete", "redis", "cache", "--wait=false")
	s.Kubectl("delete", "namespace", going, "--wait=false")

	uninstall := func(code int, args ...string) Result {
		t.Helper()
		r := runSkiff(t, s, append([]string{"uninstall", "--kubeconfig", kubeconfig}, args...)...)
		if r.Code != code {
			t.Fatalf("skiff uninstall %v: want exit code %d: %v", args, code, r)
		}
		return r
	}
	plan := uninstall(0)
	t.Logf("\n%s", plan.Stdout)
	for _, want := range []string{"would delete webservers.skiff.dev " + s.NS + "/web\n",
		"would delete redis.skiff.dev " + s.NS + "/cache; its finalizer skiff.dev/pods is removed first\n",
		"would delete the definition restarttriggers.skiff.dev\n", "nothing was changed; --yes does it\n"} {
		if !strings.Contains(plan.Stdout, want) {
			t.Errorf("no %q in %s", want, plan.Stdout)
		}
	}
	if s.WebServer("web") == nil || s.Redis("cache") == nil {
		t.Fatal("skiff uninstall without --yes deletes")
	}
	t.Logf("\n%s", uninstall(0, "--yes").Stdout)
	for _, path := range []string{"webservers", "redis", "restarttriggers"} {
		if _, err := s.c.Admin.Get(t.Context(), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+path+
			".skiff.dev"); !IsCode(err, http.StatusNotFound) {
			t.Errorf("the definition of %s: %v", path, err)
		}
	}
	Eventually(t, limit, "the children are gone", func() (bool, string) {
		r := s.Kubectl("get", "deployments,services,pods", "-o", "name")
		return strings.TrimSpace(r) == "", r
	})
	s.Kubectl("wait", "--for=delete", "namespace/"+going, "--timeout=2m")
	if r := uninstall(0, "--yes"); r.Stdout != "done\n" {
		t.Errorf("once more: %v", r)
	}
}

// With --keep-children the workloads go on, and have no owner.
func TestUninstallCanKeepTheChildren(t *testing.T) {
	s := newScope(t)
	kubeconfig := must(s.c.Kubeconfig(admin))(t)
	sk := startSkiff(t, s, withRedis...)
	s.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 1"))
	s.Apply(RedisManifest("cache", "port: 6379, num: 1"))
	s.waitChildren("web", "nginx:1.23.1", 1)
	s.waitRedis("cache", "redis:7-alpine", 1)
	noError(t, sk.Terminate())
	uid := s.Deployment("web").UID()
	r := runSkiff(t, s, "uninstall", "--kubeconfig", kubeconfig, "-n", s.NS, "--keep-children", "--yes")
	if r.Code != 0 {
		t.Fatalf("skiff uninstall: %v", r)
	}
	if s.WebServer("web") != nil || s.Redis("cache") != nil {
		t.Error("the custom resources are still there")
	}
	if d := s.Deployment("web"); d == nil || d.UID() != uid || strings.Contains(d.String(), "ownerReferences") {
		t.Errorf("the Deployment: %v", d)
	}
	if pods := s.PodsOf("cache"); len(pods) != 1 {
		t.Errorf("the pods: %v", pods)
	}
}
