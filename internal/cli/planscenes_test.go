package cli

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"skiff/internal/hooks/spec"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// planWeb makes a WebServer that skiff has made the children of.
func (c planCluster) planWeb() {
	c.t.Helper()
	c.create(webServers, "default", object{"metadata": object{"name": "web"}, "spec": object{"image": "nginx:1",
		"replicas": 3, "env": []any{object{"name": "A", "value": "b"}},
		"template": object{"metadata": object{"annotations": object{"x/y": "z"}}}}})
	c.settle()
}

// Each WebServer is changed after skiff has run.
//
// Rules: PL-08, PL-09, PL-10, PL-12, PL-15
func TestPlanShowsWhatAChangeOfASpecComesTo(t *testing.T) {
	scenes := map[string]struct {
		before, change object
		code           int
		lines, summary string
	}{
		"fields that others take over keep their value": {object{"replicas": 3}, object{"replicas": nil}, ExitDiffer,
			"  ~ Deployment web: no field changes; skiff notes what it declares\n",
			"0 to create, 1 to change, 0 to delete, 0 blocked."},
		// a server drops it, and each process sends it once
		"a write that changes nothing": {object{"template": object{"spec": object{"hostNetwork": false}}}, object{},
			ExitDone, "", "0 to create, 0 to change, 0 to delete, 0 blocked."},
		// after a POST, the port is an item of our Update entry: an apply in a dry run would leave it beside the new
		// one, which has the same name, and be refused
		"an item of a list that gets another key": {object{"replicas": 3}, object{"port": 8080}, ExitDiffer,
			`  ~ Deployment web: rolls 3 pods (RollingUpdate, 0 unavailable, 1 extra)
      spec.template.spec.containers[webserver].ports[http].containerPort: 80 -> 8080
  ~ Service web-service
      spec.ports[http].port: 80 -> 8080
`, "0 to create, 2 to change, 0 to delete, 0 blocked. 3 pods roll."},
		// our fields are an Update in the server's books: a dry run of an apply shows nothing that goes
		"fields that are no longer declared": {object{"env": []any{object{"name": "A", "value": "b"}},
			"template": object{"metadata": object{"annotations": object{"x/y": "z"}}}},
			object{"env": []any{object{"name": "B", "value": "c"}}, "template": nil}, ExitDiffer,
			`  ~ Deployment web: rolls 1 pod (RollingUpdate, 0 unavailable, 1 extra)
      spec.template.metadata.annotations["x/y"]: "z" -> (removed)
      spec.template.spec.containers[webserver].env[A].value: "b" -> (removed)
      spec.template.spec.containers[webserver].env[B].value: "c" (added)
`, "0 to create, 1 to change, 0 to delete, 0 blocked. 1 pod rolls."},
		"a spec that is wrong": {object{}, object{"nodePort": 30001, "serviceType": "ClusterIP"}, exitBlocked,
			`  ! spec.nodePort: a Service of spec.serviceType ClusterIP has none; remove one of the two
      next: correct the spec of WebServer NS/web
`, "0 to create, 0 to change, 0 to delete, 1 blocked."},
	}
	c := newPlanCluster(t)
	namespaceOf := func(name string) string { return strings.ReplaceAll(name, " ", "-") }
	for name, one := range scenes {
		ns := namespaceOf(name)
		one.before["image"] = "nginx:1"
		c.create(namespaces, "", named(ns, nil))
		c.create(webServers, ns, object{"metadata": object{"name": "web"}, "spec": one.before})
	}
	c.settle()
	for name, one := range scenes {
		ns := namespaceOf(name)
		c.patch(webServers, ns, "web", object{"spec": one.change})
		text := "No changes: 1 object of 1 controller is as declared.\n"
		if one.lines != "" {
			text = "WebServer " + ns + "/web\n" + strings.ReplaceAll(one.lines, "NS", ns)
		}
		c.want(one.code, text+"Plan: "+one.summary+"\n", "--controllers", "webserver", "--watch-namespaces", ns)
	}
}

