package cli

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"skiff/internal/cli/clitest"
	"skiff/internal/runtime/kube"
	"skiff/internal/testcluster/apiserver"
)

// This file follows the advice that skiff prints: each row makes the state that an advice is about, takes the advice
// out of what skiff prints, follows it, and waits until the state is another one. Others are followed where their
// state can be made: what a namespace without rights needs in internal/tools/e2e (rights_test.go), a definition that
// is being deleted in crds_test.go.
// These cannot be followed by a test: to correct a clock, to renew a certificate or a token of another issuer, to
// start a server or a controller that is not skiff's, to use another version of skiff.

// adviser is a `skiff run` that can be started again with other flags, and its cluster.
type adviser struct {
	*cluster
	flags   []string
	running *clitest.Follower
}

// start runs skiff with these flags beside those that all runs have.
func (a *adviser) start(flags ...string) {
	if a.running != nil {
		a.running.Stop()
	}
	a.running = program.Follow(a.t, append(append([]string{"run", "--server", a.url(), "--health-probe-bind-address",
		"127.0.0.1:0"}, a.flags...), flags...)...)
}

// status is what `skiff status` prints.
func (a *adviser) status() string {
	m := serving.FindStringSubmatch(a.running.Stderr.String())
	if m == nil {
		return ""
	}
	return skiff(a.t, "status", "--health-probe-bind-address", m[1]).Stdout
}

// says is the text of the conditions of an object: a line for each.
func (a *adviser) says(r kube.Resource, name string) func() string {
	return func() string {
		var text strings.Builder
		object := a.api.Get(r, kube.Key{Namespace: "default", Name: name})
		status, _ := object["status"].(map[string]any)
		conditions, _ := status["conditions"].([]any)
		for _, c := range conditions {
			c, _ := c.(map[string]any)
			fmt.Fprintf(&text, "%v=%v %v: %v\n", c["type"], c["status"], c["reason"], c["message"])
		}
		return text.String()
	}
}

// until waits until a text matches, and returns the submatches.
func (a *adviser) until(text func() string, what string) []string {
	a.t.Helper()
	pattern := regexp.MustCompile(what)
	var m []string
	a.running.Await(what, func() bool {
		m = pattern.FindStringSubmatch(text())
		return m != nil
	})
	return m
}

func (a *adviser) web(spec object) {
	if spec["image"] == nil {
		spec["image"] = "nginx:1"
	}
	a.create(webServers, "default", object{"metadata": object{"name": "web"}, "spec": spec})
}

// fight gives the Deployment of the WebServer another image whenever it has that of the WebServer.
func (a *adviser) fight(image string) {
	var fighting sync.WaitGroup
	a.t.Cleanup(fighting.Wait) // the context ends before
	ctx := a.t.Context()
	fighting.Go(func() {
		change := object{"spec": object{"template": object{"spec": object{"containers": []any{
			object{"name": "webserver", "image": image}}}}}}
		for ctx.Err() == nil {
			live := a.api.Get(deployments, kube.Key{Namespace: "default", Name: "web"})
			if containers, _ := lookup(live, "spec", "template", "spec", "containers").([]any); len(containers) == 1 &&
				containers[0].(map[string]any)["image"] != image {
				err := a.client.Patch(ctx, deployments, kube.Key{Namespace: "default", Name: "web"},
					kube.StrategicMergePatch, change, nil, kube.WriteOptions{FieldManager: "kubectl-edit"})
				if err != nil && ctx.Err() == nil {
					a.t.Error(err)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond): // fast enough for five times in a minute
			}
		}
	})
}

func env(kib int) []any { return []any{object{"name": "A", "value": strings.Repeat("x", kib<<10)}} }

var quotas = kube.Resource{Version: "v1", Plural: "resourcequotas", Kind: "ResourceQuota"}

