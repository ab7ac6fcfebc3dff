package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// home is the namespace that skiff is installed in; users work in that of the Scope.
const home = "skiff"

// walk is an operator's way through the life of an installation, on a control plane of its own.
type walk struct {
	*Scope
	manifests string
	tokenFile string
	running   []*replicaOf
	printed   *os.File // all that skiff prints, for the search for secrets
}

// replicaOf stands for one pod of skiff's Deployment. The nodes are simulated and run no programs: each pod is played
// by a process with the arguments of the Deployment and the token of its service account.
type replicaOf struct {
	*Skiff
	metrics string // URL
}

// Install under the restricted Pod Security Standard, work, rotate the token, upgrade one replica after the other,
// look at what is served, and remove all of it: each step with the commands of the README, and with no rights but
// those of the manifests.
//
// Rules: AUTH-02, AUTH-27, LE-06, LE-08, LE-17, MGR-06
func TestAnOperatorInstallsRotatesUpgradesAndRemoves(t *testing.T) {
	w := newWalk(t)
	w.install()
	w.rotate()
	w.upgrade()
	w.look()
	w.remove()
	if leaks, err := Leaks(w.c.Dir); err != nil || len(leaks) > 0 {
		t.Errorf("secrets in what was printed: %v %v", leaks, err)
	}
}

func newWalk(t *testing.T) *walk {
	bins := must(binaries())(t)
	c := must(StartCluster(t.Context(), bins, func(*Cluster) error { return nil }))(t)
	t.Cleanup(func() { c.Close(t.Failed()) })
	w := &walk{Scope: scopeOn(t, c), tokenFile: c.path("token")}
	w.printed = must(os.Create(c.path("walk.out")))(t)
	t.Cleanup(func() { w.printed.Close() })
	return w
}

// skiff runs a command as an administrator; it has to end with the code.
func (w *walk) skiff(code int, args ...string) string {
	w.Helper()
	kubeconfig := filepath.Join(w.c.Dir, admin.Name+".kubeconfig")
	r := runSkiff(w, w.Scope, append(args, "--kubeconfig", kubeconfig)...)
	w.note("skiff "+strings.Join(args, " "), r.Stdout+r.Stderr)
	if r.Code != code {
		w.Fatalf("skiff %q: want exit code %d: %v", args, code, r)
	}
	return r.Stdout
}

func (w *walk) note(what, text string) {
	w.Helper()
	if _, err := fmt.Fprintf(w.printed, "$ %s\n%s\n", what, text); err != nil {
		w.Fatal(err)
	}
}

// apply is kubectl with a manifest on stdin. It must not print a warning.
func (w *walk) apply(manifest string, args ...string) {
	w.Helper()
	r, err := w.kubectl.Run(w.Context(), manifest, append(args, "-f", "-")...)
	if err != nil || r.Code != 0 || r.Stderr != "" {
		w.Fatalf("kubectl %v: %v %v", args, err, r)
	}
}

// says fails where a text lacks one of the parts.
func (w *walk) says(text string, parts ...string) {
	w.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			w.Errorf("no %q in:\n%s", part, text)
		}
	}
}

func (w *walk) install() {
	w.says(w.skiff(3, "check"), "! definition  webservers.skiff.dev: not installed, run `skiff crds install`\n")
	w.skiff(3, "crds", "diff")
	w.says(w.skiff(0, "crds", "install"), "customresourcedefinition redis.skiff.dev created\n")
	if text := w.skiff(0, "crds", "diff"); text != "" {
		w.Errorf("skiff crds diff after the installation: %s", text)
	}
	w.Kubectl("create", "namespace", home)
	w.Kubectl("label", "namespace", home, "pod-security.kubernetes.io/enforce=restricted")
	w.manifests = manifests(w.TB.(*testing.T), w.Scope)
	w.apply(w.manifests, "apply", "--server-side")
	w.Kubectl("-n", home, "rollout", "status", "deployment/skiff", "--timeout=4m")

	w.newToken("one")
	binary := must(skiffBinary())(w)
	w.start("a", binary)
	w.start("b", binary)
	w.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 2"))
	w.Apply(RedisManifest("cache", "port: 6379, num: 2"))
	w.Kubectl("wait", "--for=condition=Ready", "webserver/web", "redis/cache", "--timeout=4m")
	w.says(w.skiff(0, "check", "--as", "system:serviceaccount:skiff:skiff", "--leader-elect",
		"--leader-election-namespace", home), "nothing is missing\n")
}

// newToken makes a token of skiff's service account that is valid as long as a Secret of that name exists, and puts it
// in the place of the one before, as a kubelet does. It returns the new one.
func (w *walk) newToken(secret string) string {
	w.Helper()
	w.Kubectl("-n", home, "create", "secret", "generic", secret)
	token := strings.TrimSpace(w.Kubectl("-n", home, "create", "token", "skiff", "--bound-object-kind", "Secret",
		"--bound-object-name", secret))
	writeFile(w, w.tokenFile, token+"\n")
	return token
}

