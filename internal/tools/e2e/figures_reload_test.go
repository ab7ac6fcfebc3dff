package e2e

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
)

var (
	reloaderFlag = flag.String("reloader", "", "the `path` of a Stakater Reloader that BenchmarkReload measures, too")
	reloadLarge  = flag.Bool("reload-large", false, "BenchmarkReload: 20,000 Secrets and 15,000 ConfigMaps of 800 MB")
)

const (
	reloadWorkloads = 520
	reloadOptedIn   = 15
	reloadChanges   = 40
)

// reloadSources are how many Secrets, ConfigMaps and bytes of them there are: as in a report in Reloader's tracker, in
// which Reloader took 560 MiB, or four times as many.
func reloadSources() (secrets, configMaps, bytes int) {
	if *reloadLarge {
		return 20_000, 15_000, 800_000_000
	}
	return 5_900, 3_200, 213_000_000
}

// BenchmarkReload measures what it costs to restart 15 of 520 workloads when their Secrets change, in a cluster with
// 9,100 Secrets and ConfigMaps of 213 MB: memory and CPU until it is ready, the time from a change to the new template
// of a workload, and the requests. The workloads have the annotations of both.
func BenchmarkReload(b *testing.B) {
	s := figureScope(b)
	kubeconfig := must(s.c.Kubeconfig(admin))(b)
	fillSources(b, s)
	fillWorkloads(b, s)
	secrets, configMaps, size := reloadSources()
	figure(b, "sources", map[string]float64{"sources": float64(secrets + configMaps), "MB": mb(int64(size))})

	sk, start := startMeasured(b, s.c, kubeconfig, "reload", "run", "--controllers", "reload",
		"--watch-namespaces", s.NS, "--reload-debounce=1s", "--metrics-bind-address=0")
	recorded := func(i int) bool {
		return s.workload("deployments", reloadName(i)).Str("metadata", "annotations", "skiff.dev/reloaded") != ""
	}
	Eventually(b, limit, "all that have opted in are known", func() (bool, string) {
		for i := range reloadOptedIn {
			if !recorded(i) {
				return false, reloadName(i)
			}
		}
		return true, ""
	})
	before := usageOf(b, sk)
	figure(b, "skiff-ready", took(start, before.CPU), memory(before))
	measureReloads(b, s, "skiff", sk.Process, BySkiff)
	noError(b, sk.Terminate())
	again := time.Now()
	sk, start = startMeasured(b, s.c, kubeconfig, "reload-again", "run", "--controllers", "reload",
		"--watch-namespaces", s.NS, "--reload-debounce=1s", "--metrics-bind-address=0")
	s.waitMoment(10 * time.Second)
	writes := s.skiffRequests(again, s.writesHere)
	figure(b, "skiff-again", took(start, usageOf(b, sk).CPU), memory(usageOf(b, sk)),
		map[string]float64{"writes": float64(len(writes))})
	noError(b, sk.Terminate())

	if *reloaderFlag == "" {
		return
	}
	begin := time.Now()
	env := []string{"KUBECONFIG=" + kubeconfig, "HOME=" + s.c.Dir, "KUBERNETES_NAMESPACE=" + s.NS}
	other := must(s.c.Start("reloader", env, *reloaderFlag))(b)
	ready := func() bool {
		resp, err := http.Get("http://127.0.0.1:9090/live")
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}
	Eventually(b, limit, "Reloader is alive", func() (bool, string) { return ready(), other.Tail(20) })
	elapsed := time.Since(begin)
	s.waitMoment(20 * time.Second) // it does not say when it has listed all
	use := must(other.Usage())(b)
	figure(b, "reloader-ready", took(elapsed, use.CPU), memory(use))
	measureReloads(b, s, "reloader", other, func(r Request) bool { return strings.Contains(r.UserAgent, "eloader") })
	if _, err := other.Stop(time.Minute); err != nil {
		b.Error(err)
	}
}

