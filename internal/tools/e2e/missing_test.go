package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skiff/internal/operators/webserver"
	"skiff/internal/runtime/kube"
)

// pickUp is how soon what was missing is picked up once it is there: skiff asks every ten seconds or so; the rest is
// room for a busy machine.
const pickUp = 2 * time.Minute

// skiff starts before the CRD exists: it says so, in the log and in /readyz?verbose, and picks the CRD up when it
// comes.
func TestSkiffStartsBeforeTheCRD(t *testing.T) {
	s := newScope(t)
	t.Cleanup(func() { installCRDs(t, s) }) // also after a failure: the other tests need it
	s.Kubectl("delete", "crd", "webservers.skiff.dev", "--timeout=4m")

	kubeconfig := must(s.c.Kubeconfig(operator))(t)
	start := time.Now()
	sk := launchSkiff(t, s, kubeconfig)
	waitParked(t, sk, "webservers.skiff.dev is not installed; run `skiff crds install`")
	if n := len(s.skiffRequests(start, func(Request) bool { return true })); n > 40 {
		t.Errorf("%d requests within the first seconds without the CRD", n)
	}

	installCRDs(t, s)
	Eventually(t, pickUp, "the CRD is picked up", func() (bool, string) { return worksEverywhere(sk) })
	s.Apply(WebServerManifest("late", "image: nginx:1.23.1, replicas: 1"))
	s.waitChildren("late", "nginx:1.23.1", 1)
	s.waitCondition("late", "Ready", "True")

	// The CRD goes while skiff runs, with all its objects, and comes back.
	s.Kubectl("delete", "crd", "webservers.skiff.dev", "--timeout=4m")
	waitStatus(t, s, sk, "! not working: webservers.skiff.dev is not installed; run `skiff crds install`")
	installCRDs(t, s)
	s.waitApplied(WebServerManifest("again", "image: nginx:1.23.1, replicas: 1"))
	s.waitChildren("again", "nginx:1.23.1", 1)
}

// A definition of another release: skiff says in its status what it needs and the next step, and works once that is
// done.
func TestSkiffSaysWhatIsWrongWithAnIncompatibleDefinition(t *testing.T) {
	s := newScope(t) // for its commands; the definitions of the shared cluster stay as they are
	c := ownCluster(t)
	kubeconfig := must(c.Kubeconfig(admin))(t)
	text := readFile(t, filepath.Join(repository, "crds", "webserver.yaml"))
	other := filepath.Join(t.TempDir(), "crd.yaml")
	writeFile(t, other, strings.Replace(text, "- name: v1alpha1", "- name: v2", 1))
	noError(t, applyFiles(c, other))
	sk := launchSkiff(t, s, kubeconfig)
	waitStatus(t, s, sk, "! not working: webservers.skiff.dev is served as v2, and this skiff needs v1alpha1; run "+
		"the skiff that these definitions belong to, or `skiff crds install` for this one\n")
	const refused = ": the cluster may have objects stored as v2, which this skiff does not define, so nothing is "
	for _, command := range []string{"diff", "install"} {
		if r := runSkiff(t, s, "crds", command, "--kubeconfig", kubeconfig); r.Code != 1 ||
			!strings.Contains(r.Stderr, refused) {
			t.Errorf("skiff crds %s: %v", command, r)
		}
	}
	noError(t, c.Admin.Delete(t.Context(), crdPath("webservers")))
	Eventually(t, limit, "the definition of v2 is gone", func() (bool, string) {
		_, err := c.Admin.Get(t.Context(), crdPath("webservers"))
		return IsCode(err, http.StatusNotFound), errorText(err)
	})
	if r := runSkiff(t, s, "crds", "install", "--kubeconfig", kubeconfig); r.Code != 0 {
		t.Fatal(r)
	}
	Eventually(t, pickUp, "the definition is picked up", func() (bool, string) { return worksEverywhere(sk) })

	// One without a field, under a skiff that starts later.
	if _, err := c.Admin.Do(t.Context(), "PATCH", crdPath("webservers"), "application/json-patch+json",
		withoutEnv); err != nil {
		t.Fatal(err)
	}
	// skiff asks once when all is well, and a busy server publishes the definition seconds after it has changed.
	Eventually(t, pickUp, "the server publishes the definition", func() (bool, string) {
		doc, err := c.Admin.Get(t.Context(), "/openapi/v3/apis/skiff.dev/v1alpha1")
		fields := doc.At("components", "schemas", "dev.skiff.v1alpha1.WebServer", "properties", "spec", "properties")
		known, _ := fields.(map[string]any)
		return err == nil && known["image"] != nil && known["env"] == nil, fmt.Sprint(err, fields)
	})
	waitStatus(t, s, launchSkiff(t, s, kubeconfig), "! the cluster has an older definition of webservers.skiff.dev, "+
		"and the server drops the fields that it lacks: spec.env; run `skiff crds install`\n")
}

