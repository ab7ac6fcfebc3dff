package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// `skiff watch` prints what happens to the selected pods, and goes on over a restart of the server without repeating
// itself.
func TestWatchPrintsEventsAndSurvivesARestart(t *testing.T) {
	s := newScope(t)
	kubeconfig := must(s.c.Kubeconfig(admin))(t)
	binary := must(skiffBinary())(t)
	// A file for stdout alone: the log on stderr is not part of what a pipe reads.
	out := s.c.path("watch-" + s.NS + ".out")
	p := must(s.c.Start("watch-"+s.NS, []string{"KUBECONFIG="}, "/bin/sh", "-c", `out=$1; shift; exec "$@" >"$out"`,
		"sh", out,
		binary, "watch", "pods", "-l", "app=nginx", "-n", s.NS, "--kubeconfig", kubeconfig))(t)
	t.Cleanup(func() {
		if !p.Exited() {
			p.Kill()
		}
		if t.Failed() {
			t.Log(p.Tail(30))
		}
	})
	lines := func() []string { return strings.Split(strings.TrimSpace(readFile(t, out)), "\n") }
	sees := func(event, pod string) {
		t.Helper()
		pattern := regexp.MustCompile(`(?m)^` + event + `\s+pod/` + pod + `\b`)
		Eventually(t, limit, event+" "+pod+" is printed", func() (bool, string) {
			if p.Exited() {
				t.Fatalf("skiff watch ended with exit code %d\n%s", p.ExitCode(), p.Tail(20))
			}
			text := strings.Join(lines(), "\n")
			return pattern.MatchString(text), text
		})
	}
	s.Kubectl("run", "one", "--image=nginx:1.23.1", "--labels=app=nginx")
	s.Kubectl("run", "other", "--image=nginx:1.23.1", "--labels=app=httpd")
	sees("ADDED", "one")
	sees("MODIFIED", "one")
	s.Kubectl("run", "gone", "--image=nginx:1.23.1", "--labels=app=nginx")
	sees("ADDED", "gone")

	noError(t, s.c.RestartAPIServer(t.Context(), nil))
	s.Kubectl("run", "two", "--image=nginx:1.23.1", "--labels=app=nginx")
	sees("ADDED", "two")
	s.Kubectl("delete", "pod", "gone", "--timeout=4m")
	sees("DELETED", "gone")

	for _, pod := range []string{"one", "two", "gone"} {
		if n := countLines(lines(), "ADDED", pod); n != 1 {
			t.Errorf("ADDED %s is there %d times:\n%s", pod, n, strings.Join(lines(), "\n"))
		}
	}
	if strings.Contains(strings.Join(lines(), "\n"), "other") {
		t.Errorf("a pod that is not selected was printed:\n%s", strings.Join(lines(), "\n"))
	}
	if ok, err := p.Stop(limit); err != nil || !ok || p.ExitCode() != 0 {
		t.Errorf("SIGTERM: stopped in time %v, exit code %d, error %v", ok, p.ExitCode(), err)
	}
}

func countLines(lines []string, event, name string) (n int) {
	for _, l := range lines {
		fields := strings.Fields(l)
		if len(fields) > 1 && fields[0] == event && fields[1] == "pod/"+name {
			n++
		}
	}
	return n
}

// `skiff crds`: print what kubectl can apply, show what install would change, install it, and find nothing more to do.
func TestCRDsArePrintedComparedAndInstalled(t *testing.T) {
	s := newScope(t)
	t.Cleanup(func() { installCRDs(t, s) })
	kubeconfig := must(s.c.Kubeconfig(admin))(t)
	crds := func(wantCode int, wantText string, args ...string) {
		t.Helper()
		r := runSkiff(t, s, append([]string{"crds"}, args...)...)
		if r.Code != wantCode || !strings.Contains(r.Stdout, wantText) {
			t.Errorf("skiff crds %s: want exit code %d and %q, got %v", args[0], wantCode, wantText, r)
		}
	}
	printed := runSkiff(t, s, "crds", "print")
	r, err := s.kubectl.Run(t.Context(), printed.Stdout, "apply", "--dry-run=server", "-f", "-")
	if err != nil || r.Code != 0 || !strings.Contains(r.Stdout, "webservers.skiff.dev") {
		t.Errorf("kubectl apply of what `skiff crds print` prints: %v %v", err, r)
	}

	s.Kubectl("delete", "crd", "webservers.skiff.dev", "--timeout=4m")
	crds(3, "webservers.skiff.dev", "diff", "--kubeconfig", kubeconfig)
	crds(0, "webservers.skiff.dev created", "install", "--kubeconfig", kubeconfig)
	s.Kubectl("get", "webservers") // established and served by now
	crds(0, "", "diff", "--kubeconfig", kubeconfig)
	crds(0, "webservers.skiff.dev unchanged", "install", "--kubeconfig", kubeconfig)

	s.Kubectl("patch", "crd", "webservers.skiff.dev", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/image/description","value":"an older text"}]`)
	crds(3, "properties.spec.properties.image.description\n", "diff", "--kubeconfig", kubeconfig)
	crds(0, "webservers.skiff.dev updated", "install", "--kubeconfig", kubeconfig)
	crds(0, "", "diff", "--kubeconfig", kubeconfig)
	if v := runSkiff(t, s, "version"); v.Code != 0 || v.Stdout == "" {
		t.Errorf("skiff version: %v", v)
	}
}
