package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

const (
	// figureRest is how long skiff runs on an empty cluster: long enough for most watches to be renewed.
	figureRest = 8 * time.Minute
	// mostAtRest is what skiff may take at rest, in bytes of anonymous memory (median): what another replica costs.
	mostAtRest = 9 << 20
)

// figureAtRest measures skiff on an empty cluster, ready, and then while it has nothing to do but answer: probes each
// ten seconds, as the kubelet sends them, and a scrape each thirty, as Prometheus does.
func figureAtRest(t *testing.T) {
	s := figureScope(t)
	kubeconfig := must(s.c.Kubeconfig(admin))(t)
	port := must(freePort())(t)
	sk, _ := startMeasured(t, s.c, kubeconfig, "alone", "run", "--metrics-bind-address="+loopback(port))
	ready := usageOf(t, sk)
	figure("`skiff run` on an empty cluster, ready", "RSS %s, %s of it anonymous", megabytes(ready.RSS),
		megabytes(ready.Anonymous))
	var rss, anonymous []int64
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for i := range int(figureRest / (10 * time.Second)) {
		<-tick.C
		for _, path := range []string{"/healthz", "/readyz", "/livez/watch"} {
			if code, body, err := sk.probe(path); err != nil || code != http.StatusOK {
				t.Fatalf("GET %s: %d %s %v", path, code, body, err)
			}
		}
		if i%3 == 0 {
			if _, err := scrape(t.Context(), "http://"+loopback(port)+"/metrics"); err != nil {
				t.Fatal(err)
			}
		}
		if u := usageOf(t, sk); i >= 6 { // until then the Go runtime returns what the start took
			rss, anonymous = append(rss, u.RSS), append(anonymous, u.Anonymous)
		}
	}
	slices.Sort(rss)
	slices.Sort(anonymous)
	median := anonymous[len(anonymous)/2]
	figure(fmt.Sprintf("the same at rest for %.0f minutes, probed and scraped", figureRest.Minutes()),
		"RSS %s (median; %s to %s), %s of it anonymous; %s of CPU", megabytes(rss[len(rss)/2]),
		megabytes(rss[0]), megabytes(rss[len(rss)-1]), megabytes(median), seconds(usageOf(t, sk).CPU-ready.CPU))
	if median > mostAtRest {
		t.Errorf("at rest skiff takes %s of anonymous memory, want at most %s", megabytes(median),
			megabytes(mostAtRest))
	}
	if err := sk.Terminate(); err != nil {
		t.Error(err)
	}
}