// Rules: PL-11, PL-15
func TestPlanNamesTheManagerThatAValueIsTakenFrom(t *testing.T) {
	c := newPlanCluster(t)
	c.webServer("scaled", "nginx")
	c.planWeb()
	noError(t, c.client.Patch(t.Context(), deployments, kube.Key{Namespace: "default", Name: "web"},
		kube.StrategicMergePatch, object{"spec": object{"replicas": 7}}, nil,
		kube.WriteOptions{FieldManager: "kubectl-edit"}))
	const field = "      spec.replicas: 7 -> 3 (taken from kubectl-edit)\n"
	noError(t, c.client.Patch(t.Context(), deployments, kube.Key{Namespace: "default", Name: "scaled"},
		kube.MergePatch, object{"spec": object{"replicas": 9}}, nil,
		kube.WriteOptions{FieldManager: "autoscaler", Subresource: "scale"}))
	c.want(ExitDiffer, "WebServer default/scaled\n  ~ Deployment scaled\n"+
		"      spec.replicas: 9 -> 3 (taken from autoscaler)\n"+
		"Plan: 0 to create, 1 to change, 0 to delete, 0 blocked.\n", "webserver/scaled")
	c.want(ExitDiffer, "WebServer default/web\n  ~ Deployment web\n"+field+
		"Plan: 0 to create, 1 to change, 0 to delete, 0 blocked.\n", "webserver/web")
	c.patch(webServers, "default", "web", object{"metadata": object{"annotations": object{
		"skiff.dev/paused": "true"}}})
	c.want(ExitDone, "WebServer default/web\n  = Deployment web: its WebServer is paused\n"+field+
		"Plan: 0 to create, 0 to change, 0 to delete, 0 blocked.\n", "webserver/web")
}

// Rules: PL-04, PL-12
func TestPlanListsEveryPodThatIsReplacedInTheOrderOfTheRoll(t *testing.T) {
	c := newPlanCluster(t)
	c.create(redises, "default", object{"metadata": object{"name": "cache"},
		"spec": object{"port": 6379, "num": 3, "image": "redis:7"}})
	f := program.Follow(t, "run", "--server", c.url(), "--health-probe-bind-address", "0")
	f.Await("the status is written", func() bool { return c.settled(redises) })
	f.Stop()
	c.patch(redises, "default", "cache", object{"spec": object{"image": "redis:8", "num": 2}})
	c.want(ExitDiffer, `Redis default/cache
  - Pod cache-2: it is no longer declared
  -+ Pod cache-1: its template has changed
      spec.containers[redis].image: "redis:7" -> "redis:8"
  -+ Pod cache-0: its template has changed
      spec.containers[redis].image: "redis:7" -> "redis:8"
Plan: 2 to create, 0 to change, 3 to delete, 0 blocked. 2 pods roll.
`)
	c.delete(redises, "default", "cache")
	c.want(ExitDiffer, `Redis default/cache
  - Pod cache-2: its Redis is being deleted
  - Pod cache-1: its Redis is being deleted
  - Pod cache-0: its Redis is being deleted
Plan: 0 to create, 0 to change, 3 to delete, 0 blocked.
`)
}

