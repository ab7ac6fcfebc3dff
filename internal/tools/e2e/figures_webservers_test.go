package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// figureWebServers is how many WebServers a process holds while it rests.
const figureWebServers = 10_000

// BenchmarkManyWebServers measures what many WebServers take: in the process that has made their children, and in one
// that is started when all is there.
func BenchmarkManyWebServers(b *testing.B) {
	bins := must(binaries())(b)
	c := must(StartControlPlane(b.Context(), bins))(b) // without controllers: no pods are needed
	b.Cleanup(func() { c.Close(b.Failed()) })
	kubeconfig := must(c.Kubeconfig(admin))(b)
	binary := must(skiffBinary())(b)
	if r, err := runCommand(b.Context(), nil, "", binary, "crds", "install", "--kubeconfig", kubeconfig); err != nil ||
		r.Code != 0 {
		b.Fatalf("install the CRDs: %v %v", err, r)
	}
	parallel(b, figureWebServers, func(ctx context.Context, i int) error {
		_, err := c.Admin.Create(ctx, "/apis/skiff.dev/v1alpha1/namespaces/default/webservers",
			Object{"apiVersion": "skiff.dev/v1alpha1", "kind": "WebServer",
				"metadata": Object{"name": fmt.Sprintf("web-%05d", i)},
				"spec":     Object{"image": "nginx:1.25", "serviceType": "ClusterIP"}})
		return err
	})
	for _, when := range []string{"made-by-this-process", "restarted"} {
		sk, start := startMeasured(b, c, kubeconfig, "webservers", "run", "--max-concurrent-reconciles=10")
		ready := usageOf(b, sk)
		if when == "restarted" {
			figure(b, "restarted-ready", took(start, ready.CPU), memory(ready))
		}
		last := ready.CPU
		tick := time.NewTicker(10 * time.Second)
		Eventually(b, 5*limit, "ten seconds with next to no work", func() (bool, string) {
			<-tick.C
			now := usageOf(b, sk).CPU
			did := now - last
			last = now
			return did < 100*time.Millisecond, fmt.Sprintf("%v of CPU", did)
		})
		tick.Stop()
		if n := countDeployments(b, c); n != figureWebServers {
			b.Fatalf("%d Deployments, want %d", n, figureWebServers)
		}
		wait := time.NewTimer(figureWindow)
		<-wait.C
		figure(b, when+"-at-rest", memory(usageOf(b, sk)))
		if err := sk.Terminate(); err != nil {
			b.Error(err)
		}
	}
}

// countDeployments asks for one and is told how many more there are.
func countDeployments(t testing.TB, c *Cluster) int {
	t.Helper()
	list := must(c.Admin.Get(t.Context(), "/apis/apps/v1/deployments?limit=1"))(t)
	return len(list.List("items")) + list.Int("metadata", "remainingItemCount")
}
