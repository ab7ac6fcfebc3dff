package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

const readers = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}
`

// Rules: PL-06, PL-14
func TestPlanWithReadRightsAloneComparesHere(t *testing.T) {
	c := guarded(t)
	skiff(t, c.asAdministrator("crds", "install")...).Want(t, ExitDone)
	c.grant(readers)
	c.create(webServers, "default", object{"metadata": object{"name": "web"}, "spec": object{"image": "nginx:1"}})
	c.create(redises, "default", object{"metadata": object{"name": "cache"}, "spec": object{"port": 6379, "num": 1}})
	f := program.Follow(t, c.asAdministrator("run", "--health-probe-bind-address", "0")...)
	p := planCluster{c}
	f.Await("the statuses are written", func() bool { return p.settled(webServers) && p.settled(redises) })
	f.Stop()
	c.patch(webServers, "default", "web", object{"spec": object{"image": "nginx:2", "replicas": 2}})
	c.patch(redises, "default", "cache", object{"spec": object{"num": 2}})
	c.create(webServers, "default", object{"metadata": object{"name": "new"}, "spec": object{"image": "nginx:1"}})
	r := skiff(t, c.asAdministrator("plan", "--as", "ann")...)
	for _, want := range []string{"  + Pod cache-1\n", "  + Deployment new: 1 pod\n", "  + Service new-service\n",
		"  ~ Deployment web: rolls 2 pods (RollingUpdate, 0 unavailable, 1 extra)\n      spec.replicas: 1 -> 2\n" +
			"      spec.template.spec.containers[webserver].image: \"nginx:1\" -> \"nginx:2\"\n" +
			"      compared here, without a dry run: deployments.apps \"web\" is forbidden: User \"ann\" cannot ",
		"Plan: 3 to create, 1 to change, 0 to delete, 0 blocked. 2 pods roll.\n"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("%q is missing in\n%s%s", want, r.Stdout, r.Stderr)
		}
	}
	if r.Code != ExitDiffer {
		t.Errorf("exit code %d", r.Code)
	}
}

// A webhook that has side effects and no dry run, an API server that has none at all, an object that goes while it is
// planned, a server that fails: each is named, and the rest is planned.
//
// Rules: PL-03, PL-14, PL-15
func TestPlanNamesWhatTheServerDoesNotDryRunAndPlansTheRest(t *testing.T) {
	c := newPlanCluster(t)
	c.webServer("a", "nginx:1")
	c.webServer("b", "nginx:1")
	c.settle()
	for _, name := range []string{"a", "b"} {
		c.patch(webServers, "default", name, object{"spec": object{"image": "nginx:2"}})
	}
	const rolls = "  ~ Deployment %s: rolls 3 pods (RollingUpdate, 0 unavailable, 1 extra)\n" +
		"      spec.template.spec.containers[webserver].image: \"nginx:1\" -> \"nginx:2\"\n"
	b := "WebServer default/b\n" + fmt.Sprintf(rolls, "b")
	for _, one := range []struct {
		reply apiserver.Reply
		code  int
		want  string
	}{
		{apiserver.Reply{Code: 400, Reason: "BadRequest", Message: `webhook "x" does not support dry run`}, 3,
			fmt.Sprintf(rolls, "a") +
				"      compared here, without a dry run: webhook \"x\" does not support dry run\n" + b +
				"Plan: 0 to create, 2 to change, 0 to delete, 0 blocked. 6 pods roll.\n"},
		{apiserver.Reply{Code: 404, Reason: "NotFound", Message: "gone"}, 4,
			"  ! Deployment a: changed while it was being applied\n      next: plan again: it changed meanwhile\n" +
				b + "Plan: 0 to create, 1 to change, 0 to delete, 1 blocked. 3 pods roll.\n"},
		{apiserver.Reply{Code: 403, Reason: "Forbidden", Message: "exceeded quota: pods=3"}, 4,
			"  ! Deployment a: exceeded quota: pods=3\n" +
				"      next: change WebServer default/a, or the policy or quota that refuses it\n" + b +
				"Plan: 0 to create, 1 to change, 0 to delete, 1 blocked. 3 pods roll.\n"},
		{apiserver.Reply{Code: 500, Reason: "InternalError", Message: "leader changed"}, 1,
			"  ! Deployment a: leader changed\n" + b +
				"Plan: 0 to create, 1 to change, 0 to delete, 1 blocked. 3 pods roll. " +
				"1 of 2 objects could not be planned.\n"},
	} {
		end := c.api.Inject(apiserver.Fault{Verb: "patch", Resource: "deployments", Name: "a", Reply: &one.reply})
		c.want(one.code, "WebServer default/a\n"+one.want, "--controllers", "webserver")
		end()
	}
}

// Values of Secrets are in no output, whatever the server says of them.
//
// Rules: PL-17, PL-18
func TestNoPlanShowsASecret(t *testing.T) {
	const canary, changed = "canary-Zq7-one", "canary-Zq7-two"
	c := newPlanCluster(t)
	c.define(object{"status": object{}})
	dir := t.TempDir()
	program := filepath.Join(dir, "hook")
	hook := func(value, image string) {
		noError(t, os.WriteFile(program, fmt.Appendf(nil, `#!/bin/sh
