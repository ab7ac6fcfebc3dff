package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// manifests is what `skiff manifests` prints.
func manifests(t *testing.T, s *Scope, args ...string) string {
	t.Helper()
	r := runSkiff(t, s, append([]string{"manifests"}, args...)...)
	if r.Code != 0 {
		t.Fatalf("skiff manifests %q: %v", args, r)
	}
	return r.Stdout
}

// A dry run on the server checks everything but what a pod is refused for. That shows as a warning.
func TestTheManifestsAreAcceptedWhereTheRestrictedStandardIsEnforced(t *testing.T) {
	s := newScope(t)
	s.Kubectl("label", "namespace", s.NS, "pod-security.kubernetes.io/enforce=restricted",
		"pod-security.kubernetes.io/warn=restricted")
	digest := "registry.example.com/skiff@sha256:" + strings.Repeat("0a", 32)
	for _, args := range [][]string{
		{"--crds"},
		{"--image", digest, "--replicas", "3", "--controllers", "redis"},
		{"--namespaced", s.NS},
		{"--namespaced", s.NS + ",default", "--", "--template-policy=restricted"},
		{"--rbac-only"},
	} {
		text := manifests(t, s, append([]string{"--namespace", s.NS}, args...)...)
		// The Namespace is there already, with the label that makes the server warn.
		namespace := "kind: Namespace\n"
		if before, rest, ok := strings.Cut(text, "apiVersion: v1\n"+namespace); ok {
			_, after, _ := strings.Cut(rest, "---\n")
			text = before + after
		}
		r, err := s.kubectl.Run(t.Context(), text, "apply", "--dry-run=server", "--validate=strict", "-f", "-")
		// The definitions are there already, from `skiff crds install`, and kubectl misses its annotation on them.
		warns := slices.ContainsFunc(strings.Split(r.Stderr, "\n"), func(line string) bool {
			return strings.Contains(line, "Warning") && !strings.Contains(line, "last-applied-configuration")
		})
		if err != nil || r.Code != 0 || warns {
			t.Errorf("skiff manifests %q: %v %v", args, err, r)
		}
	}
}

// The pods of the Deployment are admitted, and skiff with their arguments and their token makes all three kinds of
// custom resources work in both namespaces, and asks for nothing that it may not do.
func TestNamespacedManifestsGrantWhatSkiffNeedsInTheseNamespaces(t *testing.T) {
	s, other := newScope(t), newScope(t)
	s.Kubectl("label", "namespace", s.NS, "pod-security.kubernetes.io/enforce=restricted")
	text := manifests(t, s, "--namespaced", s.NS+","+other.NS, "--namespace", s.NS)
	if strings.Contains(text, "kind: Cluster") || strings.Contains(text, "kind: Namespace") {
		t.Errorf("not all of it is namespaced:\n%s", text)
	}
	s.kubectl.Must(t, text, "apply", "-f", "-")
	s.Kubectl("rollout", "status", "deployment/skiff", "--timeout=4m")
	sk := s.startInstalled(t, s.NS)
	s.Kubectl("label", "namespace", s.NS, "pod-security.kubernetes.io/enforce-") // for the pods of a Redis
	for _, in := range []*Scope{s, other} {
		in.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 1"))
		in.Apply(RedisManifest("cache", "port: 6379, num: 1"))
		in.replacePod("redis-0")
		in.Apply(workloadManifest("Deployment", "proxy", 1))
		in.Apply(restartTriggerManifest("proxy", "debounce: 1s, cooldown: 1s, "+
			"targets: [{kind: Deployment, name: proxy}]"))
		in.waitChildren("web", "nginx:1.23.1", 1)
		in.waitRedis("cache", "redis:7-alpine", 1)
		in.Kubectl("wait", "--for=condition=Ready", "restarttrigger/proxy", "--timeout=4m")
		in.replacePod("redis-0")
		Eventually(in, limit, "the proxy is restarted", func() (bool, string) {
			return in.restartedAt("proxy") != "", in.Deployment("proxy").String()
		})
	}
	noForbidden(s, sk.Log())
}

// startInstalled runs skiff with the arguments of the installed Deployment, as its service account.
func (s *Scope) startInstalled(t *testing.T, namespace string) *Skiff {
	t.Helper()
	d := must(s.c.Admin.Get(t.Context(), "/apis/apps/v1/namespaces/"+namespace+"/deployments/skiff"))(t)
	var args []string
	for _, c := range d.List("spec", "template", "spec", "containers") {
		for _, a := range c.At("args").([]any) {
			args = append(args, a.(string))
		}
	}
	if !slices.Contains(args, "--leader-elect") {
		t.Fatalf("the arguments of the Deployment are %q", args)
	}
	kubeconfig := must(s.c.Kubeconfig(s.tokenUser(namespace, "skiff")))(t)
	// In a pod, the namespace of the Lease is that of the pod, and the ports are free. All that skiff can say must be
	// without secrets.
	args = append(args, "--leader-election-namespace", namespace, "--metrics-bind-address", "127.0.0.1:0", "-v", "9")
	sk := launchSkiffCommand(t, s, kubeconfig, args...)
	waitReady(t, sk)
	return sk
}

// A namespace that gains the label is worked in, one that loses it is left as it is.
func TestANamespaceSelectorFollowsTheLabels(t *testing.T) {
	s, other := newScope(t), newScope(t)
	selector := "team=" + s.NS
	text := manifests(t, s, "--watch-namespace-selector", selector, "--namespace", s.NS, "--controllers", "webserver",
		"--rbac-only")
	// The cluster-scoped objects have the same names in each installation.
	text = strings.ReplaceAll(text, "  name: skiff\n", "  name: "+s.NS+"\n")
	text = strings.ReplaceAll(text, "    name: skiff\n", "    name: "+s.NS+"\n")
	s.kubectl.Must(t, text, "apply", "-f", "-")
	t.Cleanup(func() {
		for _, kind := range []string{"clusterrole", "clusterrolebinding"} {
			s.kubectl.Must(t, "", "delete", kind, s.NS)
		}
	})
	s.Kubectl("label", "namespace", s.NS, "pod-security.kubernetes.io/enforce-") // for the pods of the WebServers
	sk := startSkiffAs(t, s, s.tokenUser(s.NS, s.NS), "--watch-namespace-selector", selector)
	for _, in := range []*Scope{s, other} {
		in.Apply(WebServerManifest("web", "image: nginx:1.23.1, replicas: 1"))
		in.Kubectl("label", "namespace", in.NS, "team="+s.NS)
		in.waitChildren("web", "nginx:1.23.1", 1)
	}
	other.Kubectl("label", "namespace", other.NS, "team-")
	Eventually(t, limit, "the namespace is no longer watched", func() (bool, string) {
		_, probe, err := sk.probe("/readyz?verbose")
		return err == nil && !strings.Contains(probe, other.NS) && strings.Contains(probe, s.NS), probe
	})
	other.Kubectl("scale", "webserver/web", "--replicas=3")
	s.Kubectl("scale", "webserver/web", "--replicas=2")
	s.waitChildren("web", "nginx:1.23.1", 2)
	if n := other.Deployment("web").At("spec", "replicas"); fmt.Sprint(n) != "1" {
		t.Errorf("the Deployment in a namespace without the label has %v replicas, want 1", n)
	}
	other.Kubectl("label", "namespace", other.NS, "team="+s.NS)
	other.waitChildren("web", "nginx:1.23.1", 3)
	noForbidden(s, sk.Log())
}
