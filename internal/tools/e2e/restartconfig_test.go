package e2e

import (
	"fmt"
	"testing"
	"time"
)

// configTrigger restarts web for a key of the ConfigMap app, and for Secrets by label.
const configTrigger = `apiVersion: skiff.dev/v1alpha1
kind: RestartTrigger
metadata: {name: web}
spec:
  source:
    configMaps: [{name: app, keys: [log.conf]}]
    secrets: [{selector: {matchLabels: {team: shop}}}]
  targets: [{kind: Deployment, name: web}]
  debounce: 1s
  cooldown: 10s
`

// A RestartTrigger restarts for what its ConfigMaps and Secrets say, and said while skiff was down, with the
// Role that `skiff manifests` prints; without the flag, the trigger is told as not served.
func TestRestartTriggerOfConfigMapsAndSecrets(t *testing.T) {
	s := newScope(t)
	const sources = "--restart-sources=configmaps,secrets"
	s.Apply(manifests(t, s, "--controllers", "restart", sources, "--namespaced", s.NS, "--rbac-only"))
	s.Kubectl("create", "rolebinding", "restart-restricted", "--role=skiff", "--user="+restricted.Name)
	s.Apply(workloadManifest("Deployment", "web", 1))
	s.Apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {log.conf: a, other: a}\n")
	s.Apply("apiVersion: v1\nkind: Secret\nmetadata: {name: db, labels: {team: shop}}\nstringData: {password: one}\n")
	s.Kubectl("rollout", "status", "deployment/web", "--timeout=4m")
	s.Apply(configTrigger)
	flags := []string{"--controllers", "restart", "--watch-namespaces", s.NS, "--min-cooldown=1s"}
	other := startSkiffAs(t, s, admin, flags...)
	s.waitTrigger("web", "Stalled", "True/SourceNotServed")
	noError(t, other.Terminate())

	sk := startSkiffAs(t, s, restricted, append(flags, sources)...)
	s.waitTrigger("web", "Ready", "True/Armed")
	restarts := func() int { return s.restartTrigger("web").Int("status", "restarts") }
	n := 0
	wait := func(why, source string) {
		n++
		Eventually(s, 2*limit, "a restart because "+why, func() (bool, string) {
			o := s.restartTrigger("web")
			return restarts() == n && o.Str("status", "lastRestart", "source") == source &&
				o.Str("status", "lastRestart", "reason") == "ConfigChanged", o.String() + sk.Tail(5)
		})
		s.Kubectl("rollout", "status", "deployment/web", "--timeout=4m")
	}
	s.Kubectl("patch", "configmap", "app", "-p", `{"data":{"log.conf":"b"}}`)
	wait("the key has changed", "configmap/app")
	s.Kubectl("patch", "configmap", "app", "-p", `{"data":{"other":"b"}}`)
	noError(t, sk.Kill())
	s.Kubectl("patch", "secret", "db", "-p", `{"stringData":{"password":"two"}}`)
	sk = startSkiffAs(t, s, restricted, append(flags, sources)...)
	wait("the Secret has changed while skiff was down", "secret/db")
	s.Kubectl("delete", "secret", "db")
	s.Apply("apiVersion: v1\nkind: Secret\nmetadata: {name: db, labels: {team: shop}}\nstringData: {password: two}\n")
	Throughout(s, 12*time.Second, "the same content and other keys restart nothing", func() (bool, string) {
		return restarts() == n, fmt.Sprint(s.restartTrigger("web"))
	})
	noForbidden(s, sk.Log())
	noError(t, sk.Terminate())
}
