package e2e

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	rotations   = flag.Int("rotations", 5, "how often TestReloadOfARotatedCertificate rotates")
	rotateEvery = flag.Duration("rotate-every", 5*time.Second, "how often: an hour is -rotations 60 -rotate-every 1m")
)

// rotatedManifest is a server with a certificate. %s is the least time between restarts.
const rotatedManifest = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {skiff.dev/reload: auto, skiff.dev/reload-cooldown: %s}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: x, volumeMounts: [{name: tls, mountPath: /tls}]}]
      volumes: [{name: tls, secret: {secretName: tls}}]
`

// rotate writes a new certificate, as kubectl or an issuer does.
func (s *Scope) rotate(t *testing.T) {
	s.Apply(fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: tls}
type: kubernetes.io/tls
data: {tls.crt: %s, tls.key: a2V5}
`, certificatePEM(t)))
}

// Each new certificate is one restart, also where a standby takes over from a killed leader, and the process does not
// grow.
func TestReloadOfARotatedCertificate(t *testing.T) {
	s := newScope(t)
	s.rotate(t)
	quick := *rotateEvery < time.Minute
	cooldown, flags := "1m", []string{"run", "--controllers", "reload", "--watch-namespaces", s.NS, "--leader-elect",
		"--leader-election-namespace", s.NS, "--metrics-bind-address=0"}
	if quick {
		cooldown, flags = "1s", append(flags, "--reload-debounce", "1s", "--leader-elect-lease-duration", "3s",
			"--leader-elect-renew-deadline", "1500ms", "--leader-elect-retry-period", "300ms")
	}
	s.Apply(fmt.Sprintf(rotatedManifest, cooldown))
	s.Kubectl("rollout", "status", "deployment/web", "--timeout=4m")
	binary, kubeconfig := must(skiffBinary())(t), must(s.c.Kubeconfig(admin))(t)
	started := 0
	start := func() *Skiff {
		started++
		return must(s.c.StartSkiffCommand(binary, fmt.Sprintf("skiff-%d-%s", started, s.NS), kubeconfig, flags...))(t)
	}
	leads, stands := start(), (*Skiff)(nil)
	waitReady(t, leads)
	stands = start()
	Eventually(s, limit, "what the pods run with is written down", func() (bool, string) {
		o := s.Deployment("web")
		return o.Str("metadata", "annotations", "skiff.dev/reloaded") != "", leads.Tail(20)
	})
	first := s.revision("web")
	var early int64
	for n := 1; n <= *rotations; n++ {
		begin := time.Now()
		s.rotate(t)
		if n%5 == 3 { // between the change and the restart
			noError(t, leads.Kill())
			leads, stands = stands, start()
			early = 0
		}
		Eventually(s, *rotateEvery+2*limit, fmt.Sprint("restart ", n), func() (bool, string) {
			return s.revision("web") == first+n, leads.Tail(20)
		})
		s.Kubectl("rollout", "status", "deployment/web", "--timeout=4m")
		t.Logf("rotation %d: rolled out after %.1f s, %d KiB", n, time.Since(begin).Seconds(),
			must(leads.Usage())(t).RSS>>10)
		if early == 0 {
			early = must(leads.Usage())(t).RSS
		}
		s.waitMoment(max(0, *rotateEvery-time.Since(begin)))
		if got := s.revision("web"); got != first+n {
			t.Fatalf("%d restarts for %d certificates", got-first, n)
		}
	}
	if now := must(leads.Usage())(t).RSS; now > early+8<<20 {
		t.Errorf("the process has grown from %d to %d KiB", early>>10, now>>10)
	}
	for _, sk := range []*Skiff{leads, stands} {
		if log := sk.Log(); strings.Contains(log, "BEGIN CERTIFICATE") || strings.Contains(log, "LS0t") {
			t.Errorf("a certificate is in the log")
		}
		noError(t, sk.Terminate())
	}
}