// count does what the controller of quotas does: the server decides by the status.
func (a *adviser) count(quota, pods string) {
	a.t.Helper()
	status := object{"status": object{"hard": object{"pods": pods}, "used": object{"pods": "0"}}}
	if err := a.client.Patch(a.t.Context(), quotas, kube.Key{Namespace: "default", Name: quota}, kube.MergePatch,
		status, nil, kube.WriteOptions{Subresource: "status"}); err != nil {
		a.t.Fatal(err)
	}
}

var pods = kube.Resource{Version: "v1", Plural: "pods", Kind: "Pod"}

var services = kube.Resource{Version: "v1", Plural: "services", Kind: "Service"}

func service(name string, nodePort int) object {
	return object{"metadata": object{"name": name}, "spec": object{"type": "NodePort", "selector": object{"a": "b"},
		"ports": []any{object{"name": "http", "port": 80, "nodePort": nodePort}}}}
}

func trigger(spec object) object {
	spec["targets"] = []any{object{"kind": "Deployment", "name": "proxy"}}
	if spec["source"] == nil {
		spec["source"] = object{"selector": object{"matchLabels": object{"app": "redis"}}}
	}
	return object{"metadata": object{"name": "rt"}, "spec": spec}
}

func deployment(name string) object {
	labels := object{"app": name}
	return object{"metadata": object{"name": name}, "spec": object{"selector": object{"matchLabels": labels},
		"template": object{"metadata": object{"labels": labels},
			"spec": object{"containers": []any{object{"name": "a", "image": "b"}}}}}}
}