// measureReloads changes Secrets that workloads depend on, one after the other, and measures how long it takes until
// the workload has a new template.
func measureReloads(b *testing.B, s *Scope, name string, p *Process, by func(Request) bool) {
	before, begin := must(p.Usage())(b), time.Now()
	var all []time.Duration
	for n := range reloadChanges {
		i := n % reloadOptedIn
		template := func() string {
			return fmt.Sprint(s.workload("deployments", reloadName(i)).At("spec", "template"))
		}
		was := template()
		changed := time.Now()
		value := base64.StdEncoding.EncodeToString(fmt.Append(nil, name, n))
		_, err := s.c.Admin.Do(b.Context(), http.MethodPatch, "/api/v1/namespaces/"+s.NS+"/secrets/"+reloadName(i),
			"application/merge-patch+json", Object{"data": Object{"key": value}})
		noError(b, err)
		for template() == was {
			if time.Since(changed) > 2*time.Minute {
				b.Fatalf("%s is not restarted: %s", reloadName(i), p.Tail(20))
			}
			s.waitMoment(5 * time.Millisecond)
		}
		all = append(all, time.Since(changed))
		s.waitMoment(time.Duration(rand.IntN(100)) * time.Millisecond)
	}
	now := must(p.Usage())(b)
	requests := must(s.c.Requests(begin, func(r Request) bool { return by(r) && r.Resource != "events" }))(b)
	figure(b, name+"-changes", took(time.Since(begin), now.CPU-before.CPU), memory(now), map[string]float64{
		"p50-ms": float64(percentile(all, 0.5).Milliseconds()),
		"p99-ms": float64(percentile(all, 0.99).Milliseconds())},
		requestsFor(reloadChanges, requests))
}

func reloadName(i int) string { return fmt.Sprintf("app-%04d", i) }

// fillSources makes Secrets and ConfigMaps of a few large values each.
func fillSources(b *testing.B, s *Scope) {
	secrets, configMaps, size := reloadSources()
	size /= secrets + configMaps
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, size)
	for i := range noise {
		noise[i] = byte('a' + random.IntN(26))
	}
	parallel(b, secrets+configMaps, func(ctx context.Context, i int) error {
		value := fmt.Sprintf("%06d", i) + string(noise[6:])
		o, plural := Object{"apiVersion": "v1", "kind": "Secret", "metadata": Object{"name": reloadName(i)},
			"data": Object{"key": "b25l", "large": base64.StdEncoding.EncodeToString([]byte(value))}}, "secrets"
		if i >= secrets {
			o, plural = Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": Object{"name": reloadName(i)},
				"data": Object{"key": "one", "large": value}}, "configmaps"
		}
		_, err := s.c.Admin.Create(ctx, "/api/v1/namespaces/"+s.NS+"/"+plural, o)
		return err
	})
}

// fillWorkloads makes Deployments without pods but for those that have opted in, which have one.
func fillWorkloads(b *testing.B, s *Scope) {
	parallel(b, reloadWorkloads, func(ctx context.Context, i int) error {
		annotations, replicas := Object{}, 0
		if i < reloadOptedIn {
			annotations, replicas = Object{"skiff.dev/reload": "auto", "skiff.dev/reload-cooldown": "0s",
				"reloader.stakater.com/auto": "true"}, 1
		}
		labels := Object{"app": reloadName(i)}
		main := Object{"name": "main", "image": "x",
			"envFrom": []Object{{"secretRef": Object{"name": reloadName(i)}}}}
		template := Object{"metadata": Object{"labels": labels}, "spec": Object{"containers": []Object{main}}}
		_, err := s.c.Admin.Create(ctx, "/apis/apps/v1/namespaces/"+s.NS+"/deployments", Object{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": Object{"name": reloadName(i), "annotations": annotations},
			"spec":     Object{"replicas": replicas, "selector": Object{"matchLabels": labels}, "template": template}})
		return err
	})
	for i := range reloadOptedIn {
		s.Kubectl("rollout", "status", "deployment/"+reloadName(i), "--timeout=4m")
	}
}