// A user without rights: skiff names what is missing, and works when it is granted.
func TestSkiffStartsBeforeTheGrant(t *testing.T) {
	s := newScope(t)
	all := webserver.Rights
	s.grantRestricted(without(without(all, "list", "services"), "watch", "services"))
	kubeconfig := must(s.c.Kubeconfig(restricted))(t)
	start := time.Now()
	sk := launchSkiff(t, s, kubeconfig)
	waitParked(t, sk, "may not list and watch services;")
	if n := len(s.skiffRequests(start, func(r Request) bool {
		return r.User == restricted.Name &&
			r.Code == http.StatusForbidden
	})); n > 20 {
		t.Errorf("%d refused requests within the first seconds", n)
	}

	s.grantRestricted(all)
	Eventually(t, pickUp, "the grant is picked up", func() (bool, string) { return worksEverywhere(sk) })
	s.Apply(WebServerManifest("granted", "image: nginx:1.23.1, replicas: 1"))
	s.waitChildren("granted", "nginx:1.23.1", 1)
}

// grantRestricted gives the user restricted these rights in all namespaces, and no others, until the test is over.
func (s *Scope) grantRestricted(rights []kube.Right) {
	s.Helper()
	manifest := grant("ClusterRole", "skiff-restricted", restricted.Name, rights)
	s.Apply(manifest)
	s.Cleanup(func() {
		s.kubectl.Must(s, manifest, "delete", "--ignore-not-found", "-f", "-")
	})
}

// Two namespaces, one of them without rights: the other one works, the missing one is named once, and joins when it is
// granted.
func TestSkiffWorksInTheNamespacesThatItMayWatch(t *testing.T) {
	s := newScope(t)
	other := s.NS + "-other"
	s.Kubectl("create", "namespace", other)
	t.Cleanup(func() {
		s.kubectl.Must(t, "", "delete", "namespace", other, "--wait=false")
	})
	applyIn := func(namespace, manifest string) {
		t.Helper()
		s.kubectl.Must(t, manifest, "-n", namespace, "apply", "-f", "-")
	}
	role := grant("Role", "skiff-restricted", restricted.Name, webserver.Rights)
	applyIn(s.NS, role)
	kubeconfig := must(s.c.Kubeconfig(restricted))(t)
	sk := launchSkiff(t, s, kubeconfig, "--watch-namespaces", s.NS+","+other)
	s.Apply(WebServerManifest("here", "image: nginx:1.23.1, replicas: 1"))
	s.waitChildren("here", "nginx:1.23.1", 1)
	parked := "namespace " + other + ": may not list and watch webservers.skiff.dev, deployments.apps, services;"
	waitParked(t, sk, parked)
	waitReady(t, sk)
	if n := len(sk.LogLines(parked)); n != 1 {
		t.Errorf("%d log lines about namespace %s:\n%s", n, other, sk.Tail(20))
	}

	follow(t, s, adviceIn(t, sk.LogLines(parked)[0]))
	Eventually(t, pickUp, "the grant is picked up", func() (bool, string) { return worksEverywhere(sk) })
	applyIn(other, WebServerManifest("there", "image: nginx:1.23.1, replicas: 1"))
	Eventually(t, limit, "the Deployment of the other namespace exists", func() (bool, string) {
		r := s.TryKubectl("-n", other, "get", "deployment", "there")
		return r.Code == 0, r.String()
	})
}

// Without rights on its Lease a skiff says in its log what to run, and leads once that has been done.
func TestSkiffSaysHowToGrantTheLease(t *testing.T) {
	s := newScope(t)
	s.grantRestricted(webserver.Rights)
	kubeconfig, err := s.c.Kubeconfig(restricted)
	if err != nil {
		t.Fatal(err)
	}
	sk := launchSkiff(t, s, kubeconfig, "--leader-elect", "--leader-election-namespace", s.NS)
	const refused = "cannot get the lease, retrying"
	Eventually(t, limit, "the log says that the lease is forbidden", func() (bool, string) {
		return len(sk.LogLines(refused)) > 0, sk.Tail(20)
	})
	follow(t, s, adviceIn(t, sk.LogLines(refused)[0]))
	s.Apply(WebServerManifest("led", "image: nginx:1.23.1, replicas: 1"))
	s.waitChildren("led", "nginx:1.23.1", 1)
	if n := len(sk.LogLines(refused)); n > 1 {
		t.Errorf("%d lines about the lease:\n%s", n, sk.Tail(20))
	}
}

// adviceIn returns the command that a line of the log advises.
func adviceIn(t testing.TB, line string) string {
	t.Helper()
	_, rest, _ := strings.Cut(line, "`")
	command, _, ok := strings.Cut(rest, "`")
	if !ok {
		t.Fatalf("no command in %s", line)
	}
	return command
}