cat >/dev/null
cat <<END
{"children":[
 {"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"password":"%[1]s"}},
 {"apiVersion":"v1","kind":"Secret","metadata":{"name":"bad"},"type":"Opaque","data":{"x y":"%[1]s"}},
 {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","annotations":{"a/token":"%[1]s"}},"spec":{
  "selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[
  {"name":"c","image":"%[2]s","env":[{"name":"API_KEY","value":"%[1]s"}],
   "args":["--password=%[1]s","--secret","%[1]s","requirepass %[1]s"]}]}}}}]}
END
`, value, image), 0o700))
	}
	hook(canary, "a")
	file := hookFile(t, `apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: c}
spec:
  parentResource: {apiVersion: example.com/v1, resource: things}
  childResources:
  - {apiVersion: v1, resource: secrets, updateStrategy: {method: InPlace}}
  - {apiVersion: apps/v1, resource: deployments, updateStrategy: {method: InPlace}}
  generateSelector: true
  hooks: {sync: {exec: {command: [`+program+`]}}}
`)
	c.create(thingsResource, "default", named("a", nil))
	all := ""
	look := func(args ...string) string {
		r := skiff(t, append([]string{"plan", "--server", c.url(), "--hooks", file}, args...)...)
		all += r.Stdout + r.Stderr
		return r.Stdout
	}
	look()
	look("--full", "-o", "json")
	f := runHooks(c, file)
	secret := kube.Resource{Version: "v1", Plural: "secrets", Kind: "Secret"}
	f.Await("the Deployment is there", func() bool {
		return len(c.api.List(deployments, "")) == 1 && len(c.api.List(secret, "")) == 1
	})
	f.Stop()
	hook(changed, "b")
	text := look("--full")
	look("-o", "json")
	look("--show-secrets") // this is no terminal
	if strings.Contains(all, "canary") || strings.Contains(all, "Y2FuYXJ5") {
		t.Errorf("a secret is shown:\n%s", all)
	}
	for _, want := range []string{"  ~ Secret s\n      data.password: (hidden, 14 bytes) -> (hidden, 14 bytes)\n",
		`annotations["a/token"]: (hidden, 14 bytes)`, "env[API_KEY].value: (hidden, 14 bytes)",
		"--password=(hidden, 14"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if shown := look("--show-secrets=always"); !strings.Contains(shown, changed) {
		t.Errorf("nothing is shown:\n%s", shown)
	}
}

var thingsResource = kube.Resource{Group: "example.com", Version: "v1", Plural: "things", Kind: "Thing"}

// requests records what a server is asked.
type requests struct {
	next http.Handler

	mu  sync.Mutex // guards all
	all []*http.Request
}

func (r *requests) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.all = append(r.all, req)
	r.mu.Unlock()
	r.next.ServeHTTP(w, req)
}

// Rules: PL-04, PL-07, PL-20
func TestAPlanWithNothingToDoSendsListsAlone(t *testing.T) {
	c := newPlanCluster(t)
	for i := range 60 { // with the race detector, more take longer than a test may on a busy machine
		c.webServer(fmt.Sprintf("w%03d", i), "nginx")
	}
	c.settle()
	seen := &requests{next: c.http.Handler}
	c.http.Handler = seen
	c.want(ExitDone, "No changes: 60 objects of 1 controller are as declared.\n"+
		"Plan: 0 to create, 0 to change, 0 to delete, 0 blocked.\n", "--controllers", "webserver")
	for _, r := range seen.all {
		q := r.URL.Query()
		if r.Method != http.MethodGet || q.Has("watch") || !q.Has("limit") && r.URL.Path != "/version" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
	}
}

// Rules: PL-01
func TestPlanIsOfAllNamespacesOrOfThoseThatAreNamed(t *testing.T) {
	c := newPlanCluster(t)
	for _, name := range []string{"one", "two"} {
		c.create(namespaces, "", named(name, map[string]string{"team": name}))
		c.create(webServers, name, object{"metadata": object{"name": "web"}, "spec": object{"image": "nginx"}})
	}
	for flags, want := range map[string]string{"": "one two", "--watch-namespaces two": "two",
		"--watch-namespaces two,one": "one two", "--watch-namespace-selector team=one": "one"} {
		r := skiff(t, append([]string{"plan", "--server", c.url()}, strings.Fields(flags)...)...)
		var got []string
		for line := range strings.Lines(r.Stdout) {
			if ns, ok := strings.CutPrefix(line, "WebServer "); ok {
				got = append(got, strings.TrimSuffix(ns, "/web\n"))
			}
		}
		if r.Code != ExitDiffer || strings.Join(got, " ") != want {
			t.Errorf("%q: exit code %d, want the namespaces %s\n%s%s", flags, r.Code, want, r.Stdout, r.Stderr)
		}
	}
}