// start starts one replica, and returns when it is ready.
func (w *walk) start(name, binary string) {
	w.Helper()
	d := w.get("/apis/apps/v1/namespaces/" + home + "/deployments/skiff")
	argv := []string{binary}
	for _, c := range d.List("spec", "template", "spec", "containers") {
		for _, a := range c.At("args").([]any) {
			argv = append(argv, a.(string))
		}
	}
	var ports [2]int
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			w.Fatal(err)
		}
	}
	// In a pod, skiff finds all of this, and each pod has an address of its own.
	argv = append(argv, "--server", w.c.Server, "--certificate-authority", w.c.CAFile, "--token-file", w.tokenFile,
		"--leader-election-namespace", home, "--health-probe-bind-address", loopback(ports[0]),
		"--metrics-bind-address", loopback(ports[1]), "-v", "1")
	p := must(w.c.Start("skiff-"+name, []string{"KUBECONFIG=", "HOME=" + w.c.Dir}, argv...))(w)
	r := &replicaOf{&Skiff{Process: p, probes: "http://" + loopback(ports[0])},
		"http://" + loopback(ports[1]) + "/metrics"}
	waitReady(w, r.Skiff)
	w.running = append(w.running, r)
}

// The token of the start stops being valid as soon as its Secret is gone: a client that still sent it would get 401.
func (w *walk) rotate() {
	old := strings.TrimSpace(readFile(w, w.tokenFile))
	w.newToken("two")
	w.Kubectl("-n", home, "delete", "secret", "one")
	api := must(NewAPI(w.c.Server, w.c.CAFile, old))(w)
	Eventually(w, limit, "the old token is refused", func() (bool, string) {
		_, err := api.Get(w.Context(), "/api/v1/namespaces/"+home)
		return IsCode(err, 401), errorText(err)
	})
	w.Kubectl("patch", "webserver/web", "--type=merge", "-p", `{"spec":{"image":"nginx:1.25.3"}}`)
	w.waitChildren("web", "nginx:1.25.3", 2)
	w.Kubectl("scale", "redis/cache", "--replicas=3")
	w.waitRedis("cache", "redis:7-alpine", 3)
	for _, r := range w.running {
		w.quiet(r)
	}
}

// withoutEnv makes of the definition of WebServers one of a release in which they had no environment.
const withoutEnv = `[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/env"}]`

// upgrade brings new definitions, then one new replica after the other.
func (w *walk) upgrade() {
	if _, err := w.c.Admin.Do(w.Context(), "PATCH", crdPath("webservers"), "application/json-patch+json",
		withoutEnv); err != nil {
		w.Fatal(err)
	}
	w.says(w.skiff(3, "crds", "diff"), "webservers.skiff.dev: spec.versions[", ".env\n")
	w.says(w.skiff(0, "crds", "install"), "customresourcedefinition webservers.skiff.dev updated\n",
		"customresourcedefinition redis.skiff.dev unchanged\n")
	w.skiff(0, "crds", "diff")

	binary := must(BuildProgram(w.Context(), "skiff", repository, suite.dir, "v99.0.0-next"))(w)
	before := w.children()
	for _, name := range []string{"c", "d"} {
		w.start(name, binary)
		w.says(w.running[len(w.running)-1].Log(), `"version":"v99.0.0-next"`)
		w.replaceFirst()
	}
	if after := w.children(); !slices.Equal(before, after) {
		w.Errorf("the upgrade has changed something:\n%s\nthen\n%s", strings.Join(before, "\n"),
			strings.Join(after, "\n"))
	}
	w.Kubectl("scale", "webserver/web", "--replicas=3")
	w.waitChildren("web", "nginx:1.25.3", 3)
}

// replaceFirst ends the oldest replica, as a Deployment does once a new one is ready. If that one leads, another has
// to within a second of the SIGTERM.
func (w *walk) replaceFirst() {
	w.Helper()
	first := w.running[0]
	led, holder := w.leads(first), w.leaseHolder()
	w.running = w.running[1:]
	asked := time.Now()
	noError(w, first.Signal(syscall.SIGTERM))
	if led {
		var acquired time.Time
		Eventually(w, limit, "another replica leads", func() (bool, string) {
			lease := w.lease()
			acquired, _ = time.Parse(time.RFC3339, lease.Str("spec", "acquireTime"))
			next := lease.Str("spec", "holderIdentity")
			return next != "" && next != holder, lease.String()
		})
		w.Logf("leadership was handed over %s after SIGTERM", acquired.Sub(asked).Round(time.Millisecond))
		if acquired.Sub(asked) > 10*time.Second { // 15 if the Lease had not been given up
			w.Errorf("leadership was handed over %s after SIGTERM", acquired.Sub(asked))
		}
	}
	<-first.Done()
	if first.ExitCode() != 0 {
		w.Errorf("exit code %d after SIGTERM\n%s", first.ExitCode(), first.Tail(20))
	}
	w.quiet(first)
}

// quiet fails where the log of a replica has an error: none of what is done here is one.
func (w *walk) quiet(r *replicaOf) {
	w.Helper()
	if lines := append(r.LogLines(`"level":"ERROR"`), r.LogLines("Unauthorized")...); len(lines) > 0 {
		w.Errorf("errors in the log of %s: %q", r.Name, lines)
	}
}

func (w *walk) lease() Object {
	w.Helper()
	return w.get("/apis/coordination.k8s.io/v1/namespaces/" + home + "/leases/skiff")
}

func (w *walk) leaseHolder() string { w.Helper(); return w.lease().Str("spec", "holderIdentity") }

// leads asks the metrics of a replica whether it leads.
func (w *walk) leads(r *replicaOf) bool {
	w.Helper()
	text := must(scrape(w.Context(), r.metrics))(w)
	return strings.Contains(text, "leader_election_master_status{name=\"skiff\"} 1\n")
}

// children are the objects of users and what skiff made of them, with what changes at each write.
func (w *walk) children() []string {
	w.Helper()
	text := w.Kubectl("get", "webservers,redis,deployments,replicasets,services,pods", "-o",
		`jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid} {.metadata.resourceVersion}{"\n"}{end}`)
	return slices.Sorted(strings.Lines(text))
}