// Rules: PL-12, PL-15
func TestPlanShowsTheRestartsOfRestartTriggers(t *testing.T) {
	c := newPlanCluster(t)
	podSpec := object{"containers": []any{object{"name": "c", "image": "i"}}}
	status := func(r kube.Resource, name string, status object) {
		c.t.Helper()
		noError(t, c.client.Patch(t.Context(), r, kube.Key{Namespace: "default", Name: name}, kube.MergePatch,
			object{"status": status}, nil, kube.WriteOptions{Subresource: "status"}))
	}
	pods := kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}
	pod := func() {
		c.t.Helper()
		c.create(pods, "default", object{"metadata": object{"name": "cache-0", "labels": object{"app": "cache"}},
			"spec": podSpec})
		status(pods, "cache-0", object{"phase": "Running"})
	}
	pod()
	for trigger, spec := range map[string]object{
		"1-now": {"debounce": "0s"}, "2-later": {"debounce": "10m"}, "3-suspended": {"suspend": true}} {
		targets := []any{}
		for _, name := range []string{trigger, trigger + "-b"} {
			c.create(deployments, "default", object{"metadata": object{"name": name}, "spec": object{"replicas": 2,
				"selector": object{"matchLabels": object{"app": "proxy"}}, "template": object{
					"metadata": object{"labels": object{"app": "proxy"}}, "spec": podSpec}}})
			status(deployments, name, object{"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2,
				"readyReplicas": 2, "availableReplicas": 2})
			targets = append(targets, object{"kind": "Deployment", "name": name})
		}
		spec["source"], spec["targets"] = object{"selector": object{"matchLabels": object{"app": "cache"}}}, targets
		c.create(triggers, "default", object{"metadata": object{"name": trigger}, "spec": spec})
	}
	f := program.Follow(t, "run", "--server", c.url(), "--health-probe-bind-address", "0")
	f.Await("the statuses are written", func() bool { return c.settled(triggers) })
	f.Stop()
	c.delete(pods, "default", "cache-0")
	pod()
	const rolls = ": rolls 2 pods (RollingUpdate, 0 unavailable, 1 extra)"
	const field = "\n      spec.template.metadata.annotations[\"kubectl.kubernetes.io/restartedAt\"]: " +
		"(the time of the restart) (added)\n"
	c.want(ExitDiffer, "RestartTrigger default/1-now\n"+
		"  ~ Deployment 1-now"+rolls+field+
		"  ~ Deployment 1-now-b"+rolls+" when the restart before it is over"+field+
		"RestartTrigger default/2-later\n"+
		"  ~ Deployment 2-later"+rolls+" when the debounce is over"+field+
		"  ~ Deployment 2-later-b"+rolls+" when the restart before it is over"+field+
		"RestartTrigger default/3-suspended\n"+
		"  = Deployment 3-suspended: its RestartTrigger is paused"+field+
		"  = Deployment 3-suspended-b: its RestartTrigger is paused"+field+
		"Plan: 0 to create, 4 to change, 0 to delete, 0 blocked. 8 pods roll.\n", "--min-debounce", "0s")
}