// advices are the rows: what is done before, with which flags skiff runs, where (nil: in the conditions of the
// WebServer web) and how the advice is printed, how it is followed, and what is printed when that has helped. Where
// skiff looks again every minute, it is started again.
var advices = map[string]struct {
	flags   []string
	make    func(a *adviser)
	printed func(a *adviser) func() string
	advice  string
	follow  func(a *adviser, m []string)
	then    string
}{
	"definitions that are not installed": {
		make:    func(a *adviser) { a.delete(crdResource, "", "webservers.skiff.dev") },
		printed: func(a *adviser) func() string { return a.status },
		advice:  "! not working: webservers.skiff.dev is not installed; run `skiff (crds install)`",
		follow: func(a *adviser, m []string) {
			skiff(a.t, append(strings.Fields(m[1]), "--server", a.url())...).Want(a.t, ExitDone)
		},
		then: "all is well",
	},
	"an object that is too large, and the flag": {
		flags:  []string{"--max-object-kib", "8"},
		make:   func(a *adviser) { a.web(object{"env": env(20)}) },
		advice: "Ready=Unknown TooLarge: .*make it smaller, or raise (--max-object-kib)",
		follow: func(a *adviser, m []string) { a.start(m[1], "100") },
		then:   "Stalled=False ",
	},
	"an object that is too large, and its size": {
		flags:  []string{"--max-object-kib", "8"},
		make:   func(a *adviser) { a.web(object{"env": env(20)}) },
		advice: "Ready=Unknown TooLarge: .*make it smaller",
		follow: func(a *adviser, _ []string) {
			a.patch(webServers, "default", "web", object{"spec": object{"env": env(1)}})
		},
		then: "Stalled=False ",
	},
	"a namespace over its budget": {
		flags: []string{"--mirror-memory-mib", "1"},
		make: func(a *adviser) {
			for i := range 15 {
				a.create(webServers, "default", object{"metadata": object{"name": fmt.Sprint("web-", i)},
					"spec": object{"image": "nginx", "replicas": 0, "env": env(100)}})
			}
		},
		printed: func(a *adviser) func() string { return a.status },
		advice: "! over budget: namespace default: .*; delete some or make them smaller, or raise " +
			"(--mirror-memory-mib)",
		follow: func(a *adviser, m []string) { a.start(m[1], "100") },
		then:   "webserver ok\n(.*[^!].*\n)*    webservers.skiff.dev: streaming, 15 objects",
	},
	"an object that is paused": {
		make: func(a *adviser) {
			a.create(webServers, "default", object{"spec": object{"image": "nginx"}, "metadata": object{"name": "web",
				"annotations": object{"skiff.dev/paused": "true"}}})
		},
		advice: "=True .*nothing is changed; remove the annotation ([a-z./]+) to go on",
		follow: func(a *adviser, m []string) {
			a.patch(webServers, "default", "web", object{"metadata": object{"annotations": object{m[1]: nil}}})
		},
		then: "Paused=False .*not paused",
	},
	"a value of that annotation that means nothing": {
		make: func(a *adviser) {
			a.create(webServers, "default", object{"spec": object{"image": "nginx"}, "metadata": object{"name": "web",
				"annotations": object{"skiff.dev/paused": "ja"}}})
		},
		advice: `the annotation ([a-z./]+) is "ja" and has to be "(true)" or "false"`,
		follow: func(a *adviser, m []string) {
			a.patch(webServers, "default", "web", object{"metadata": object{"annotations": object{m[1]: m[2]}}})
		},
		then: "Paused=True ",
	},
	"a name that is taken": {
		make:   func(a *adviser) { a.create(services, "default", service("web-service", 30090)); a.web(object{}) },
		advice: "NameTaken: .*Service default/(web-service) exists and is not managed by skiff; delete it",
		follow: func(a *adviser, m []string) { a.delete(services, "default", m[1]); a.start() },
		then:   "Degraded=False ",
	},
	"another writer of the same field": {
		make:   func(a *adviser) { a.web(object{}); a.fight("mine:1") },
		advice: `Contested: .*field manager "kubectl-edit" keeps changing .*; stop it, or set ([a-z./]+): "(true)"`,
		follow: func(a *adviser, m []string) {
			a.patch(webServers, "default", "web", object{"metadata": object{"annotations": object{m[1]: m[2]}}})
		},
		then: "Paused=True ",
	},
	"a quota that is used up": {
		make: func(a *adviser) {
			a.create(quotas, "default", object{"metadata": object{"name": "few"},
				"spec": object{"hard": object{"pods": "1"}}})
			a.count("few", "1")
			a.create(redises, "default", object{"metadata": object{"name": "r"},
				"spec": object{"port": 6379, "num": 2}})
		},
		printed: func(a *adviser) func() string { return a.says(redises, "r") },
		advice:  `PodRefused: .*exceeded quota: (few), .*; raise the quota or ask for less`,
		follow: func(a *adviser, m []string) {
			a.patch(quotas, "default", m[1], object{"spec": object{"hard": object{"pods": "2"}}})
			a.count(m[1], "2")
			a.start()
		},
		then: "Degraded=False ",
	},
	"a node port that another Service has, and its Service": {
		make: func(a *adviser) {
			a.create(services, "default", service("other", 30091))
			a.web(object{"nodePort": 30091})
		},
		advice: "spec.nodePort 30091 .*free it",
		follow: func(a *adviser, _ []string) { a.delete(services, "default", "other"); a.start() },
		then:   "Degraded=False ",
	},
	"a node port that another Service has, and another port": {
		make: func(a *adviser) {
			a.create(services, "default", service("other", 30091))
			a.web(object{"nodePort": 30091})
		},
		advice: `(spec)\.(nodePort) 30091 .*choose another one`,
		follow: func(a *adviser, m []string) {
			a.patch(webServers, "default", "web", object{m[1]: object{m[2]: 30092}})
		},
		then: "Degraded=False ",
	},
	"a template that the policy does not allow, and its field": {
		make: func(a *adviser) { a.web(object{"template": object{"spec": object{"hostNetwork": true}}}) },
		advice: `--template-policy=baseline, which does not allow these pods: .*hostNetwork.*; ` +
			`correct (spec)\.(template)`,
		follow: func(a *adviser, m []string) {
			a.patch(webServers, "default", "web", object{m[1]: object{m[2]: object{"spec": object{
				"hostNetwork": nil}}}})
		},
		then: "Stalled=False ",
	},
	"a template that the policy does not allow, and the policy": {
		make:   func(a *adviser) { a.web(object{"template": object{"spec": object{"hostNetwork": true}}}) },
		advice: `skiff runs with (--template-policy)=baseline, which does not allow these pods`,
		follow: func(a *adviser, m []string) { a.start(m[1], "any") },
		then:   "Stalled=False ",
	},
	"a debounce under the floor": {
		make: func(a *adviser) {
			a.create(deployments, "default", deployment("proxy"))
			a.create(pods, "default", object{"metadata": object{"name": "redis", "labels": object{"app": "redis"}},
				"spec": object{"containers": []any{object{"name": "a", "image": "b"}}}})
			a.create(triggers, "default", trigger(object{"debounce": "0s"}))
		},
		printed: func(a *adviser) func() string { return a.says(triggers, "rt") },
		advice:  `the debounce of 0s is raised to 1s, the least that this skiff allows \((--min-debounce)\)`,
		follow: func(a *adviser, m []string) {
			a.start(m[1], "0s")
			a.patch(triggers, "default", "rt", object{"spec": object{"cooldown": "2m"}})
		},
		then: `(?m)^Ready=True [^(]*$`,
	},
	"a target that does not exist": {
		make:    func(a *adviser) { a.create(triggers, "default", trigger(object{})) },
		printed: func(a *adviser) func() string { return a.says(triggers, "rt") },
		advice:  `there is no deployment/(proxy); create it or correct the target`,
		follow: func(a *adviser, m []string) {
			a.create(deployments, "default", deployment(m[1]))
			a.patch(triggers, "default", "rt", object{"spec": object{"cooldown": "2m"}})
		},
		then: "Degraded=False ",
	},
	"pods of a namespace that does not allow it": {
		make: func(a *adviser) {
			a.create(namespaces, "", named("other", nil))
			a.create(deployments, "default", deployment("proxy"))
			a.create(triggers, "default", trigger(object{"source": object{"namespace": "other",
				"selector": object{"matchLabels": object{"app": "redis"}}}}))
		},
		printed: func(a *adviser) func() string { return a.says(triggers, "rt") },
		advice:  `namespace (other) does not allow .*; annotate it with ([a-z./-]+): "(default)"`,
		follow: func(a *adviser, m []string) {
			a.patch(namespaces, "", m[1], object{"metadata": object{"annotations": object{m[2]: m[3]}}})
			a.patch(triggers, "default", "rt", object{"spec": object{"cooldown": "2m"}})
		},
		then: "Ready=.*no pod in namespace other matches",
	},
}

