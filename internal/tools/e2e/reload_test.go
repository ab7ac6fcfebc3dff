package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// reloadManifest has a workload of each kind that depends on the ConfigMap app and the Secret db.
const reloadManifest = `apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data: {log.conf: level=info, other: "1"}
---
apiVersion: v1
kind: Secret
metadata: {name: db}
stringData: {password: one}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {skiff.dev/reload: auto, skiff.dev/reload-cooldown: 1s}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: x, envFrom: [{secretRef: {name: db}}], volumeMounts: [{name: c, mountPath: /c}]}
      volumes: [{name: c, configMap: {name: app, items: [{key: log.conf, path: log.conf}]}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store, annotations: {skiff.dev/reload-secrets: "db:password", skiff.dev/reload-cooldown: 1s}}
spec:
  selector: {matchLabels: {app: store}}
  template: {metadata: {labels: {app: store}}, spec: {containers: [{name: main, image: x}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, annotations: {skiff.dev/reload-configmaps: app, skiff.dev/reload-after: deployment/web,
  skiff.dev/reload-cooldown: 1s}}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: main, image: x}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: other}
spec:
  selector: {matchLabels: {app: other}}
  template:
    metadata: {labels: {app: other}}
    spec: {containers: [{name: main, image: x, envFrom: [{secretRef: {name: db}}]}]}
`

// reloadedAt is when a workload was restarted for a source, "" if never.
func reloadedAt(o Object) string {
	return o.Str("spec", "template", "metadata", "annotations", "skiff.dev/reloaded-at")
}

// waitReloaded waits until workloads have been restarted since they were as before, and have rolled out.
func (s *Scope) waitReloaded(before map[string]string, workloads ...string) {
	s.Helper()
	for _, w := range workloads {
		plural, name, _ := strings.Cut(w, "/")
		Eventually(s, 2*limit, w+" is restarted", func() (bool, string) {
			o := s.workload(plural, name)
			return reloadedAt(o) != before[w], o.String()
		})
		s.Kubectl("rollout", "status", w, "--timeout=4m")
	}
}

var reloadables = []string{"deployments/web", "statefulsets/store", "daemonsets/agent", "deployments/other"}

// reloads returns when the workloads were restarted.
func (s *Scope) reloads() map[string]string {
	s.Helper()
	out := map[string]string{}
	for _, w := range reloadables {
		plural, name, _ := strings.Cut(w, "/")
		out[w] = reloadedAt(s.workload(plural, name))
	}
	return out
}

// The Role that `skiff manifests --controllers reload` prints for a namespace is enough, each workload is restarted
// for what it depends on and for nothing else, and skiff that was killed at any moment neither misses a change nor
// restarts twice for one.
func TestReload(t *testing.T) {
	s := newScope(t)
	s.Apply(manifests(t, s, "--controllers", "reload", "--namespaced", s.NS, "--rbac-only"))
	s.Kubectl("create", "rolebinding", "reload-restricted", "--role=skiff", "--user="+restricted.Name)
	s.Apply(reloadManifest)
	for _, w := range reloadables {
		s.Kubectl("rollout", "status", w, "--timeout=4m")
	}
	flags := []string{"--controllers", "reload", "--watch-namespaces", s.NS, "--reload-debounce", "1s"}
	sk := startSkiffAs(t, s, restricted, flags...)
	recorded := func(w string) bool {
		plural, name, _ := strings.Cut(w, "/")
		return s.workload(plural, name).Str("metadata", "annotations", "skiff.dev/reloaded") != ""
	}
	for _, w := range reloadables[:3] {
		Eventually(s, limit, "what the pods of "+w+" run with is written down", func() (bool, string) {
			return recorded(w), w
		})
	}
	if recorded("deployments/other") {
		t.Error("a workload that has not opted in was written to")
	}

	before := s.reloads()
	s.Kubectl("patch", "configmap", "app", "-p", `{"data":{"log.conf":"level=debug"}}`)
	s.waitReloaded(before, "deployments/web", "daemonsets/agent")
	after := s.reloads()
	if after["statefulsets/store"] != "" || after["deployments/other"] != "" ||
		after["daemonsets/agent"] < after["deployments/web"] {
		t.Errorf("restarted at %v", after)
	}
	Eventually(s, limit, "kubectl describe says why", func() (bool, string) {
		text := s.Kubectl("describe", "deployment/web") + s.Kubectl("describe", "configmap/app")
		return strings.Contains(text, "restarted: configmap/app:log.conf changed") &&
			strings.Contains(text, "restarted deployment/web"), text
	})
	s.Kubectl("patch", "configmap", "app", "-p", `{"data":{"other":"2"}}`)
	s.waitReloaded(after, "daemonsets/agent")
	if now := s.reloads(); now["deployments/web"] != after["deployments/web"] {
		t.Error("a key that no container sees has restarted a workload")
	}

	changes := 0
	first := s.revision("web")
	for range 8 {
		noError(t, sk.Kill())
		changes++
		s.Kubectl("patch", "secret", "db", "-p", fmt.Sprintf(`{"stringData":{"password":"n%d"}}`, changes))
		sk = startSkiffAs(t, s, restricted, flags...)
		s.waitMoment(time.Duration(rand.Int64N(int64(3 * time.Second))))
	}
	before = s.reloads()
	noError(t, sk.Kill())
	s.Kubectl("patch", "secret", "db", "-p", `{"stringData":{"password":"last"}}`)
	s.waitMoment(1100 * time.Millisecond) // times are whole seconds
	sk = startSkiffAs(t, s, restricted, flags...)
	s.waitReloaded(before, "deployments/web", "statefulsets/store")
	if n := s.revision("web") - first; n < 1 || n > changes+1 {
		t.Errorf("%d restarts for %d changes", n, changes+1)
	}
	quiet := time.Now()
	Throughout(s, 8*time.Second, "nothing is sent but watches", func() (bool, string) {
		requests := s.skiffRequests(quiet, s.writesHere)
		return len(requests) == 0, fmt.Sprint(requests)
	})
	noError(t, sk.Terminate())
	if log := sk.Log(); strings.Contains(log, "last") && strings.Contains(log, "password=") {
		t.Errorf("the log has a value: %s", log)
	}
}

// revision is how often a Deployment was rolled out.
func (s *Scope) revision(name string) (n int) {
	s.Helper()
	text := s.workload("deployments", name).Str("metadata", "annotations", "deployment.kubernetes.io/revision")
	if _, err := fmt.Sscan(text, &n); err != nil {
		s.Fatal(err)
	}
	return n
}