// Rules: PL-02, PL-14, PL-15
func TestPlanOfAFileNamesEachObjectThatIsRefusedAndPlansTheRest(t *testing.T) {
	c := newPlanCluster(t)
	file := filepath.Join(t.TempDir(), "web.yaml")
	const one = "apiVersion: skiff.dev/v1alpha1\nkind: WebServer\n"
	noError(t, os.WriteFile(file, []byte(one+"metadata: {name: web, namespace: nowhere}\nspec: {image: nginx}\n---\n"+
		one+"metadata: {name: bad}\nspec: {image: 7}\n---\n"+
		one+"metadata: {name: typo}\nspec:\n  image: nginx\n  replica: 3\n"), 0o600))
	c.want(exitBlocked, `WebServer default/bad (new)
  ! `+file+`:9: spec.image: want text, got a number
WebServer default/typo (new)
  ! `+file+`:16: spec.replica: unknown field, did you mean replicas?
WebServer nowhere/web (new)
  + Deployment web: 1 pod
      spec.template.spec.containers[webserver].image: "nginx"
      compared here, without a dry run: namespaces "nowhere" not found
  + Service web-service
      spec.type: "NodePort"
      compared here, without a dry run: namespaces "nowhere" not found
Plan: 2 to create, 0 to change, 0 to delete, 2 blocked.
`, "-f", file)

	// What kubectl applied before, and the file does not have any more, goes.
	c.create(webServers, "default", object{"metadata": object{"name": "web", "annotations": object{
		"kubectl.kubernetes.io/last-applied-configuration": `{"spec":{"image":"nginx","replicas":3,"env":[]}}`}},
		"spec": object{"image": "nginx", "replicas": 3}})
	noError(t, os.WriteFile(file, []byte(one+"metadata: {name: web}\nspec: {image: nginx}\n"), 0o600))
	c.want(ExitDiffer, `WebServer default/web
  + Deployment web: 1 pod
      spec.template.spec.containers[webserver].image: "nginx"
  + Service web-service
      spec.type: "NodePort"
      spec.ports[http].nodePort: (known after creation)
Plan: 2 to create, 0 to change, 0 to delete, 0 blocked.
`, "-f", file)

	noError(t, os.WriteFile(file, []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"), 0o600))
	skiff(t, "plan", "--server", c.url(), "-f", file).Want(t, ExitUsage,
		file+`:2: kind "Pod", apiVersion "v1", name "web": want objects of the controllers that are planned: WebServer, Redis, `+
			"RestartTrigger")
}

// Rules: PL-21, PL-22
func TestPlanPrintsLinesOfJSON(t *testing.T) {
	c := newPlanCluster(t)
	c.planWeb()
	c.patch(webServers, "default", "web", object{"spec": object{"image": "nginx:2"}})
	r := skiff(t, "plan", "--server", c.url(), "-o", "json")
	first, rest, _ := strings.Cut(r.Stdout, "\n")
	var head struct{ Format, Skiff, Server string }
	noError(t, json.Unmarshal([]byte(first), &head))
	want := `{"owner":"WebServer default/web","op":"change","resource":"deployments.apps","namespace":"default",` +
		`"name":"web","fields":[{"path":"spec.template.spec.containers[webserver].image","before":"nginx:1",` +
		`"after":"nginx:2"}],"pods":3,"note":"rolls 3 pods (RollingUpdate, 0 unavailable, 1 extra)"}
{"summary":{"create":0,"change":1,"delete":0,"blocked":0,"failed":0,"pods":3,"exit":3}}
`
	if r.Code != ExitDiffer || head.Format != "skiff-plan/1" || head.Skiff == "" || head.Server == "" || rest != want {
		t.Errorf("exit code %d\n%s", r.Code, r.Stdout)
	}
	c.create(kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}, "default", object{"metadata": object{
		"name": "taken-service"}, "spec": object{"ports": []object{{"port": 80}}}})
	c.create(webServers, "default", object{"metadata": object{"name": "taken"}, "spec": object{"image": "nginx"}})
	r = skiff(t, "plan", "--server", c.url(), "-o", "json", "webserver/taken")
	want = `"resource":"services","namespace":"default","name":"taken-service","reason":"NotManaged","error":"`
	if r.Code != exitBlocked || !strings.Contains(r.Stdout, want) {
		t.Errorf("exit code %d, want %s in\n%s", r.Code, want, r.Stdout)
	}
}

func TestPlanNamesAnObjectThatIsNotThereAndAKindOfNoController(t *testing.T) {
	c := newPlanCluster(t)
	for args, say := range map[string]string{
		"webserver/web":          "there is no webserver/web in namespace default",
		"--watch-namespaces nix": "--watch-namespaces: there is no namespace nix",
	} {
		r := skiff(t, append([]string{"plan", "--server", c.url()}, strings.Fields(args)...)...)
		if r.Want(t, ExitFailed, say); r.Stdout != "" {
			t.Errorf("%s: stdout is %q", args, r.Stdout)
		}
	}
	c.create(webServers, "default", object{"metadata": object{"name": "web"}, "spec": object{"image": "nginx"}})
	web := func(kind, name, uid string) object {
		return object{"metadata": object{"name": "web", "ownerReferences": []object{{"apiVersion": kind, "kind": name,
			"name": "web", "uid": uid, "controller": true}}}}
	}
	c.create(kube.Resource{Group: "apps", Version: "v1", Plural: "replicasets", Kind: "ReplicaSet"}, "default",
		merged(web("skiff.dev/v1alpha1", "WebServer", "1"), object{"spec": object{"selector": object{
			"matchLabels": object{"a": "b"}}, "template": object{"metadata": object{"labels": object{"a": "b"}},
			"spec": object{"containers": []object{{"name": "a", "image": "a"}}}}}}))
	c.create(kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}, "default", merged(
		web("apps/v1", "ReplicaSet", "2"),
		object{"spec": object{"containers": []object{{"name": "a", "image": "a"}}}}))
	for args, say := range map[string]string{
		"rs/web":                     "rs/web: a ReplicaSet is a child: plan webserver/web",
		"pods/web":                   "pods/web: a Pod is a child: plan webserver/web",
		"webservr/web":               "webservr/web: did you mean webserver/web?",
		"ws/wep":                     "there is no ws/wep in namespace default; did you mean webserver/web?",
		"webservers/web -n nosuch":   "there is no webservers/web in namespace nosuch; it is in default",
		"ws/x -n defalt":             "there is no ws/x in namespace defalt; did you mean default?",
		"--watch-namespaces kube-sy": "there is no namespace kube-sy; did you mean kube-system?",
	} {
		r := skiff(t, append([]string{"plan", "--server", c.url()}, strings.Fields(args)...)...)
		if r.Code == ExitDone || !strings.Contains(r.Stderr, say) {
			t.Errorf("%s: exit code %d, %s, want %s", args, r.Code, r.Stderr, say)
		}
	}
	for _, kind := range []string{"ws", "webservers", "webserver.skiff.dev", "WebServer"} {
		if r := skiff(t, "plan", "--server", c.url(), kind+"/web"); r.Code != ExitDiffer {
			t.Errorf("%s/web: exit code %d, %s", kind, r.Code, r.Stderr)
		}
	}
	skiff(t, "plan", "--server", c.url(), "page/web").Want(t, ExitUsage, "page/web: no controller that is planned")
	skiff(t, "plan", "--server", c.url(), "web").Want(t, ExitUsage, `"web": want KIND/NAME`)
	skiff(t, "plan", "--server", c.url(), "--controllers", "page").Want(t, ExitUsage, `unknown controller "page"`)
}

