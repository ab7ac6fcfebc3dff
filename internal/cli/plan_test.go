package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// planCluster is a cluster with skiff's definitions, in which skiff has run.
type planCluster struct{ *cluster }

func newPlanCluster(t *testing.T) planCluster {
	t.Helper()
	c := planCluster{newCluster(t, apiserver.Options{})}
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	return c
}

// settle runs the controllers until they have written the status of all WebServers.
func (c planCluster) settle() {
	c.t.Helper()
	f := program.Follow(c.t, "run", "--server", c.url(), "--health-probe-bind-address", "0")
	f.Await("all statuses are written", func() bool { return c.settled(webServers) })
	if code := f.Stop(); code != ExitDone {
		c.t.Fatalf("skiff run ended with %d: %s", code, f.Stderr)
	}
}

// runHooks runs hook controllers.
func runHooks(c planCluster, file string) *clitest.Follower {
	c.t.Helper()
	return program.Follow(c.t, "hooks", "run", "--server", c.url(), "--health-probe-bind-address", "0", "-f", file)
}

// settled says whether all objects of a resource have a status for what is declared.
func (c planCluster) settled(r kube.Resource) bool {
	c.t.Helper()
	for _, o := range c.api.List(r, "") { // without a request, which would compete with skiff's
		if lookup(o, "status", "observedGeneration") != lookup(o, "metadata", "generation") {
			return false
		}
	}
	return true
}

func (c planCluster) webServer(name, image string) {
	c.t.Helper()
	c.create(webServers, "default", object{"metadata": object{"name": name},
		"spec": object{"image": image, "replicas": 3}})
}

// want runs `skiff plan` and compares what it prints.
func (c planCluster) want(code int, text string, args ...string) {
	c.t.Helper()
	r := skiff(c.t, append([]string{"plan", "--server", c.url()}, args...)...)
	if r.Code != code || r.Stdout != text || r.Stderr != "" {
		c.t.Errorf("skiff plan %v: exit code %d, want %d\n%s%swant\n%s", args, r.Code, code, r.Stdout, r.Stderr, text)
	}
}

// Rules: PL-01, PL-02, PL-03, PL-05, PL-08, PL-12, PL-13, PL-15, PL-19
func TestPlanPrintsTheExamplesOfItsContract(t *testing.T) {
	c := newPlanCluster(t)
	file := filepath.Join(t.TempDir(), "web.yaml")
	noError(t, os.WriteFile(file, []byte("apiVersion: skiff.dev/v1alpha1\nkind: WebServer\nmetadata: {name: web}\n"+
		"spec: {image: \"nginx:1.23.1\", replicas: 3}\n"), 0o600))
	c.want(ExitDiffer, `WebServer default/web (new)
  + Deployment web: 3 pods
      spec.replicas: 3
      spec.template.spec.containers[webserver].image: "nginx:1.23.1"
  + Service web-service
      spec.type: "NodePort"
      spec.ports[http].nodePort: (known after creation)
Plan: 2 to create, 0 to change, 0 to delete, 0 blocked.
`, "-f", file)

	for i := range 11 {
		c.webServer(fmt.Sprint("w", i), "nginx:1.23.1")
	}
	c.webServer("web", "nginx:1.23.1")
	c.settle()
	c.want(ExitDone, `No changes: 12 objects of 3 controllers are as declared.
Plan: 0 to create, 0 to change, 0 to delete, 0 blocked.
`)

	c.patch(webServers, "default", "web", object{"spec": object{"image": "nginx:1.25.3"}})
	c.want(ExitDiffer, `WebServer default/web
  ~ Deployment web: rolls 3 pods (RollingUpdate, 0 unavailable, 1 extra)
      spec.template.spec.containers[webserver].image: "nginx:1.23.1" -> "nginx:1.25.3"
Plan: 0 to create, 1 to change, 0 to delete, 0 blocked. 3 pods roll.
`, "webserver/web")

	c.webServer("taken", "nginx:1.23.1")
	c.create(services, "default", object{"metadata": object{"name": "taken-service"},
		"spec": object{"ports": []any{object{"port": 80}}}})
	c.want(exitBlocked, `WebServer default/taken
  + Deployment taken: 3 pods
      spec.replicas: 3
      spec.template.spec.containers[webserver].image: "nginx:1.23.1"
  ! Service taken-service: exists and is not managed by skiff
      next: delete it, or set skiff.dev/adopt: "true" on WebServer default/taken
Plan: 1 to create, 0 to change, 0 to delete, 1 blocked.
`, "webserver/taken")
}