// follow runs a command that skiff advises, as an administrator does.
func follow(t testing.TB, s *Scope, command string) {
	t.Helper()
	binary := must(skiffBinary())(t)
	kubectl := must(kubectlPath())(t)
	kubeconfig := must(s.c.Kubeconfig(admin))(t)
	script := fmt.Sprintf(`skiff() { %q "$@"; }; kubectl() { %q "$@"; }; %s`, binary, kubectl, command)
	env := []string{"KUBECONFIG=" + kubeconfig, "HOME=" + s.c.Dir}
	r, err := runCommand(t.Context(), env, "", "bash", "-c", script)
	if err != nil || r.Code != 0 {
		t.Fatalf("%s: %v %v", command, err, r)
	}
	t.Logf("%s: %s", command, r.Stdout)
}

// Rights that are lost at run time are told with the first request that is refused.
func TestStatusShowsRightsThatWereLost(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	sk := startSkiffWith(t, s, "webserver", webserver.Rights)
	s.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 1"))
	s.waitCondition("web", "Ready", "True")
	s.Kubectl("delete", "role", "skiff")
	s.Apply(WebServerManifest("web", "image: nginx:1.23.2, replicas: 1"))
	waitStatus(t, s, sk, "! refused: "+s.NS+"/web, ")
}

// A server that refuses the token for writes, and for nothing else.
func TestStatusShows401OnEachWrite(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	binary := must(skiffBinary())(t)
	group := must(NewGroup())(t)
	t.Cleanup(group.Close)
	h, err := StartHostile(attack{name: "401", on: "writes", list: func(a *assault) {
		a.w.WriteHeader(http.StatusUnauthorized)
		a.writes(`{"kind":"Status","status":"Failure","code":401,"reason":"Unauthorized","message":"Unauthorized"}`)
	}}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	t.Cleanup(h.Calm)
	prepare(t, h)
	declare(t, h, "early")
	sk := startHostile(t, group, binary, h)
	t.Cleanup(func() { _ = sk.Kill() })
	waitStatus(t, s, sk, "(the server refused the ")
}

// waitStatus returns when `skiff status` exits with 3 and says what it should.
func waitStatus(t *testing.T, s *Scope, sk *Skiff, want string) {
	t.Helper()
	Eventually(t, limit, "skiff status says "+want, func() (bool, string) {
		r := runSkiff(t, s, "status", "--health-probe-bind-address", strings.TrimPrefix(sk.probes, "http://"))
		return r.Code == 3 && strings.Contains(r.Stdout, want), r.String()
	})
}

// waitParked returns when skiff's log and /readyz?verbose name what is missing. /readyz is 200 then: waiting does not
// help, and one wrong namespace must not block a rollout.
func waitParked(t *testing.T, sk *Skiff, missing string) {
	t.Helper()
	Eventually(t, limit, "the log and /readyz?verbose name "+missing, func() (bool, string) {
		if sk.Exited() {
			t.Fatalf("skiff ended with exit code %d\n%s", sk.ExitCode(), sk.Tail(20))
		}
		code, body, err := sk.probe("/readyz?verbose")
		said := err == nil && code == http.StatusOK && strings.Contains(body, "not working: ") &&
			strings.Contains(body, missing)
		return said && len(sk.LogLines(missing)) > 0, body + errorText(err) + "\n" + sk.Tail(10)
	})
}

// worksEverywhere is true if /readyz?verbose answers 200 and names nothing that is not worked on.
func worksEverywhere(sk *Skiff) (bool, string) {
	code, body, err := sk.probe("/readyz?verbose")
	return err == nil && code == http.StatusOK && !strings.Contains(body, "not working"), body + errorText(err)
}

// notReady is true if /readyz answers 503.
func notReady(sk *Skiff) (bool, string) {
	code, body, err := sk.probe("/readyz")
	return err == nil && code == http.StatusServiceUnavailable, http.StatusText(code) + " " + body + errorText(err)
}

// installCRDs applies the crds directory and waits until the API is served.
func installCRDs(t testing.TB, s *Scope) {
	t.Helper()
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join(repository, "crds")},
		{"wait", "--for=condition=Established", "crd/webservers.skiff.dev", "--timeout=4m"},
	} {
		s.kubectl.Must(t, "", args...)
	}
}

// waitApplied applies a manifest whose kind may not be served yet.
func (s *Scope) waitApplied(manifest string) {
	s.Helper()
	Eventually(s, limit, "the manifest is accepted", func() (bool, string) {
		r, err := s.kubectl.Run(s.Context(), manifest, "-n", s.NS, "apply", "-f", "-")
		return err == nil && r.Code == 0, r.String() + errorText(err)
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// writeFile replaces a file as a kubelet or a vault agent does it.
func writeFile(t testing.TB, path, text string) {
	t.Helper()
	noError(t, replaceFile(path, text))
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		return "" // not there yet
	}
	return string(text)
}
