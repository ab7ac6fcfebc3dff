package e2e

import (
	"strings"
	"testing"
)

// The examples are to be applied as they are, and their roles have to be enough: skiff runs here with the rights that
// they grant and no others.

// tokenUser is a service account, as a user with a token of the API server's.
func (s *Scope) tokenUser(namespace, account string) User {
	s.Helper()
	token := strings.TrimSpace(s.Kubectl("create", "token", account, "-n", namespace))
	return User{Name: namespace + "-" + account, Token: token}
}

// restartedAt is the annotation of a restart, "" before the first one.
func (s *Scope) restartedAt(deployment string) string {
	s.Helper()
	return s.Deployment(deployment).Str("spec", "template", "metadata", "annotations",
		"kubectl.kubernetes.io/restartedAt")
}

// noForbidden reports what the server has refused.
func noForbidden(s *Scope, log string) {
	s.Helper()
	for line := range strings.Lines(log) {
		// A real server's check of owner references learns of a new definition within ten seconds, and refuses all
		// children of its objects until then (seen on v1.36).
		if strings.Contains(line, "forbidden") && !strings.Contains(line, "cannot find RESTMapping") {
			s.Errorf("skiff lacks a right: %s", line)
		}
	}
}

func TestTheExamplesWorkWithTheRightsOfTheExampleRole(t *testing.T) {
	s := newScope(t)
	noError(t, applyFiles(s.c, example("install.yaml")))
	s.Kubectl("rollout", "status", "deployment/skiff", "-n", "skiff", "--timeout=4m")
	sk := s.startInstalled(t, "skiff")

	s.Kubectl("apply", "-f", example("webserver.yaml"), "-f", example("redis.yaml"))
	s.Kubectl("wait", "--for=condition=Ready", "webserver/web", "redis/cache", "--timeout=4m")
	s.Kubectl("apply", "-f", example("restarttrigger.yaml"))
	s.Kubectl("patch", "rt", "predixy", "--type=merge", "-p", `{"spec":{"debounce":"1s"}}`)
	s.Kubectl("wait", "--for=condition=Ready", "restarttrigger/predixy", "--timeout=4m")
	s.Kubectl("rollout", "status", "deployment/predixy", "--timeout=4m")
	if at := s.restartedAt("predixy"); at != "" {
		t.Errorf("the proxy was restarted at %s for pods that were there already", at)
	}

	s.Kubectl("scale", "webserver/web", "--replicas=2")
	service := s.Service("web-service").UID()
	s.Kubectl("delete", "service", "web-service")
	s.Kubectl("label", "pod", "cache-1", "app.kubernetes.io/managed-by-")
	// kwok is quick: kubectl would take the new pod for the old one and wait for ever
	s.Kubectl("delete", "pod", "cache-0", "--wait=false")
	s.waitText([]string{"restarted by RestartTrigger predixy: pod cache-0 replaced"}, "events", "--for",
		"deployment/predixy")
	s.Kubectl("rollout", "status", "deployment/predixy", "--timeout=4m")
	s.waitReplaced(freed, s.servicePath("web-service"), service)
	s.waitChildren("web", "nginx:1.23.1", 2)
	s.Kubectl("scale", "redis/cache", "--replicas=2")
	s.waitRedis("cache", "redis:7-alpine", 2)

	s.Kubectl("delete", "-f", example("webserver.yaml"), "-f", example("redis.yaml"), "-f",
		example("restarttrigger.yaml"), "--timeout=4m")
	noForbidden(s, sk.Log())
}

// startSidecar applies an example of a Deployment with skiff as a sidecar, and runs skiff as the sidecar would: with
// the arguments and the rights of the example.
func startSidecar(t *testing.T, s *Scope, file, command, deployment string, more ...string) *Skiff {
	t.Helper()
	s.Kubectl("apply", "-f", example(file))
	s.Kubectl("rollout", "status", "deployment/"+deployment, "--timeout=4m")
	var args []string
	for _, c := range s.Deployment(deployment).List("spec", "template", "spec", "containers") {
		if list, ok := c.At("args").([]any); ok {
			for _, a := range list {
				args = append(args, a.(string))
			}
		}
	}
	if len(args) < 2 || args[0] != command {
		t.Fatalf("the sidecar has the arguments %q", args)
	}
	binary := must(skiffBinary())(t)
	kubeconfig := must(s.c.Kubeconfig(s.tokenUser(s.NS, deployment)))(t)
	sk, err := s.c.StartSkiffCommand(binary, "skiff-"+s.NS, kubeconfig,
		append(append(args, "-n", s.NS), more...)...)
	if err != nil {
		t.Fatal(err)
	}
	waitReady(t, sk)
	return sk
}

func TestTheSidecarExampleWorksWithTheRightsOfItsRole(t *testing.T) {
	s := newScope(t)
	sk := startSidecar(t, s, "sidecar.yaml", "restart", "predixy", "--debounce=1s")
	s.Kubectl("run", "redis-0", "--image=redis:7-alpine", "--labels=app=redis-cluster")
	Eventually(s, limit, "the proxy is restarted", func() (bool, string) {
		return s.restartedAt("predixy") != "",
			s.Deployment("predixy").String()
	})
	s.Kubectl("rollout", "status", "deployment/predixy", "--timeout=4m")
	noForbidden(s, sk.Log())
	if err := sk.Terminate(); err != nil {
		t.Error(err)
	}
}

func TestTheReloadSidecarExampleWorksWithTheRightsOfItsRole(t *testing.T) {
	s := newScope(t)
	sk := startSidecar(t, s, "reload/sidecar.yaml", "reload", "front", "--reload-debounce=1s", "--cooldown=1s")
	// The name ends in the hash over the sources of the example.
	Eventually(s, limit, "what the pods run with is written down", func() (bool, string) {
		d := s.Deployment("front")
		return d.Str("metadata", "annotations", "skiff.dev/reloaded-c8472fd4") != "", d.String()
	})
	for _, change := range [][]string{{"configmap", "front", "-p", `{"data":{"log.conf":"level=debug"}}`},
		{"secret", "front-tls", "-p", `{"stringData":{"tls.crt":"the next one"}}`}} {
		before := reloadedAt(s.Deployment("front"))
		s.Kubectl(append([]string{"patch"}, change...)...)
		Eventually(s, limit, "the server is restarted for "+change[1], func() (bool, string) {
			d := s.Deployment("front")
			return reloadedAt(d) != before, d.String()
		})
		s.Kubectl("rollout", "status", "deployment/front", "--timeout=4m")
	}
	noForbidden(s, sk.Log())
	if err := sk.Terminate(); err != nil {
		t.Error(err)
	}
}
