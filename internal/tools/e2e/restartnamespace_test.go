package e2e

import (
	"fmt"
	"strings"
	"time"
)

// Pods of another namespace are a source only where that namespace says so, and until then nothing of them shows.
func testRestartSourceElsewhere(s *Scope, _ *Skiff) {
	source := NewScope(s, s.c, s.kubectl)
	source.replacePod("redis-0")
	s.Apply(workloadManifest("Deployment", "predixy", 1))
	s.Kubectl("rollout", "status", "deployment/predixy", "--timeout=4m")
	trigger := func(debounce string) {
		s.Apply(fmt.Sprintf("apiVersion: skiff.dev/v1alpha1\nkind: RestartTrigger\nmetadata: {name: predixy}\nspec: "+
			"{source: "+
			"{namespace: %s, selector: {matchLabels: {app: redis-cluster}}}, debounce: %s, cooldown: 1s, "+
			"targets: [{kind: Deployment, name: predixy}]}\n", source.NS, debounce))
	}
	trigger("1s")
	s.waitTrigger("predixy", "Stalled", "True/SourceNotAllowed")
	message := s.restartTrigger("predixy").Condition("Stalled").Str("message")
	if !strings.Contains(message, source.NS) || !strings.Contains(message,
		"skiff.dev/allow-restart-triggers-from: \""+s.NS+"\"") {
		s.Errorf("the message does not name the namespace and the annotation: %s", message)
	}
	source.replacePod("redis-0")
	Throughout(s, 4*time.Second, "nothing is restarted, and nothing told", func() (bool, string) {
		rt := s.restartTrigger("predixy").String()
		return !strings.Contains(rt, "redis-0") && s.restarts("predixy") == 0, rt
	})

	s.Kubectl("annotate", "namespace", source.NS, "skiff.dev/allow-restart-triggers-from=other,"+s.NS)
	trigger("2s") // it looks again
	s.waitTrigger("predixy", "Ready", "True/Armed")
	if n := s.restartTrigger("predixy").Int("status", "matchingPods"); n != 1 {
		s.Errorf("%d pods match", n)
	}
	source.replacePod("redis-0")
	s.waitRestarts("predixy", 1)
}
