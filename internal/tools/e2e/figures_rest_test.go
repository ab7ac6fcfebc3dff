package e2e

import (
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

// BenchmarkAtRest measures skiff on an empty cluster, ready, and then while it has nothing to do but answer: probes
// each ten seconds, as the kubelet sends them, and a scrape each thirty, as Prometheus does.
func BenchmarkAtRest(b *testing.B) {
	s := figureScope(b)
	kubeconfig := must(s.c.Kubeconfig(admin))(b)
	port := must(freePort())(b)
	sk, _ := startMeasured(b, s.c, kubeconfig, "alone", "run", "--metrics-bind-address="+loopback(port))
	ready := usageOf(b, sk)
	figure(b, "ready", memory(ready))
	var rss, anonymous []int64
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for i := range int(figureRest / (10 * time.Second)) {
		<-tick.C
		for _, path := range []string{"/healthz", "/readyz", "/livez/watch"} {
			if code, body, err := sk.probe(path); err != nil || code != http.StatusOK {
				b.Fatalf("GET %s: %d %s %v", path, code, body, err)
			}
		}
		if i%3 == 0 {
			if _, err := scrape(b.Context(), "http://"+loopback(port)+"/metrics"); err != nil {
				b.Fatal(err)
			}
		}
		if u := usageOf(b, sk); i >= 6 { // until then the Go runtime returns what the start took
			rss, anonymous = append(rss, u.RSS), append(anonymous, u.Anonymous)
		}
	}
	slices.Sort(rss)
	slices.Sort(anonymous)
	median := anonymous[len(anonymous)/2]
	end := usageOf(b, sk)
	figure(b, "medians", memory(Usage{RSS: rss[len(rss)/2], Anonymous: median, Peak: end.Peak}),
		took(figureRest, end.CPU-ready.CPU))
	if median > mostAtRest {
		b.Errorf("at rest skiff takes %s of anonymous memory, want at most %s", megabytes(median),
			megabytes(mostAtRest))
	}
	if err := sk.Terminate(); err != nil {
		b.Error(err)
	}
}