func TestEachAdviceOfAConditionOrOfTheStatusChangesWhatItIsAbout(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	for name, row := range advices {
		if row.printed == nil {
			row.printed = func(a *adviser) func() string { return a.says(webServers, "web") }
		}
		t.Run(name, func(t *testing.T) {
			a := &adviser{cluster: newCluster(t, apiserver.Options{}), flags: row.flags}
			skiff(t, "crds", "install", "--server", a.url()).Want(t, ExitDone)
			row.make(a)
			a.start()
			t.Cleanup(func() { a.running.Stop() })
			printed := row.printed(a)
			m := a.until(printed, row.advice)
			if regexp.MustCompile(row.then).MatchString(printed()) {
				t.Fatalf("%q is there before the advice is followed:\n%s", row.then, printed())
			}
			row.follow(a, m)
			a.until(printed, row.then)
		})
	}
}

// Of a command that fails, and says with what it would not.
func TestEachAdviceOfACommandThatFailsMakesItGoFurther(t *testing.T) {
	api := apiserver.New(apiserver.Options{})
	t.Cleanup(api.Close)
	secure, plain := httptest.NewUnstartedServer(api), httptest.NewServer(api)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	secure.StartTLS()
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		noError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	config := func(server, more string) string {
		return "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: " + server + "}}]\n" +
			"users: [{name: u, user: {token: hush}}]\ncontexts: [{name: one, context: {cluster: c, user: u}}]\n" + more
	}
	ca := caFile(t, secure)
	for name, row := range map[string]struct {
		args   []string
		advice string
		then   func(m []string) []string // arguments
	}{
		"an unknown authority": {[]string{"crds", "diff", "--server", secure.URL},
			"pass the CA that signed the server's certificate with (--certificate-authority)\n",
			func(m []string) []string { return []string{m[1], ca} }},
		"another name in the certificate": {[]string{"crds", "diff", "--server",
			strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), "--certificate-authority", ca},
			"if this is the right server, pass the name in its certificate with (--tls-server-name)\n",
			func(m []string) []string { return []string{m[1], "example.com"} }},
		"a credential over http": {[]string{"crds", "diff", "--kubeconfig",
			write("http", config(plain.URL, "current-context: one\n"), 0o600)},
			"credentials are not sent over plain http to .*, or (--insecure-loopback-http)\n",
			func(m []string) []string { return m[1:] }},
		"no context": {[]string{"crds", "diff", "--insecure-loopback-http", "--kubeconfig",
			write("contexts", config(plain.URL, ""), 0o600)},
			"choose one of \\[(one)\\] with (--context) ",
			func(m []string) []string { return []string{m[2], m[1]} }},
		"no configuration": {[]string{"crds", "diff"}, "give (--server) or --kubeconfig",
			func(m []string) []string { return []string{m[1], plain.URL} }},
	} {
		t.Run(name, func(t *testing.T) {
			r := skiff(t, row.args...)
			m := regexp.MustCompile(row.advice).FindStringSubmatch(r.Stderr + r.Stdout)
			if m == nil {
				t.Fatalf("%q is not in %s%s", row.advice, r.Stdout, r.Stderr)
			}
			r = skiff(t, append(row.args, row.then(m)...)...)
			if r.Code != ExitDone && r.Code != ExitDiffer {
				t.Errorf("exit code %d: %s", r.Code, r.Stderr)
			}
		})
	}
	skiff(t, "crds", "diff").Want(t, ExitFailed) // it was not the environment
}

