package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// figureWebServers is how many WebServers a process holds while it rests.
const figureWebServers = 10_000

// figureManyWebServers measures what many WebServers take: in the process that has made their children, and in one
// that is started when all is there.
func figureManyWebServers(t *testing.T) {
	bins := must(binaries())(t)
	c := must(StartControlPlane(t.Context(), bins))(t) // without controllers: no pods are needed
	t.Cleanup(func() { c.Close(t.Failed()) })
	kubeconfig := must(c.Kubeconfig(admin))(t)
	binary := must(skiffBinary())(t)
	if r, err := runCommand(t.Context(), nil, "", binary, "crds", "install", "--kubeconfig", kubeconfig); err != nil ||
		r.Code != 0 {
		t.Fatalf("install the CRDs: %v %v", err, r)
	}
	parallel(t, figureWebServers, func(ctx context.Context, i int) error {
		_, err := c.Admin.Create(ctx, "/apis/skiff.dev/v1alpha1/namespaces/default/webservers",
			Object{"apiVersion": "skiff.dev/v1alpha1", "kind": "WebServer",
				"metadata": Object{"name": fmt.Sprintf("web-%05d", i)},
				"spec":     Object{"image": "nginx:1.25", "serviceType": "ClusterIP"}})
		return err
	})
	what := fmt.Sprintf("%d WebServers, ", figureWebServers)
	for _, when := range []string{"made by this process", "after a restart"} {
		sk, took := startMeasured(t, c, kubeconfig, "webservers", "run", "--max-concurrent-reconciles=10")
		ready := usageOf(t, sk)
		if when == "after a restart" {
			figure(what+when+": ready", "after %s with %s of CPU; RSS %s", seconds(took), seconds(ready.CPU),
				megabytes(ready.RSS))
		}
		last := ready.CPU
		tick := time.NewTicker(10 * time.Second)
		Eventually(t, 5*limit, "ten seconds with next to no work", func() (bool, string) {
			<-tick.C
			now := usageOf(t, sk).CPU
			did := now - last
			last = now
			return did < 100*time.Millisecond, fmt.Sprintf("%s of CPU", did)
		})
		tick.Stop()
		if n := countDeployments(t, c); n != figureWebServers {
			t.Fatalf("%d Deployments, want %d", n, figureWebServers)
		}
		wait := time.NewTimer(figureWindow)
		<-wait.C
		rest := usageOf(t, sk)
		figure(what+when+": a minute later", "RSS %s, %s of it anonymous, peak %s", megabytes(rest.RSS),
			megabytes(rest.Anonymous), megabytes(rest.Peak))
		if err := sk.Terminate(); err != nil {
			t.Error(err)
		}
	}
}

// countDeployments asks for one and is told how many more there are.
func countDeployments(t *testing.T, c *Cluster) int {
	t.Helper()
	list := must(c.Admin.Get(t.Context(), "/apis/apps/v1/deployments?limit=1"))(t)
	return len(list.List("items")) + list.Int("metadata", "remainingItemCount")
}
