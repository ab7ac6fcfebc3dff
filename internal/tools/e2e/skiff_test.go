package e2e

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// limit bounds how long the cluster may take to become what was asked for. On an idle machine it takes one or two
// seconds. It is not a promise of skiff's, which a test measures where there is one: it only ends what will never
// happen, so it is long enough for a machine that is busy with something else. What kubectl waits for has the same.
const limit = 4 * time.Minute

// freed bounds how long a Service may take to have a node port that nobody uses. kube-apiserver v1.36 now and then
// keeps a port allocated which a Service gave up, or which the server refused ("may have leaked" in the server's log),
// and frees the port up to nine minutes later. skiff asks once a minute.
const freed = 11 * time.Minute

// startSkiff runs skiff as the operator until the test is over, and returns when /readyz says 200.
func startSkiff(t testing.TB, s *Scope, extra ...string) *Skiff {
	t.Helper()
	return startSkiffAs(t, s, operator, extra...)
}

// startSkiffAs runs skiff as the user until the test is over, and returns when /readyz says 200.
func startSkiffAs(t testing.TB, s *Scope, u User, extra ...string) *Skiff {
	t.Helper()
	kubeconfig := must(s.c.Kubeconfig(u))(t)
	sk := launchSkiff(t, s, kubeconfig, extra...)
	waitReady(t, sk)
	return sk
}

// launchSkiff runs skiff with a kubeconfig until the test is over; it need not become ready. A skiff that the test did
// not end itself has to end well on SIGTERM.
func launchSkiff(t testing.TB, s *Scope, kubeconfig string, extra ...string) *Skiff {
	t.Helper()
	return launchSkiffCommand(t, s, kubeconfig, append([]string{"run", "--controllers", "webserver",
		"--metrics-bind-address=0"}, extra...)...)
}

// launchSkiffCommand is launchSkiff with a whole command line.
func launchSkiffCommand(t testing.TB, s *Scope, kubeconfig string, args ...string) *Skiff {
	t.Helper()
	binary := must(skiffBinary())(t)
	name := "skiff-" + s.NS
	sk := must(s.c.StartSkiffCommand(binary, name, kubeconfig, args...))(t)
	t.Cleanup(func() {
		if !sk.Exited() {
			if err := sk.Terminate(); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			t.Log(sk.Tail(60))
		}
	})
	return sk
}

// waitReady returns when /readyz says 200.
func waitReady(t testing.TB, sk *Skiff) {
	t.Helper()
	Eventually(t, limit, "/readyz is 200", func() (bool, string) {
		if sk.Exited() {
			t.Fatalf("skiff ended with exit code %d\n%s", sk.ExitCode(), sk.Tail(20))
		}
		err := sk.Ready()
		return err == nil, fmt.Sprint(err)
	})
}

// runSkiff runs a skiff command to its end, as a user without any configuration of his own.
func runSkiff(t testing.TB, s *Scope, args ...string) Result {
	t.Helper()
	binary := must(skiffBinary())(t)
	r := must(runCommand(t.Context(), []string{"KUBECONFIG=", "HOME=" + s.c.Dir}, "",
		append([]string{binary}, args...)...))(t)
	// For the search for secrets at the end.
	log, err := os.OpenFile(s.c.path("commands.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err == nil {
		_, err = fmt.Fprintf(log, "skiff %s: %s\n", args[0], r)
		err = errors.Join(err, log.Close())
	}
	if err != nil {
		t.Error(err)
	}
	return r
}

// skiffRequests are skiff's requests since a time that match.
func (s *Scope) skiffRequests(since time.Time, match func(Request) bool) []Request {
	s.Helper()
	requests := must(s.c.Requests(since, func(r Request) bool { return BySkiff(r) && match(r) }))(s)
	return requests
}

// writesHere matches what skiff wrote in the scope's namespace. Events do not count: they are about a write, at their
// own time.
func (s *Scope) writesHere(r Request) bool {
	return r.Write() && r.Namespace == s.NS && r.Resource != "events"
}

// waitChildren returns when the WebServer has a Deployment with that many ready replicas of the image, and a Service,
// both owned by it.
func (s *Scope) waitChildren(name, image string, replicas int) {
	s.Helper()
	Eventually(s, limit, fmt.Sprintf("%s has %d ready replicas of %s and a Service", name, replicas, image),
		func() (bool, string) {
			owner, d, svc := s.WebServer(name), s.Deployment(name), s.Service(name+"-service")
			ok := d.Int("spec", "replicas") == replicas && max(0, d.Int("status", "readyReplicas")) == replicas &&
				max(0, d.Int("status", "updatedReplicas")) == replicas &&
				max(0, d.Int("status", "replicas")) == replicas &&
				d.Int("status", "observedGeneration") == d.Int("metadata", "generation") &&
				containerOf(d).Str("image") == image &&
				owner.UID() != "" && d.ControllerUID() == owner.UID() && svc.ControllerUID() == owner.UID()
			return ok, fmt.Sprintf("Deployment %s\nService %s", d, svc)
		})
}

// waitObserved returns when skiff's status is about the present generation of the WebServer: all that skiff wanted to
// change because of the last edit, it has changed by then.
func (s *Scope) waitObserved(name string) Object {
	s.Helper()
	var ws Object
	Eventually(s, limit, "status.observedGeneration of "+name+" catches up", func() (bool, string) {
		ws = s.WebServer(name)
		return ws.Int("metadata", "generation") > 0 && ws.Int("status", "observedGeneration") == ws.Int("metadata",
			"generation"), ws.String()
	})
	return ws
}

// waitCondition returns when the condition has the status, for the present generation.
func (s *Scope) waitCondition(name, condition, status string) Object {
	s.Helper()
	return s.waitConditionWithin(limit, name, condition, status)
}

func (s *Scope) waitConditionWithin(within time.Duration, name, condition, status string) Object {
	s.Helper()
	var c Object
	Eventually(s, within, fmt.Sprintf("%s has %s=%s", name, condition, status), func() (bool, string) {
		ws := s.WebServer(name)
		c = ws.Condition(condition)
		return c.Str("status") == status && c.Int("observedGeneration") == ws.Int("metadata", "generation"),
			ws.String()
	})
	return c
}

// containerOf is the web server's own container in the Deployment.
func containerOf(deployment Object) Object {
	for _, c := range deployment.List("spec", "template", "spec", "containers") {
		if c.Str("name") == "webserver" {
			return c
		}
	}
	return nil
}

// envOf is the environment of the web server's container.
func envOf(deployment Object) map[string]string {
	env := map[string]string{}
	for _, e := range containerOf(deployment).List("env") {
		env[e.Str("name")] = e.Str("value")
	}
	return env
}

// example is a file of the examples directory.
func example(name string) string { return filepath.Join(repository, "examples", name) }

func escape(s string) string { return url.QueryEscape(s) }