func TestTheAdviceAboutAMisspeltCommandHolds(t *testing.T) {
	r := skiff(t, "manifest")
	m := regexp.MustCompile(`did you mean (\w+)\?`).FindStringSubmatch(r.Stderr)
	if m == nil {
		t.Fatalf("no proposal in %s", r.Stderr)
	}
	skiff(t, m[1]).Want(t, ExitDone)
}

func TestAFinalizerThatUninstallWaitsForIsTheOneToBeRemoved(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	skiff(t, "crds", "install", "--server", c.url()).Want(t, ExitDone)
	c.create(webServers, "default", object{"metadata": object{"name": "web", "finalizers": []any{"example.com/x"}},
		"spec": object{"image": "nginx"}})
	args := []string{"uninstall", "--yes", "--server", c.url()}
	r := skiff(t, append(args, "--timeout", "6s")...)
	m := regexp.MustCompile(`(web) waits for its finalizer (\S+), which is not skiff's; the controller that set it`).
		FindStringSubmatch(r.Stderr)
	if r.Code != ExitFailed || m == nil || m[2] != "example.com/x" {
		t.Fatalf("exit code %d: %s", r.Code, r.Stderr)
	}
	c.patch(webServers, "default", m[1], object{"metadata": object{"finalizers": nil}}) // as that controller does
	skiff(t, args...).Want(t, ExitDone)
}

func TestTheAddressThatStatusNamesIsWhereRunIsAskedForIt(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := l.Addr().String()
	l.Close()
	r := skiff(t, "status", "--health-probe-bind-address", address)
	m := regexp.MustCompile(`start skiff (run) with (--health-probe-bind-address) (\S+)\n`).
		FindStringSubmatch(r.Stderr)
	if m == nil {
		t.Fatalf("no advice in %s", r.Stderr)
	}
	a := &adviser{cluster: c, running: program.Follow(t, append(m[1:], "--server", c.url())...)}
	t.Cleanup(func() { a.running.Stop() })
	a.until(func() string { return skiff(t, "status", "--health-probe-bind-address", address).Stdout },
		"^skiff at "+address+" is ready")
}
