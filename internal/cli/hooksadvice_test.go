package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"skiff/internal/cli/clitest"
	"skiff/internal/hooks/spec"
	"skiff/internal/hooks/supervise"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// guarded is a cluster with roles, whose client is its administrator.
func guarded(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t, apiserver.Options{RBAC: true, Token: "t"})
	c.client = must(kube.New(kube.Config{Server: c.url(), Credentials: administrator{}}))(t)
	t.Cleanup(c.client.Close)
	return c
}

// asAdministrator are the flags of its administrator, for commands.
func (c *cluster) asAdministrator(args ...string) []string {
	return append(args, "--server", c.url(), "--token", "t", "--insecure-loopback-http")
}

// grant creates the roles of documents, as kubectl apply does.
func (c *cluster) grant(yaml string) {
	c.t.Helper()
	for _, body := range documents(c.t, yaml) {
		kind := body["kind"].(string)
		namespace, _ := lookup(body, "metadata", "namespace").(string)
		c.create(kube.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Plural: strings.ToLower(kind) + "s",
			Kind: kind, ClusterScoped: namespace == ""}, namespace, body)
	}
}

// follow runs the command that the output of a skiff without rights advises, and applies what it prints.
func (c *cluster) follow(running *clitest.Follower, of string) {
	c.t.Helper()
	pattern := regexp.MustCompile(of + "[^`]*an administrator grants it with `skiff (hooks check [^|]*) \\| kubectl")
	var m []string
	running.Await("the advice", func() bool {
		m = pattern.FindStringSubmatch(running.Stderr.String())
		return m != nil
	})
	r := skiff(c.t, c.asAdministrator(strings.Fields(m[1])...)...)
	r.Want(c.t, ExitDiffer)
	c.grant(r.Stdout)
}

const copies = `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: redis} # as a controller of skiff's own is called
spec:
  parentResource: {apiVersion: example.com/v1, resource: things}
  childResources: [{apiVersion: v1, resource: configmaps}]
  generateSelector: true
  hooks: {sync: {exec: {command: [HOOK]}}}
`

// writeCopies writes the controller and its program.
func writeCopies(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	hook := filepath.Join(dir, "hook")
	noError(t, os.WriteFile(hook, []byte("#!/bin/sh\ncat >/dev/null\n"+
		`echo '{"children": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "copy"}}]}'`+"\n"), 0o700))
	file := filepath.Join(dir, "copies.yaml")
	noError(t, os.WriteFile(file, []byte(strings.Replace(copies, "HOOK", hook, 1)), 0o600))
	return file
}

// Rules: HK-105, HK-108
func TestHooksRunWithoutRightsNamesTheCommandThatGrantsThemAndThenWorks(t *testing.T) {
	c := guarded(t)
	c.define(map[string]any{"status": map[string]any{}})
	c.create(kube.Resource{Group: "example.com", Version: "v1", Plural: "things", Kind: "Thing"}, "default",
		named("one", nil))
	copies := kube.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}
	for account, row := range map[string]struct{ flags, about string }{
		"alone":   {"", "may not list and watch"},
		"elected": {"--leader-elect --leader-election-namespace default", "lease=default/skiff-hooks"},
	} {
		args := c.asAdministrator(append([]string{"hooks", "run", "-f", writeCopies(t), "--as",
			"system:serviceaccount:default:" + account, "--watch-namespaces", "default",
			"--health-probe-bind-address", "127.0.0.1:0"}, strings.Fields(row.flags)...)...)
		running := program.Follow(t, args...)
		c.follow(running, row.about)
		running.Stop()
		running = program.Follow(t, args...) // it would have tried again, but later
		running.Await("the child", func() bool {
			return c.api.Get(copies, kube.Key{Namespace: "default", Name: "copy"}) != nil
		})
		running.Stop()
		c.delete(copies, "default", "copy")
	}
}

// Rules: HK-108, HK-113
func TestTheRoleOfTheControllersOfAClusterIsThatOfTheirFilesAndFindsThem(t *testing.T) {
	c := guarded(t)
	file := writeCopies(t)
	r := skiff(t, c.asAdministrator("hooks", "role", "--from-cluster")...)
	if want := "`skiff crds install --hooks`"; r.Code != ExitFailed || !strings.Contains(r.Stderr, want) {
		t.Errorf("without definitions: %+v, want %s", r, want)
	}
	skiff(t, c.asAdministrator("crds", "install", "--hooks")...).Want(t, ExitDone)
	r = skiff(t, c.asAdministrator("hooks", "role", "--from-cluster")...)
	if r.Code != ExitFailed || !strings.Contains(r.Stderr, "the cluster has no such CompositeController") {
		t.Errorf("without controllers: %+v", r)
	}
	c.create(supervise.Composites, "", documents(t, string(must(os.ReadFile(file))(t)))[0])
	have := printedObjects(t, c.asAdministrator("hooks", "role", "--from-cluster", "--namespaced", "default")...)
	wantInstalled(t, have, "Role default/skiff-hooks", "RoleBinding default/skiff-hooks",
		"ClusterRole /skiff-hooks-controllers", "ClusterRoleBinding /skiff-hooks-controllers")
	wantGrants(t, have["ClusterRole /skiff-hooks-controllers"], supervise.Rights)
	from := printed(t, c.asAdministrator("hooks", "role", "--from-cluster", "--namespaced", "default")...)
	if files := printed(t, "hooks", "role", "-f", file, "--namespaced", "default"); !strings.HasPrefix(from, files) {
		t.Errorf("from the cluster\n%s\nfrom files\n%s", from, files)
	}

	args := c.asAdministrator("hooks", "check", "--from-cluster", "--watch-namespaces", "default", "--as",
		"system:serviceaccount:default:skiff-hooks")
	c.grant(string(from))
	c.define(map[string]any{"status": map[string]any{}})
	r = skiff(t, args...)
	if r.Code != ExitDone || !strings.Contains(r.Stdout, "of finding the controllers") {
		t.Errorf("with the role: %+v", r)
	}
	controllers, _, err := spec.ReadFiles([]string{file})
	noError(t, err)
	differences := spec.Differences(controllers[0])
	for _, d := range differences {
		if want := "  differs     " + controllers[0].Name + ": " + d.Field + ": " + d.What + "\n"; !strings.Contains(
			r.Stdout, want) {
			t.Errorf("%q is missing in\n%s", want, r.Stdout)
		}
	}
	if n := strings.Count(r.Stdout, "  differs "); n == 0 || n != len(differences) {
		t.Errorf("%d lines say what differs, want %d", n, len(differences))
	}
	deployment := printedObjects(t, c.asAdministrator("hooks", "manifests", "--from-cluster", "--image", "skiff:v1",
		"--target-label-selector", "!team")...)["Deployment skiff/skiff-hooks"]
	container := lookup(deployment, "spec", "template", "spec", "containers").([]any)[0].(object)
	if got := container["args"].([]any); got[2] != "--from-cluster" || got[3] != "--target-label-selector=!team" {
		t.Errorf("its arguments are %v", got)
	}
}