// Rules: PL-03, PL-07
func TestPlanNamesAControllerWhoseDefinitionIsMissingAndAServerThatIsNotThere(t *testing.T) {
	c := planCluster{newCluster(t, apiserver.Options{})}
	c.want(exitBlocked, "controller webserver\n"+
		"  ! webservers.skiff.dev is not installed\n"+
		"      next: run `skiff crds install`\n"+
		"Plan: 0 to create, 0 to change, 0 to delete, 1 blocked.\n", "--controllers", "webserver")
	skiff(t, "plan", "--server", "http://127.0.0.1:1").Want(t, ExitFailed, "connection refused")
}

// Rules: PL-02
func TestPlanRefusesFilesOfStrangers(t *testing.T) {
	c := newPlanCluster(t)
	file := filepath.Join(t.TempDir(), "web.yaml")
	const one = "apiVersion: skiff.dev/v1alpha1\nkind: WebServer\nmetadata: {name: a}\nspec: {image: x}\n"
	for text, want := range map[string]string{
		"":                                   "there is no object in it",
		"a: [":                               "is not YAML",
		"[]":                                 "must be an object",
		one + "---\n" + one:                  "WebServer default/a is there twice",
		strings.Repeat("# x\n", 1<<18) + one: "larger than 1 MiB",
		"kind: WebServer\n":                  `:1: apiVersion "" of a WebServer: want skiff.dev/v1alpha1`,
		"apiVersion: skiff.dev/v1alpha1\nkind: WebServr\n": ":2: kind WebServr: did you mean WebServer?",
		strings.Replace(one, "name: a", "", 1):             "a WebServer has no metadata.name",
		strings.Replace(one, "{name: a}", "7", 1):          "a WebServer has no metadata.name",
		strings.Repeat("[", 20000):                         "-f: ",
	} {
		noError(t, os.WriteFile(file, []byte(text), 0o600))
		r := skiff(t, "plan", "--server", c.url(), "-f", file)
		if r.Code != ExitUsage || !strings.Contains(r.Stderr, want) {
			t.Errorf("%.40q: exit code %d, %s, want %q", text, r.Code, r.Stderr, want)
		}
	}
}

// What is proposed may come from a stranger.
//
// Rules: PL-02
func FuzzProposal(f *testing.F) {
	for _, seed := range []string{`{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer","metadata":{"name":"a"}}`,
		`{"metadata":{"name":7}}`, `{"metadata":[]}`, `[]`, `null`,
		`{"apiVersion":"skiff.dev/v1alpha1","kind":"WebServer"}`} {
		f.Add([]byte(seed))
	}
	client, err := kube.New(kube.Config{Server: "http://127.0.0.1:1"})
	noError(f, err)
	c := Choice{own: ControllerNames()}
	all := c.made(c.setup(client, logr.Discard()), planned(nil).concern)
	f.Fuzz(func(t *testing.T, text []byte) {
		one, err := proposal(spec.Object{Raw: text}, all, "default")
		if err == nil && (one.Key.Name == "" || one.Resource.Plural == "" || !json.Valid(one.Object)) {
			t.Errorf("%q became %+v", text, one)
		}
	})
}

func merged(all ...object) object {
	out := object{}
	for _, o := range all {
		maps.Copy(out, o)
	}
	return out
}
